#pragma once
// The one pipeline behind encoding, repair and restore (docs/design/overview.md §3, "The row pipeline"). For a list of runs of
// block rows, sources are read where they are and multiplied by their coefficients. The products are combined over the
// ranks by ReduceScatterXor, and the targets arrive where they belong.
//
// In encoding, the sources are the data positions and the targets are the parity positions. In rebuilding, the sources
// are any k good positions. This is the collective of Gropp, Ross, Miller (§3), generalised to Reed-Solomon and to any
// mix of lost blocks.
//
// Callers are encode/encode.cc and encode/rebuild.cc. Their callbacks hash what is read, and hash and write what comes
// out; the pipeline itself writes no file. Invariant: all ranks go through the same collective calls, whatever fails
// on some of them.

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

/// Seconds and bytes of the pipeline on this rank. Seconds that several threads spent at once are divided by the
/// number of threads.
struct RowStats : Phases {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_captured = 0;  ///< not read, since they were captured while they were written
  std::uint64_t rows_again = 0;      ///< added up again, since some rank got a wrong sum; the same on all ranks

  RowStats& operator+=(const RowStats& other);
};

/// What ExecuteRows works on, and with what. All that pointers mean must outlive the call.
struct RowPipelineSetup {
  const Layout* layout = nullptr;
  Communicator* comm = nullptr;            ///< ranks that take part; all must call ExecuteRows with the same runs
  std::vector<int> owner;                  ///< by device: rank in `comm` that reads and writes it
  std::vector<const BlockStream*> data;    ///< by file; null where not owned here
  std::vector<const BlockStream*> parity;  ///< by region; null where not owned here
  /// The bytes of a data block of a file, if they need not be read; else empty. Called by several threads. Null: all are
  /// read.
  std::function<ByteSpan(std::uint32_t file, std::uint64_t block)> known = nullptr;
  /// Bytes for buffers. Some are needed in any case: at least one block for each target.
  std::uint64_t memory = 256u << 20;
  /// Threads of this rank, the caller's included. Only the caller's makes calls of `comm`.
  unsigned threads = 1;
  /// Whether sums among ranks are proven. Off only in simulations, where payloads do not exist.
  bool prove = true;
  /// Asked by several threads, before each piece, if `comm` has one rank; true ends the run with kInterrupted. Not
  /// asked with more ranks. May be empty.
  std::function<bool()> stop;
  /// Called by several threads, with the bytes of source blocks that were just read. May be empty.
  std::function<void(std::uint64_t bytes)> progress;
};

/// One block on its way through the pipeline: of the data or of the parity of a device. `place.length` is not 0.
struct RowBlock {
  std::uint32_t device = 0;
  bool parity = false;
  BlockPlace place;
  bool known = false;  ///< it was not read: RowPipelineSetup::known had it
};

/// Called for every source block with its bytes (not zero-padded). It may change them: what it leaves is what counts.
/// Thread-safe. A failure is remembered, and this rank goes on.
using SourceFn = std::function<Status(const RowBlock&, MutableByteSpan)>;
/// Called for every stretch of target blocks of one device that lie back to back. `bytes` has all blocks, one after
/// the other, blocks[i].place.length bytes each; it is valid during the call. Thread-safe. A failure is remembered.
using TargetFn = std::function<Status(std::span<const RowBlock> blocks, ByteSpan bytes)>;

/// Fills `bytes` from `offset` on. kIo if the file ends before: then something else cut it meanwhile. Returns how many
/// bytes were read: none of a hole, if the file is `synced` (BlockStream). Local.
Result<std::uint64_t> ReadWhole(File& file, std::uint64_t offset, MutableByteSpan bytes, bool synced);

/// Executes the runs. Between ranks, sums are proven (rows/xor_checks.h). Wrong ones are made again from the sources,
/// and never delivered. If some stay wrong, that is kMpi. Failures of any rank (reading, callbacks) are agreed on at
/// the end, so every rank gets the same Status. Target callbacks may have been called for some rows before a failure.
/// Rows that are made again pass through the source callback again. Adds to `stats`, on failure too. Collective over
/// setup.comm.
Status ExecuteRows(const RowPipelineSetup& setup, std::span<const RowRun> runs, const SourceFn& source,
                   const TargetFn& target, RowStats& stats);

}  // namespace lzy
