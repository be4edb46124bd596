#pragma once
// A repair being carried out; for mend.cc and mend_finish.cc only.
//
// There are two passes over each ensemble. The first one rebuilds what is lost, in place or aside (mend.cc). The second
// one checks what was built as a whole, and gives it its times and its name (mend_finish.cc). Nothing gets its name
// before all of it is right.
//
// All ranks make the same collective calls in the same order, whatever fails on one of them: a failure is agreed on at
// the end of each step. A file has one writer (Writer()), the rank that owns it, or rank 0 for a shared file. Other
// ranks may write blocks into it, but only the writer makes, renames and removes files.

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mend/mend.h"
#include "mend/mend_guests.h"
#include "mend/mend_plan.h"
#include "storage/parallel.h"

namespace lzy {

/// Neighbouring ranges as one, in order.
std::vector<ByteRange> Merged(const std::vector<ByteRange>& ranges);

/// What one rank has open of a file that is mended. Temporaries are made by the writer, and opened by name by the other
/// ranks of a shared file.
struct FileMend {
  const FilePlan* plan = nullptr;
  std::string target;  // where the file is to be, symbolic links resolved
  ScratchMaker scratch;
  std::unique_ptr<File> new_data;
  std::unique_ptr<Sidecar> new_sidecar;
  bool sets_aside = false;  // the sidecar that has the name of the new one
  std::unique_ptr<File> own_handle;  // shared file: this rank's handle for writing parity
  MendOutputs own;  // where this rank has the file open itself
  MendOutputs* out = &own;
  std::vector<std::vector<RowBlock>> written;  // by this rank, to be read again: blocks that lie back to back
};

/// Copies these bytes to the same place of another file, as far as they can be read: by pieces, and around a bad sector by sectors. Where
/// that fails with kUnreadable, nothing is written. Other errors end it.
Status CopyReadable(File& from, const ByteRange& range, File& to);

/// Collective: all of it, in the order of Run().
class Mender {
 public:
  Mender(const Context& context, DatasetView& view, const Findings& findings, const MendRequest& request,
         DatasetReport& report)
      : context_(context), comm_(context.comm), view_(view), findings_(findings), request_(request), report_(report) {}

  Status Run();

 private:
  Status Plan();
  // There are two cases. A shared file is one ensemble, in which all ranks work on all devices. A set has an ensemble
  // for each group, and a rank works on the members that it owns.
  bool shared() const { return view_.ref.kind == DatasetKind::kShared; }
  bool Mine(const FileView& file) const { return shared() || file.owner == comm_.rank(); }
  bool Writer(const FileView& file) const { return shared() ? comm_.rank() == 0 : file.owner == comm_.rank(); }

  // Those that this rank has a part in; every one, whatever became of the others: their ranks are waiting for this one.
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

  // Calls work(file of the ensemble) for each file, without communication, and agrees on how it went.
  template <class Work>
  Status ForEachFile(const Ensemble& ensemble, const Work& work) {
    return AgreeOn(CommOf(ensemble), [&] {
      for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) LZY_RETURN_IF_ERROR(work(f));
      return Status::Ok();
    });
  }

  // The two passes, for the ensemble `e`. `only_in_place`: something failed elsewhere, so nothing gets a new name.
  Status OpenEnsemble(std::size_t e);
  Status RebuildEnsemble(std::size_t e);

  Status FinishEnsemble(std::size_t e, bool only_in_place);

  // An epoch that broke off, or goes on just now.
  bool InEpoch(const FileView& file) const;

  // What was planned holds for the file as it was looked at.
  Status CheckUnchanged(const FileView& file, const FileMend& mend) const;

  // Of a file that is replaced but not lost: the name that it gets, and why, as a message says it.
  struct Kept {
    std::string name, why;
  };
  static Kept KeptOf(const FileView& file, const FileMend& mend);
  Result<std::optional<Kept>> WhyToKeep(const FileView& file, const FileMend& mend) const;
  Status Keep(const Kept& kept, const FileView& file, const FileMend& mend, std::vector<std::string>& warnings) const;

  /// Whether blocks of the file may be written only after it has become another one (MakeOwn): force takes back what is there, and that
  /// is what another dataset committed, or it has other names. Or the file is unlike itself.
  bool NeedsOwn(const FileView& file, const FilePlan& plan) const;
  /// Gives the name of the file to a copy of it. The file itself stays under its other names, or is kept.
  Status MakeOwn(FileView& file, FileMend& mend);
  Status MakeCopy(const FileView& file, const std::string& temporary);

  // Opens what will be written, and notes that a repair is going on where blocks change in place.
  Status OpenOutputs(Ensemble& ensemble, std::size_t e, std::uint32_t f);
  /// The directory of a file that is to be made again; kIo where something else has its name.
  Status MakeWayFor(const FileView& file);
  /// Where data and parity are written: to a temporary file of the right size, or to the file that is there.
  Status OpenDataOutput(FileView& file, FileMend& mend, std::uint64_t size);
  /// Whether a sidecar of another dataset has the name of the one to be made. It is set aside then. An error if it proves what
  /// the file holds.
  Result<bool> HasForeignOccupant(const FileView& file, const FileMend& mend) const;
  Status OpenParityOutput(Ensemble& ensemble, std::uint32_t f, FileMend& mend);

  // The others are no obstacle to what else is to be mended.
  static std::vector<std::string> PartsToMend(const FileView& file);

  // Some may have been made again elsewhere.
  static SidecarContents Moved(const FileView& file, SidecarContents contents);

  // Whose the parts are, by the name that the file has now. A copy of another one must not be taken for that later, by
  // what it is.
  void NoteHome(const FileView& file, const FileMend& mend, SidecarContents& contents) const;

  /// Tells why parts of the parity were left as they are.
  void WarnOfParts();

  Status OpenItsParts(const FileView& file, FileMend& mend);

  // A shared file's blocks are mended by all ranks; rank 0 has made what had to be made.
  Status OpenSharedOutputs(Ensemble& ensemble, std::size_t e);

  /// Rebuilds the rows of the plan. If all ranks can open all members, each rank rebuilds rows of its own
  /// (MendGuests). If not, all of them take part in each row.
  Status ExecuteMending(Ensemble& ensemble, std::size_t e, Communicator& comm, MendGuests& guests);

  /// Copies what the plan takes from the replica, for the ensembles of which `opened` is ok; fills in copied_. It comes before
  /// rows are rebuilt, which may have such blocks as sources.
  void CopyFromReplica(const std::vector<Status>& opened);
  /// This rank's part. `caller`: through which replicas elsewhere are read; null: there are none.
  Status CopyPart(std::size_t e, Caller* caller);
  Status CopyBlock(FileMend& mend, File& replica, const BlockStream& expected, const RowBlock& block, AlignedBuffer& buffer);

  // What ranks computed of files that they do not own.
  Status GatherComputed(Ensemble& ensemble, std::size_t e, Communicator& comm);

  /// The leaf that `bytes` give at the place of `block`.
  Hash LeafOfBlock(const RowBlock& block, ByteSpan bytes) const;

  /// Writes blocks that lie back to back, after comparing them with their hashes. Called by several threads.
  Status WriteBlocks(FileMend& mend, std::span<const RowBlock> blocks, ByteSpan bytes);

  // What was written is read back from the device and compared before it counts.
  Status VerifyWritten(FileMend& mend, const FileView& file);

  Status VerifyRun(const MendOutput& out, const std::vector<RowBlock>& blocks, const FileView& file, AlignedBuffer& buffer) const;

  // Contents of a sidecar that is made again, from what the rest of the dataset records; hashes are filled in by
  // Finish.
  SidecarContents FreshContents(const Ensemble& ensemble, std::uint32_t f) const;
  /// The commit clock of a sidecar that is made again, for a file that has, or gets, this mtime.
  std::int64_t ClockOfRestored(const FileView& file, const FileMend& mend, std::int64_t mtime_ns) const;

  // Puts what was made in place: checked as a whole, with its times, under its name.
  Status Finish(Ensemble& ensemble, std::size_t e, std::uint32_t f);

  /// What the sidecar is to say after the repair: what it said, with the trees that were rebuilt.
  SidecarContents CommittedContents(const Ensemble& ensemble, std::size_t e, std::uint32_t f);

  void WarnOfOwners();
  /// Collective.
  Status ShareWarnings();

  // Size, access and times as committed; what the data file is then.
  Result<FileStat> FinishData(Ensemble& ensemble, FileMend& mend, std::uint32_t f, const MemberRecord& record);

  // A sidecar is whole before its file gets its name; without one (salvage beside groups of which nothing is left) the
  // file gets it all the same.
  Status PutInPlace(FileView& file, FileMend& mend, const SidecarContents& contents);

  // Pages of an epoch that broke off stay: what they name is still at risk unless it was taken back just now.
  Status EndRepairIntent(FileView& file, const FilePlan& plan) const;

  /// After a failure: removes what this rank has built aside.
  void RemoveTemporaries();

  const Context& context_;
  Communicator& comm_;
  DatasetView& view_;
  const Findings& findings_;
  const MendRequest& request_;
  DatasetReport& report_;
  MendPlan plan_;
  std::vector<std::string> made_parts_;  // by this rank
  std::vector<std::string> warnings_;  // warnings of this rank, about files that it wrote
  std::vector<std::vector<FileMend>> mends_;  // by ensemble and file
  std::vector<Status> copied_;  // by ensemble; of this rank
  RowStats stats_;
  std::mutex mutex_;  // guards `written` of all files
};

}  // namespace lzy
