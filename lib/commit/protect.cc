#include "commit/protect.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/printable.h"
#include "comm/records.h"
#include "commit/protector.h"
#include "commit/renew_stamps.h"
#include "dataset/access.h"
#include "dataset/lock.h"
#include "dataset/member.h"
#include "dataset/page_caches.h"
#include "dataset/parts.h"
#include "dataset/rehome.h"
#include "encode/capture.h"
#include "encode/coverage.h"
#include "encode/resemblance.h"
#include "judge/last_proof.h"
#include "names/former_names.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "names/membership.h"
#include "names/set_names.h"
#include "rows/retry.h"
#include "sidecar/names.h"

// The steps of a commit that are the same for all kinds of datasets (commit/protector.h): locks, judgement, shape of the
// sidecars, names, reports.

namespace lzy {
namespace {

// After commits of more bytes than this, lzy may measure how parity is best added up. It may take this share of their time.
constexpr std::uint64_t kLargeCommit = std::uint64_t{64} << 20;
constexpr double kMeasuringShare = 0.01;

constexpr const char* kCommittedStale = "changed since the last commit; committed as they are now";
constexpr const char* kCommittedAtRisk = "were being written when the last epoch broke off; committed as they are now";
constexpr const char* kCommittedDamaged = "are damaged; committed as they are now (--force)";
constexpr const char* kCommittedUnchecked = "could not be checked, since their hashes are lost; committed as they are now";

// The path at which a sidecar was made, if that was in the directory of `data`, the file that has the sidecar now. For a
// member of a set, only if the recorded name contains its rank, or if the directory has another sidecar of the set.
std::optional<std::string> WhereItWasMade(FileSystem& fs, const std::string& data, const Peek& peek) {
  const std::string directory = DirectoryOf(data);
  if (peek.kind == DatasetKind::kShared) return JoinPath(directory, kSidecarPrefix + peek.name);
  const std::string member = JoinPath(directory, BaseNameOf(ExpandPattern(peek.name, peek.rank)));
  const auto path = SidecarPath(member);
  if (!path.ok() || member == data || !PatternFromTail(member, peek.name, peek.rank)) return std::nullopt;
  if (peek.name.find('/') != std::string::npos) return *path;
  Directory around(fs, directory);
  const bool has_others = std::ranges::any_of(around.Sidecars(), [&](const std::string& name) {
    const auto& other = around.PeekAt(name);
    return other.ok() && other->uuid == peek.uuid && other->rank != peek.rank;
  });
  return has_others ? std::optional(*path) : std::nullopt;
}

// True if the sidecar beside `data` was made for a single file with another name, and inode and birth show that `data` is
// not this file.
bool IsOfAnotherFile(FileSystem& fs, const std::string& data, const Peek& peek) {
  const auto stat = fs.Stat(data, /*follow=*/false);
  return peek.kind == DatasetKind::kShared && peek.name != BaseNameOf(data) && stat.ok() && !MayBe(*stat, peek.stamp);
}

// Makes a second name for a file, or a copy if the file system has no hard links.
Status Duplicate(FileSystem& fs, const std::string& path, const std::string& to) {
  if (fs.MakeHardLink(path, to).ok()) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(const auto from, fs.Open(path, OpenMode::kRead, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const auto copy, fs.Open(to, OpenMode::kCreateNew, /*follow=*/false, 0600));
  Status status = NoThrow([&]() -> Status {
    std::vector<std::uint8_t> bytes(std::size_t{1} << 20);
    for (std::uint64_t offset = 0;;) {
      LZY_ASSIGN_OR_RETURN(const std::size_t got, from->ReadAt(offset, bytes));
      if (got == 0) break;
      LZY_RETURN_IF_ERROR(copy->WriteAt(offset, ByteSpan(bytes).first(got)));
      offset += got;
    }
    LZY_RETURN_IF_ERROR(copy->CopyAccess(*from));
    return copy->Sync();
  });
  if (!status.ok()) (void)fs.Remove(to);
  return status;
}

}  // namespace

Status Protector::Run() {
  Stopwatch total;
  Status status = Open();
  if (status.ok() && !must_look_) status = Protect();
  // If the commit was refused or had nothing to do, nothing differing was committed.
  if (status.ok() && report_.committed) std::ranges::move(commit_warnings_, std::back_inserter(report_.warnings));
  if (!status.ok() || !report_.committed) {
    (void)NoThrow([&] { RemoveEmptySidecars(ReleaseLocks(std::move(view_))); });
    view_ = DatasetView();
  }
  total.AddTo(report_.phases.total);
  LZY_RETURN_IF_ERROR(GatherStats());
  // All ranks have the same numbers. The commit is done, so no error of this counts.
  if (report_.bytes_encoded > kLargeCommit) {
    (void)NoThrow([&]() -> Status {
      LZY_ASSIGN_OR_RETURN(const std::uint64_t failed, comm_.AllReduceMax(status.ok() ? 0 : 1));
      return failed != 0 ? Status::Ok() : MeasureExchange(report_.phases.total * kMeasuringShare);
    });
  }
  return status;
}

// Makes sure that every file has a sidecar to lock, then opens the dataset and locks it.
Status Protector::Open() {
  if (request_.held == nullptr) LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return EnsureSidecars(); }));
  if (LooksFirst()) {
    LZY_ASSIGN_OR_RETURN(const std::uint64_t any, comm_.AllReduceMax(must_look_));
    must_look_ = any != 0;
    if (must_look_) return Status::Ok();
  }
  LZY_ASSIGN_OR_RETURN(view_, OpenDataset(context_, ref_, {.write = true, .held = request_.held}));
  // In a program, each rank wrote its own member of a set. For tools, it is not known who wrote a file.
  const bool written_by_owner = request_.touched.has_value();
  LZY_ASSIGN_OR_RETURN(caches_, ReadPastStalePages(context_.fs, comm_, written_by_owner, view_));
  if (request_.force) return Status::Ok();
  LZY_RETURN_IF_ERROR(RefuseDestroyed());
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return RefuseRotten(); }));
  return RefuseUnsealed();
}

// The sidecar beside the file is destroyed. The committed state may still be in device directories or in another copy of
// the sidecar, so a commit needs --force. Members of a set are exempt, because the other members know their state. So is a
// program, which has just written the file.
Status Protector::RefuseDestroyed() const {
  if (!shared() || request_.touched) return Status::Ok();
  const FileView& file = view_.ensembles[0].files[0];
  const bool unknown = file.present && file.fault == SidecarFault::kDestroyed;
  return unknown ? Status(Code::kUnprotected, file.fault_text) : Status::Ok();
}

// The file has no sidecar of its own, and is a damaged file that was renamed or moved. A commit would accept the damage.
Status Protector::RefuseRotten() const {
  if (request_.origin_known || request_.touched || (shared() && comm_.rank() != 0)) return Status::Ok();
  const auto refuse = [&](const FileView& file) {
    if ((!shared() && file.owner != comm_.rank()) || !file.present || LeavesOf(file) != nullptr) return Status::Ok();
    return lzy::RefuseRotten(context_.fs, file.path, ref_.path, context_.options.key.get());
  };
  for (const FileView& file : view_.files()) LZY_RETURN_IF_ERROR(refuse(file));
  for (const FileView& file : view_.extras) LZY_RETURN_IF_ERROR(refuse(file));  // a commit makes them members
  return Status::Ok();
}

// A sidecar without the right seal may be forged. Only --force seals it again.
Status Protector::RefuseUnsealed() {
  Status refused;
  const auto look = [&](const FileView& file) {
    if (refused.ok() && file.fault == SidecarFault::kUnsealed) refused = {Code::kUnprotected, file.fault_text};
  };
  std::ranges::for_each(view_.files(), look);
  std::ranges::for_each(view_.extras, look);
  report_.unsealed = report_.unsealed || !refused.ok();
  return refused;
}

// Locks are in sidecars, so every file gets a sidecar, which may be empty.
Status Protector::EnsureSidecars() {
  if (shared()) return comm_.rank() == 0 ? EnsureSidecar(ref_.path, 0) : Status::Ok();
  // A member that is lost is judged later, with or without its sidecar.
  const auto is_lost = [&](const std::string& path) { return context_.fs.Stat(path).status().code() == Code::kNotFound; };
  for (const auto& [rank, path] : ref_.members) {
    if (ref_.IsDealtHere(rank) && !is_lost(path)) LZY_RETURN_IF_ERROR(EnsureSidecar(path, rank));
  }
  return Status::Ok();
}

// A ruined sidecar is replaced, with a warning. Only --force replaces that of a shared file (RefuseDestroyed), or any with
// a key: the ruined sidecar may have been unsealed.
Status Protector::EnsureSidecar(const std::string& path, std::uint32_t rank) {
  auto opened = OpenData(context_.fs, ref_.kind, path, /*write=*/false);
  const bool lost = shared() && opened.status().code() == Code::kNotFound;
  if (lost && FindSidecar(context_.fs, path).ok()) return Status::Ok();  // judged later
  LZY_ASSIGN_OR_RETURN(auto data, std::move(opened));
  if (shared()) {
    LZY_ASSIGN_OR_RETURN(const bool recovered, RecoverSidecar(context_.fs, path, *data, context_.options));
    if (recovered) report_.warnings.push_back(kRecovered);
  }
  const Occupants occupants = request_.touched ? Occupants::kGo : Occupants::kYield;
  LZY_ASSIGN_OR_RETURN(const std::string sidecar_path, HomeOfSidecar(path, occupants));
  if (must_look_) return Status::Ok();
  // The epoch of a program checked the sidecar when it began, and its content is read later, under the lock.
  const Status existing = request_.touched ? PeekSidecar(context_.fs, sidecar_path).status()
                                           : Sidecar::Load(context_.fs, sidecar_path, OpenMode::kRead).status();
  if (existing.ok()) return Status::Ok();
  const bool ruins = IsRuined(existing);
  if (existing.code() != Code::kNotFound && !ruins) return existing;
  if (ruins && context_.options.key && !request_.force) {
    report_.unsealed = true;
    return {Code::kUnprotected, existing.message()};
  }
  if (ruins && shared() && !request_.touched && !request_.force) return Status::Ok();
  if (ruins && !request_.touched) {
    report_.warnings.push_back(shared() ? fmt::format("{}; it is made again, for the data as they are now", existing.message())
                                        : fmt::format("{}; it is made again", existing.message()));
  }
  const std::string name = shared() ? BaseNameOf(path) : PatternTail(ref_.path);
  const EmptySidecar empty = NewSidecar(context_.options, ref_.kind, name, rank);
  // OpenDataset locks the sidecar later, on the rank that owns the file.
  LZY_RETURN_IF_ERROR(ruins ? LockSidecar(context_.fs, sidecar_path, data.get(), &empty, context_.options.timeout_seconds).status()
                            : MakeSidecar(context_.fs, sidecar_path, *data, empty));
  created_.emplace_back(path, sidecar_path);
  return Status::Ok();
}

// Gives the sidecar of the file its name. A single file that was given the name of a member leaves its sidecar behind, because the
// set needs the one of this name.
Result<std::string> Protector::HomeOfSidecar(const std::string& path, Occupants occupants) {
  const auto found = shared() || request_.touched ? Result<std::string>(Code::kNotFound, path) : FindSidecar(context_.fs, path);
  const auto displaced = found.ok() ? SidecarOfDisplaced(context_.fs, path, *found) : std::nullopt;
  if (displaced) return *displaced;
  const RehomeOptions options{context_.options.timeout_seconds, occupants};
  if (!LooksFirst()) return Rehome(context_.fs, path, options);
  LZY_ASSIGN_OR_RETURN(const auto home, HomeIfSettled(context_.fs, path, options));
  must_look_ = must_look_ || !home;
  return home.value_or("");
}

// Judges the dataset as it is, and writes nothing.
Result<bool> Protector::IsRefused() {
  LZY_ASSIGN_OR_RETURN(view_, OpenDataset(context_, ref_, {}));
  LZY_RETURN_IF_ERROR(RefuseDestroyed());
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return RefuseRotten(); }));
  LZY_RETURN_IF_ERROR(RefuseUnsealed());
  if (view_.committed) {
    LZY_ASSIGN_OR_RETURN(const bool done, JudgeExisting(EffectiveOptions()));
    return done && !adopted_ && report_.state != DatasetState::kIntact;
  }
  std::vector<const FileView*> files;
  for (const FileView& file : view_.files()) files.push_back(&file);
  return JudgeFormer(files);
}

// Removes sidecars that Run created, if it committed nothing. `held`: the locks of this rank. Locks on sidecars that other
// ranks created are released first, because those ranks lock them here.
void Protector::RemoveEmptySidecars(HeldLocks held) {
  std::vector<std::shared_ptr<File>> locked;
  for (const auto& [path, sidecar_path] : created_) locked.push_back(std::move(held[path]));
  held.clear();
  for (std::size_t i = 0; i < created_.size(); ++i) {
    const std::string& path = created_[i].second;
    // Lock the sidecar first, because another process may be about to use it.
    const auto sidecar = LockSidecar(context_.fs, path, nullptr, nullptr, 0, nullptr, std::move(locked[i]));
    if (sidecar.ok() && !(*sidecar)->committed() && !(*sidecar)->intent()) (void)context_.fs.Remove(path);
  }
}

// A program changes the geometry only if it wrote everything: then all is encoded again, and no block is compared with its
// old leaf.
bool Protector::KeepsGeometry() const {
  if (!view_.committed) return false;
  return request_.parity_anew || (request_.touched && !std::ranges::all_of(touched_ | std::views::values, &IntervalSet::whole));
}

// A dataset keeps its geometry, except for options that were given.
Options Protector::EffectiveOptions() const {
  Options out = context_.options;
  if (!view_.committed) return out;
  const bool keep = KeepsGeometry();
  KeepGeometry(view_.superblock, view_.info, keep, out);
  if (keep || !out.given.contains("device-dirs")) out.device_dirs = view_.info.parts.directories;
  return out;
}

bool Protector::HasServersOf(const Options& options) const {
  const bool striped = view_.superblock.placement == ParityPlacement::kStriped;
  if (!options.by_servers || !options.device_dirs.empty()) return !striped;
  return striped && options.by_servers->unit == view_.superblock.unit && options.by_servers->groups == view_.info.groups;
}

// Without --force, damage and loss stop the commit. Edits are committed. If nothing changed, there is nothing to commit.
Result<bool> Protector::JudgeExisting(const Options& options) {
  if (request_.only_access) {
    LZY_ASSIGN_OR_RETURN(const bool recorded, AccessIsRecorded(context_, view_));
    LZY_ASSIGN_OR_RETURN(const bool fresh, AllStampsFresh());
    only_access_ = true;
    HoldUndamaged();
    return recorded || !fresh;
  }
  LZY_ASSIGN_OR_RETURN(const Findings findings, Examine(context_, view_, false));
  if (shared() && view_.ensembles[0].files[0].identity.has_free_sidecar) {
    LZY_ASSIGN_OR_RETURN(adopted_, AdoptShared(context_, view_));
    if (adopted_) return true;
  }
  LZY_RETURN_IF_ERROR(RecognizeRot(context_, view_, findings));
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { Describe(view_, findings, report_); }));
  if (view_.IsPartial()) return true;  // not even with --force: the members in reach would become a set of their own
  std::uint64_t stale = 0, at_risk = 0, damaged = 0;
  bool missing = !view_.UnknownFilesAreThere();
  for (const Damage& d : report_.damage) {
    if (d.transient || d.part != DamagePart::kData) continue;
    (d.cause == DamageCause::kStale ? stale : d.cause == DamageCause::kAtRisk ? at_risk : damaged) += d.length;
  }
  for (const FileView& file : view_.files()) missing = missing || !file.present;
  if (request_.parity_anew) {
    if (missing || !IsProvenWhole()) return true;
    HoldUndamaged();
    report_.damage.clear();
    return false;
  }
  // Even with --force, a lost file has no data to hash. The remaining members of a set can be committed.
  if ((missing && (shared() || !request_.force)) || (damaged > 0 && !request_.force)) return true;
  if (!request_.force && (report_.another || HasUncheckedPast())) {
    if (stale > 0 && HasReplacedFile(view_)) LZY_RETURN_IF_ERROR(WarnOfRotten(context_, view_, report_));
    return true;
  }
  const bool same_geometry = options.parity == view_.superblock.parity && options.group == view_.info.group_option &&
                             options.block_size == BlockSizeOptionOf(view_.superblock) &&
                             ChooseBlockSize(options.block_size, LargestFile()) == view_.superblock.block_size &&
                             options.stripe == view_.info.stripe_option && HasServersOf(options) &&
                             (!shared() || options.device_dirs == view_.info.parts.directories);
  LZY_ASSIGN_OR_RETURN(const bool recorded, AccessIsRecorded(context_, view_));
  LZY_ASSIGN_OR_RETURN(const bool fresh, AllStampsFresh());
  only_access_ = findings.clean() && !report_.unjudged && same_geometry && fresh;
  if (only_access_ && recorded) return true;

  if (stale > 0 && !request_.force) {
    LZY_RETURN_IF_ERROR(WarnWhyNotToCommit(context_, view_, report_));
    if (report_.another) return true;
  }
  WarnOfCommitting(stale, kCommittedStale);
  WarnOfCommitting(at_risk, kCommittedAtRisk);
  WarnOfCommitting(damaged, kCommittedDamaged);
  std::uint64_t unchecked = 0;
  for (const DatasetReport::Unchecked& range : report_.unchecked) unchecked += range.length;
  WarnOfCommitting(unchecked, kCommittedUnchecked);
  HoldUndamaged();
  report_.another = false;
  report_.damage.clear();
  report_.unchecked.clear();
  report_.unjudged = false;
  return false;
}

// True if each data byte was just found to have its committed hash, and no intent is set. A commit ends all intents, and a
// repair must not end the intent of a program.
bool Protector::IsProvenWhole() const {
  if (report_.another || report_.unjudged || !report_.unchecked.empty() || !view_.unknown_ranks.empty()) return false;
  if (std::ranges::any_of(report_.damage, [](const Damage& d) { return !d.transient && d.part != DamagePart::kParity; })) return false;
  return std::ranges::all_of(view_.files(), [](const FileView& file) { return file.sidecar_usable() && !file.intent; });
}

void Protector::WarnOfCommitting(std::uint64_t bytes, const char* what) {
  if (bytes > 0) commit_warnings_.push_back(fmt::format("{}: {} {}", ref_.path, FormatSize(bytes), what));
}

Sidecar* Protector::LeavesOf(const FileView& file) {
  if (file.former) return file.former.get();
  return file.sidecar && file.sidecar->committed() ? file.sidecar.get() : nullptr;
}

Sidecar* Protector::FormerOf(const FileView& file) const {
  Sidecar* const sidecar = LeavesOf(file);
  const bool ours = sidecar != nullptr && view_.committed && sidecar->contents().superblock.uuid == view_.superblock.uuid;
  return ours ? nullptr : sidecar;
}

// The stamp in the file's own sidecar tells whether a difference is an edit, as for a dataset that is protected again.
Status Protector::CompareWithFormer(const FileView& file, FoundFormer& found) const {
  const Sidecar& former = *FormerOf(file);
  const SidecarContents& old = former.contents();
  const std::uint64_t block = old.superblock.block_size, size = old.superblock.stamp.size;
  const BlockStream stream = DataStream(block, size, file.data.get(), &old.data_tree, context_.options.key.get());
  std::vector<BadBlocks> bad;
  std::uint64_t read = 0;
  CheckSettings settings = SettingsFor(context_, false);
  if (context_.progress) {
    settings.progress = [&](std::uint64_t bytes) { context_.progress("verify", read += bytes, std::max(size, read)); };
  }
  LZY_RETURN_IF_ERROR(CheckInPieces(stream, {0, old.data_tree.leaf_count()}, settings,
                                    [&](std::uint64_t, const CheckResult& piece) { AppendBad(bad, piece.bad); }));
  FileView then;  // the file as its own sidecar describes it
  LZY_ASSIGN_OR_RETURN(then.stat, file.data->Stat());
  then.present = true;
  then.stamp = old.superblock.stamp;
  then.commit_clock_ns = old.superblock.commit_clock_ns;
  then.intent = former.intent();
  const auto add = [&](BlockFault fault, const ByteRange& bytes) {
    found.differing.push_back({.path = file.path, .device = shared() ? 0 : file.rank, .offset = bytes.offset, .length = bytes.length,
                     .cause = CauseOf(then, fault, bytes)});
  };
  const std::vector<std::uint64_t>& unknown = former.unknown_data_leaves();
  for (const BadBlocks& run : bad) {
    for (std::uint64_t i = run.first; !run.transient && i < run.first + run.count; ++i) {
      const BlockPlace place = stream.place(i);
      if (run.fault == BlockFault::kHash && std::ranges::binary_search(unknown, i)) {
        found.unchecked += place.length;
      } else {
        add(run.fault, {place.offset, place.length});
      }
    }
  }
  if (then.stat.size > size) add(BlockFault::kHash, {size, then.stat.size - size});
  return Status::Ok();
}

// It may be another file, damaged, or the sidecar may be the last proof of something: the stamp does not show that.
Result<bool> Protector::JudgeAlone(const FileView& file, FoundFormer& found) const {
  const Superblock& former = FormerOf(file)->contents().superblock;
  if (request_.force || former.kind != DatasetKind::kShared) return false;
  const auto alone = SelfCommunicator();
  Context here{context_.fs, *alone, context_.options};
  here.stop = context_.stop;
  here.progress = context_.progress;
  const DatasetRef single{DatasetKind::kShared, file.path, {}, {}};
  LZY_ASSIGN_OR_RETURN(DatasetView view, OpenDataset(here, single, {}));
  if (!view.committed || view.superblock.uuid != former.uuid) return false;
  LZY_ASSIGN_OR_RETURN(const Findings findings, Examine(here, view, false));
  // It was swapped or renamed, and is as committed. A commit of the file alone would only rename sidecars (AdoptShared).
  if (view.ensembles[0].files[0].identity.has_free_sidecar) return true;
  LZY_RETURN_IF_ERROR(RecognizeRot(here, view, findings));
  DatasetReport report(single.path, single.kind);
  Describe(view, findings, report);
  const bool edited = std::ranges::any_of(report.damage, [](const Damage& d) { return d.part == DamagePart::kData && IsEdit(d.cause); });
  if (edited && !report.another) LZY_RETURN_IF_ERROR(WarnWhyNotToCommit(here, view, report));
  for (Damage& d : report.damage) {
    if (d.transient || d.part != DamagePart::kData) continue;
    d.device = shared() ? 0 : file.rank;
    found.differing.push_back(std::move(d));
  }
  for (const DatasetReport::Unchecked& range : report.unchecked) found.unchecked += range.length;
  if (!report.another) return true;
  found.refused.push_back(file.path);
  std::ranges::move(report.warnings, std::back_inserter(found.warnings));
  return true;
}

void Protector::FoundFormer::Add(FoundFormer&& other) {
  std::ranges::move(other.ranks, std::back_inserter(ranks));
  std::ranges::move(other.differing, std::back_inserter(differing));
  unchecked += other.unchecked;
  std::ranges::move(other.refused, std::back_inserter(refused));
  std::ranges::move(other.warnings, std::back_inserter(warnings));
}

// Nothing has been encoded or replaced yet, so the other dataset can still repair the damage.
Result<bool> Protector::JudgeFormer(std::span<const FileView* const> files) {
  using Found = FoundFormer;
  Found mine;
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
    for (const FileView* file : files) {
      const bool here = shared() ? comm_.rank() == 0 : file->owner == comm_.rank();
      if (!here || file->data == nullptr || FormerOf(*file) == nullptr) continue;
      mine.ranks.push_back(file->rank);
      // The other members know the root of this file, and the data have this root. This proof is stronger than a sidecar
      // that was moved here.
      if (file->proven_data) continue;
      Found differs;
      LZY_RETURN_IF_ERROR(CompareWithFormer(*file, differs));
      Found alone;
      LZY_ASSIGN_OR_RETURN(const bool judged, differs.differing.empty() ? Result<bool>(false) : JudgeAlone(*file, alone));
      mine.Add(judged ? std::move(alone) : std::move(differs));
    }
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm_, mine));
  Found found;
  std::uint64_t stale = 0, at_risk = 0, damaged = 0;
  for (const Found& theirs : all) {
    // These files are judged, so encoding does not compare them with leaves again.
    for (const std::uint32_t rank : theirs.ranks) touched_[rank].AddWhole();
    found.Add(Found(theirs));
  }
  report_.repair_first = std::move(found.refused);
  report_.warnings.insert(report_.warnings.end(), found.warnings.begin(), found.warnings.end());
  for (const Damage& d : found.differing) {
    (d.cause == DamageCause::kStale ? stale : d.cause == DamageCause::kAtRisk ? at_risk : damaged) += d.length;
  }
  if ((damaged == 0 && report_.repair_first.empty()) || request_.force) {
    WarnOfCommitting(stale, kCommittedStale);
    WarnOfCommitting(at_risk, kCommittedAtRisk);
    WarnOfCommitting(damaged, kCommittedDamaged);
    WarnOfCommitting(found.unchecked, kCommittedUnchecked);
    return false;
  }
  if (!view_.committed) DescribeMetadata(view_, report_);
  if (!shared()) report_.devices = std::max(report_.devices, static_cast<std::uint32_t>(files.size()));
  report_.state = damaged > 0 ? DatasetState::kDamaged : DatasetState::kStale;
  report_.another = report_.another || damaged == 0;
  for (const Damage& d : found.differing) {
    if (!IsEdit(d.cause)) report_.repair_first.push_back(d.path);
  }
  std::ranges::sort(report_.repair_first);
  const auto same = std::ranges::unique(report_.repair_first);
  report_.repair_first.erase(same.begin(), same.end());
  std::ranges::move(found.differing, std::back_inserter(report_.damage));
  MergeDamage(report_.damage);
  return true;
}

std::uint64_t Protector::LargestFile() const {
  std::uint64_t largest = 0;
  for (const FileView& file : view_.files()) largest = std::max(largest, file.stat.size);
  return largest;
}

// Without an old commit there are no leaves to compare with. Blocks that lzy-protect commits were judged just now.
Result<std::uint32_t> Protector::AgreeOnBlockSize(const Options& options, std::uint64_t largest,
                                                  std::span<const FileView* const> own) {
  // The program may have kept a size that is not the automatic one. New parity must have the same blocks.
  if (request_.parity_anew) return view_.superblock.block_size;
  const std::uint32_t wanted = ChooseBlockSize(options.block_size, largest);
  if (!request_.touched) return wanted;
  // The committed block size, if it is not `size` and an untouched part of the file differs from its leaves; else 0.
  const auto rotten_size = [&](const FileView& file, std::uint32_t size) -> std::uint32_t {
    const auto touched = touched_.find(file.rank);
    const Sidecar* const sidecar = LeavesOf(file);
    if (touched == touched_.end() || touched->second.whole() || sidecar == nullptr) return 0;
    const std::uint32_t before = sidecar->contents().superblock.block_size;
    return before == size || IsAsCommitted(file, touched->second) ? 0 : before;
  };
  std::uint32_t chosen = wanted;
  if (options.block_size == kAutomaticBlockSize) {
    std::uint32_t kept = 0;
    for (const FileView* file : own) kept = std::max(kept, rotten_size(*file, wanted));
    LZY_ASSIGN_OR_RETURN(const std::uint64_t agreed, comm_.AllReduceMax(kept));
    if (agreed != 0) chosen = static_cast<std::uint32_t>(agreed);
  }
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
    for (const FileView* file : own) {
      if (FormerOf(*file) == nullptr || rotten_size(*file, chosen) == 0) continue;
      return {Code::kIo, fmt::format("{}: it is damaged where the program did not write it, and its hashes are of blocks of another size; "
                                     "repair it: lzy-verify --repair", file->path)};
    }
    return Status::Ok();
  }));
  return chosen;
}

// Encoding cannot compare blocks of one size with leaves of another size, so the comparison is made here.
bool Protector::IsAsCommitted(const FileView& file, IntervalSet touched) const {
  bool same = true;
  const Status checked = NoThrow([&]() -> Status {
    const Sidecar& sidecar = *LeavesOf(file);
    const SidecarContents& old = sidecar.contents();
    const std::uint64_t block = old.superblock.block_size;
    LZY_ASSIGN_OR_RETURN(const FileStat now, file.data->Stat());
    AddResize(touched, old.superblock.stamp.size, now.size, block);
    const std::uint64_t blocks = std::min<std::uint64_t>(old.data_tree.leaf_count(), (now.size + block - 1) / block);
    const BlockStream stream =
        DataStream(block, old.superblock.stamp.size, file.data.get(), &old.data_tree, context_.options.key.get());
    same = sidecar.knows_all_leaves();
    for (const Interval& held : Without({{0, blocks}}, TouchedBlocks(touched, block, blocks))) {
      const auto check = [&](std::uint64_t, const CheckResult& found) { same = same && found.bad.empty(); };
      LZY_RETURN_IF_ERROR(CheckInPieces(stream, held, SettingsFor(context_, false), check));
    }
    return Status::Ok();
  });
  return checked.ok() && same;
}

// A member that has the state of an older commit of its set may have lost later writes. If the hashes of the newest commit
// are lost, this cannot be checked. The same holds if members were renamed together with their sidecars.
bool Protector::HasUncheckedPast() {
  bool found = false;
  for (const std::uint32_t rank : view_.unknown_ranks) {
    const FileView* file = view_.UnknownFile(rank);
    if (file != nullptr && file->fault == SidecarFault::kForeign) {
      report_.warnings.push_back(fmt::format("{}: it has the sidecar of another file or member, so nothing is known of what it was; rename files "
                                             "and sidecars back, or commit it as it is, with --force", file->path));
      found = true;
    }
    if (file == nullptr || !file->IsOfThePast()) continue;
    report_.warnings.push_back(fmt::format("{}: it is as an older commit of its set left it, and the hashes of the newest commit "
                                           "are lost; put back its newest version, or commit it as it is, with --force",
                                           file->path));
    found = true;
  }
  return found;
}

// The new commit may accept differences only in blocks that JudgeExisting found to differ.
void Protector::HoldUndamaged() {
  holds_ = true;
  for (const FileView& file : view_.files()) touched_.try_emplace(file.rank);
  for (const Damage& d : report_.damage) {
    if (d.part != DamagePart::kData || d.transient) continue;
    const auto at = touched_.find(shared() ? 0 : d.device);
    if (at != touched_.end()) at->second.Add({d.offset, d.offset + d.length});
  }
}

Status Protector::TakeRequestedRanges() {
  LZY_ASSIGN_OR_RETURN(touched_, GatherTouched(comm_, *request_.touched));
  // Files without an entry are unchanged, except perhaps in size.
  for (const FileView& file : view_.files()) touched_.try_emplace(file.rank);
  holds_ = true;
  return Status::Ok();
}

// The judgement of a changed file is void, so none of its blocks is compared with its leaf. Programs do not judge.
void Protector::CheckJudged(const FileView& file, const FileStat& now) {
  if (request_.touched || (now.size == file.stat.size && now.mtime_ns == file.stat.mtime_ns)) return;
  touched_[file.rank].AddWhole();
  judged_in_vain_ = true;
}

// JudgeExisting found the block right or edited, and encoding then found rot. Files with the committed mtime and no intent
// are exempt: there the second reading has found rot, which keeps its old leaf and is reported.
Status Protector::CheckReadings(const Rot& rot) const {
  if (request_.touched) return Status::Ok();
  // `parity_anew` accepts no edits.
  if (request_.parity_anew && judged_in_vain_) return ChangedMeanwhile(ref_.path);
  for (const FileView& file : view_.files()) {
    if (!rot.all.contains(file.rank) || (file.stat.mtime_ns == file.stamp.mtime_ns && !file.intent)) continue;
    return {
        Code::kBusy,
        fmt::format("{}: two reads gave different data, so nothing was committed, and its protection is as it was "
                    "before. Try again. If this happens again, its storage or cache is faulty: try on another node",
                    file.path)};
  }
  return Status::Ok();
}

// Local. `rot` is the same on all ranks, so the reports are. A block is lost if its row has no valid parity.
void Protector::ReportRot(const FileView& file, const Layout& layout, std::uint32_t f, const Rot& rot) {
  const auto rotten = rot.all.find(file.rank);
  const auto lost = rot.lost.find(file.rank);
  if (rotten == rot.all.end()) return;
  for (std::uint64_t index : rotten->second) {
    const auto at = layout.LocateData(f, index);
    const BlockPlace place = layout.DataBlock(at.device, at.row.unit_row, at.row.slice);
    const bool beyond = lost != rot.lost.end() && lost->second.contains(index);
    report_.damage.push_back({.path = file.path,
                              .device = shared() ? at.device : file.rank,
                              .offset = place.offset,
                              .length = place.length,
                              .beyond_repair = beyond});
    if (report_.state == DatasetState::kIntact) report_.state = DatasetState::kDamaged;
    if (beyond) report_.state = DatasetState::kUnrepairable;
  }
  MergeDamage(report_.damage);
}

bool Protector::StampsFresh() const {
  return std::ranges::all_of(view_.files(), [](const FileView& file) {
    return !file.intent && file.present && file.sidecar_usable() && !IsStampOutdated(file.stat, file.stamp, file.commit_clock_ns);
  });
}

// The clocks of nodes differ, so ranks agree.
Result<bool> Protector::AllStampsFresh() {
  LZY_ASSIGN_OR_RETURN(const std::uint64_t outdated, comm_.AllReduceMax(StampsFresh() ? 0 : 1));
  return outdated == 0;
}

// Asks by writing to the locked sidecar: the new one does not exist yet, and the clock must be known before the data are
// read.
Status Protector::Settle(const FileView& file, FileJob& job) const {
  Sidecar* const sidecar = file.sidecar ? file.sidecar.get() : file.former.get();
  LZY_RETURN_IF_ERROR(job.Settle(sidecar != nullptr ? &sidecar->file() : file.held.get(), caches_.several));
  const Sidecar* const last = LeavesOf(file);
  if (last == nullptr || (!only_access_ && (!request_.touched || touched_.at(file.rank).whole()))) return Status::Ok();
  const Superblock& sb = last->contents().superblock;
  if (IsRacy(sb.stamp, sb.commit_clock_ns)) job.clock_ns = std::min(job.clock_ns, job.before.mtime_ns);
  return Status::Ok();
}

// A program of another user of the group may write the file, but may not change the mode of the sidecar. Then the access of
// the sidecar stays as narrow as it is.
void Protector::RenewAccess(const FileView& file, Sidecar& sidecar) {
  if (file.data && HasOwnerOfFile(file)) (void)sidecar.file().CopyAccess(*file.data);
}

// Intents are the same on all ranks, so no communication is needed. The intent of a repair belongs to no epoch.
bool Protector::HasOtherWriter(const FileView& file) {
  if (!request_.own_intents || !file.intent || IsOfRepair(*file.intent)) return false;
  if (std::ranges::any_of(*request_.own_intents, [&](const Intent& one) { return SameWriter(one, *file.intent); })) return false;
  report_.kept_intents.emplace(file.rank, *file.intent);
  return true;
}

bool Protector::HasFirstBlock(const Capture& capture, const FileJob& job) {
  const ByteSpan written = capture.FirstBlock();
  if (written.empty() || context_.options.verify_writes) return true;
  std::vector<std::uint8_t> bytes(written.size());
  RowStats stats;
  const auto read = ReadWhole(*job.data, 0, bytes, job.synced);
  if (read.ok()) stats.bytes_read = *read;
  pass_.Add(stats);
  return read.ok() && std::ranges::equal(bytes, written);
}

Status Protector::CheckQuiet(std::uint32_t rank, const FileJob& job) const {
  if (touched_.at(rank).whole()) return Status::Ok();
  const bool quiet = !(request_.written_since && request_.written_since()) && !IsEdited();
  if (quiet) return Status::Ok();
  return ChangedMeanwhile(job.data->path());
}

Status Protector::KeepOtherIntent(const FileView& file, Sidecar& fresh) const {
  const auto at = report_.kept_intents.find(file.rank);
  return at == report_.kept_intents.end() ? Status::Ok() : fresh.SetIntent(at->second);
}

Result<Uuid> Protector::CommonUuid() {
  Uuid uuid = NewUuid();
  LZY_RETURN_IF_ERROR(BroadcastRecord(comm_, uuid));
  return uuid;
}

Result<std::string> Protector::FreshPath(const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string real, context_.fs.RealPath(data_path));
  return NewSidecarPath(real);
}

// The rename makes the commit count, so everything else is durable before. The sync of the directory makes the rename
// durable.
Status Protector::Publish(const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string real, context_.fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string to, SidecarPath(real));
  kept_.clear();  // a second name may be the only one from now on
  LZY_RETURN_IF_ERROR(context_.fs.Rename(NewSidecarPath(real), to));
  return context_.fs.SyncDirectory(DirectoryOf(to));
}

// A file that was renamed with its sidecar, or a sidecar that was moved alone, may replace nothing that others need. From
// here on the sidecar has two names, so nothing is lost wherever the commit stops, and whichever process completes it.
Status Protector::KeepForOthers(const std::string& data_path, const std::set<Uuid>& replaced) {
  LZY_ASSIGN_OR_RETURN(const std::string real, context_.fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(real));
  const auto old = PeekSidecar(context_.fs, path);
  if (!old.ok() && old.status().code() != Code::kNotFound && !IsRuined(old.status())) return old.status();
  if (!old.ok() || !old->committed) return Status::Ok();
  const bool of_set = old->kind == DatasetKind::kSet && old->members > 1 && !replaced.contains(old->uuid);
  // The file was judged by a sidecar of another name, which proves its content. The sidecar of its own name has the hashes and
  // parity of its former content, and may be needed to restore it.
  const bool unused = shared() && view_.committed && old->uuid != view_.superblock.uuid;
  if (!of_set && !unused && !IsOfAnotherFile(context_.fs, real, *old)) return Status::Ok();
  std::string kept = TemporarySidecarPath(path);
  if (const auto made_at = WhereItWasMade(context_.fs, real, *old); made_at && *made_at != path) {
    const auto there = PeekSidecar(context_.fs, *made_at);
    if (there.ok() && there->uuid == old->uuid && there->rank == old->rank && there->generation >= old->generation) return Status::Ok();
    // The old name may belong to another single file now.
    const auto namesake = DataPathOf(*made_at);
    const bool free = of_set || (namesake && context_.fs.Stat(*namesake, /*follow=*/false).status().code() == Code::kNotFound);
    if (free && there.status().code() == Code::kNotFound) kept = *made_at;
  }
  LZY_RETURN_IF_ERROR(Duplicate(context_.fs, path, kept));
  kept_.push_back(kept);
  return context_.fs.SyncDirectory(DirectoryOf(kept));
}

// Without force, such a commit is refused (WarnWhyNotToCommit). A sidecar that has its parity elsewhere, or in others of its set, is of no
// use alone.
Status Protector::KeepForRotten(const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string real, context_.fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(real));
  const auto old = PeekSidecar(context_.fs, path);
  if (!old.ok() || !old->committed || old->kind != DatasetKind::kShared || !old->parts.directories.empty()) return Status::Ok();
  const auto rotten = FindRotten(context_.fs, path, real, context_.options.key.get());
  if (!rotten) return Status::Ok();
  // Where it is free, the sidecar goes with its file, as if both had been renamed.
  const auto its = SidecarPath(*rotten);
  const bool beside = DirectoryOf(*rotten) == DirectoryOf(real) && its.ok();
  const bool free = beside && context_.fs.Stat(*its, /*follow=*/false).status().code() == Code::kNotFound;
  const std::string kept = free ? *its : TemporarySidecarPath(path);
  LZY_RETURN_IF_ERROR(Duplicate(context_.fs, path, kept));
  kept_.push_back(kept);
  const auto shown = [&](const std::string& one) {
    return ShellQuote(DirectoryOf(one) == DirectoryOf(real) ? JoinPath(DirectoryOf(data_path), BaseNameOf(one)) : one);
  };
  const std::string to = its.ok() ? fmt::format("mv -n {} {} && ", shown(kept), shown(*its)) : "";
  std::vector<std::string>& warnings = kept_warnings_;
  warnings.push_back(fmt::format("{}: its old sidecar is kept as {}, because only that can repair {}. To repair that file: {}lzy-verify --repair {}", data_path,
                                 shown(kept), shown(*rotten), free ? "" : to, shown(*rotten)));
  return context_.fs.SyncDirectory(DirectoryOf(kept));
}

void Protector::RemoveKept() {
  for (const std::string& path : kept_) (void)context_.fs.Remove(path);
}

void Protector::HoldToLeaves(const Sidecar& sidecar, const IntervalSet& touched, FileJob& job) {
  job.old_data = &sidecar.contents().data_tree;
  job.touched = &touched;
  job.unknown.insert(sidecar.unknown_data_leaves().begin(), sidecar.unknown_data_leaves().end());
}

void Protector::FillReport(const SidecarContents& contents, std::uint32_t groups, std::uint64_t bytes) {
  FillCommit(contents.superblock, report_);
  report_.by_servers.reset();
  if (contents.superblock.placement == ParityPlacement::kStriped) report_.by_servers = {contents.superblock.unit, contents.info.groups};
  report_.state = DatasetState::kIntact;
  report_.groups = groups;
  if (contents.key) report_.key = KeyText(contents.key->id());
  report_.bytes = bytes;
  report_.committed = true;
}

// Ranks take part in this after a failure, too: Run has agreed on the status before.
Status Protector::GatherStats() {
  const RowStats& stats = pass_.stats();
  Phases& phases = report_.phases;
  phases += stats;
  struct Numbers {
    Phases seconds;  // of the slowest rank
    std::uint64_t read = 0, captured = 0, encoded = 0, again = 0;
    LZY_FIELDS(seconds, read, captured, encoded, again)
  };
  const Numbers mine{phases, stats.bytes_read, stats.bytes_captured, pass_.bytes_encoded(), stats.rows_again};
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm_, mine));
  report_.bytes_captured = report_.bytes_encoded = 0;
  std::uint64_t again = 0;
  for (const Numbers& one : all) {
    for (const auto phase : kPhases) phases.*phase = std::max(phases.*phase, one.seconds.*phase);
    report_.bytes_read += one.read;
    report_.bytes_captured += one.captured;
    report_.bytes_encoded += one.encoded;
    again = std::max(again, one.again);
  }
  if (again > 0) report_.warnings.push_back(AgainText(again));
  return Status::Ok();
}

DatasetReport Protect(const Context& context, const DatasetRef& dataset, const ProtectRequest& request) {
  DatasetReport report(dataset.path, dataset.kind);
  report.status = NoThrow([&] {
    const auto run = [&](bool& adopted) -> Status {
      const auto make = [&] {
        return dataset.kind == DatasetKind::kShared ? SharedProtector(context, dataset, request, report)
                                                    : SetProtector(context, dataset, request, report);
      };
      auto protector = make();
      Status status = protector->Run();
      if (status.ok() && protector->must_look()) {
        // A commit that is refused renames no sidecar.
        LZY_ASSIGN_OR_RETURN(const bool refused, make()->IsRefused());
        if (refused) return Status::Ok();
        report = DatasetReport(dataset.path, dataset.kind);
        protector = make();
        protector->set_looked();
        status = protector->Run();
      }
      adopted = protector->adopted();
      return status;
    };
    bool adopted = false;
    const Status status = run(adopted);
    if (!status.ok() || !adopted) return status;
    report = DatasetReport(dataset.path, dataset.kind);
    return run(adopted);
  });
  return report;
}

}  // namespace lzy
