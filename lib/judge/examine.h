#pragma once
// Reads a whole dataset and judges it: what differs, why, and whether parity can repair it (docs/design/repair.md §8).
//
// Examine reads and finds (examine.cc). CauseOf, LostBlocks and Describe judge (judge.cc). They read nothing and depend only
// on the view and the findings, so every rank gets the same verdict. Verify, protect, repair and heal judge only by these
// functions.
//
// Invariant of all verdicts: a block that has its hash is right, and a block that cannot be judged is not called damaged.

#include <span>
#include <tuple>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// The differences in one file, not yet judged. Block numbers are those of its data, or of its parity region.
struct FileFindings {
  std::vector<BadBlocks> data;
  std::vector<BadBlocks> parity;  ///< in the parity region of this file (shared file: the only one)
  std::vector<MetadataDamage> metadata;
  std::uint64_t extra_bytes = 0;  ///< bytes behind the committed end of the data file
  bool hashes_lost = false;       ///< member: its sidecar counts as lost, because hashes are lost in all copies and cannot be proven
  bool whole_device = false;      ///< member: all of its data and parity are lost or cannot be proven
  /// Lost blocks of the data that a replica has as they were committed; sorted. FindInReplica (repair/replica) sets it, not
  /// Examine.
  std::vector<Interval> in_replica;
  LZY_FIELDS(data, parity, metadata, extra_bytes, hashes_lost, whole_device, in_replica)
};

/// True if `unlike` of `total` pieces of a file differ, which are so many that it may be another version of the file with the same
/// mtime. Rot hits few of them, unless the file is small.
inline bool MayBeVersion(std::uint64_t unlike, std::uint64_t total) { return 8 * unlike >= total; }

/// The findings in all files; the same on every rank. Made by Examine from what it read, or by AssumeOnlyMembersLost from
/// metadata.
struct Findings {
  std::vector<std::vector<FileFindings>> files;  ///< [ensemble][file]
  std::uint64_t bytes_read = 0;
  double seconds = 0;
  bool clean() const;
};

/// Reads and hashes everything. Each rank reads its members, or its share of a shared file. `from_disk`: reads past the page
/// cache. If hashes are lost, proves them from the blocks if their root is known (FileView::proven_data). If a file changed
/// while it was read, sets its new size and mtime in `view`, so that differences count as edits. A bad sector is a finding;
/// other read errors are errors. Collective.
Result<Findings> Examine(const Context& context, DatasetView& view, bool from_disk);

/// Sets FileView::identity of files that differ by `findings`. Examine calls it; call it before you judge findings from
/// elsewhere. Collective.
Status FillIdentities(const Context& context, DatasetView& view, const Findings& findings);

/// Calls AdoptByContent on rank 0. Use it for a shared file that has no sidecar, or whose content is proven by a sidecar
/// that it may use (Identity::has_free_sidecar). If it returns true, open the dataset again: it now has another sidecar than
/// `view`. Collective.
Result<bool> AdoptShared(const Context& context, const DatasetView& view);

/// The part of a dataset that ExaminePortion reads.
struct PortionRequest {
  std::uint64_t first = 0;       ///< first unit row, in every group
  std::uint64_t most_bytes = 0;  ///< stop after so many bytes of data and parity on all ranks together; 0: read to the end
  /// Bytes that each rank reads before the ranks ask again whether to stop. Unfinished rows do not count.
  std::uint64_t bytes_at_once = 64u << 20;
};

/// Like Examine, but reads only some unit rows, in all groups, so that losses can be judged. If context.stop returns true,
/// ends early without an error. `portion` gets the rows that were read. Metadata and sizes are always examined completely.
/// If a file or hashes are missing, reads the whole dataset, because hashes can be proven only together; then an
/// interruption is an error (kInterrupted). Collective.
Result<Findings> ExaminePortion(const Context& context, DatasetView& view, bool from_disk, const PortionRequest& request,
                                Portion& portion);

/// The blocks of unit rows [rows.begin, rows.end) of all groups: those of data file `f`, or of parity region `f`. Sorted.
std::vector<Interval> BlocksOfRows(const Layout& layout, bool of_parity, std::uint32_t f, Interval rows);

/// Settings for reading and hashing: threads from the option, buffers from option `memory` and the tuning of the machine. No
/// progress function. Local; ranks may differ, because only the speed depends on it.
CheckSettings SettingsFor(const Context& context, bool from_disk);

/// True if any of `ranges` overlaps `bytes`.
bool Meets(const std::vector<ByteRange>& ranges, const ByteRange& bytes);

/// True if the file has the committed mtime, cut to whole seconds, and is another one by inode or birth: a tool that keeps whole
/// seconds, such as tar, put it back. An edit has this mtime only if it came within the second of the commit. `size`: the committed one.
bool WasPutBackInSeconds(const FileView& file, std::uint64_t size);

/// Judges a difference in `bytes` of the data of `file`: the first line of the table in docs/design/repair.md §8 that
/// applies.
DamageCause CauseOf(const FileView& file, BlockFault fault, const ByteRange& bytes);

/// True if a commit happened, or an epoch began or ended, since this rank opened the files that it owns. Then what was read
/// meanwhile cannot be judged. `locks_count`: also true if another process holds a lock now. Local.
bool CommittedSince(const Context& context, const DatasetView& view, bool locks_count = false);
/// True if CommittedSince is true on any rank; locks count. Collective.
Result<bool> CommittedMeanwhile(const Context& context, const DatasetView& view);
/// Changes a report about data that were read during a commit: all differences are at risk, none is damage.
void ReportCommitUnderWay(DatasetReport& report);

/// A lost block and its row. Sorted by row, then by device.
struct LostBlock {
  std::uint32_t group = 0;
  std::uint64_t unit_row = 0;
  std::uint32_t slice = 0;
  std::uint32_t device = 0;
  bool parity = false;
  DamageCause cause = DamageCause::kHash;
  bool unproven = false;  ///< its hash is lost in all copies of the sidecar
  bool unknown = false;   ///< only its hash is lost, so it may be right
  bool forsaken = false;  ///< parity of a row that has none (docs/format.md §3); only a commit makes it
  bool in_replica = false;  ///< a replica has it (FileFindings::in_replica)
  friend auto operator<=>(const LostBlock& a, const LostBlock& b) {
    return std::tie(a.unit_row, a.group, a.slice, a.device) <=> std::tie(b.unit_row, b.group, b.slice, b.device);
  }
};
/// All lost blocks of an ensemble except transient ones, sorted by row. Edits count as lost, too, because the old content is
/// gone. Local, no I/O; the same on all ranks.
std::vector<LostBlock> LostBlocks(const Ensemble& ensemble, const std::vector<FileFindings>& findings);

/// How many lost blocks of the row parity must rebuild: those that no replica has. Blocks that may be on other nodes do not
/// count.
std::size_t CountForParity(std::span<const LostBlock> row);

/// True if hashes of a shared file are lost in all copies of its sidecar, and all of them are hashes of parity that can be
/// computed from proven data.
bool CanRehash(const Ensemble& ensemble, std::span<const LostBlock> lost);

/// Calls fn(begin, end) for the blocks [begin, end) of each row in `lost`, which is sorted (LostBlocks). All decisions about
/// losses are made row by row.
template <class Fn>
void ForEachRow(std::span<const LostBlock> lost, const Fn& fn) {
  for (std::size_t i = 0; i < lost.size();) {
    std::size_t end = i + 1;
    while (end < lost.size() && lost[end].unit_row == lost[i].unit_row && lost[end].group == lost[i].group &&
           lost[end].slice == lost[i].slice) {
      ++end;
    }
    fn(i, end);
    i = end;
  }
}

/// The result of all findings. Describe counts all findings; after a repair, those that are left count (engine/verify.cc).
struct Assessment {
  bool beyond = false;         ///< something is lost that parity cannot rebuild
  bool data_damaged = false;
  bool other_damaged = false;  ///< parity or metadata
  bool unjudged = false;       ///< hashes are lost, so something cannot be checked
  bool stale = false;
  bool at_risk = false;
  bool not_visible = false;  ///< members may be on other nodes

  /// Counts one finding.
  void Count(DamageCause cause, DamagePart part);
  /// The gravest state wins. If members are not visible, the dataset is not intact. If hashes are lost, damage of parity and
  /// metadata alone says nothing about the data.
  DatasetState State() const;
};

/// Fills in the report from findings and metadata. Local; the same on all ranks. Call it once for each report.
void Describe(const DatasetView& view, const Findings& findings, DatasetReport& report);
/// Fills in the fields that follow from metadata.
void DescribeMetadata(const DatasetView& view, DatasetReport& report);
/// Fills in the fields that follow from a superblock.
void FillCommit(const Superblock& sb, DatasetReport& report);
/// Sorts by file, part and offset, and joins neighbouring entries that differ only in their offset.
void MergeDamage(std::vector<Damage>& damage);

}  // namespace lzy
