#include "encode/node_files.h"

#include <algorithm>
#include <string>

#include "base/node.h"

namespace lzy {
namespace {

constexpr std::size_t kMostPath = 65536;

}  // namespace

Result<bool> ShareOnNode(Communicator& comm, const std::function<Status(ByteWriter&)>& tell,
                         const std::function<Status(ByteReader&)>& take) {
  ByteWriter out;
  Communicator::Bytes node;
  Status mine = NoThrow([&] {
    const std::string name = ThisNode();
    node.assign(name.begin(), name.end());
  });
  // First of all: what is told may be much, and on several nodes it is told in vain.
  LZY_ASSIGN_OR_RETURN(const auto nodes, comm.AllGather(node));
  if (std::any_of(nodes.begin(), nodes.end(), [&](const auto& one) { return one.empty() || one != nodes[0]; })) {
    return false;
  }
  if (mine.ok()) mine = NoThrow([&] { return tell(out); });
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(mine.ok() ? ByteSpan(out.bytes()) : ByteSpan()));
  if (mine.ok()) {
    mine = NoThrow([&] {
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (rank == static_cast<std::size_t>(comm.rank())) continue;
        ByteReader in(all[rank]);
        while (in.remaining() > 0 && in.ok()) LZY_RETURN_IF_ERROR(take(in));
        if (!in.ok()) return Status(Code::kInternal, "what a rank tells is malformed");
      }
      return Status::Ok();
    });
  }
  LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm.AllReduceMax(mine.ok() ? 0 : 1));
  return obstacles == 0;
}

Status PutOpenFile(ByteWriter& out, File& file) {
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  out.PutString(file.path());
  out.Put(stat.device);
  out.Put(stat.inode);
  return Status::Ok();
}

Result<std::unique_ptr<File>> OpenTheSame(ByteReader& in, FileSystem& fs, OpenMode mode) {
  const std::string path = in.GetString(kMostPath);
  const auto device = in.Get<std::uint64_t>();
  const auto inode = in.Get<std::uint64_t>();
  if (!in.ok()) return Status(Code::kInternal, "what a rank tells is malformed");
  LZY_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs.Open(path, mode));
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  if (stat.device != device || stat.inode != inode) return Status(Code::kInternal, "another file here");
  return file;
}

}  // namespace lzy
