#include "encode/one_node.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/many_writers.h"
#include "encode/node_files.h"
#include "encode/rebuild.h"
#include "sidecar/scratch.h"

namespace lzy {
namespace {

// An owner sends this record of its member. It has all that other ranks need to encode rows with the member.
struct Told {
  std::uint32_t file = 0;
  std::uint64_t parity_base = 0;
  bool parity_is_fresh = false;
  OpenedFile data, out;
  LZY_FIELDS(file, parity_base, parity_is_fresh, data, out)
};

// A member on this rank. If another rank owns it, `guest` is a substitute for its job, with open files of this rank.
struct Seen {
  std::unique_ptr<File> data, out;  // only of members of other owners
  FileJob guest;
  FileJob* job = nullptr;  // the owner's job, or `guest`; null: not seen
};

// True if a block that may be read must be compared with its committed leaf. False if the whole file was touched: touched
// ranges are joined, so one of them then covers the file.
bool HasBlocksToHold(const FileJob& job, std::uint64_t size) {
  if (job.old_data == nullptr || job.touched == nullptr || job.touched->whole() || size == 0) return false;
  const auto& ranges = job.touched->intervals();
  return ranges.empty() || ranges[0].begin > 0 || ranges[0].end < size;
}

// One call of EncodeOnOneNode on one rank.
class OneNode {
 public:
  OneNode(const Context& context, const Layout& layout, Communicator& comm, std::span<const GroupMember> members)
      : context_(context), layout_(layout), comm_(comm), members_(members), seen_(members.size()) {}

  /// Opens all members on this rank. True if that worked on all ranks; then every member has a job.
  Result<bool> Open() {
    LZY_ASSIGN_OR_RETURN(const bool shared, ShareOnNode<Told>(comm_, [&](std::vector<Told>& own) { return DescribeOwn(own); },
                                                              [&](const Told& told) { return OpenOther(told); }));
    return shared && std::ranges::all_of(seen_, &Seen::job);
  }

  /// Each rank runs the pipeline alone, over its part of the rows. Then the leaves go to the owners. If a gather fails, the
  /// other gathers still take place, so no rank waits.
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
      FileJob& job = *seen_[f].job;
      const std::uint64_t blocks = job.data_leaves.blocks() + job.parity_leaves.blocks();
      const Status one = GatherLeaves(comm_, members_[f].owner, blocks, job.data_leaves, job.parity_leaves);
      if (gathered.ok()) gathered = one;
    }
    return Agree(comm_, gathered);
  }

 private:
  // Sorts the rows by the owner of their first parity block. So a rank's part has as much as possible of the parity in its
  // own sidecar. A kernel lets one writer at a time write to a file; others wait. The sort is stable, so ranks with the
  // same rows get the same order.
  std::vector<RowRun> ByWriter(std::span<const RowRun> runs) const {
    const auto writer = [&](const RowRun& run) {
      if (run.plan->targets.empty()) return 0;
      return members_[layout_.file_of(layout_.DeviceAt(run.group, run.plan->targets[0], run.unit_row))].owner;
    };
    std::vector<RowRun> dealt(runs.begin(), runs.end());
    std::ranges::stable_sort(dealt, {}, writer);
    return dealt;
  }

  // An error of these two functions is an obstacle (ShareOnNode); its text is not shown.
  Status DescribeOwn(std::vector<Told>& own) {
    for (std::uint32_t f = 0; f < members_.size(); ++f) {
      FileJob* job = members_[f].job;
      if (job == nullptr) continue;
      seen_[f].job = job;
      if (job->copies != nullptr) return {Code::kInternal, "has bytes that its owner alone has"};
      if (HasBlocksToHold(*job, layout_.file_size(f))) return {Code::kInternal, "has leaves that its owner alone knows"};
      LZY_ASSIGN_OR_RETURN(const OpenedFile data, DescribeFile(*job->data));
      LZY_ASSIGN_OR_RETURN(const OpenedFile out, DescribeFile(*job->parity_out));
      own.push_back({f, job->parity_base, job->parity_is_fresh, data, out});
    }
    return Status::Ok();
  }

  Status OpenOther(const Told& told) {
    // A member has one owner. A second one would overwrite the leaves of the first.
    if (told.file >= seen_.size() || seen_[told.file].job != nullptr) return {Code::kInternal, "a member that is known already"};
    Seen& one = seen_[told.file];
    LZY_ASSIGN_OR_RETURN(one.data, OpenTheSame(told.data, context_.fs, OpenMode::kRead));
    LZY_ASSIGN_OR_RETURN(one.out, OpenTheSame(told.out, context_.fs, OpenMode::kReadWrite));
    ExpectWritersOfRanks(*one.out, ThreadsFor(context_), comm_.size(), seen_.size());
    one.job = &one.guest;
    one.guest.data = one.data.get();
    one.guest.key = context_.options.key.get();
    one.guest.parity_out = one.out.get();
    one.guest.parity_base = told.parity_base;
    one.guest.parity_is_fresh = told.parity_is_fresh;
    one.guest.scratch = ScratchBeside(context_.fs, told.data.path);
    one.guest.InitLeaves(layout_, told.file);
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
  // A single rank needs no guests: EncodePass::Run exchanges nothing then.
  if (comm.size() == 1 || !context.share_page_cache) return false;
  OneNode node(context, layout, comm, members);
  LZY_ASSIGN_OR_RETURN(const bool possible, node.Open());
  if (!possible) return false;
  LZY_RETURN_IF_ERROR(node.Encode(pass, runs));
  return true;
}

}  // namespace lzy
