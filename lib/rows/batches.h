#pragma once
// Deals rows to threads and to collective calls: pieces for the threads of a rank that works alone, batches for ranks that
// add up together. Only the row pipeline (rows/rows.cc) uses this.
//
// Pure arithmetic on runs. Ranks with the same runs, option `memory` and communicator get the same batches, so they make
// the same collective calls without messages. Results of CutForThreads may differ between ranks, because it is for work
// without communication.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rows/rows.h"

namespace lzy {

/// Buffers are a multiple of this many bytes, and at least as long: a cache line, and whole 64-bit words.
inline constexpr std::uint64_t kLeastRoom = 64;
constexpr std::uint64_t RoundUpWords(std::uint64_t bytes) {
  return (bytes + kLeastRoom - 1) / kLeastRoom * kLeastRoom;
}
/// Bytes in a buffer for one target of a run: a block for each slice, rounded up.
std::uint64_t TargetBytes(const Layout& layout, const RowRun& run);

/// Runs whose targets one collective call sends to their owners, and the place of each target in the send buffer. The
/// buffer has a part for each rank, ordered by rank; a part has the targets of its owner, in the order of runs. Ranks that
/// own no target of the batch have an empty part. A rank receives its part. `runs` must outlive the batch.
class Batch {
 public:
  /// Takes runs `begin` to `end` (not included) of `runs`.
  Batch(const RowPipelineSetup& setup, std::span<const RowRun> runs, std::size_t begin, std::size_t end);

  std::span<const RowRun> runs() const { return runs_; }
  /// The number of run `i` of this batch among all runs.
  std::uint64_t number(std::size_t i) const { return begin_ + i; }
  /// Bytes of the send buffer.
  std::uint64_t bytes() const { return total_; }
  /// 64-bit words for each rank, as ReduceScatterXor takes them.
  std::span<const std::uint64_t> counts() const { return counts_; }
  /// Offset in the send buffer (bytes) of target `t` of run `run`. `run` counts from the first of this batch.
  std::uint64_t slot(std::size_t run, std::size_t t) const { return slots_[first_slot_[run] + t]; }
  /// Offset in the send buffer (bytes) of this rank's part.
  std::uint64_t mine_at() const { return mine_at_; }

 private:
  /// Calls fn(run, owner's rank, bytes) for every target, run by run.
  template <class Fn>
  void ForEachTarget(const RowPipelineSetup& setup, const Fn& fn) const;

  std::span<const RowRun> runs_;
  std::size_t begin_ = 0;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> slots_;     // offsets of all targets, run by run
  std::vector<std::size_t> first_slot_;  // by run: where its targets begin in slots_
  std::uint64_t mine_at_ = 0;
  std::uint64_t total_ = 0;
};

/// Cuts the runs into pieces for ParallelFor. The targets of one piece for each thread fit into a quarter of the
/// memory. There are about four pieces for each thread, so all threads end at about the same time. If memory
/// allows, a piece is not shorter than what is encoded at a time.
std::vector<RowRun> CutForThreads(const RowPipelineSetup& setup, std::span<const RowRun> runs);

/// Cuts turns that are larger than a batch. Each piece has some slices of all rows of the turn, so a batch has as much
/// for each owner. Otherwise a batch would have a few whole rows, for some owners only, and all of it would go through
/// the links of these (docs/performance/exchange.md, "Whole turns in a batch").
std::vector<RowRun> EvenTurns(const RowPipelineSetup& setup, std::span<const RowRun> runs);

/// Puts the runs into batches of at most a few megabytes, of whole turns if they fit. A batch has at least one run.
std::vector<Batch> MakeBatches(const RowPipelineSetup& setup, std::span<const RowRun> runs);

}  // namespace lzy
