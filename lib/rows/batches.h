#pragma once
// How rows are dealt to threads and to collectives: pieces for each thread of a rank that works alone, batches for ranks that
// add up together. Pure arithmetic on runs; every rank that has the same runs has the same batches.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rows/rows.h"

namespace lzy {

/// Buffers are a multiple of this, and at least as long: a cache line, and whole 64-bit words.
inline constexpr std::uint64_t kLeastRoom = 64;
constexpr std::uint64_t RoundUpWords(std::uint64_t bytes) {
  return (bytes + kLeastRoom - 1) / kLeastRoom * kLeastRoom;
}
/// Room in a buffer for one target of a run.
std::uint64_t TargetBytes(const Layout& layout, const RowRun& run);

/// The runs that one collective brings to their targets' owners: where each target lies in the send buffer, which is in
/// the order of the owners. `runs` must outlive it.
class Batch {
 public:
  /// Runs `begin` to `end` of `runs`.
  Batch(const RowPipelineSetup& setup, std::span<const RowRun> runs, std::size_t begin, std::size_t end);

  std::span<const RowRun> runs() const { return runs_; }
  /// What run `i` of these is among all runs.
  std::uint64_t number(std::size_t i) const { return begin_ + i; }
  /// Of the send buffer.
  std::uint64_t bytes() const { return total_; }
  /// 64-bit words for each rank.
  std::span<const std::uint64_t> counts() const { return counts_; }
  /// Where target `t` of run `run` begins in the send buffer.
  std::uint64_t slot(std::size_t run, std::size_t t) const { return slots_[first_slot_[run] + t]; }
  /// Where this rank's targets begin in it.
  std::uint64_t mine_at() const { return mine_at_; }

 private:
  template <class Fn>
  void ForEachTarget(const RowPipelineSetup& setup, const Fn& fn) const;

  std::span<const RowRun> runs_;
  std::size_t begin_ = 0;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> slots_;  // run by run
  std::vector<std::size_t> first_slot_;
  std::uint64_t mine_at_ = 0;
  std::uint64_t total_ = 0;
};

/// The runs in pieces whose targets all threads have room for at a time, and in enough of them that no thread has much left
/// when the others are done.
std::vector<RowRun> CutForThreads(const RowPipelineSetup& setup, std::span<const RowRun> runs);

/// Turns that are more than a batch, as pieces of all their rows after one another: each batch then has as much for each owner.
/// (A batch of whole rows that has no room for a turn is for some owners only, and all of it goes through their links.)
std::vector<RowRun> EvenTurns(const RowPipelineSetup& setup, std::span<const RowRun> runs);

/// Batches of at most a few megabytes, of whole turns where they fit.
std::vector<Batch> MakeBatches(const RowPipelineSetup& setup, std::span<const RowRun> runs);

}  // namespace lzy
