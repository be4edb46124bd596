#include "encode/rebuild.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/interval_set.h"
#include "comm/records.h"
#include "request/touched.h"

namespace lzy {
namespace {

using RowKey = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // group, unit row, slice

RowKey KeyOf(const RowId& row) {
  return {row.group, row.unit_row, row.slice};
}

// By row, the devices whose blocks were read as sources and were not as committed.
using UnfitSources = std::map<RowKey, std::set<std::uint32_t>>;

// The devices of a row whose block is not as it was committed: rotten, touched since, missing, or found unfit when it
// was read. Rot of parity is known only from `unfit`, because a commit reads no old parity.
std::vector<std::uint32_t> LostDevices(const Ensemble& ensemble, const RowId& row, const RottenBlocks& rot,
                                       const std::map<std::uint32_t, IntervalSet>& touched, const UnfitSources& unfit) {
  const Layout& layout = *ensemble.layout;
  std::vector<std::uint32_t> lost;
  const auto known = unfit.find(KeyOf(row));
  for (std::uint32_t device : layout.group(row.group)) {
    if (known != unfit.end() && known->second.contains(device)) {
      lost.push_back(device);
      continue;
    }
    if (layout.IsParity(device, row.unit_row)) {
      if (!ensemble.files[layout.region_of(device)].sidecar_usable()) lost.push_back(device);
      continue;
    }
    const FileView& file = ensemble.files[layout.file_of(device)];
    const BlockPlace place = layout.DataBlock(device, row.unit_row, row.slice);
    if (place.length == 0) continue;  // past the end: zeros, which cannot be lost
    const auto rotten = rot.find(file.rank);
    const auto edits = touched.find(file.rank);
    if (!file.present || file.stat.size < place.offset + place.length ||
        (rotten != rot.end() && rotten->second.contains(place.index)) ||
        (edits != touched.end() && edits->second.Overlaps({place.offset, place.offset + place.length}))) {
      lost.push_back(device);
    }
  }
  return lost;
}

std::size_t Count(const UnfitSources& unfit) {
  std::size_t count = 0;
  for (const auto& [row, devices] : unfit) count += devices.size();
  return count;
}

// Unites what all ranks found, so they make the same plans. Collective.
Status GatherUnfit(Communicator& comm, UnfitSources& unfit) {
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, unfit));
  for (const UnfitSources& theirs : all) {
    for (const auto& [row, devices] : theirs) unfit[row].insert(devices.begin(), devices.end());
  }
  return Status::Ok();
}

// The rows that have rotten blocks.
std::map<RowKey, RowId> RowsOf(const Ensemble& ensemble, const RottenBlocks& rot) {
  const Layout& layout = *ensemble.layout;
  std::map<RowKey, RowId> rows;
  for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
    const auto at = rot.find(ensemble.files[f].rank);
    if (at == rot.end()) continue;
    for (std::uint64_t index : at->second) {
      if (index >= layout.data_blocks(f)) continue;
      const RowId row = layout.LocateData(f, index).row;
      rows.emplace(KeyOf(row), row);
    }
  }
  return rows;
}

}  // namespace

// Counts rows over all runs, and cuts out those from rows·rank/size to rows·(rank+1)/size.
std::vector<RowRun> ShareOf(std::span<const RowRun> runs, const Communicator& comm) {
  const auto size = static_cast<std::uint64_t>(comm.size());
  const auto rank = static_cast<std::uint64_t>(comm.rank());
  std::uint64_t rows = 0;
  for (const RowRun& run : runs) rows += run.slices;
  const Interval mine{rows * rank / size, rows * (rank + 1) / size};
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

// A member without a sidecar has no parity here. It has leaves only if they were proven by others
// (FileView::data_tree).
RowStreams StreamsOf(const Ensemble& ensemble) {
  const Layout& layout = *ensemble.layout;
  RowStreams streams{std::vector<BlockStream>(layout.files()), std::vector<BlockStream>(layout.regions())};
  for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
    const FileView& file = ensemble.files[f];
    streams.data[f] = DataStream(layout, f, file.data.get(), file.data_tree(), ensemble.key.get());
    if (!file.sidecar) continue;
    streams.parity[f] = ParityStream(layout, f, file.parity(), file.parity_base, file.parity_tree(), ensemble.key.get());
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

// Ranks of group_comm are the owners in ascending order. So an owner's rank there is its place among them.
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
Status RebuildRot(const Context& context, const Ensemble& ensemble, Communicator& comm, std::vector<int> owner,
                  const RottenBlocks& rot, const std::map<std::uint32_t, IntervalSet>& touched,
                  const std::map<std::uint32_t, FileJob*>& jobs) {
  const Layout& layout = *ensemble.layout;
  const std::map<RowKey, RowId> rows = RowsOf(ensemble, rot);
  const RowStreams streams = StreamsOf(ensemble);
  std::mutex mutex;
  std::uint64_t kept = 0;
  // Takes the rotten blocks that this rank owns, if their contents are the committed ones. Called by several threads.
  const auto keep = [&](std::span<const RowBlock> blocks, ByteSpan bytes) {
    std::size_t at = 0;
    for (const RowBlock& block : blocks) {
      const ByteSpan one = bytes.subspan(at, block.place.length);
      at += block.place.length;
      if (block.parity) continue;
      const FileView& file = ensemble.files[layout.file_of(block.device)];
      const auto job = jobs.find(file.rank);
      const auto rotten = rot.find(file.rank);
      if (job == jobs.end() || rotten == rot.end() || !rotten->second.contains(block.place.index)) continue;
      if (!IsAsCommitted(streams.data[layout.file_of(block.device)], block.place.index, one)) continue;
      const std::lock_guard lock(mutex);
      // A writer that lzy does not see may have changed any amount. That is no rot, and need not be rebuilt. So memory
      // is bounded.
      if ((kept += one.size()) > context.options.memory / 2) continue;
      job->second->rebuilt[block.place.index].assign(one.begin(), one.end());
    }
    return Status::Ok();
  };
  // Notes sources that are not as committed. It never fails: the row is lost only if too few good sources are left.
  UnfitSources unfit;
  const auto check = [&](const RowBlock& block, MutableByteSpan bytes) {
    if (IsAsCommitted(streams.of(layout, block), block.place.index, bytes)) return Status::Ok();
    const RowId row = block.parity ? layout.LocateParity(layout.region_of(block.device), block.place.index).row
                                   : layout.LocateData(layout.file_of(block.device), block.place.index).row;
    const std::lock_guard lock(mutex);
    unfit[KeyOf(row)].insert(block.device);
    return Status::Ok();
  };
  // Each round that finds more unfit sources leaves fewer to choose from. A row with more than m losses has no plan, so
  // m + 1 rounds are enough.
  for (std::uint32_t round = 0; round <= layout.parity(); ++round) {
    // Plan: all ranks know the same losses, so they make the same runs. After the first round, only rows with unfit
    // sources are tried again. A row without a plan is left out, and its blocks stay lost.
    PlanCache plans(layout);
    std::vector<RowRun> runs;
    LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] {
      for (const auto& [key, row] : rows) {
        if (round > 0 && !unfit.contains(key)) continue;
        const std::vector<std::uint32_t> lost = LostDevices(ensemble, row, rot, touched, unfit);
        auto plan = plans.Rebuild(row.group, row.unit_row, lost, lost);
        if (plan.ok()) AppendRun(runs, {row.group, row.unit_row, row.slice, 1, std::move(*plan)});
      }
    }));
    // Execute, and see whether some rank has found more unfit sources.
    const std::size_t before = Count(unfit);
    RowStats stats;
    const Status done = RebuildRows(context, layout, streams, comm, owner, runs, check, keep, stats);
    // What cannot be read cannot serve to rebuild. The commit goes on: its rows lose their parity at worst.
    if (done.code() == Code::kUnreadable || done.code() == Code::kIo) return Status::Ok();
    LZY_RETURN_IF_ERROR(done);
    LZY_RETURN_IF_ERROR(GatherUnfit(comm, unfit));
    if (Count(unfit) == before) break;
  }
  return Status::Ok();
}

IntervalSet TouchedBlocks(const std::set<std::uint64_t>& blocks, std::uint32_t block_size) {
  IntervalSet touched;
  for (std::uint64_t index : blocks) touched.Add({index * block_size, (index + 1) * block_size});
  return touched;
}

// All m parity leaves of a row get the value that stands for "no parity". A rank sets those that its jobs have.
void ForsakeParity(const Layout& layout, const RottenBlocks& lost, const std::vector<FileJob*>& jobs) {
  for (const auto& [file, blocks] : lost) {
    for (std::uint64_t index : blocks) {
      const RowId row = layout.LocateData(file, index).row;
      for (std::uint32_t device : layout.group(row.group)) {
        if (!layout.IsParity(device, row.unit_row)) continue;
        FileJob* job = jobs[layout.region_of(device)];
        if (job == nullptr) continue;
        const std::uint64_t at = layout.ParityBlock(device, row.unit_row, row.slice).index;
        job->parity_leaves[at] = kNoParityLeaf;
        job->parity_known[at] = 1;
      }
    }
  }
}

}  // namespace lzy
