#include "encode/check_parity.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "base/node.h"
#include "comm/records.h"
#include "encode/rebuild.h"

namespace lzy {
namespace {

// The findings of a rank in one ensemble: parity blocks that differ, by region, and rows with a data block that changed
// since it was examined.
struct Misfits {
  std::uint32_t ensemble = 0;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> blocks;
  std::set<RowId> unfit;
  LZY_FIELDS(ensemble, blocks, unfit)
};

// A pseudo-random number that depends only on the arguments. So all ranks choose the same rows without a list of them.
double Draw(std::uint64_t seed, std::uint64_t row) {
  std::uint64_t mixed = seed + (row + 1) * 0x9e3779b97f4a7c15u;  // splitmix64 (Steele, Lea, Flood)
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53;
}

// False for parity that was never made, or whose hash no copy of a sidecar has.
bool HasLeaf(const BlockStream& parity, std::uint64_t index) {
  if (parity.expected == nullptr || index >= parity.expected->leaf_count()) return false;
  const Hash leaf = parity.expected->leaf(index);
  return !leaf.IsZero() && leaf != kNoParityLeaf;
}

// One ensemble on one rank.
class RowCheck {
 public:
  RowCheck(const Context& context, const Ensemble& ensemble, const ParityCheck& check, std::uint64_t seed)
      : context_(context), ensemble_(ensemble), check_(check), seed_(seed) {}

  /// For a shared file, each rank encodes rows of its own. For a set, the owners encode each row together.
  Status Run(const std::vector<FileFindings>& findings, Communicator& comm, bool shared) {
    LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] {
      for (const LostBlock& block : LostBlocks(ensemble_, findings)) {
        if (!block.parity) incomplete_.insert({block.group, block.unit_row, block.slice});
      }
    }));
    return InStretches(layout_, [&](Interval stretch) -> Status {
      std::vector<RowRun> runs;
      LZY_RETURN_IF_ERROR(AgreeOn(comm, [&]() -> Status {
        LZY_ASSIGN_OR_RETURN(runs, RowsOf(stretch));
        return Status::Ok();
      }));
      if (!shared) return Execute(comm, OwnersIn(ensemble_, comm), runs);
      return AgreeOn(comm, [&] {
        const auto self = SelfCommunicator();
        return Execute(*self, std::vector<int>(layout_.devices(), 0), ShareOf(runs, comm));
      });
    });
  }

  Misfits& misfits() { return misfits_; }
  std::uint64_t bytes_read() const { return stats_.bytes_read; }
  std::uint64_t bytes_encoded() const { return encoded_; }

 private:
  // The rows to encode. Rows without a plan are left out: all of their sources must be right.
  Result<std::vector<RowRun>> RowsOf(Interval stretch) {
    stretch = {std::max(stretch.begin, check_.unit_rows.begin), std::min(stretch.end, check_.unit_rows.end)};
    std::vector<RowRun> runs;
    if (stretch.begin >= stretch.end) return runs;
    LZY_ASSIGN_OR_RETURN(const std::vector<RowRun> all, RowsToEncode(layout_, plans_, {}, /*all=*/true, stretch));
    for (const RowRun& run : all) {
      if (check_.share < 1 && Draw(seed_, run.unit_row) >= check_.share) continue;
      const auto first = incomplete_.lower_bound({run.group, run.unit_row, 0});
      const bool whole = first == incomplete_.end() || first->group != run.group || first->unit_row != run.unit_row;
      if (whole) {
        runs.push_back(run);
        continue;
      }
      for (std::uint32_t s = run.first_slice; s < run.first_slice + run.slices; ++s) {
        if (!incomplete_.contains({run.group, run.unit_row, s})) AppendRun(runs, {run.group, run.unit_row, s, 1, run.plan});
      }
    }
    return runs;
  }

  Status Execute(Communicator& comm, std::vector<int> owner, std::span<const RowRun> runs) {
    const auto source = [&](const RowBlock& block, ByteSpan bytes) -> Status {
      encoded_ += bytes.size();
      if (IsAsCommitted(streams_.of(layout_, block), block.place.index, bytes)) return Status::Ok();
      const std::lock_guard lock(mutex_);
      misfits_.unfit.insert(layout_.LocateData(layout_.file_of(block.device), block.place.index).row);
      return Status::Ok();
    };
    const auto target = [&](std::span<const RowBlock> blocks, ByteSpan bytes) -> Status {
      std::size_t at = 0;
      for (const RowBlock& block : blocks) {
        const ByteSpan one = bytes.subspan(at, block.place.length);
        at += block.place.length;
        const BlockStream& stream = streams_.of(layout_, block);
        if (!HasLeaf(stream, block.place.index) || IsAsCommitted(stream, block.place.index, one)) continue;
        const std::lock_guard lock(mutex_);
        misfits_.blocks.emplace_back(layout_.region_of(block.device), block.place.index);
      }
      return Status::Ok();
    };
    RowPipelineSetup setup = SetupOf(context_, "encode", layout_, comm, std::move(owner), runs);
    for (const BlockStream& stream : streams_.data) setup.data.push_back(&stream);
    return ExecuteRows(setup, runs, source, target, stats_);
  }

  const Context& context_;
  const Ensemble& ensemble_;
  const Layout& layout_ = *ensemble_.layout;
  const ParityCheck& check_;
  const std::uint64_t seed_;
  const RowStreams streams_ = StreamsOf(ensemble_);
  PlanCache plans_{layout_};
  std::set<RowId> incomplete_;  // rows with lost or edited data
  std::mutex mutex_;            // for misfits_
  Misfits misfits_;
  std::atomic<std::uint64_t> encoded_{0};
  RowStats stats_;
};

// Marks the parity blocks `wrong` (sorted) as wrongly encoded. This replaces other faults of these blocks: a block with
// another fault could not be rebuilt from this row either.
void MarkMisfits(const std::vector<std::uint64_t>& wrong, std::vector<BadBlocks>& list) {
  std::vector<BadBlocks> out;
  for (const BadBlocks& bad : list) {
    std::uint64_t at = bad.first;
    const std::uint64_t end = bad.first + bad.count;
    for (auto next = std::ranges::lower_bound(wrong, at); next != wrong.end() && *next < end; ++next) {
      BadBlocks before = bad;
      before.first = at;
      before.count = *next - at;
      if (before.count > 0) out.push_back(before);
      at = *next + 1;
    }
    BadBlocks rest = bad;
    rest.first = at;
    rest.count = end - at;
    if (rest.count > 0) out.push_back(rest);
  }
  for (const std::uint64_t index : wrong) AppendBad(out, {{index, 1, BlockFault::kEncoding}});
  list = std::move(out);
}

// Merges the findings of all ranks; the same on all ranks. Leaves out a row if any rank found it changed.
void Take(const DatasetView& view, const std::vector<Misfits>& all, Findings& findings) {
  std::set<std::pair<std::uint32_t, RowId>> unfit;
  for (const Misfits& one : all) {
    for (const RowId& row : one.unfit) unfit.emplace(one.ensemble, row);
  }
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>> wrong;
  for (const Misfits& one : all) {
    for (const auto& [region, index] : one.blocks) {
      const RowId row = view.ensembles.at(one.ensemble).layout->Locate(/*parity=*/true, region, index).row;
      if (!unfit.contains({one.ensemble, row})) wrong.emplace(one.ensemble, region, index);
    }
  }
  for (auto at = wrong.begin(); at != wrong.end();) {
    const auto [ensemble, region, index] = *at;
    std::vector<std::uint64_t> blocks;
    for (; at != wrong.end() && std::get<0>(*at) == ensemble && std::get<1>(*at) == region; ++at) blocks.push_back(std::get<2>(*at));
    MarkMisfits(blocks, findings.files.at(ensemble).at(region).parity);
  }
}

// The communicator of the ranks that own files of an ensemble of a set; null if this rank owns none.
Communicator* OwnersOf(const Context& context, const DatasetView& view, const Ensemble& ensemble) {
  if (ensemble.group_comm) return ensemble.group_comm.get();
  return view.ensembles.size() == 1 || context.comm.size() == 1 ? &context.comm : nullptr;
}

}  // namespace

// A rank takes part in some ensembles only, so all ranks agree on the status at the end.
Status CheckParity(const Context& context, const DatasetView& view, const ParityCheck& check, Findings& findings,
                   std::uint64_t& bytes_encoded) {
  std::uint64_t seed = DrawRandom<std::uint64_t>();
  LZY_RETURN_IF_ERROR(BroadcastRecord(context.comm, seed));
  const bool shared = view.ref.kind == DatasetKind::kShared;
  std::vector<Misfits> mine;
  std::uint64_t read = 0, encoded = 0;
  Status status;
  for (std::uint32_t e = 0; e < view.ensembles.size(); ++e) {
    const Ensemble& ensemble = view.ensembles[e];
    Communicator* const comm = shared ? &context.comm : OwnersOf(context, view, ensemble);
    if (comm == nullptr || ensemble.layout->parity() == 0) continue;
    RowCheck rows(context, ensemble, check, seed);
    const Status one = rows.Run(findings.files[e], *comm, shared);
    if (status.ok()) status = one;
    rows.misfits().ensemble = e;
    mine.push_back(std::move(rows.misfits()));
    read += rows.bytes_read();
    encoded += rows.bytes_encoded();
  }
  status = Agree(context.comm, status);
  if (!status.ok() && status.code() != Code::kInterrupted) return status;
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(context.comm, mine));
  LZY_RETURN_IF_ERROR(AgreeOn(context.comm, [&] { Take(view, all, findings); }));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t all_read, context.comm.AllReduceSum(read));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t all_encoded, context.comm.AllReduceSum(encoded));
  findings.bytes_read += all_read;
  bytes_encoded += all_encoded;
  return status;
}

}  // namespace lzy
