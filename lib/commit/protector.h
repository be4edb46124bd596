#pragma once
// The steps that a commit of a shared file and of a set have in common: open and lock, judge, fill in superblocks, publish,
// report. protect_shared.cc and protect_set.cc add the other steps.
//
// Run calls Open, then Protect() of the derived class. Protect() calls the functions below in the order of
// docs/design/commit.md §5: JudgeExisting or TakeRequestedRanges, EffectiveOptions, FillShape, HoldToLeaves, CheckReadings,
// Publish, FillReport.
//
// One object serves one call of lzy::Protect(). Functions are collective over context.comm unless marked "Local", and all
// ranks make the same decisions. The locks of all sidecars are held from Open() to the end, so a judgement stays valid
// until the commit. A failure before Publish() leaves the dataset as it was.

#include <memory>
#include <set>

#include "commit/fresh_sidecar.h"
#include "commit/protect.h"
#include "dataset/page_caches.h"
#include "dataset/rehome.h"
#include "encode/encode.h"
#include "encode/rebuild.h"
#include "judge/examine.h"

namespace lzy {

/// Base class of one call of lzy::Protect(). SharedFile and FileSet derive from it.
class Protector {
 public:
  Protector(const Context& context, const DatasetRef& ref, const ProtectRequest& request, DatasetReport& report)
      : context_(context), comm_(context.comm), ref_(ref), request_(request), report_(report), pass_(context) {}
  virtual ~Protector() = default;
  /// True if nothing was committed because a sidecar of another name was adopted for the file (AdoptShared). Then call
  /// lzy::Protect again.
  bool adopted() const { return adopted_; }
  /// True if Run committed nothing, because it would first have to rename sidecars and does not know yet whether the commit will
  /// be refused. Then call IsRefused of a second object. If it returns false, call set_looked() and Run of a third object.
  bool must_look() const { return must_look_; }
  void set_looked() { looked_ = true; }
  /// Instead of Run: true if the commit would be refused; then the report says why. Writes nothing. Collective.
  Result<bool> IsRefused();
  Status Run();

 protected:
  /// Encodes and commits. The view is open.
  virtual Status Protect() = 0;
  /// Measures the ways of adding up parity between nodes, for at most `seconds`, in each communicator that this commit used for
  /// it. Collective.
  virtual Status MeasureExchange(double seconds) { return comm_.MeasureExchange(seconds); }

  // Properties of the dataset. Local.
  bool shared() const { return ref_.kind == DatasetKind::kShared; }
  /// The options for this commit. An existing dataset keeps its geometry, except for options that were given.
  Options EffectiveOptions() const;
  /// True if an existing dataset keeps its geometry even if other options were given. Call it after TakeRequestedRanges.
  bool KeepsGeometry() const;
  /// lzy-protect only: compares a committed dataset with its hashes. Returns true if nothing is left to do; report_ has the
  /// reason. Otherwise sets holds_ and touched_.
  Result<bool> JudgeExisting(const Options& options);
  /// lzy-protect only: judges files that another dataset committed, for example a single file that becomes a member of a
  /// set. Compares `files` with the leaves of their own sidecars. Returns true if damage stops the commit; report_ lists
  /// the damage. Collective; `files` are the same on all ranks.
  Result<bool> JudgeFormer(std::span<const FileView* const> files);
  /// The sidecar with the committed leaves of `file`, whichever dataset it belongs to, or null. Local, at the file's owner.
  static Sidecar* LeavesOf(const FileView& file);
  /// LeavesOf(file) if it belongs to another dataset than the one that is committed here, else null.
  Sidecar* FormerOf(const FileView& file) const;
  /// Layer only: sets holds_ and touched_ from the touched ranges. Call it before EffectiveOptions. Collective.
  Status TakeRequestedRanges();
  /// Calls FileJob::Settle, with the clock of the file system that has the sidecar of `file`. If the last stamp is racy and
  /// the commit does not read all blocks, the new stamp is racy, too: a difference in the other blocks may be an edit.
  /// Local.
  Status Settle(const FileView& file, FileJob& job) const;
  /// If `now` shows that the file changed after it was judged, marks all of it as touched.
  void CheckJudged(const FileView& file, const FileStat& now);

  /// Returns kBusy if encoding found `rot` in a file that may have been edited. JudgeExisting read the same blocks as right
  /// or as edited, so one of the two reads was wrong. With the old leaf, an edit would later look like damage. The same on
  /// every rank.
  Status CheckReadings(const Rot& rot) const;

  /// Layer only: true if another writer has set an intent on `file`; notes the intent in report_.kept_intents. The caller
  /// must commit the whole file. The same on every rank.
  bool HasOtherWriter(const FileView& file);
  /// True if block 0 of the file has the captured bytes, or was not captured. The layer does not see a program write the
  /// header of a file by POSIX calls, so block 0 is read. With verify-writes, returns true without reading: a difference
  /// may be a fault, which verify-writes must find. Local.
  bool HasFirstBlock(const Capture& capture, const FileJob& job);
  /// ProtectRequest::edited_since. Local.
  bool IsEdited() const { return request_.edited_since && request_.edited_since(); }
  /// Returns kBusy if this process has written to member `rank` (0: the shared file) since the request was made, or if the
  /// file was edited since. Local.
  Status CheckQuiet(std::uint32_t rank, const FileJob& job) const;
  /// Sets the intent of the other writer in the new sidecar, so that this intent is set at all times.
  Status KeepOtherIntent(const FileView& file, Sidecar& fresh) const;

  /// Gives a sidecar that was updated in place the access rights of its file, if HasOwnerOfFile(file). Local.
  void RenewAccess(const FileView& file, Sidecar& sidecar);

  /// The block size of this commit for files of at most `largest` bytes, the same on all ranks. An automatic block size may
  /// differ from that of the last commit. Then encoding cannot compare blocks with old leaves, so this function compares
  /// the untouched blocks of the files `own`. If any of them differs, the dataset keeps its block size, and encoding treats
  /// the difference as rot. This reads little: one of the two sizes is that of small files. Returns kIo if a file that
  /// comes from another dataset has rot and another block size.
  Result<std::uint32_t> AgreeOnBlockSize(const Options& options, std::uint64_t largest, std::span<const FileView* const> own);
  /// A new uuid, the same on all ranks.
  Result<Uuid> CommonUuid();
  /// Makes encoding compare blocks outside `touched` with the known leaves of `sidecar`.
  static void HoldToLeaves(const Sidecar& sidecar, const IntervalSet& touched, FileJob& job);
  /// FreshPath: the temporary path of a new sidecar, beside the target of a symbolic link. Publish: renames it to its final
  /// name, durably.
  Result<std::string> FreshPath(const std::string& data_path);
  Status Publish(const std::string& data_path);
  /// Keeps a sidecar that other datasets may need: gives it a second name before Publish replaces it. This concerns a
  /// sidecar of a set that is not in `replaced` and has other members, and one of a single file with another name. The
  /// second name is the name that the sidecar was made with, if this name is free, else a temporary one. Call it before any
  /// sidecar of this commit may count, and only if KeepsOthers(). Local.
  Status KeepForOthers(const std::string& data_path, const std::set<Uuid>& replaced);
  /// False with --force, and for programs: they replace all sidecars.
  bool KeepsOthers() const { return !request_.touched && !request_.force; }
  /// With --force: if another file may be what is left of the committed one, keeps the sidecar of a single file under the name of that
  /// file, or else under a temporary one. Call it where KeepForOthers is called. Local.
  Status KeepForRotten(const std::string& data_path);
  /// Removes the second names after a failure. Does nothing after Publish. Local.
  void RemoveKept();
  /// Fills in the report of a commit. `bytes` is the size of the data.
  void FillReport(const SidecarContents& contents, std::uint32_t groups, std::uint64_t bytes);
  /// Reports the rotten blocks of `file`, which is file `f` of the layout.
  void ReportRot(const FileView& file, const Layout& layout, std::uint32_t f, const Rot& rot);

  const Context& context_;
  Communicator& comm_;
  const DatasetRef& ref_;
  const ProtectRequest& request_;
  DatasetReport& report_;
  DatasetView view_;
  EncodePass pass_;
  /// If true, blocks outside touched_ must have their committed leaves. If false, nothing is known about them. touched_ is
  /// by rank of the member (0: the shared file).
  bool holds_ = false;
  std::map<std::uint32_t, IntervalSet> touched_;
  /// The page caches through which ranks see the files. With several, a rank may see changes of others late.
  PageCaches caches_;
  /// A file changed after it was judged.
  bool judged_in_vain_ = false;
  /// Only the access rights of files changed, so no block is encoded.
  bool only_access_ = false;
  std::vector<std::string> kept_warnings_;  ///< warnings of KeepForRotten

 private:
  // True if Run must find out whether the commit will be refused before it renames a sidecar. Programs and --force are never refused.
  bool LooksFirst() const { return !looked_ && !request_.touched && !request_.force && request_.held == nullptr; }
  // The steps of Run. Open, RefuseUnsealed and GatherStats are collective, the others local.
  Status Open();
  Status RefuseUnsealed();
  Status RefuseDestroyed() const;
  Status RefuseRotten() const;
  Status EnsureSidecars();
  Status EnsureSidecar(const std::string& path, std::uint32_t rank);
  Result<std::string> HomeOfSidecar(const std::string& path, Occupants occupants);
  void RemoveEmptySidecars(HeldLocks held);
  // Size of the largest file now, in bytes.
  std::uint64_t LargestFile() const;
  // True if all blocks outside `touched` have their leaves. False if the file cannot be read. Local.
  bool IsAsCommitted(const FileView& file, IntervalSet touched) const;
  // True if every stamp can still show later edits. Ranks may differ, because this uses the clock of the node. Local.
  bool StampsFresh() const;
  // True if StampsFresh() on all ranks. Collective.
  Result<bool> AllStampsFresh();
  // What JudgeFormer finds on one rank.
  struct FoundFormer {
    std::vector<std::uint32_t> ranks;  // of files that another dataset committed
    std::vector<Damage> differing;
    std::uint64_t unchecked = 0;         // bytes
    std::vector<std::string> refused;    // files that a commit of the file alone would refuse
    std::vector<std::string> warnings;   // why
    LZY_FIELDS(ranks, differing, unchecked, refused, warnings)
    void Add(FoundFormer&& other);
  };
  // Adds the differences between `file` and FormerOf(file) to `found`. Local.
  Status CompareWithFormer(const FileView& file, FoundFormer& found) const;
  // The same for a file that differs, as lzy-protect would judge it if it were committed alone: a set replaces the same sidecar. Reads
  // it again. Returns false if FormerOf(file) is not of a single file, or does not count: then `found` stays. Local.
  Result<bool> JudgeAlone(const FileView& file, FoundFormer& found) const;
  // True if the dataset has the geometry that stripe=servers asks for.
  bool HasServersOf(const Options& options) const;
  // True if all data are proven to be as committed and no intent is set. Call it after Describe. The same on all ranks.
  bool IsProvenWhole() const;
  // Adds a warning: `bytes` are committed although they differ.
  void WarnOfCommitting(std::uint64_t bytes, const char* what);
  // Sets holds_ and touched_: blocks that were found right must stay right; all other blocks are encoded as they are.
  void HoldUndamaged();
  /// True if a member is of an older commit, or has a foreign sidecar, and cannot be checked. Adds a warning for each.
  bool HasUncheckedPast();
  /// Makes the report the same on every rank: times of the slowest rank, bytes of all ranks.
  Status GatherStats();

  // Local.
  std::vector<std::string> commit_warnings_;  // differences that are committed; added to the report after the commit
  std::vector<std::pair<std::string, std::string>> created_;  // files, and their sidecars that were created only to be locked
  std::vector<std::string> kept_;     // second names made by KeepForOthers

  bool adopted_ = false;  // the same on all ranks
  bool looked_ = false;   // IsRefused of another object returned false
  bool must_look_ = false;  // there are sidecars to rename, and the commit may be refused; the same on all ranks after Open
};

/// Make the object for each kind of dataset. The arguments must outlive the result.
std::unique_ptr<Protector> SharedProtector(const Context&, const DatasetRef&, const ProtectRequest&, DatasetReport&);
std::unique_ptr<Protector> SetProtector(const Context&, const DatasetRef&, const ProtectRequest&, DatasetReport&);

}  // namespace lzy
