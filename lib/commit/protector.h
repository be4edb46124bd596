#pragma once
// What protecting a shared file and protecting a set have in common: opening under lock, judging what is there, filling
// in superblocks, publishing, reporting. protect_shared.cc and protect_set.cc add the rest.
//
// Flow: Run calls Open, then Protect() of the derived class, which calls the helpers below in the order of
// docs/design/commit.md §5: JudgeExisting or TakeRequestedRanges, EffectiveOptions, FillShape, HoldToLeaves, CheckReadings,
// Publish, FillReport.
//
// One object is one call of Protect(). All members are collective over context.comm unless they say "local", and every
// rank comes to the same decisions. The locks of all sidecars are held from Open() to the end, so the judgement holds
// until the commit. Until Publish(), what is there stays valid; a failure before it leaves the dataset as it was.

#include <memory>
#include <set>

#include "commit/fresh_sidecar.h"
#include "commit/protect.h"
#include "dataset/page_caches.h"
#include "encode/encode.h"
#include "encode/rebuild.h"
#include "judge/examine.h"

namespace lzy {

/// One call of Protect(), as its base class: SharedFile and FileSet derive from it.
class Protector {
 public:
  Protector(const Context& context, const DatasetRef& ref, const ProtectRequest& request, DatasetReport& report)
      : context_(context), comm_(context.comm), ref_(ref), request_(request), report_(report), pass_(context) {}
  virtual ~Protector() = default;
  /// Nothing was committed, because the file turned out to have another sidecar (AdoptByContent): run another one.
  bool adopted() const { return adopted_; }
  Status Run();

 protected:
  /// Encodes and commits; the view is open.
  virtual Status Protect() = 0;

  // What both kinds ask of the dataset. Local.
  bool shared() const { return ref_.kind == DatasetKind::kShared; }
  /// The geometry that counts: an existing dataset keeps its own but for options that were given.
  Options EffectiveOptions() const;
  /// Whether that is so whatever options were given. After TakeRequestedRanges.
  bool KeepsGeometry() const;
  /// For lzy-protect on what is protected already: judges it by its hashes. True when nothing is left to be done
  /// (report_ says why). Otherwise sets holds_ and touched_.
  Result<bool> JudgeExisting(const Options& options);
  /// For lzy-protect on files that another dataset committed (a single file that becomes a member of a set, for
  /// example), which JudgeExisting cannot judge: holds `files` to the leaves of their own sidecars. True when damage
  /// stops the commit (report_ names it). Collective; `files` are the same on all ranks.
  Result<bool> JudgeFormer(std::span<const FileView* const> files);
  /// The sidecar that says what was committed of `file`, of whatever dataset; null: none. Local, at the file's owner.
  static Sidecar* LeavesOf(const FileView& file);
  /// The same if it is of another dataset than what is committed here; null otherwise.
  Sidecar* FormerOf(const FileView& file) const;
  /// From what the hooks say was written: sets holds_ and touched_. Collective; before EffectiveOptions.
  Status TakeRequestedRanges();
  /// FileJob::Settle, by the clock of the file system on which the sidecar of `file` is. If the stamp of the last commit is
  /// racy and blocks stay that were not read since, the new stamp is racy, too: what differs there may be an edit. Local.
  Status Settle(const FileView& file, FileJob& job) const;
  /// A file that changed after it was judged was judged in vain.
  void CheckJudged(const FileView& file, const FileStat& now);

  /// kBusy where lzy-protect has read `rot` in a file that may have been edited, and when judging it had not: one of
  /// the two readings was wrong, and with the old hash an edit would look like damage. The same on every rank.
  Status CheckReadings(const Rot& rot) const;

  /// For the hooks: notes in report_.kept_intents if another writer has an intent on `file`; all of it is to be
  /// committed then. The same on every rank.
  bool HasOtherWriter(const FileView& file);
  /// Whether block 0 is in the file as it was captured, or was not captured. A program may write the header of a file by
  /// POSIX calls before the close. That cannot be seen, so block 0 is read. With verify-writes it is taken to be there: a
  /// difference may be a fault, and the times of the file have been looked at. Local.
  bool HasFirstBlock(const Capture& capture, const FileJob& job);
  /// kBusy if this process has written the member `rank` (0: the shared file) since the request was made. Local.
  Status CheckQuiet(std::uint32_t rank, const FileJob& job) const;
  /// Sets that intent in the sidecar that is about to replace the file's, so that there is no moment without it.
  Status KeepOtherIntent(const FileView& file, Sidecar& fresh) const;

  /// Gives the sidecar, which was updated in place, the access of its file, if it may have it (HasOwnerOfFile). Local.
  void RenewAccess(const FileView& file, Sidecar& sidecar);

  /// The block size of this commit for files of at most `largest` bytes, the same on all ranks. An automatic one may
  /// be another than that of the last commit. Then no block can be held to its leaf while it is encoded, so what the
  /// program did not write in the files `own` is compared here. If anything differs, the dataset keeps its block size,
  /// and what differs is treated as any rot. Few bytes are compared: one of the sizes is that of small files. Files that
  /// come from other datasets may differ in it: kIo if one of them has rot and cannot be held to its leaves.
  Result<std::uint32_t> AgreeOnBlockSize(const Options& options, std::uint64_t largest, std::span<const FileView* const> own);
  /// A new uuid, the same on all ranks.
  Result<Uuid> CommonUuid();
  /// Blocks outside `touched` must have the leaves of `sidecar`, as far as these are known.
  static void HoldToLeaves(const Sidecar& sidecar, const IntervalSet& touched, FileJob& job);
  /// Where the sidecar of `data_path` is built (beside the target of a symbolic link), and giving it its name, durably.
  Result<std::string> FreshPath(const std::string& data_path);
  Status Publish(const std::string& data_path);
  /// Before Publish, and before any sidecar of the commit may count: gives a second name to the sidecar that is about to be
  /// replaced, if it is of a set that is not in `replaced` and has other members, which may need its parity, or of a single file of
  /// another name. That is the name which it had there, if it is free, or a temporary one. Only if KeepsOthers(). Local.
  Status KeepForOthers(const std::string& data_path, const std::set<Uuid>& replaced);
  /// Force replaces what is there, and so does a program, which wrote it before.
  bool KeepsOthers() const { return !request_.touched && !request_.force; }
  /// After a failure before Publish; after it, does nothing. Local.
  void RemoveKept();
  /// What a commit made, for the report. `bytes`: of the data.
  void FillReport(const SidecarContents& contents, std::uint32_t groups, std::uint64_t bytes);
  /// Blocks of `file`, file `f` of the layout, that nobody touched and that are damaged, for the report.
  void ReportRot(const FileView& file, const Layout& layout, std::uint32_t f, const Rot& rot);

  const Context& context_;
  Communicator& comm_;
  const DatasetRef& ref_;
  const ProtectRequest& request_;
  DatasetReport& report_;
  DatasetView view_;
  EncodePass pass_;
  /// Blocks outside touched_ (by rank of the member; 0: the shared file) must be what was committed; false: nothing is
  /// known.
  bool holds_ = false;
  std::map<std::uint32_t, IntervalSet> touched_;
  /// Ranks see files through several page caches, so one may see late what another one did.
  PageCaches caches_;
  /// A file changed after it was judged.
  bool judged_in_vain_ = false;
  /// Nothing changed but the access to files: no block need be encoded.
  bool only_access_ = false;

 private:
  // The steps of Run, and its parts. Open and GatherStats are collective, the others local.
  Status Open();
  Status RefuseUnsealed();
  Status RefuseDestroyed() const;
  Status RefuseRotten() const;
  Status EnsureSidecars();
  Status EnsureSidecar(const std::string& path, std::uint32_t rank);
  void RemoveEmptySidecars(HeldLocks held);
  // Bytes of the largest file, as it is now.
  std::uint64_t LargestFile() const;
  // Local: whether all that is not in `touched`, by rank of the file, has its leaves. False if it cannot be read.
  bool IsAsCommitted(const FileView& file, IntervalSet touched) const;
  // Whether each stamp still tells edits made since. By the clock of this node, so ranks may differ. Local.
  bool StampsFresh() const;
  // Collective: whether that is so on all ranks.
  Result<bool> AllStampsFresh();
  // Local: adds what is not as FormerOf(file) says.
  Status CompareWithFormer(const FileView& file, std::vector<Damage>& found, std::uint64_t& unchecked) const;
  // Whether what stripe=servers came to is what is there.
  bool HasServersOf(const Options& options) const;
  // After Describe; the same on all ranks.
  bool IsProvenWhole() const;
  // Whether a sidecar is what proves the content of another file; then a warning says so. Collective.
  Result<bool> ProvesAnother();
  // A file that holds what `file` was at its last commit.
  struct Holder {
    std::string file, holder;
    LZY_FIELDS(file, holder)
  };
  void AddHolder(const FileView& file, std::vector<Holder>& mine) const;
  // Whether members of another set of the same name are among the files, as that one left them; then a warning says so. Collective.
  Result<bool> IsMixed();
  // Notes what is committed although it differs.
  void WarnOfCommitting(std::uint64_t bytes, const char* what);
  // Sets holds_ and touched_ so that blocks found right must stay right, and damaged ones are encoded as they are.
  void HoldUndamaged();
  /// Whether a member is of an older commit and cannot be checked. Warns of each.
  bool HasUncheckedPast();
  /// Makes the report the same on every rank: phases of the slowest, bytes of all.
  Status GatherStats();

  // Local.
  std::vector<std::string> commit_warnings_;  // of what is committed although it differs; told once it is
  std::vector<std::pair<std::string, std::string>> created_;  // files, and their sidecars that were made only to be locked
  std::vector<std::string> kept_;     // second names of sidecars that are about to be replaced

  bool adopted_ = false;  // agreed
};

/// The two kinds. The arguments must outlive what they return.
std::unique_ptr<Protector> SharedProtector(const Context&, const DatasetRef&, const ProtectRequest&, DatasetReport&);
std::unique_ptr<Protector> SetProtector(const Context&, const DatasetRef&, const ProtectRequest&, DatasetReport&);

}  // namespace lzy
