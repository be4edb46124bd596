#pragma once
// Files that one rank of a communicator has open, opened by the others as well: on one node all ranks can work on all
// members of a set through one page cache, and nothing has to be exchanged.

#include <functional>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/node.h"
#include "comm/records.h"

namespace lzy {

/// An open file, so that others can open the same one.
struct OpenedFile {
  std::string path;
  std::uint64_t device = 0, inode = 0;
  LZY_FIELDS(path, device, inode)
};
Result<OpenedFile> TellFile(File& file);
/// An error if that name is another file here.
Result<std::unique_ptr<File>> OpenTheSame(const OpenedFile& told, FileSystem& fs, OpenMode mode);

/// Every rank tells the others what it has, a list of records (`tell`), and takes each one that another told (`take`). True
/// when all ranks run on one node (ThisNode) and none of these calls failed anywhere: whatever stands in the way is a reason to go
/// another way, and no failure. Collective.
template <class Told>
Result<bool> ShareOnNode(Communicator& comm, const std::function<Status(std::vector<Told>&)>& tell,
                         const std::function<Status(const Told&)>& take) {
  // First of all: what is told may be much, and on several nodes it is told in vain.
  LZY_ASSIGN_OR_RETURN(const auto nodes, AllGatherRecords(comm, ThisNode()));
  if (std::any_of(nodes.begin(), nodes.end(), [&](const auto& one) { return one != nodes[0]; })) return false;
  std::vector<Told> own;
  Status mine = NoThrow([&] { return tell(own); });
  const auto all = AllGatherRecords(comm, own);
  if (mine.ok()) mine = all.status();
  if (mine.ok()) {
    mine = NoThrow([&] {
      for (std::size_t rank = 0; rank < all->size(); ++rank) {
        if (rank == static_cast<std::size_t>(comm.rank())) continue;
        for (const Told& one : (*all)[rank]) LZY_RETURN_IF_ERROR(take(one));
      }
      return Status::Ok();
    });
  }
  LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm.AllReduceMax(mine.ok() ? 0 : 1));
  return obstacles == 0;
}

}  // namespace lzy
