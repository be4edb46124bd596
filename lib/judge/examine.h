#pragma once
// Reading everything that a dataset has, and judging it: what differs, why, and whether parity can repair it
// (docs/design/repair.md §8).
//
// Examine reads and finds (examine.cc). CauseOf, LostBlocks and Describe judge (judge.cc); they read nothing and
// depend on the view and the findings alone, so every rank comes to the same verdict. Verify, protect, repair and heal
// judge by these functions only.
//
// An invariant that all verdicts keep: what matches its hash is right, and what cannot be judged is not called damage.

#include <span>
#include <tuple>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// What differs in one file, before anything is judged. Numbers of blocks are those of its data, or of its parity
/// region.
struct FileFindings {
  std::vector<BadBlocks> data;
  std::vector<BadBlocks> parity;  ///< of the parity region of this file (shared: the only one)
  std::vector<MetadataDamage> metadata;
  std::uint64_t extra_bytes = 0;  ///< the data file is longer than committed
  bool hashes_lost = false;       ///< set: no copy of the sidecar has all hashes, nor can they be proven: it counts as lost
  bool whole_device = false;      ///< set: data and parity of this member are all lost or unprovable
  /// Blocks of the data that are lost here, and that a replica has as they were committed (mend/replica): sorted. Examine
  /// leaves it empty.
  std::vector<Interval> in_replica;
  LZY_FIELDS(data, parity, metadata, extra_bytes, hashes_lost, whole_device, in_replica)
};

/// What was found in all files. Made by Examine from what was read, or by AssumeOnlyMembersLost from metadata. Agreed:
/// the same on every rank.
struct Findings {
  std::vector<std::vector<FileFindings>> files;  ///< [ensemble][file]
  std::uint64_t bytes_read = 0;
  double seconds = 0;
  bool clean() const;
};

/// Reads and hashes everything. Collective; each rank reads its members, or its share of a shared file. `from_disk`:
/// past the page cache. Proves hashes that are lost from the blocks, where their root is known
/// (FileView::proven_data). If a file changed while it was read, `view` has its new size and mtime afterwards, so that
/// differences count as edits. Errors are those of reading; a bad sector is a finding, not an error.
Result<Findings> Examine(const Context& context, DatasetView& view, bool from_disk);

/// Fills in FileView::identity of files that `findings` call different. Examine does that; call it for
/// findings that were made otherwise, before they are judged. Collective.
Status TellOthersContent(const Context& context, DatasetView& view, const Findings& findings);

/// For a shared file that Examine found to be proven by a sidecar which it may use (Identity::has_free_sidecar), or that has
/// none: AdoptByContent, on rank 0. If true, open the dataset anew: it has another sidecar now than `view` has. Collective.
Result<bool> AdoptShared(const Context& context, const DatasetView& view);

/// Which part of a dataset ExaminePortion reads.
struct PortionRequest {
  std::uint64_t first = 0;       ///< unit row of every group to begin with
  std::uint64_t most_bytes = 0;  ///< end after so many bytes of data and parity, of all ranks; 0: at the end
  /// What each rank reads between two questions whether to end. Rows that are not finished do not count.
  std::uint64_t bytes_at_once = 64u << 20;
};

/// As Examine, but only some unit rows of every group, whole ones, so that losses can be judged. Ends early, without an
/// error, if context.stop says so: what was read until then counts. `portion` says which rows these are. Metadata and
/// sizes are looked at as a whole. Everything is read (and kInterrupted is an error) if a file or hashes are missing:
/// hashes can be proven only together.
Result<Findings> ExaminePortion(const Context& context, DatasetView& view, bool from_disk, const PortionRequest& request,
                                Portion& portion);

/// The blocks of unit rows [begin, end) of all groups: of the data of file `f`, or of parity region `f`. Sorted.
std::vector<Interval> BlocksOfRows(const Layout& layout, bool of_parity, std::uint32_t f, Interval rows);

/// How blocks are best read and hashed: threads by option, pieces by option `memory` (bytes) and the machine's tuning.
/// Without progress. Local; ranks may differ, since only the speed depends on it.
CheckSettings SettingsFor(const Context& context, bool from_disk);

/// Whether any of `ranges` has a byte of `bytes`.
bool Meets(const std::vector<ByteRange>& ranges, const ByteRange& bytes);

/// How a difference in `file`, somewhere in `bytes` of its data, is to be judged. The first line of the table in
/// docs/design/repair.md §8 that applies.
DamageCause CauseOf(const FileView& file, BlockFault fault, const ByteRange& bytes);

/// Whether there was a commit, or an epoch began or ended, since this rank opened the files of `view` that it owns: then
/// what was read meanwhile says nothing. `locks_count`: also whether somebody holds a lock now, to commit or to repair.
bool CommittedSince(const Context& context, const DatasetView& view, bool locks_count = false);
/// The same for all ranks, locks included: one rank that saw a commit is enough. Collective.
Result<bool> CommittedMeanwhile(const Context& context, const DatasetView& view);
/// Turns a report on what was read during a commit into one that calls nothing damaged: all that differs is at risk.
void TellCommitUnderWay(DatasetReport& report);

/// One lost block, in the row it belongs to. Ordered by row, then by device, so that neighbours are of one row.
struct LostBlock {
  std::uint32_t group = 0;
  std::uint64_t unit_row = 0;
  std::uint32_t slice = 0;
  std::uint32_t device = 0;
  bool parity = false;
  DamageCause cause = DamageCause::kHash;
  bool unproven = false;  ///< its hash is lost in all copies
  bool unknown = false;   ///< nothing else is wrong with it: it may be right
  bool forsaken = false;  ///< parity of a row that has none (docs/format.md §3): only a commit makes it again
  bool in_replica = false;  ///< FileFindings::in_replica
  friend auto operator<=>(const LostBlock& a, const LostBlock& b) {
    return std::tie(a.unit_row, a.group, a.slice, a.device) <=> std::tie(b.unit_row, b.group, b.slice, b.device);
  }
};
/// All lost blocks of an ensemble (transient ones left out), by row. Edits count as lost, too: the old contents are not
/// there. Local and pure; the same on all ranks.
std::vector<LostBlock> LostBlocks(const Ensemble& ensemble, const std::vector<FileFindings>& findings);

/// How many of the lost blocks of a row parity would have to give back: all that no replica has.
std::size_t CountForParity(std::span<const LostBlock> row);

/// Whether all hashes of a shared file that no copy of its sidecar has are of parity that can be computed from data
/// whose hashes are known; false, too, where none are lost.
bool CanRehash(const Ensemble& ensemble, std::span<const LostBlock> lost);

/// Calls fn(begin, end) for each row's stretch of `lost`, which is sorted (LostBlocks). A row is what parity can or
/// cannot rebuild, so all decisions about losses are made row by row.
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

/// What all findings amount to. Describe counts all of them; after a repair, those that are left count
/// (engine/verify.cc).
struct Assessment {
  bool beyond = false;         ///< something is lost that parity cannot give back
  bool data_damaged = false;
  bool other_damaged = false;  ///< parity or metadata
  bool unjudged = false;       ///< hashes are lost, so something cannot be checked
  bool stale = false;
  bool at_risk = false;
  bool not_visible = false;  ///< members may be on other nodes

  /// Takes one finding into account.
  void Count(DamageCause cause, DamagePart part);
  /// The gravest of these wins; not to see all is graver than to be intact only. If hashes are lost, damage of parity and metadata alone says nothing about the data.
  DatasetState State() const;
};

/// Fills report.damage and report.state from the findings, and the rest of the report from the metadata of the view.
/// Local; the same on all ranks.
void Describe(const DatasetView& view, const Findings& findings, DatasetReport& report);
/// Only the fields that metadata alone tell.
void DescribeMetadata(const DatasetView& view, DatasetReport& report);
/// The part of it that any superblock of the dataset tells.
void TellCommit(const Superblock& sb, DatasetReport& report);
/// Sorts by file, part and offset, and merges neighbouring entries of report.damage that differ in offset only.
void MergeDamage(std::vector<Damage>& damage);

}  // namespace lzy
