#include "engine/one_node.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/node.h"
#include "engine/rebuild.h"

namespace lzy {
namespace {

constexpr std::size_t kMostPath = 65536;

// A member as this rank sees it.
struct Seen {
  std::unique_ptr<File> data, out;  // of other owners' members
  FileJob guest;
  FileJob* job = nullptr;
};

bool IsSame(const FileStat& a, std::uint64_t device, std::uint64_t inode) {
  return a.device == device && a.inode == inode;
}

// Whether some block that may be encoded must be what was committed before.
bool HasBlocksToHold(const FileJob& job, std::uint64_t size) {
  if (job.old_data == nullptr || job.touched == nullptr || job.touched->whole || size == 0) return false;
  const auto& ranges = job.touched->ranges;
  return ranges.empty() || ranges[0].offset > 0 || ranges[0].length < size;
}

class OneNode {
 public:
  OneNode(const Context& context, const Layout& layout, Communicator& comm, std::span<const GroupMember> members)
      : context_(context), layout_(layout), comm_(comm), members_(members), seen_(members.size()) {}

  /// Whether it can be done, on all ranks.
  Result<bool> Open() {
    ByteWriter out;
    Status mine = NoThrow([&] { return TellOwn(out); });
    LZY_ASSIGN_OR_RETURN(const auto all, comm_.AllGather(mine.ok() ? ByteSpan(out.bytes()) : ByteSpan()));
    if (mine.ok()) mine = NoThrow([&] { return OpenOthers(all); });
    // Whatever stands in the way is a reason for the other way, and no failure.
    LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm_.AllReduceMax(mine.ok() ? 0 : 1));
    return obstacles == 0;
  }

  Status Encode(EncodePass& pass, std::span<const RowRun> runs) {
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      std::vector<FileJob*> jobs;
      for (const Seen& one : seen_) jobs.push_back(one.job);
      auto self = SelfCommunicator();
      return pass.Run(layout_, *self, std::vector<int>(layout_.devices(), 0), jobs, ShareOf(runs, comm_));
    }));
    Status gathered;
    for (std::size_t f = 0; f < seen_.size(); ++f) {
      const Status one = GatherLeaves(comm_, members_[f].owner, *seen_[f].job);
      if (gathered.ok()) gathered = one;
    }
    return Agree(comm_, gathered);
  }

 private:
  Status TellOwn(ByteWriter& out) {
    out.PutString(RunningKernel());
    for (std::uint32_t f = 0; f < members_.size(); ++f) {
      FileJob* job = members_[f].job;
      if (job == nullptr) continue;
      seen_[f].job = job;
      if (HasBlocksToHold(*job, layout_.file_size(f))) return {Code::kInternal, "has leaves that its owner alone knows"};
      LZY_ASSIGN_OR_RETURN(const FileStat data, job->data->Stat());
      LZY_ASSIGN_OR_RETURN(const FileStat parity, job->parity_out->Stat());
      out.Put(f);
      out.PutString(job->parity_out->path());
      out.Put(job->parity_base);
      out.Put<std::uint8_t>(job->parity_is_fresh);
      for (const FileStat* stat : {&data, &parity}) {
        out.Put(stat->device);
        out.Put(stat->inode);
      }
    }
    return Status::Ok();
  }

  Status OpenOthers(const std::vector<Communicator::Bytes>& all) {
    const std::string kernel = RunningKernel();
    for (const auto& bytes : all) {
      ByteReader in(bytes);
      if (in.GetString(kMostPath) != kernel) return {Code::kInternal, "a rank runs elsewhere"};
      while (in.remaining() > 0 && in.ok()) LZY_RETURN_IF_ERROR(OpenOther(in));
      if (!in.ok()) return {Code::kInternal, "what a rank says of its members is malformed"};
    }
    const bool whole = std::all_of(seen_.begin(), seen_.end(), [](const Seen& one) { return one.job != nullptr; });
    return whole ? Status::Ok() : Status(Code::kInternal, "a member has no owner");
  }

  Status OpenOther(ByteReader& in) {
    const auto f = in.Get<std::uint32_t>();
    const std::string out_path = in.GetString(kMostPath);
    const auto base = in.Get<std::uint64_t>();
    const bool fresh = in.Get<std::uint8_t>() != 0;
    std::uint64_t ids[4] = {};
    for (std::uint64_t& id : ids) id = in.Get<std::uint64_t>();
    if (!in.ok() || f >= seen_.size()) return {Code::kInternal, "what a rank says of its members is malformed"};
    Seen& one = seen_[f];
    if (one.job != nullptr) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(one.data, context_.fs.Open(members_[f].path, OpenMode::kRead));
    LZY_ASSIGN_OR_RETURN(one.out, context_.fs.Open(out_path, OpenMode::kReadWrite, /*follow=*/false));
    LZY_ASSIGN_OR_RETURN(const FileStat data, one.data->Stat());
    LZY_ASSIGN_OR_RETURN(const FileStat out, one.out->Stat());
    if (!IsSame(data, ids[0], ids[1]) || !IsSame(out, ids[2], ids[3])) return {Code::kInternal, "another file here"};
    one.job = &one.guest;
    one.guest.data = one.data.get();
    one.guest.parity_out = one.out.get();
    one.guest.parity_base = base;
    one.guest.parity_is_fresh = fresh;
    one.guest.InitLeaves(layout_, f);
    return Status::Ok();
  }

  const Context& context_;
  const Layout& layout_;
  Communicator& comm_;
  const std::span<const GroupMember> members_;
  std::vector<Seen> seen_;
};

}  // namespace

Result<bool> EncodeOnOneNode(const Context& context, EncodePass& pass, const Layout& layout, Communicator& comm,
                             std::span<const GroupMember> members, std::span<const RowRun> runs) {
  if (comm.size() == 1 || !context.share_page_cache) return false;
  OneNode node(context, layout, comm, members);
  LZY_ASSIGN_OR_RETURN(const bool possible, node.Open());
  if (!possible) return false;
  LZY_RETURN_IF_ERROR(node.Encode(pass, runs));
  return true;
}

}  // namespace lzy
