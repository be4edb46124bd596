#pragma once
// The pipeline for encoding, repair and restore (docs/design/overview.md §3, "The row pipeline"). For a list of runs of
// block rows, each rank reads its sources and multiplies them by their coefficients. ReduceScatterXor adds up the products
// over the ranks, and each target arrives at its owner.
//
// In encoding, the sources are the data positions and the targets are the parity positions. In rebuilding, the sources
// are any k good positions. This is the collective of Gropp, Ross, Miller (§3), generalised to Reed-Solomon and to any
// mix of lost blocks.
//
// Callers are encode/encode.cc and encode/rebuild.cc. Their callbacks hash the sources, and hash and write the targets; the
// pipeline itself writes no file. Invariant: all ranks make the same collective calls, even if some of them fail.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "geometry/layout.h"
#include "request/report.h"
#include "rows/plan_cache.h"
#include "storage/block_stream.h"

namespace lzy {

/// Seconds and bytes of the pipeline on this rank. Time that several threads spent at once is divided by the number of
/// threads.
struct RowStats : Phases {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_captured = 0;  ///< captured while they were written, so not read
  std::uint64_t rows_again = 0;      ///< added up again because a sum arrived wrong; the same on all ranks

  RowStats& operator+=(const RowStats& other);
};

/// The inputs of ExecuteRows. Everything that pointers refer to must outlive the call.
struct RowPipelineSetup {
  const Layout* layout = nullptr;
  Communicator* comm = nullptr;            ///< ranks that take part; all must call ExecuteRows with the same runs
  std::vector<int> owner;                  ///< by device: rank in `comm` that reads and writes it
  std::vector<const BlockStream*> data;    ///< by file; null if another rank owns it
  std::vector<const BlockStream*> parity;  ///< by region; null if another rank owns it
  /// The bytes of a data block of a file, if they need not be read; else empty. Called by several threads. Null: all blocks
  /// are read.
  std::function<ByteSpan(std::uint32_t file, std::uint64_t block)> known = nullptr;
  /// Bytes for buffers. Uses more if needed: at least one block for each target.
  std::uint64_t memory = 256u << 20;
  /// Threads of this rank, including the caller's. Only the caller's thread makes calls of `comm`.
  unsigned threads = 1;
  /// Prove sums among ranks. Off only in simulations, where payloads do not exist.
  bool prove = true;
  /// Called by several threads before each piece, if `comm` has one rank; if it returns true, the run ends with
  /// kInterrupted. Not called with more ranks. May be empty.
  std::function<bool()> stop;
  /// Called by several threads, with the bytes of source blocks that were just read. May be empty.
  std::function<void(std::uint64_t bytes)> progress;
};

/// A data or parity block of a device in the pipeline. `place.length` is not 0.
struct RowBlock {
  std::uint32_t device = 0;
  bool parity = false;
  BlockPlace place;
  bool known = false;  ///< RowPipelineSetup::known had it, so it was not read
};

/// Called for every source block with its bytes (not zero-padded). It may change them: the changed bytes are used.
/// Thread-safe. A failure is remembered, and this rank continues.
using SourceFn = std::function<Status(const RowBlock&, MutableByteSpan)>;
/// Called for consecutive target blocks of one device. `bytes` has all blocks, one after the other, blocks[i].place.length
/// bytes each; it is valid during the call. Thread-safe. A failure is remembered.
using TargetFn = std::function<Status(std::span<const RowBlock> blocks, ByteSpan bytes)>;

/// Fills `bytes` from `offset` on. Returns kIo if the file ends before: somebody cut it meanwhile. Returns how many bytes
/// were read; holes are not read if the file is `synced` (BlockStream). Local.
Result<std::uint64_t> ReadWhole(File& file, std::uint64_t offset, MutableByteSpan bytes, bool synced);

/// Executes the runs. Sums among ranks are proven (rows/xor_checks.h). Wrong ones are made again from the sources, and
/// never delivered. If some stay wrong, returns kMpi. Ranks agree on failures (reading, callbacks) at the end, so every
/// rank gets the same Status. Target callbacks may have been called for some rows before a failure. Rows that are made
/// again pass through the source callback again. Adds to `stats`, also after a failure. Collective over setup.comm.
Status ExecuteRows(const RowPipelineSetup& setup, std::span<const RowRun> runs, const SourceFn& source,
                   const TargetFn& target, RowStats& stats);

}  // namespace lzy
