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
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "erasure/codec.h"
#include "geometry/layout.h"
#include "request/report.h"
#include "storage/block_stream.h"

namespace lzy {

/// Which positions of a row are read and which are made.
struct RowPlan {
  std::vector<std::uint32_t> sources;  ///< positions, k of them (fewer never)
  std::vector<std::uint32_t> targets;  ///< positions
  Plan plan;
};

/// Block rows (group, unit_row, first_slice .. first_slice + slices - 1), all worked on with the same plan.
struct RowRun {
  std::uint32_t group = 0;
  std::uint64_t unit_row = 0;
  std::uint32_t first_slice = 0;
  std::uint32_t slices = 1;
  std::shared_ptr<const RowPlan> plan;
};

/// Makes and remembers the plans that a set of rows needs.
class PlanCache {
 public:
  explicit PlanCache(const Layout& layout) : layout_(layout) {}
  Result<std::shared_ptr<const RowPlan>> Encode(std::uint32_t group);
  /// `bad`: devices of the row that cannot be sources; `wanted`: devices to be made (a subset of bad). kBeyondRepair
  /// when more than m are bad.
  Result<std::shared_ptr<const RowPlan>> Rebuild(std::uint32_t group, std::uint64_t unit_row,
                                                 std::span<const std::uint32_t> bad,
                                                 std::span<const std::uint32_t> wanted);

 private:
  Result<const Codec*> CodecFor(std::uint32_t group);
  const Layout& layout_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Codec> codecs_;
  std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::shared_ptr<const RowPlan>> plans_;
};

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

/// Adds a run to those before; as one with the last where it goes on with that.
void AppendRun(std::vector<RowRun>& runs, RowRun run);

/// Rows some rank has got a wrong sum of: number in a list of runs, and slice.
using WrongRows = std::set<std::pair<std::uint64_t, std::uint32_t>>;
/// Times that wrong sums are made again before it is an error.
inline constexpr unsigned kMostExchanges = 4;
/// All ranks' together, as runs to be done again; `mine` are of `runs`. None where some rank has `failed`: its sums are wrong since it
/// brought no right ones. Collective.
Result<std::vector<RowRun>> GatherWrong(Communicator& comm, std::span<const RowRun> runs, const WrongRows& mine, bool failed);
/// For whom it concerns, where there were such.
std::string AgainText(std::uint64_t rows);
/// Exchanges some rows, and says which of the sums that this rank got are wrong. A failure may be one rank's alone.
using ExchangeFn = std::function<Status(std::span<const RowRun> runs, WrongRows& wrong)>;
/// Calls `exchange` with all rows, then with those that some rank got a wrong sum of, until there are none, or too often (kMpi). Adds the
/// rows of the further times to `rows_again`. Collective; a failure of `exchange` is this rank's to be agreed on.
Status UntilProven(Communicator& comm, std::span<const RowRun> runs, std::uint64_t& rows_again, const ExchangeFn& exchange);

/// Executes the runs; collective over setup.comm. Between ranks sums are proven (pipeline/xor_checks.h): wrong ones are made again,
/// from the sources, and never delivered; ones that stay wrong are kMpi. Failures of any rank (reading, callbacks) are agreed on at the end:
/// every rank gets the same Status. Target callbacks may have been called for rows before the failure.
Status ExecuteRows(const RowPipelineSetup& setup, std::span<const RowRun> runs, const SourceFn& source,
                   const TargetFn& target, RowStats& stats);

}  // namespace lzy
