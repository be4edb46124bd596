#pragma once
// Carries out a repair. Only repair.cc and repair_finish.cc use this header.
//
// Each ensemble gets two passes. The first one rebuilds what is lost, in place or under a temporary name (repair.cc). The
// second one checks each new file as a whole, and gives it its times and its name (repair_finish.cc). No file gets its name
// before all files are right.
//
// All ranks make the same collective calls in the same order, whatever fails on one of them: ranks agree on a failure at the
// end of each step. A file has one writer (Writer()): the rank that owns it, or rank 0 for a shared file. Other ranks may
// write blocks into it, but only the writer creates, renames and removes files.

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "repair/repair.h"
#include "repair/repair_guests.h"
#include "repair/repair_plan.h"
#include "storage/parallel.h"

namespace lzy {

/// Sorts ranges, and joins neighbouring and overlapping ones.
std::vector<ByteRange> Merged(const std::vector<ByteRange>& ranges);

/// What one rank has open of a file that is repaired. The writer makes temporary files; the other ranks of a shared file
/// open them by name.
struct FileRepair {
  const FilePlan* plan = nullptr;
  std::string target;  // final path of the file, without symbolic links
  ScratchMaker scratch;
  std::unique_ptr<File> new_data;
  std::unique_ptr<Sidecar> new_sidecar;
  std::string differs;      // the sidecar of another name of the file, which needs other content (SidecarThatDiffers)
  bool of_another = false;  // a sidecar of another dataset proves the present content of the file: it came here by a rename
  bool sets_aside = false;  // another sidecar has the name of the new sidecar, and gets a temporary name
  std::unique_ptr<File> own_handle;  // shared file: this rank's handle for writing parity
  RepairOutputs own;  // the outputs, if this rank has the file open itself
  RepairOutputs* out = &own;
  std::vector<std::vector<RowBlock>> written;  // runs of consecutive blocks that this rank wrote, to be read back
};

/// Copies `range` to the same place of `to`. Bytes that cannot be read (kUnreadable) are left out: pieces are tried first,
/// then single sectors. Returns any other error.
Status CopyReadable(File& from, const ByteRange& range, File& to);

/// One call of Repair. Run is collective.
class Repairer {
 public:
  Repairer(const Context& context, DatasetView& view, const Findings& findings, const RepairRequest& request,
           DatasetReport& report)
      : context_(context), comm_(context.comm), view_(view), findings_(findings), request_(request), report_(report) {}

  Status Run();

 private:
  Status Plan();
  // A shared file is one ensemble, in which all ranks work on all devices. A set has an ensemble for each group, and a rank
  // works on the members that it owns.
  bool shared() const { return view_.ref.kind == DatasetKind::kShared; }
  bool Mine(const FileView& file) const { return shared() || file.owner == comm_.rank(); }
  bool Writer(const FileView& file) const { return shared() ? comm_.rank() == 0 : file.owner == comm_.rank(); }

  // Calls work(ensemble) for each ensemble in which this rank takes part. Continues after a failure, because the ranks of
  // the other ensembles wait for this one.
  template <class Work>
  Status InEachEnsemble(const Work& work) {
    Status status;
    for (std::size_t e = 0; e < view_.ensembles.size(); ++e) {
      const Ensemble& ensemble = view_.ensembles[e];
      const bool part = std::ranges::any_of(ensemble.files, [&](const FileView& file) { return Mine(file); });
      if (!part && view_.ensembles.size() > 1) continue;
      const Status one = work(e);
      if (status.ok()) status = one;
    }
    return Agree(comm_, status);
  }

  // The ranks of a group; all of them for a shared file.
  Communicator& CommOf(const Ensemble& ensemble) { return ensemble.group_comm ? *ensemble.group_comm : comm_; }

  // Calls work(file) for each file of the ensemble, without communication, and agrees on the result.
  template <class Work>
  Status ForEachFile(const Ensemble& ensemble, const Work& work) {
    return AgreeOn(CommOf(ensemble), [&] {
      for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) LZY_RETURN_IF_ERROR(work(f));
      return Status::Ok();
    });
  }

  // The two passes for ensemble `e`. `only_in_place`: after a failure elsewhere, no file gets a new name.
  Status OpenEnsemble(std::size_t e);
  Status RebuildEnsemble(std::size_t e);

  Status FinishEnsemble(std::size_t e, bool only_in_place);

  // True if an epoch of the file is open or was interrupted.
  bool InEpoch(const FileView& file) const;

  // Returns kBusy if the file is not as it was when it was examined.
  Status CheckUnchanged(const FileView& file, const FileRepair& repair) const;

  // True if what a repair overwrites must be kept: the file is not the committed one with plain rot. Its stamp shows that (inode, and
  // birth if it is known); Examine, what other sidecars say; and the plan, whether an edit is undone.
  bool MustKeep(const FileView& file, const FileRepair& repair) const;
  // The name under which a replaced file is kept, and the reason for the message.
  struct Kept {
    std::string name, why;
  };
  bool IsOfAnotherDataset(const FileView& file) const;
  Kept KeptOf(const FileView& file, const FileRepair& repair) const;
  Result<std::optional<Kept>> WhyToKeep(const FileView& file, const FileRepair& repair) const;
  Status Keep(const Kept& kept, const FileView& file, const FileRepair& repair, std::vector<std::string>& warnings) const;

  /// Fills in FileRepair::differs and of_another, from the sidecars of other files and datasets. Collective.
  Status AskOtherSidecars(Ensemble& ensemble, std::size_t e);
  /// True if blocks must be written into a copy of the file (MakeOwn), because the present content must be kept under another
  /// name (MustKeep), or because a sidecar of another name of the file was committed with other content than the repair writes
  /// (FileRepair::differs). The same on all ranks of a shared file.
  bool NeedsOwn(const FileView& file, const FileRepair& repair) const;
  /// Gives the name of the file to a copy of it. The original stays under its other names, or is kept under a new name.
  Status MakeOwn(FileView& file, FileRepair& repair);
  Status MakeCopy(const FileView& file, const std::string& temporary);
  static Status TakeOverAccess(File& from, File& to);

  // Opens the outputs, and sets the intent of a repair if blocks change in place.
  Status OpenOutputs(Ensemble& ensemble, std::size_t e, std::uint32_t f);
  /// Makes the directory of a file that will be made again. kIo if something else has its name.
  Status MakeWayFor(const FileView& file);
  /// Opens the output of the data: a temporary file of the right size, or the existing file.
  Status OpenDataOutput(FileView& file, FileRepair& repair, std::uint64_t size);
  /// True if a sidecar of another dataset has the name of the new sidecar. That sidecar will be set aside. An error if it
  /// proves the present content of the file.
  Result<bool> HasForeignOccupant(const FileView& file, const FileRepair& repair) const;
  Status OpenParityOutput(Ensemble& ensemble, std::uint32_t f, FileRepair& repair);

  // The paths of the parts that can be repaired, by device; empty for the others.
  static std::vector<std::string> PartsToRepair(const FileView& file);

  // Returns `contents` with the present directories of the parts.
  static SidecarContents Moved(const FileView& file, SidecarContents contents);

  // Records in `contents` that the file with its present name owns the parts, if it does. Otherwise a copy could later be
  // taken for the owner.
  void NoteHome(const FileView& file, const FileRepair& repair, SidecarContents& contents) const;

  /// Warns why parts of the parity were not repaired.
  void WarnOfParts();

  Status OpenItsParts(const FileView& file, FileRepair& repair);

  // Opens on all ranks the files that rank 0 has created, because all ranks write blocks of a shared file.
  Status OpenSharedOutputs(Ensemble& ensemble, std::size_t e);

  /// Rebuilds the rows of the plan. If all ranks can open all members, each rank rebuilds rows of its own (RepairGuests). If
  /// not, all ranks take part in each row.
  Status ExecutePlan(Ensemble& ensemble, std::size_t e, Communicator& comm, RepairGuests& guests);

  /// Copies blocks from the replica, for the ensembles whose `opened` is ok, and fills in copied_. Call it before rows are
  /// rebuilt, because these blocks may be sources of rows.
  void CopyFromReplica(const std::vector<Status>& opened);
  /// Tells the new files of an ensemble that all threads of `ranks` ranks will write to them.
  void ExpectWriters(const Ensemble& ensemble, std::size_t e, int ranks);
  /// Copies this rank's part. `caller` reads replicas on other nodes; null if there are none.
  Status CopyPart(std::size_t e, Caller* caller);
  Status CopyBlock(FileRepair& repair, File& replica, const BlockStream& expected, const RowBlock& block, AlignedBuffer& buffer);

  // Sends the leaves that ranks computed of other ranks' files to the owners.
  Status GatherComputed(Ensemble& ensemble, std::size_t e, Communicator& comm);

  /// The leaf of `bytes` at the place of `block`.
  Hash LeafOfBlock(const RowBlock& block, ByteSpan bytes) const;

  /// Compares consecutive blocks with their leaves, then writes them. Thread-safe.
  Status WriteBlocks(FileRepair& repair, std::span<const RowBlock> blocks, ByteSpan bytes);

  // Reads written blocks back past the page cache and compares them with their leaves.
  Status VerifyWritten(FileRepair& repair, const FileView& file);

  Status VerifyRun(const RepairOutput& out, const std::vector<RowBlock>& blocks, const FileView& file, AlignedBuffer& buffer) const;

  // Contents of a sidecar that is made again, as the other members record them. Finish fills in the hashes.
  SidecarContents FreshContents(const Ensemble& ensemble, std::uint32_t f) const;
  /// The commit clock of a sidecar that is made again, for a file with this mtime.
  std::int64_t ClockOfRestored(const FileView& file, const FileRepair& repair, std::int64_t mtime_ns) const;

  // Checks the new file as a whole, and gives it its times and its name.
  Status Finish(Ensemble& ensemble, std::size_t e, std::uint32_t f);

  /// The contents of the sidecar after the repair: those of before, with the trees that were rebuilt.
  SidecarContents CommittedContents(const Ensemble& ensemble, std::size_t e, std::uint32_t f);

  void WarnOfOwners();
  /// Collective.
  Status ShareWarnings();

  // Sets size, access and times as committed. Returns the stat of the file afterwards.
  Result<FileStat> FinishData(Ensemble& ensemble, FileRepair& repair, std::uint32_t f, const MemberRecord& record);

  // Gives the new files their names. The sidecar is complete before its file gets its name. During a salvage, a file may get
  // its name without a sidecar.
  Status PutInPlace(FileView& file, FileRepair& repair, const SidecarContents& contents);

  // Ends the intent of the repair. Intents of an interrupted epoch stay: their ranges are still at risk, unless force took
  // them back.
  Status EndRepairIntent(FileView& file, const FilePlan& plan) const;

  /// Removes this rank's temporary files after a failure.
  void RemoveTemporaries();

  const Context& context_;
  Communicator& comm_;
  DatasetView& view_;
  const Findings& findings_;
  const RepairRequest& request_;
  DatasetReport& report_;
  RepairPlan plan_;
  std::vector<std::string> made_parts_;  // parts that this rank created
  std::vector<std::string> warnings_;  // of this rank, about files that it wrote
  std::vector<std::vector<FileRepair>> repairs_;  // by ensemble and file
  std::vector<Status> copied_;  // by ensemble: the result of CopyFromReplica on this rank
  RowStats stats_;
  std::mutex mutex_;  // guards `written` of all files
};

}  // namespace lzy
