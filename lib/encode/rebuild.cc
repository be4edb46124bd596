#include "encode/rebuild.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <tuple>

#include "comm/records.h"

namespace lzy {
namespace {

// One call of RebuildRot on one rank. The members have the same names and meanings as its arguments.
class RotRebuilder {
 public:
  RotRebuilder(const Context& context, const Ensemble& ensemble, const RottenBlocks& rot,
               const std::map<std::uint32_t, IntervalSet>& touched, const std::map<std::uint32_t, FileJob*>& jobs)
      : context_(context), ensemble_(ensemble), rot_(rot), touched_(touched), jobs_(jobs) {}

  // Each round that finds more unfit sources leaves fewer to choose from. A row with more than m losses has no plan, so m +
  // 1 rounds are enough. After the first round, only rows with unfit sources are tried again.
  Status Run(Communicator& comm, const std::vector<int>& owner) {
    const std::set<RowId> rows = RottenRows();
    for (std::uint32_t round = 0; round <= layout_.parity(); ++round) {
      std::vector<RowRun> runs;
      LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] { runs = PlanRound(rows, /*again=*/round > 0); }));
      const std::size_t before = CountUnfit();
      RowStats stats;
      const Status done = RebuildRows(
          context_, layout_, streams_, comm, owner, runs,
          [&](const RowBlock& block, MutableByteSpan bytes) { return CheckSource(block, bytes); },
          [&](std::span<const RowBlock> blocks, ByteSpan bytes) { return Keep(blocks, bytes); }, stats);
      // A block that cannot be read is no source. The commit continues: at worst the row loses its parity.
      if (done.code() == Code::kUnreadable || done.code() == Code::kIo) return Status::Ok();
      LZY_RETURN_IF_ERROR(done);
      LZY_RETURN_IF_ERROR(GatherUnfit(comm));
      if (CountUnfit() == before) break;
    }
    return Status::Ok();
  }

 private:
  bool IsRotten(std::uint32_t rank, std::uint64_t block) const {
    const auto rotten = rot_.find(rank);
    return rotten != rot_.end() && rotten->second.contains(block);
  }

  std::set<RowId> RottenRows() const {
    std::set<RowId> rows;
    for (std::uint32_t f = 0; f < ensemble_.files.size(); ++f) {
      const auto at = rot_.find(ensemble_.files[f].rank);
      if (at == rot_.end()) continue;
      for (std::uint64_t index : at->second) {
        if (index < layout_.data_blocks(f)) rows.insert(layout_.LocateData(f, index).row);
      }
    }
    return rows;
  }

  // All ranks know the same losses, so they make the same runs. A row without a plan is left out, and its blocks stay
  // lost.
  std::vector<RowRun> PlanRound(const std::set<RowId>& rows, bool again) const {
    PlanCache plans(layout_);
    std::vector<RowRun> runs;
    for (const RowId& row : rows) {
      if (again && !unfit_.contains(row)) continue;
      const std::vector<std::uint32_t> lost = LostDevices(row);
      auto plan = plans.Rebuild(row.group, row.unit_row, lost, lost);
      if (plan.ok()) AppendRun(runs, {row.group, row.unit_row, row.slice, 1, std::move(*plan)});
    }
    return runs;
  }

  // The devices of a row whose block is not as committed: rotten, touched since, missing, or found unfit when it was read.
  // Rot of parity is known only from `unfit_`, because a commit does not examine old parity.
  std::vector<std::uint32_t> LostDevices(const RowId& row) const {
    std::vector<std::uint32_t> lost;
    const auto known = unfit_.find(row);
    for (std::uint32_t device : layout_.group(row.group)) {
      const bool unfit = known != unfit_.end() && known->second.contains(device);
      if (unfit || IsLost(device, row)) lost.push_back(device);
    }
    return lost;
  }

  bool IsLost(std::uint32_t device, const RowId& row) const {
    if (layout_.IsParity(device, row.unit_row)) return !ensemble_.files[layout_.region_of(device)].sidecar_usable();
    const FileView& file = ensemble_.files[layout_.file_of(device)];
    const BlockPlace place = layout_.DataBlock(device, row.unit_row, row.slice);
    if (place.length == 0) return false;  // past the end: zeros, which cannot be lost
    const auto edits = touched_.find(file.rank);
    return !file.present || file.stat.size < place.offset + place.length || IsRotten(file.rank, place.index) ||
           (edits != touched_.end() && edits->second.Overlaps({place.offset, place.offset + place.length}));
  }

  // Notes sources that are not as committed. Never fails: the row is lost only if too few good sources are left. Called by
  // several threads.
  Status CheckSource(const RowBlock& block, ByteSpan bytes) {
    if (IsAsCommitted(streams_.of(layout_, block), block.place.index, bytes)) return Status::Ok();
    const RowId row = layout_.Locate(block.parity, layout_.HolderOf(block.parity, block.device), block.place.index).row;
    const std::lock_guard lock(mutex_);
    unfit_[row].insert(block.device);
    return Status::Ok();
  }

  // Takes the rotten blocks that this rank owns, if their contents are the committed ones. Called by several threads.
  Status Keep(std::span<const RowBlock> blocks, ByteSpan bytes) {
    std::size_t at = 0;
    for (const RowBlock& block : blocks) {
      const ByteSpan one = bytes.subspan(at, block.place.length);
      at += block.place.length;
      if (block.parity) continue;
      const std::uint32_t rank = ensemble_.files[layout_.file_of(block.device)].rank;
      const auto job = jobs_.find(rank);
      if (job == jobs_.end() || !IsRotten(rank, block.place.index)) continue;
      if (!IsAsCommitted(streams_.of(layout_, block), block.place.index, one)) continue;
      const std::lock_guard lock(mutex_);
      // A writer that lzy does not see may have changed any number of blocks. That is no rot, and need not be rebuilt. So
      // memory is bounded.
      if ((kept_ += one.size()) > context_.options.memory / 2) continue;
      job->second->rebuilt[block.place.index].assign(one.begin(), one.end());
    }
    return Status::Ok();
  }

  std::size_t CountUnfit() const {
    std::size_t count = 0;
    for (const auto& [row, devices] : unfit_) count += devices.size();
    return count;
  }

  // Collects the findings of all ranks, so all make the same plans. Collective.
  Status GatherUnfit(Communicator& comm) {
    LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, unfit_));
    for (const auto& theirs : all) {
      for (const auto& [row, devices] : theirs) unfit_[row].insert(devices.begin(), devices.end());
    }
    return Status::Ok();
  }

  const Context& context_;
  const Ensemble& ensemble_;
  const Layout& layout_ = *ensemble_.layout;
  const RottenBlocks& rot_;
  const std::map<std::uint32_t, IntervalSet>& touched_;
  const std::map<std::uint32_t, FileJob*>& jobs_;
  const RowStreams streams_ = StreamsOf(ensemble_);
  // By row: devices with blocks that were read as sources and were not as committed.
  std::map<RowId, std::set<std::uint32_t>> unfit_;
  std::uint64_t kept_ = 0;  // bytes
  std::mutex mutex_;        // for unfit_, kept_ and FileJob::rebuilt
};

}  // namespace

// Counts rows over all runs, and cuts out the part of this rank.
std::vector<RowRun> ShareOf(std::span<const RowRun> runs, const Communicator& comm) {
  const Interval mine = PartOf(CountRows(runs), comm.rank(), comm.size());
  std::vector<RowRun> share;
  Interval here{0, 0};
  for (const RowRun& run : runs) {
    here = {here.end, here.end + run.slices};
    const std::uint64_t begin = std::max(here.begin, mine.begin), end = std::min(here.end, mine.end);
    if (begin >= end) continue;
    RowRun& part = share.emplace_back(run);
    part.first_slice += static_cast<std::uint32_t>(begin - here.begin);
    part.slices = static_cast<std::uint32_t>(end - begin);
  }
  return share;
}

// A member without a sidecar has no parity here. It has leaves only if other members proved them (FileView::data_tree).
RowStreams StreamsOf(const Ensemble& ensemble) {
  RowStreams streams;
  for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
    streams.data.push_back(StreamOf(ensemble, false, f));
    streams.parity.push_back(StreamOf(ensemble, true, f));
  }
  return streams;
}

Status RebuildRows(const Context& context, const Layout& layout, const RowStreams& streams, Communicator& comm,
                   std::vector<int> owner, std::span<const RowRun> runs, const SourceFn& source, const TargetFn& target,
                   RowStats& stats) {
  RowPipelineSetup setup = SetupOf(context, "rebuild", layout, comm, std::move(owner), runs);
  for (const BlockStream& stream : streams.data) setup.data.push_back(&stream);
  for (const BlockStream& stream : streams.parity) setup.parity.push_back(&stream);
  return ExecuteRows(setup, runs, source, target, stats);
}

Status RebuildInMemory(const Context& context, const Layout& layout, const RowStreams& streams, Communicator& comm,
                       std::vector<int> owner, std::span<const RowRun> runs, const std::string& path,
                       const std::function<void(const RowBlock& block, ByteSpan bytes)>& take) {
  const auto check = [&](const RowBlock& block, ByteSpan bytes) -> Status {
    if (IsAsCommitted(streams.of(layout, block), block.place.index, bytes)) return Status::Ok();
    return {Code::kBusy, fmt::format("{}: block {} changed while its row was read", path, block.place.index)};
  };
  std::mutex mutex;
  const auto target = [&](std::span<const RowBlock> blocks, ByteSpan bytes) -> Status {
    std::size_t at = 0;
    for (const RowBlock& block : blocks) {
      const ByteSpan one = bytes.subspan(at, block.place.length);
      at += block.place.length;
      LZY_RETURN_IF_ERROR(check(block, one));
      const std::lock_guard lock(mutex);
      take(block, one);
    }
    return Status::Ok();
  };
  RowStats stats;
  return RebuildRows(context, layout, streams, comm, std::move(owner), runs, check, target, stats);
}

// Ranks of group_comm are the owners in ascending order. So an owner's rank there is its index among the owners.
std::vector<int> OwnersIn(const Ensemble& ensemble, const Communicator& comm) {
  std::vector<int> owner;
  std::set<int> parts;
  for (const FileView& file : ensemble.files) parts.insert(file.owner);
  for (const FileView& file : ensemble.files) {
    owner.push_back(&comm == ensemble.group_comm.get()
                        ? static_cast<int>(std::distance(parts.begin(), parts.find(file.owner)))
                        : file.owner);
  }
  return owner;
}

Result<Rot> GatherRot(Communicator& comm, const std::map<std::uint32_t, FileJob*>& jobs) {
  std::vector<std::tuple<std::uint32_t, std::uint64_t, bool>> mine;  // member, block, whether it was rebuilt
  for (const auto& [rank, job] : jobs) {
    for (std::uint64_t index : job->rotten) mine.emplace_back(rank, index, job->rebuilt.contains(index));
  }
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm, mine));
  Rot rot;
  for (const auto& [rank, index, rebuilt] : all) {
    rot.all[rank].insert(index);
    if (!rebuilt) rot.lost[rank].insert(index);
  }
  return rot;
}

// Sources are checked against their leaves as they are read. A source that is not as committed makes the results of
// its row wrong, and these fail their own leaves. Then the row is tried again without that source.
Status RebuildRot(const Context& context, const Ensemble& ensemble, Communicator& comm, const std::vector<int>& owner,
                  const RottenBlocks& rot, const std::map<std::uint32_t, IntervalSet>& touched,
                  const std::map<std::uint32_t, FileJob*>& jobs) {
  return RotRebuilder(context, ensemble, rot, touched, jobs).Run(comm, owner);
}

IntervalSet TouchedBlocks(const std::set<std::uint64_t>& blocks, std::uint32_t block_size) {
  IntervalSet touched;
  for (std::uint64_t index : blocks) touched.Add({index * block_size, (index + 1) * block_size});
  return touched;
}

// All m parity leaves of a row get the value for "no parity". A rank sets those in its jobs.
void ForsakeParity(const Layout& layout, const RottenBlocks& lost, const std::vector<FileJob*>& jobs) {
  for (const auto& [file, blocks] : lost) {
    for (std::uint64_t index : blocks) {
      const RowId row = layout.LocateData(file, index).row;
      for (std::uint32_t device : layout.group(row.group)) {
        if (!layout.IsParity(device, row.unit_row)) continue;
        FileJob* job = jobs[layout.region_of(device)];
        if (job == nullptr) continue;
        job->parity_leaves.Set(layout.ParityBlock(device, row.unit_row, row.slice).index, kNoParityLeaf);
      }
    }
  }
}

}  // namespace lzy
