#include "rows/batches.h"

#include <algorithm>

#include "tuning/tuning.h"

namespace lzy {
namespace {

// Bytes of the targets of one batch. Large enough that the latency of a collective call does not matter. Small enough that
// the buffers of two batches stay in the third-level cache.
constexpr std::uint64_t kBatchBytes = 8u << 20;

// Two batches have a send and a receive buffer each, so they take at most half of a small memory.
std::uint64_t BatchBudget(const RowPipelineSetup& setup) {
  return std::max<std::uint64_t>(setup.layout->block_size(), std::min(kBatchBytes, setup.memory / 8));
}

// Runs without targets (m = 0) count as one, so that their number in a batch is bounded, too.
std::uint64_t BytesOfTargets(const Layout& layout, std::span<const RowRun> runs) {
  std::uint64_t bytes = 0;
  for (const RowRun& run : runs) {
    bytes += std::max<std::uint64_t>(1, run.plan->targets.size()) * TargetBytes(layout, run);
  }
  return bytes;
}

// The end of the runs from `begin` on that are ascending rows of one turn. In a turn of n unit rows, parity rotates
// once over the devices, so each owner gets the same number of targets.
std::size_t TurnEnd(const Layout& layout, std::span<const RowRun> runs, std::size_t begin) {
  const std::uint64_t n = layout.group(runs[begin].group).size();
  std::size_t end = begin + 1;
  while (end < runs.size() && runs[end].group == runs[begin].group && runs[end].unit_row / n == runs[begin].unit_row / n &&
         runs[end].unit_row > runs[end - 1].unit_row) {
    ++end;
  }
  return end;
}

}  // namespace

std::uint64_t TargetBytes(const Layout& layout, const RowRun& run) {
  return RoundUpWords(std::uint64_t{run.slices} * layout.block_size());
}

template <class Fn>
void Batch::ForEachTarget(const RowPipelineSetup& setup, const Fn& fn) const {
  const Layout& layout = *setup.layout;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const RowRun& run = runs_[i];
    for (const std::uint32_t position : run.plan->targets) {
      fn(i, setup.owner[layout.DeviceAt(run.group, position, run.unit_row)], TargetBytes(layout, run));
    }
  }
}

// Two passes: the first one adds up the parts of all ranks, the second one gives each target its place in its owner's
// part.
Batch::Batch(const RowPipelineSetup& setup, std::span<const RowRun> runs, std::size_t begin, std::size_t end)
    : runs_(runs.subspan(begin, end - begin)), begin_(begin) {
  const auto ranks = static_cast<std::size_t>(setup.comm->size());
  std::vector<std::uint64_t> bytes(ranks, 0);
  ForEachTarget(setup, [&](std::size_t, int owner, std::uint64_t length) { bytes[owner] += length; });
  std::vector<std::uint64_t> at(ranks, 0);
  for (std::size_t r = 0; r < ranks; ++r) {
    at[r] = total_;
    total_ += bytes[r];
    counts_.push_back(bytes[r] / 8);
  }
  mine_at_ = at[setup.comm->rank()];
  first_slot_.reserve(runs_.size());
  ForEachTarget(setup, [&](std::size_t run, int owner, std::uint64_t length) {
    // The first target of its run.
    if (run == first_slot_.size()) first_slot_.push_back(slots_.size());
    slots_.push_back(at[owner]);
    at[owner] += length;
  });
}

// `room` bounds a piece by memory, `even` by the number of pieces. One thread needs no even pieces.
std::vector<RowRun> CutForThreads(const RowPipelineSetup& setup, std::span<const RowRun> runs) {
  const std::uint64_t block = setup.layout->block_size();
  const std::uint64_t threads = std::max(1u, setup.threads);
  const std::uint64_t rows = CountRows(runs);
  const std::uint64_t least = CurrentTuning().encode_piece_bytes() / block;
  const std::uint64_t even = threads == 1 ? rows : std::max(least, (rows + 4 * threads - 1) / (4 * threads));
  std::vector<RowRun> pieces;
  for (const RowRun& run : runs) {
    const std::uint64_t targets = std::max<std::uint64_t>(1, run.plan->targets.size());
    const std::uint64_t room = setup.memory / 4 / threads / targets / block;
    const auto most = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(std::min(room, even), 1, run.slices));
    for (std::uint32_t done = 0; done < run.slices; done += most) {
      RowRun& piece = pieces.emplace_back(run);
      piece.first_slice += done;
      piece.slices = std::min(most, run.slices - done);
    }
  }
  return pieces;
}

// Rows of a turn may differ in length (at the end of a file). The longest one decides how many pieces there are, and
// shorter ones have no part in the last ones.
std::vector<RowRun> EvenTurns(const RowPipelineSetup& setup, std::span<const RowRun> runs) {
  const Layout& layout = *setup.layout;
  const std::uint64_t budget = BatchBudget(setup);
  std::vector<RowRun> out;
  for (std::size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    end = TurnEnd(layout, runs, begin);
    const std::span<const RowRun> turn = runs.subspan(begin, end - begin);
    const std::uint64_t bytes = BytesOfTargets(layout, turn);
    const std::uint64_t most = std::ranges::max_element(turn, {}, &RowRun::slices)->slices;
    const std::uint64_t in_piece = bytes <= budget ? most : std::max<std::uint64_t>(1, most * budget / bytes);
    const std::uint64_t pieces = (most + in_piece - 1) / in_piece;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      const auto first = static_cast<std::uint32_t>(most * piece / pieces);
      const auto last = static_cast<std::uint32_t>(most * (piece + 1) / pieces);
      for (const RowRun& run : turn) {
        if (run.slices <= first) continue;
        RowRun& part = out.emplace_back(run);
        part.first_slice += first;
        part.slices = std::min(last, run.slices) - first;
      }
    }
  }
  return out;
}

std::vector<Batch> MakeBatches(const RowPipelineSetup& setup, std::span<const RowRun> runs) {
  const Layout& layout = *setup.layout;
  const std::uint64_t budget = BatchBudget(setup);
  std::vector<Batch> batches;
  for (std::size_t begin = 0; begin < runs.size();) {
    std::uint64_t bytes = 0;
    std::size_t end = begin;
    while (end < runs.size()) {
      std::size_t next = TurnEnd(layout, runs, end);
      std::uint64_t more = BytesOfTargets(layout, runs.subspan(end, next - end));
      if (more > budget) {  // blocks are large, or devices many, so one slice of each row is too much: single runs
        next = end + 1;
        more = BytesOfTargets(layout, runs.subspan(end, 1));
      }
      // The first turn or run is taken whatever its size, so every batch has one.
      if (end > begin && bytes + more > budget) break;
      bytes += more;
      end = next;
    }
    batches.emplace_back(setup, runs, begin, end);
    begin = end;
  }
  return batches;
}

}  // namespace lzy
