#include "copy/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/acl.h"
#include "base/printable.h"
#include "commit/fresh_sidecar.h"
#include "copy/copied_file.h"
#include "dataset/lock.h"
#include "dataset/rehome.h"
#include "names/content_match.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "request/report.h"
#include "sidecar/names.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// Bytes that are read at once for a copy without a sidecar: a whole number of chunks.
constexpr std::uint64_t kPiece = 1u << 20;
// Smaller copies are not resumed.
constexpr std::uint64_t kWorthResuming = CopyTarget::kBatch;

// Whatever the reason, the copy could not be written.
Status OfTarget(const Status& failure) {
  const Code code = failure.code();
  if (code != Code::kIo && code != Code::kNotFound && code != Code::kUnreadable) return failure;
  return {Code::kWriteFailed, failure.message()};
}

// One call of CopyFile.
class Copier {
 public:
  Copier(const Context& context, const CopyRequest& request, CopyReport& report)
      : context_(context), fs_(context.fs), request_(request), report_(report) {}

  Status Run() {
    LZY_RETURN_IF_ERROR(OpenSource());
    LZY_RETURN_IF_ERROR(LookAtTarget());
    if (request_.resume && IsThere()) {
      report_.already = true;
      report_.compared = false;  // not now: only the roots of the sidecars, if at all
      // A crash may have left the journal.
      if (!fs_.Stat(data_path_, /*follow=*/false).ok()) (void)fs_.Remove(CopyJournalPath(real_));
      return Status::Ok();
    }
    LZY_RETURN_IF_ERROR(OfTarget(LockTarget()));
    Status copied = OfTarget(MakeTemporary());
    if (copied.ok()) copied = Copy();
    Count();
    if (!copied.ok()) CleanUp(copied);
    return copied;
  }

 private:
  Status OpenSource() {
    if (IsLzyName(BaseNameOf(report_.from))) {
      return {Code::kInvalidArgument,
              fmt::format("{}: is a file of lzy's own; copy the file that it belongs to, and its copy gets a "
                          "sidecar of its own",
                          report_.from)};
    }
    const bool local = !request_.open;
    auto source = local ? LocalSource::Open(fs_, context_.options, report_.from, {request_.salvage, request_.judged}, request_.wait)
                        : request_.open(report_.from);
    if (source.status().code() == Code::kNotFound) {  // it existed when the copy was planned
      report_.changed = true;
      return {Code::kBusy, fmt::format("{}: was removed before it was copied", report_.from)};
    }
    report_.changed = source.status().code() == Code::kBusy;
    LZY_ASSIGN_OR_RETURN(source_, std::move(source));
    report_.warnings = source_->notes();
    LZY_RETURN_IF_ERROR(CheckSeal());
    report_.compared = source_->committed() != nullptr;
    report_.bytes = source_->stat().size;
    return CheckSize();
  }

  // Bytes that are not there cannot be compared.
  Status CheckSize() {
    const SourceCommit* const of = source_->committed();
    const std::uint64_t size = source_->stat().size;
    if (of == nullptr || of->superblock.stamp.size == size) return Status::Ok();
    if (!request_.salvage) {
      report_.changed = true;
      return MayBeEdited(report_.from, fmt::format("its size of {} bytes differs", size));
    }
    return Status::Ok();
  }

  // A source that was not proven must not get a seal. A set has one seal for all members.
  Status CheckSeal() {
    report_.unsealed = source_->unsealed();
    if (!report_.unsealed) return Status::Ok();
    if (request_.member) return NotSealed("");
    key_ = nullptr;
    report_.warnings.push_back(
        fmt::format("{}: is not sealed with the key, so a forgery would not be found, and its copy is not sealed", report_.from));
    return Status::Ok();
  }
  Status NotSealed(const std::string& what) const {
    return {Code::kUnprotected, fmt::format("{}: is not sealed with the key, so it was not copied{}", report_.from, what)};
  }

  Status LookAtTarget() {
    LZY_ASSIGN_OR_RETURN(real_, fs_.RealPath(request_.follow ? report_.to : DirectoryOf(report_.to)));
    if (!request_.follow) real_ = JoinPath(real_, BaseNameOf(report_.to));
    for (const std::string& name : {report_.to, real_}) LZY_RETURN_IF_ERROR(CheckCopyName(name));
    // A name that is too long for a sidecar has none, also if the file will be replaced.
    const auto sidecar = SidecarPath(real_);
    if (!sidecar.ok() && request_.protect) return sidecar.status();
    if (sidecar.ok()) sidecar_path_ = *sidecar;
    data_path_ = NewCopyPath(real_);
    fresh_path_ = CopySidecarPath(real_);
    there_ = fs_.Stat(real_, /*follow=*/false);
    if (!there_.ok() && there_.status().code() != Code::kNotFound) return OfTarget(there_.status());
    if (!there_.ok()) return Status::Ok();
    if (there_->type == FileStat::Type::kDirectory) {
      return {Code::kInvalidArgument, fmt::format("{}: is a directory, and {} is a file", report_.to, report_.from)};
    }
    // A link that is not followed is replaced.
    if (there_->type == FileStat::Type::kOther && !fs_.ReadLink(real_).ok()) {
      return {Code::kInvalidArgument, fmt::format("{}: is neither a file nor a directory nor a symbolic link", report_.to)};
    }
    const FileStat& from = source_->stat();
    if (!source_->is_local() || there_->inode != from.inode || there_->file_system != from.file_system) return Status::Ok();
    return {Code::kInvalidArgument, fmt::format("{} and {} are the same file", report_.from, report_.to)};
  }

  // A file gets its name only when it is whole, so size, mtime and sidecar prove that it is the copy of this source.
  bool IsThere() {
    const FileStat& from = source_->stat();
    if (!there_.ok() || there_->size != from.size || !HasMtime(*there_, from.mtime_ns)) return false;
    if (!request_.protect) return true;
    const auto path = Rehome(fs_, real_, {context_.options.timeout_seconds});
    const auto sidecar =
        path.ok() ? Sidecar::Load(fs_, *path, OpenMode::kRead) : Result<std::unique_ptr<Sidecar>>(path.status());
    if (!sidecar.ok() || !(*sidecar)->committed() || (*sidecar)->intent() ||
        !(*sidecar)->Unseal(key_).ok())
      return false;
    const SidecarContents& has = (*sidecar)->contents();
    if (has.superblock.stamp.size != from.size || has.superblock.stamp.mtime_ns != there_->mtime_ns) return false;
    NoteRoot(has.superblock.dataset_root);
    const SourceCommit* of = source_->committed();
    if (of == nullptr || of->superblock.block_size != has.superblock.block_size) return true;
    return of->superblock.data_root == has.superblock.data_root;
  }

  // Locks the sidecar of the file that will be replaced, so that no process commits it meanwhile.
  Status LockTarget() {
    if (sidecar_path_.empty()) return Status::Ok();
    std::string path = sidecar_path_;  // also if the file is lost, because another process may restore it
    if (there_.ok()) {
      LZY_ASSIGN_OR_RETURN(path, Rehome(fs_, real_, {context_.options.timeout_seconds, Occupants::kYield}));
    } else {
      LZY_RETURN_IF_ERROR(GiveSidecarBack());
    }
    auto locked = LockSidecar(fs_, path, nullptr, nullptr, context_.options.timeout_seconds, &ruins_);
    if (!locked.ok()) {
      const bool none = locked.status().code() == Code::kNotFound || IsRuined(locked.status());
      return none ? Status::Ok() : locked.status();
    }
    replaced_ = std::move(locked).value();
    if (report_.unsealed && replaced_->contents().superblock.sealed()) {
      return NotSealed(fmt::format(": {} is, and would be replaced", report_.to));
    }
    LZY_RETURN_IF_ERROR(CheckJudged());
    if (request_.member || !replaced_->committed() || replaced_->contents().superblock.kind == DatasetKind::kShared)
      return Status::Ok();
    if (there_.ok()) {
      return {Code::kInvalidArgument,
              fmt::format("{}: is a member of a protected set, and a copy in its place would be none; "
                          "remove the set's protection first: lzy-protect --remove",
                          report_.to)};
    }
    return {Code::kInvalidArgument,
            fmt::format("{}: is a lost member of a protected set, and a copy in its place would be none; "
                        "rebuild it: lzy-restore {}",
                        report_.to, ShellQuote(report_.to))};
  }

  // The source may have rotted, and what it would replace is proven.
  Status CheckJudged() {
    if (request_.salvage || !source_->unjudged() || !there_.ok() || !replaced_->committed()) return Status::Ok();
    report_.changed = true;
    report_.warnings.clear();  // they say that it was copied
    return {Code::kBusy, fmt::format("{0}: its sidecar cannot be used, so nothing shows whether it is damaged, and {1} is protected. So {1} was not "
                                     "replaced. What to do: lzy-verify {2}", report_.from, report_.to, ShellQuote(report_.from))};
  }

  // No file has the name, but the sidecar of this name may be that of a renamed file. Then it is first renamed after that
  // file.
  Status GiveSidecarBack() {
    if (!fs_.Stat(sidecar_path_, /*follow=*/false).ok()) return Status::Ok();
    const std::string directory = DirectoryOf(real_);
    const std::optional<std::string> home = Directory(fs_, directory).HomeOf(BaseNameOf(sidecar_path_));
    if (!home || *home == BaseNameOf(real_)) return Status::Ok();
    return Rehome(fs_, JoinPath(directory, *home), {context_.options.timeout_seconds, Occupants::kYield}).status();
  }

  // Takes over the temporary file of an interrupted copy. If that copy still runs, it has the lock. If it has just ended,
  // the opened file has another name by now.
  Status MakeTemporary() {
    for (;;) {
      LZY_ASSIGN_OR_RETURN(data_, fs_.Open(data_path_, OpenMode::kCreate, /*follow=*/false, 0600));
      if (const Status locked = data_->Lock(); !locked.ok()) {
        data_.reset();
        if (locked.code() != Code::kBusy) return locked;
        return {Code::kBusy, fmt::format("{}: another process is copying to it", report_.to)};
      }
      LZY_ASSIGN_OR_RETURN(const FileStat mine, data_->Stat());
      // The name is a hard link to another file: somebody wants lzy to overwrite that file.
      if (mine.links > 1) {
        LZY_RETURN_IF_ERROR(fs_.Remove(data_path_));
        continue;
      }
      const auto named = fs_.Stat(data_path_, /*follow=*/false);
      if (named.ok() && named->inode == mine.inode) break;
      if (!named.ok() && named.status().code() != Code::kNotFound) return named.status();
    }
    made_ = true;
    LZY_RETURN_IF_ERROR(OpenJournal());
    if (!resumes()) LZY_RETURN_IF_ERROR(data_->Truncate(0));
    LZY_ASSIGN_OR_RETURN(source_acl_, source_->file().AccessAcl());
    LZY_RETURN_IF_ERROR(data_->CopyAccess(source_->file()));
    const FileStat& from = source_->stat();
    LZY_RETURN_IF_ERROR(data_->Truncate(from.size));
    LZY_RETURN_IF_ERROR(data_->SetTimes(from.atime_ns, from.mtime_ns));
    LZY_ASSIGN_OR_RETURN(kept_, data_->Stat());
    return Status::Ok();
  }

  // A journal does not record which bytes are damaged, so a copy with `salvage` does not resume.
  Status OpenJournal() {
    const bool worth =
        source_->stat().size >= kWorthResuming && request_.read_back != ReadBack::kNone && !request_.salvage;
    if (!worth) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(journal_, CopyJournal::Open(fs_, CopyJournalPath(real_), source_->stat(), request_.resume));
    return Status::Ok();
  }
  bool resumes() const { return journal_ && journal_->resumes(); }

  Status Copy() {
    const auto fetch = [this](std::uint64_t offset, MutableByteSpan to) { return source_->Read(offset, to); };
    CopyTarget::Proven proven;
    if (journal_) proven = [this](const std::vector<CopyChunk>& chunks) { return OfTarget(journal_->Add(chunks)); };
    target_.emplace(*data_, real_, request_.read_back, fetch, proven);
    FileStat complete = kept_;
    complete.mode = FinalMode();
    copied_.emplace(
        CopiedFile::Parts{*source_, *target_, *data_, resumes() ? journal_.get() : nullptr, request_.progress}, real_,
        complete);
    LZY_RETURN_IF_ERROR(request_.protect ? CopyProtected() : CopyPlain());
    LZY_RETURN_IF_ERROR(OfTarget(TakeOverAttributes()));
    LZY_RETURN_IF_ERROR(target_->Finish());
    LZY_RETURN_IF_ERROR(OfTarget(Complete()));
    LZY_RETURN_IF_ERROR(source_->CheckUnchanged());
    return OfTarget(Name());
  }

  // All threads stop at the first failure.
  Status CopyPlain() {
    const std::uint64_t size = source_->stat().size;
    std::mutex mutex;
    Status status;
    ParallelFor((size + kPiece - 1) / kPiece, ThreadsFor(context_), [&](std::size_t piece) {
      thread_local AlignedBuffer buffer;
      {
        const std::lock_guard lock(mutex);
        if (status.ok() && context_.stop && context_.stop()) status = {Code::kInterrupted, "interrupted"};
        if (!status.ok()) return;
      }
      buffer.Reserve(kPiece);
      const std::uint64_t begin = piece * kPiece;
      const Status one = copied_->ReadAt(begin, {buffer.data(), std::min(kPiece, size - begin)}).status();
      const std::lock_guard lock(mutex);
      if (status.ok()) status = one;
    });
    return status;
  }

  // The geometry is that of the source, except options that were given. The copy does not use the device directories of the
  // source.
  Options OptionsOfCopy() const {
    Options options = context_.options;
    options.key = key_;
    options.device_dirs.clear();
    const SourceCommit* of = source_->committed();
    if (of == nullptr || of->superblock.kind != DatasetKind::kShared) return options;
    KeepGeometry(of->superblock, of->info, false, options);
    return options;
  }

  Status CopyProtected() {
    options_ = OptionsOfCopy();
    LZY_RETURN_IF_ERROR(CheckOptions(options_));
    quiet_.emplace(Context{fs_, context_.comm, options_, {}, context_.stop});
    fresh_.emplace(*quiet_, options_, *copied_, *data_, BaseNameOf(real_), fresh_path_);
    LZY_RETURN_IF_ERROR(OfTarget(fresh_->Begin()));
    const Status encoded = fresh_->Encode();
    return copied_->source_failed() ? encoded : OfTarget(encoded);
  }

  // File::CopyAccess may have narrowed the access. With an ACL, the group bits of the source are its mask.
  std::uint32_t FinalMode() const { return WithExecute(kept_.mode, NarrowedMode(source_->stat().mode, source_acl_)); }

  // Sets the times last, because all other changes change them.
  Status TakeOverAttributes() {
    const FileStat& from = source_->stat();
    CopyAttributes();
    LZY_RETURN_IF_ERROR(data_->SetAccess(FinalMode(), from.uid, from.gid));
    LZY_RETURN_IF_ERROR(CompleteAcl());
    return data_->SetTimes(from.atime_ns, from.mtime_ns);
  }

  // The copy has the ACL without execute permissions now. If not, the file system refused it.
  Status CompleteAcl() {
    if (source_acl_.empty()) return Status::Ok();
    LZY_ASSIGN_OR_RETURN(const Acl has, data_->AccessAcl());
    if (WithoutExecute(has) == WithoutExecute(source_acl_)) {
      (void)data_->SetUserAttributes({{kAccessAcl, std::string(source_acl_.begin(), source_acl_.end())}});
    }
    LZY_ASSIGN_OR_RETURN(const Acl now, data_->AccessAcl());
    if (now != source_acl_) WarnOfAcl(report_.to, report_.warnings);
    return Status::Ok();
  }

  // Completes everything except the names. Usually CopyTarget has synced the file. Chunks that were written again have
  // changed it since, and an NFS server may set the mtime when it gets the data.
  Status Complete() {
    const FileStat& from = source_->stat();
    LZY_ASSIGN_OR_RETURN(const FileStat now, data_->Stat());
    const bool synced =
        request_.read_back == ReadBack::kUncached && target_->sent_again() == 0 && now.mtime_ns == kept_.mtime_ns;
    if (now.mtime_ns != kept_.mtime_ns) LZY_RETURN_IF_ERROR(data_->SetTimes(from.atime_ns, from.mtime_ns));
    if (!synced) LZY_RETURN_IF_ERROR(data_->Sync());
    if (!request_.protect) return Status::Ok();
    LZY_RETURN_IF_ERROR(fresh_->Finish());
    NoteRoot(fresh_->contents().superblock.dataset_root);
    return Status::Ok();
  }

  void CopyAttributes() {
    const auto attributes = source_->file().UserAttributes();
    const Status copied = attributes.ok() ? data_->SetUserAttributes(*attributes) : attributes.status();
    if (!copied.ok())
      report_.warnings.push_back(
          fmt::format("{}: some extended attributes were not copied: {}", report_.to, copied.message()));
  }

  void NoteRoot(const Hash& root) {
    const SourceCommit* of = source_->committed();
    report_.root = root.Hex();
    report_.same_root = of != nullptr && of->superblock.dataset_root == root;
  }

  // True if the file of this name was lost, and had another content than the copy: only the old sidecar can rebuild it.
  bool CanRebuildTheLost() {
    if (there_.ok() || replaced_ == nullptr || !replaced_->committed()) return false;
    const auto same = HoldsCommitted(fs_, real_, sidecar_path_, key_.get());
    return !same.ok() || !*same;
  }

  // If the copy is like the replaced file, and has no sidecar, it will be taken for that file, damaged.
  void SayWhatIsKept(const std::string& kept, const std::string& other, bool proven) {
    report_.warnings.push_back(fmt::format("{}: its old sidecar is kept as {}, because {} {}", report_.to, Printable(kept), Printable(other),
                                           proven ? "has the content that it proves" : "may be the file that it was made for, damaged"));
    if (request_.protect) return;
    report_.warnings.push_back(fmt::format("{}: was protected, and the copy is not. If lzy calls the copy damaged later, and it is right: "
                                           "lzy-protect --force {}", report_.to, ShellQuote(report_.to)));
  }

  // Sets the old sidecar aside if somebody may need it. Another file may have the content of the replaced one, and only the old
  // sidecar proves it; or it may have been that file, and be damaged.
  Status KeepOldSidecar() {
    const bool lost = CanRebuildTheLost(), was_protected = replaced_ != nullptr && replaced_->committed();
    report_.unprotected = was_protected && !request_.protect;
    const auto holder = lost ? std::nullopt : FindHolder(fs_, sidecar_path_, real_, key_.get(), Holders::kOfItsTime);
    const auto rotten = lost || holder ? std::nullopt : FindRotten(fs_, sidecar_path_, real_, key_.get());
    if (!lost && !holder && !rotten) {
      if (report_.unprotected) {
        report_.warnings.push_back(fmt::format("{}: was protected, and the copy is not: its sidecar was removed", report_.to));
      }
      return Status::Ok();
    }
    const std::string kept = TemporarySidecarPath(sidecar_path_);
    LZY_RETURN_IF_ERROR(fs_.Rename(sidecar_path_, kept));
    if (lost) {
      report_.warnings.push_back(fmt::format("{}: a file of this name was lost, and its sidecar can rebuild it. That sidecar is kept until lzy-info "
                                             "--prune. To have the lost file, move the copy and its sidecar away, then: mv -n {} {} && lzy-restore {}",
                                             report_.to, ShellQuote(kept), ShellQuote(sidecar_path_), ShellQuote(report_.to)));
    } else if (was_protected) {
      SayWhatIsKept(kept, holder ? holder->path : *rotten, holder.has_value());
    }
    return Status::Ok();
  }

  // Renames the data first. New data with an old sidecar are an edit; old data with the new sidecar would be damage. Until
  // the sidecar has its name, it is found by its stamp (names/lookup).
  Status Name() {
    LZY_RETURN_IF_ERROR(fs_.Rename(data_path_, real_));
    made_ = false;
    const bool replaces = !sidecar_path_.empty() && (request_.protect || !request_.member);
    if (replaces) LZY_RETURN_IF_ERROR(KeepOldSidecar());
    if (request_.protect) {
      LZY_RETURN_IF_ERROR(fs_.Rename(fresh_path_, sidecar_path_));
    } else if (request_.member) {
      // Until the set is committed, the data count as an edit.
    } else if (sidecar_path_.empty()) {
      // The name is too long for a sidecar.
    } else if (const Status removed = fs_.Remove(sidecar_path_); !removed.ok() && removed.code() != Code::kNotFound) {
      return removed;
    }
    if (!request_.protect) (void)fs_.Remove(fresh_path_);  // of an interrupted copy
    if (request_.sync_name) LZY_RETURN_IF_ERROR(fs_.SyncDirectory(DirectoryOf(real_)));
    if (journal_) (void)fs_.Remove(CopyJournalPath(real_));  // nothing reads it any more
    return Status::Ok();
  }

  void Count() {
    report_.reread = source_->reread();
    report_.healed = source_->healed();
    report_.changed = source_->changed();
    IntervalSet lost;
    for (const Interval& range : source_->lost()) lost.Add(range);
    const SourceCommit* const of = source_->committed();
    const std::uint64_t size = source_->stat().size;
    if (of != nullptr && size < of->superblock.stamp.size) lost.Add({size, of->superblock.stamp.size});
    for (const Interval& range : lost.intervals()) report_.lost.push_back({range.begin, range.end - range.begin});
    if (target_) report_.sent_again = target_->sent_again();
    if (copied_) report_.resumed = copied_->resumed();
  }

  // Cleans up after a failure. Files that can be resumed stay: the disk may be full, or the user interrupted the copy. Files
  // of these names that this process did not make belong to another one.
  void CleanUp(const Status& failure) {
    if (!made_) return;
    (void)fs_.Remove(fresh_path_);
    const Code code = failure.code();
    report_.kept =
        journal_ && !report_.changed && code != Code::kBeyondRepair && code != Code::kBusy && code != Code::kUnreadable;
    if (report_.kept) return;
    (void)fs_.Remove(data_path_);
    if (journal_) (void)fs_.Remove(CopyJournalPath(real_));
  }

  const Context& context_;
  FileSystem& fs_;
  const CopyRequest& request_;
  CopyReport& report_;
  std::string real_, data_path_, fresh_path_, sidecar_path_;
  Result<FileStat> there_{Code::kNotFound, ""};  // the file that has the name of the copy
  std::unique_ptr<Sidecar> replaced_;            // its sidecar, locked
  std::shared_ptr<File> ruins_;                  // a ruined sidecar of it, locked
  std::unique_ptr<CopySource> source_;
  Acl source_acl_;
  std::shared_ptr<const LeafKey> key_ = context_.options.key;  // of the copy
  std::unique_ptr<File> data_;
  bool made_ = false;          // the temporary file is ours
  FileStat kept_;  // stat of the temporary file with its final size and mtime, as its file system stores them; without execute permissions
  std::unique_ptr<CopyJournal> journal_;
  Options options_;  // of the sidecar
  // Each uses the ones before it.
  std::optional<CopyTarget> target_;
  std::optional<CopiedFile> copied_;
  std::optional<Context> quiet_;
  std::optional<FreshSidecar> fresh_;
};

}  // namespace

Status CheckCopyName(const std::string& to) {
  if (!IsLzyName(BaseNameOf(to))) return Status::Ok();
  return {Code::kInvalidArgument, fmt::format("{}: names that begin with .LZY are for lzy's own files; name the copy otherwise", to)};
}

void WarnOfAcl(const std::string& to, std::vector<std::string>& warnings) {
  warnings.push_back(
      fmt::format("{}: its ACL could not be copied, or not all of it, so fewer users may read or write it than its source", to));
}

int ExitCodeOf(const CopyReport& report) {
  constexpr int kChanged = 9;
  if (report.changed) return kChanged;
  if (report.status.ok() && !report.lost.empty()) return ExitCodeOf(Status(Code::kBeyondRepair, ""));
  if (report.status.ok() && report.unsealed) return ExitCodeOf(Status(Code::kUnprotected, ""));
  return ExitCodeOf(report.status);
}

CopyReport CopyFile(const Context& context, const std::string& from, const std::string& to,
                    const CopyRequest& request) {
  CopyReport report;
  report.from = from;
  report.to = to;
  report.status = NoThrow([&] { return Copier(context, request, report).Run(); });
  return report;
}

}  // namespace lzy
