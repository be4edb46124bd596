#pragma once
// Encoding rows of a dataset: which rows, running them through the pipeline, and the trees that come out.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "dataset/view.h"
#include "request/touched.h"
#include "rows/rows.h"

namespace lzy {

class Capture;

/// Everything one file brings into and gets out of an encoding.
struct FileJob {
  File* data = nullptr;
  const LeafKey* key = nullptr;  ///< that leaves are made with; null: none
  FileStat before;            ///< as it was when reading began
  std::int64_t clock_ns = 0;  ///< file system clock at that time
  const Tree* old_data =
      nullptr;  ///< committed leaves that untouched blocks must still have; null: nothing to hold them to
  std::set<std::uint64_t> unknown;  ///< leaves of old_data that no copy of the sidecar had
  const Tree* old_parity = nullptr;  ///< leaves of rows that are not encoded again; null: all rows are
  const IntervalSet* touched = nullptr;  ///< null: the whole file
  File* parity_out = nullptr;
  std::uint64_t parity_base = 0;
  bool parity_is_fresh = false;  ///< the parity region reads as zeros where nothing was written
  std::vector<Hash> data_leaves, parity_leaves;
  std::vector<std::uint8_t> data_known, parity_known;  ///< which of them were computed
  /// Blocks that nobody touched and that are not what was committed. They keep their leaves, so that they stay visible as damage,
  /// and are encoded with the right contents where these could be rebuilt from the parity of before.
  std::set<std::uint64_t> rotten;
  std::map<std::uint64_t, std::vector<std::uint8_t>> rebuilt;
  Tree data_tree{TreeKind::kData}, parity_tree{TreeKind::kParity};

  /// Makes room for the leaves of file (and region) `f`.
  void InitLeaves(const Layout& layout, std::uint32_t f);
  /// Builds (or, with old trees, updates) data_tree and parity_tree from the leaves. kInternal if one is missing.
  Status MakeTrees(const Layout& layout, std::uint32_t f);
  /// Takes stat and clock, waiting until the clock has left the tick of the last modification, so that any later one
  /// shows in the mtime (otherwise the stamp would be racy, docs/design.md "Judging a difference"). Bounded: a file from the future is left racy.
  Status Settle();
  /// kBusy when the file is not as it was at Settle.
  Status CheckUnchanged() const;
};

/// Hashes parity blocks of one device that lie back to back, concatenated in `bytes`, and writes them.
Status PutParity(FileJob& job, std::span<const RowBlock> blocks, ByteSpan bytes);

/// Brings the leaves that ranks computed for a file to rank `root`, whose own are kept. Collective; all ranks have room
/// for as many (InitLeaves). A failure may be one rank's alone: to be agreed on by the caller.
Status GatherLeaves(Communicator& comm, int root, FileJob& job);
/// The same of leaves that are not a job's: `known` says which were computed.
struct ComputedLeaves {
  std::vector<Hash>& leaves;
  std::vector<std::uint8_t>& known;
};
Status GatherLeaves(Communicator& comm, int root, const ComputedLeaves& data, const ComputedLeaves& parity);

/// The rows to be encoded: all of them, or (`all` false) those that blocks touched in any file belong to.
/// `touched`: by file of the layout; null entries are untouched.
Result<std::vector<RowRun>> RowsToEncode(const Layout& layout, PlanCache& plans,
                                         const std::vector<const IntervalSet*>& touched, bool all);

/// For RowPipelineSetup::progress: tells `context` how much of the sources of `runs`, shared by `ranks`, has been read so
/// far. Null where nobody wants to know.
std::function<void(std::uint64_t)> ProgressOver(const Context& context, const char* phase, const Layout& layout,
                                                std::span<const RowRun> runs, int ranks);

/// Runs encodings and adds up what they cost and found.
class EncodePass {
 public:
  explicit EncodePass(const Context& context) : context_(context) {}

  /// Collective over `comm`. `jobs`: by file, null for files of other owners. `owner`: by device, rank in `comm`.
  Status Run(const Layout& layout, Communicator& comm, std::vector<int> owner, const std::vector<FileJob*>& jobs,
             std::span<const RowRun> runs);

  /// Reads these blocks of a shared file, holds them to their leaves as Run does, and adds them to what `capture` has of
  /// their rows.
  Status ReadInto(Capture& capture, FileJob& job, std::uint32_t block_size, std::span<const BlockPlace> blocks);

  /// What was encoded otherwise than by Run.
  void Add(const RowStats& stats) { stats_ += stats; }
  const RowStats& stats() const { return stats_; }
  std::uint64_t bytes_encoded() const { return encoded_ + stats_.bytes_captured; }

 private:
  Status TakeSource(FileJob& job, const BlockPlace& place, MutableByteSpan bytes);

  const Context& context_;
  RowStats stats_;
  std::atomic<std::uint64_t> encoded_{0};
  std::mutex mutex_;
};

}  // namespace lzy
