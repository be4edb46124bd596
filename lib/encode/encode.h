#pragma once
// Makes leaves and parity of a dataset by reading its rows: chooses the rows, runs them through the pipeline, and makes the
// trees (docs/design/commit.md §5, steps 3 to 7).
//
// commit/ fills one FileJob for each file, gets the rows from RowsToEncode, runs an EncodePass over them, and gathers the
// leaves at the owner of the sidecar (GatherLeaves), which makes the trees (MakeTrees). Captured rows are handled in
// encode/encode_captured.h. A member of a set has one job, at its owner. For a shared file, every rank has a job and
// computes a part of the leaves.
//
// Invariant: a block that nobody touched keeps its committed leaf, whatever is read from it (TakeSource). So rot never
// gets a fresh hash.

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "dataset/view.h"
#include "encode/leaves.h"
#include "encode/written_bytes.h"
#include "request/touched.h"
#include "rows/rows.h"

namespace lzy {

class Capture;

/// The inputs and results of encoding one file. Owns no files: everything that the pointers refer to must outlive the job.
/// During EncodePass::Run, several threads write leaves, each of other blocks.
struct FileJob {
  File* data = nullptr;
  /// The key that makes the leaves of a sealed dataset (docs/format.md §12), or null.
  const LeafKey* key = nullptr;
  /// The file was synced after its last write (BlockStream::synced).
  bool synced = false;
  /// The stamp of the file when reading began, and the clock of the file system just before, both set by Settle. The mode
  /// is RecordedMode.
  FileStat before;
  std::int64_t clock_ns = 0;
  /// The committed leaves, which untouched blocks must still have. Null: there are none to compare with.
  const Tree* old_data = nullptr;
  /// Leaves of old_data that no copy of the sidecar has. Their blocks are not compared.
  std::set<std::uint64_t> unknown;
  /// The committed parity leaves, for rows that are not encoded again. Null: all rows are encoded.
  const Tree* old_parity = nullptr;
  /// Bytes of the file that the epoch may have changed. Null: all of them.
  const IntervalSet* touched = nullptr;
  /// Copies of blocks (Capture::Held), which need not be read. Null: all blocks are read.
  const Capture* copies = nullptr;
  /// The file for parity, and the offset of the parity region in it (bytes).
  File* parity_out = nullptr;
  std::uint64_t parity_base = 0;
  /// The parity region reads as zeros where nothing was written, so zeros need not be written.
  bool parity_is_fresh = false;
  /// Makes scratch files if the hashes do not fit in memory.
  ScratchMaker scratch;
  /// The new leaves. GatherLeaves collects those of all ranks.
  Leaves data_leaves, parity_leaves;
  /// Untouched blocks that differ from their leaves. They keep their leaves, so they remain visible as damage. `rebuilt`
  /// has the right contents of those that the old parity could rebuild (RebuildRot); their rows are encoded with these
  /// contents.
  std::set<std::uint64_t> rotten;
  std::map<std::uint64_t, std::vector<std::uint8_t>> rebuilt;
  /// The results of MakeTrees.
  Tree data_tree{TreeKind::kData}, parity_tree{TreeKind::kParity};
  /// Parts of the file as ranks wrote them (ShareParts). Blocks that are read are compared with them. Null: with nothing.
  const std::vector<WrittenPart>* written = nullptr;
  /// Blocks that differ from `written`, also if they are read past the page cache.
  std::set<std::uint64_t> differing;

  /// Prepares for the leaves of file (and region) `f` of the layout; no leaf is known yet. Set `scratch` before.
  void InitLeaves(const Layout& layout, std::uint32_t f);
  /// Builds data_tree and parity_tree from the leaves. If old_parity is set, unknown leaves are those of the old trees.
  /// kInternal if a leaf is missing. Local, for the rank that has all leaves.
  Status MakeTrees(const Layout& layout, std::uint32_t f);
  /// Sets `before` and `clock_ns`. Call it before the data are read. Waits until the clock of the file system has left the
  /// tick of the last modification, so that a later modification changes the mtime. Otherwise the stamp is racy
  /// (docs/design/repair.md §8). Does not wait for a clock of whole seconds, nor for an mtime in the future: these stamps
  /// stay racy. `beside`: a file on that file system, for FileSystemClock; null: none, so the stamp is racy. `past_cache`:
  /// as in FileSystemClock. Local.
  Status Settle(File* beside, bool past_cache = false);
  /// Returns kBusy if size or mtime of the file differ from those that Settle found: something writes to the file, so
  /// leaves and parity may not fit its contents. Local.
  Status CheckUnchanged() const;
};

/// The status kBusy for a file that changed while it was read.
Status ChangedMeanwhile(const std::string& path);

/// Hashes consecutive parity blocks of one device, and writes them by one call. `bytes` has the blocks, one after the
/// other. Sets their leaves in `job`. Threads may put different blocks at once. `blocks` is not empty.
Status PutParity(FileJob& job, std::span<const RowBlock> blocks, ByteSpan bytes);

/// The rows to encode among the unit rows `stretch`, in the order of unit rows. If `all`, these are all rows that have
/// data. Otherwise they are the rows with touched blocks of any file. `touched`: by file of the layout. A null entry is an
/// untouched file. An entry that is whole() has no ranges, so it needs `all`. Local; the same arguments give the same rows
/// on all ranks.
Result<std::vector<RowRun>> RowsToEncode(const Layout& layout, PlanCache& plans,
                                         const std::vector<const IntervalSet*>& touched, bool all,
                                         Interval stretch = {0, kEverythingBehind});

/// Calls encode(stretch) for consecutive stretches of unit rows until all unit rows were covered, so that lists of rows
/// stay small. Almost all files need one call. Stops at the first failure, so all ranks must get the same status.
template <class Encode>
Status InStretches(const Layout& layout, const Encode& encode) {
  constexpr std::uint64_t kUnitRows = std::uint64_t{1} << 16;  // 448 GiB with 7 units of a MiB in each
  const std::uint64_t rows = layout.most_unit_rows();
  for (std::uint64_t first = 0; first == 0 || first < rows; first += kUnitRows) {
    LZY_RETURN_IF_ERROR(encode(Interval{first, first + kUnitRows}));
  }
  return Status::Ok();
}

/// A setup for ExecuteRows with everything except the streams. Reports progress to `context` under the name `phase`: how
/// much of the sources of `runs` was read. `context`, `layout` and `comm` must outlive it.
RowPipelineSetup SetupOf(const Context& context, const char* phase, const Layout& layout, Communicator& comm,
                         std::vector<int> owner, std::span<const RowRun> runs);

/// Runs encodings, and adds up their costs. A commit has one pass, which may run several times: for each group, and again
/// if it finds rot.
class EncodePass {
 public:
  explicit EncodePass(const Context& context) : context_(context) {}

  /// Reads the data of `runs`, and writes the parity. Sets the leaves that this rank computed in the jobs. `jobs`: by
  /// file; null for files that other ranks own. `owner`: by device, the rank in `comm` that reads and writes it.
  /// Collective over `comm`; all ranks get the same Status. If it fails, some parity may have been written. It counts
  /// only with the commit.
  Status Run(const Layout& layout, Communicator& comm, std::vector<int> owner, const std::vector<FileJob*>& jobs,
             std::span<const RowRun> runs);

  /// Sets how many bytes of data this rank will read in all runs together, for progress. Otherwise each run reports its own
  /// progress.
  void Expect(std::uint64_t bytes) { expected_ = bytes; }

  /// Reads these blocks of a shared file, compares them with their leaves as Run does, and adds them to the sums that
  /// `capture` has for their rows (SortedRows::gaps). Local; uses threads.
  Status ReadInto(Capture& capture, FileJob& job, std::uint32_t block_size, std::span<const BlockPlace> blocks);

  /// Adds the costs of rows encoded without Run (encode/encode_captured.h).
  void Add(const RowStats& stats) { stats_ += stats; }
  const RowStats& stats() const { return stats_; }
  /// Bytes of data whose leaves were made: read or captured.
  std::uint64_t bytes_encoded() const { return encoded_ + stats_.bytes_captured; }

 private:
  /// If the block differs from FileJob::written, reads it once more past the page cache. Notes the block if it still differs.
  void CompareWithWritten(FileJob& job, const BlockPlace& place, MutableByteSpan bytes);
  /// Makes the leaf of a data block. If nobody touched the block, compares it with its committed leaf, and may replace the
  /// bytes by right ones. Thread-safe for different blocks.
  Status TakeSource(FileJob& job, const BlockPlace& place, MutableByteSpan bytes);

  const Context& context_;
  RowStats stats_;
  std::atomic<std::uint64_t> encoded_{0};
  std::uint64_t expected_ = 0;
  std::mutex mutex_;  // for FileJob::rotten, rebuilt and differing
};

}  // namespace lzy
