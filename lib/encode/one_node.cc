#include "encode/one_node.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "encode/node_files.h"
#include "encode/rebuild.h"

namespace lzy {
namespace {

// A member as this rank sees it.
struct Seen {
  std::unique_ptr<File> data, out;  // of other owners' members
  FileJob guest;
  FileJob* job = nullptr;
};

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
    LZY_ASSIGN_OR_RETURN(const bool shared, ShareOnNode(comm_, [&](ByteWriter& out) { return TellOwn(out); },
                                                        [&](ByteReader& in) { return OpenOther(in); }));
    return shared && std::all_of(seen_.begin(), seen_.end(), [](const Seen& one) { return one.job != nullptr; });
  }

  Status Encode(EncodePass& pass, std::span<const RowRun> runs) {
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      std::vector<FileJob*> jobs;
      for (const Seen& one : seen_) jobs.push_back(one.job);
      auto self = SelfCommunicator();
      const std::vector<RowRun> dealt = ByWriter(runs);
      return pass.Run(layout_, *self, std::vector<int>(layout_.devices(), 0), jobs, ShareOf(dealt, comm_));
    }));
    Status gathered;
    for (std::size_t f = 0; f < seen_.size(); ++f) {
      const Status one = GatherLeaves(comm_, members_[f].owner, *seen_[f].job);
      if (gathered.ok()) gathered = one;
    }
    return Agree(comm_, gathered);
  }

 private:
  // In an order in which a rank's share has as much as possible of the parity that goes to its own sidecar: the kernel lets
  // one at a time write to a file, and the others wait.
  std::vector<RowRun> ByWriter(std::span<const RowRun> runs) const {
    const auto writer = [&](const RowRun& run) {
      if (run.plan->targets.empty()) return 0;
      const Rotation rotation = layout_.rotation(run.group);
      const std::uint32_t device = layout_.group(run.group)[rotation.DeviceAt(run.plan->targets[0], run.unit_row)];
      return members_[layout_.file_of(device)].owner;
    };
    std::vector<RowRun> dealt(runs.begin(), runs.end());
    std::stable_sort(dealt.begin(), dealt.end(), [&](const RowRun& a, const RowRun& b) { return writer(a) < writer(b); });
    return dealt;
  }

  Status TellOwn(ByteWriter& out) {
    for (std::uint32_t f = 0; f < members_.size(); ++f) {
      FileJob* job = members_[f].job;
      if (job == nullptr) continue;
      seen_[f].job = job;
      if (HasBlocksToHold(*job, layout_.file_size(f))) return {Code::kInternal, "has leaves that its owner alone knows"};
      out.Put(f);
      out.Put(job->parity_base);
      out.Put<std::uint8_t>(job->parity_is_fresh);
      LZY_RETURN_IF_ERROR(PutOpenFile(out, *job->data));
      LZY_RETURN_IF_ERROR(PutOpenFile(out, *job->parity_out));
    }
    return Status::Ok();
  }

  Status OpenOther(ByteReader& in) {
    const auto f = in.Get<std::uint32_t>();
    const auto base = in.Get<std::uint64_t>();
    const bool fresh = in.Get<std::uint8_t>() != 0;
    if (!in.ok() || f >= seen_.size() || seen_[f].job != nullptr) {
      return {Code::kInternal, "what a rank tells is malformed"};
    }
    Seen& one = seen_[f];
    LZY_ASSIGN_OR_RETURN(one.data, OpenTheSame(in, context_.fs, OpenMode::kRead));
    LZY_ASSIGN_OR_RETURN(one.out, OpenTheSame(in, context_.fs, OpenMode::kReadWrite));
    one.job = &one.guest;
    one.guest.data = one.data.get();
    one.guest.key = context_.options.key.get();
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
