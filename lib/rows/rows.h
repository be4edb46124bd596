#pragma once
// The one pipeline behind encoding, repair and restore: for a list of runs of block rows, sources are read where they
// are, multiplied by their coefficients, combined over the ranks with Reduce_scatter, and the targets arrive where they
// belong.
//
// Encoding is the run whose sources are the data positions and whose targets are the parity positions; rebuilding picks
// any k good positions as sources. This is the collective of Gropp, Ross, Miller (§3) generalised to Reed-Solomon and
// to any mix of lost blocks.

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

/// Seconds and bytes of the pipeline on this rank.
struct RowStats {
  double read = 0, hash = 0, encode = 0, exchange = 0, write = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_captured = 0;  ///< not read, since they were captured while they were written
  std::uint64_t rows_again = 0;      ///< added up again, since some rank had got a wrong sum; the same on all ranks

  RowStats& operator+=(const RowStats& other);
};

struct RowPipelineSetup {
  const Layout* layout = nullptr;
  Communicator* comm = nullptr;            ///< ranks that take part; all must call Execute with the same runs
  std::vector<int> owner;                  ///< by device: rank in `comm` that reads and writes it
  std::vector<const BlockStream*> data;    ///< by file; null where not owned here
  std::vector<const BlockStream*> parity;  ///< by region; null where not owned here
  std::uint64_t memory = 256u << 20;
  unsigned threads = 1;
  /// Whether sums among ranks are proven. Off only in simulations, whose payloads are not there.
  bool prove = true;
  std::function<bool()> stop;
  std::function<void(std::uint64_t bytes)> progress;
};

/// One block on its way through the pipeline.
struct RowBlock {
  std::uint32_t device = 0;
  bool parity = false;
  BlockPlace place;
};

/// Called for every source block with its bytes (not zero-padded), which it may change: what it leaves is what counts.
/// Thread-safe; a failure is remembered.
using SourceFn = std::function<Status(const RowBlock&, MutableByteSpan)>;
/// Called for every run of target blocks of one device that lie back to back: blocks[i].place.length bytes each,
/// concatenated in `bytes`. Thread-safe.
using TargetFn = std::function<Status(std::span<const RowBlock> blocks, ByteSpan bytes)>;

/// Reads all of `bytes`; kIo where the file ends before, since something else must have cut it.
Status ReadWhole(File& file, std::uint64_t offset, MutableByteSpan bytes);

/// Executes the runs; collective over setup.comm. Between ranks sums are proven (rows/xor_checks.h): wrong ones are made again,
/// from the sources, and never delivered; ones that stay wrong are kMpi. Failures of any rank (reading, callbacks) are agreed on at the end:
/// every rank gets the same Status. Target callbacks may have been called for rows before the failure.
Status ExecuteRows(const RowPipelineSetup& setup, std::span<const RowRun> runs, const SourceFn& source,
                   const TargetFn& target, RowStats& stats);

}  // namespace lzy
