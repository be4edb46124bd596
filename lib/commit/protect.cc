#include "commit/protect.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

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
#include "names/contents.h"
#include "names/lookup.h"
#include "names/set_names.h"
#include "rows/retry.h"
#include "sidecar/names.h"

// The half of a commit that does not depend on the kind of dataset (commit/protector.h): locks, judgement, the shape of
// sidecars, names and reports.

namespace lzy {
namespace {

constexpr const char* kCommittedStale = "changed since the last commit; committed as they are now";
constexpr const char* kCommittedAtRisk = "were being written when the last epoch broke off; committed as they are now";
constexpr const char* kCommittedDamaged = "are damaged; committed as they are now (--force)";
constexpr const char* kCommittedUnchecked = "could not be checked, since their hashes are lost; committed as they are now";

// The path that a sidecar had when it was made, if it was in the directory of `data`, a file that has it now. Of a set: only if
// its name there tells so, or another sidecar of the set.
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

// Whether the sidecar beside `data` is of a single file of another name, which `data` is not, for all that a stat tells.
bool IsOfAnotherFile(FileSystem& fs, const std::string& data, const Peek& peek) {
  const auto stat = fs.Stat(data, /*follow=*/false);
  return peek.kind == DatasetKind::kShared && peek.name != BaseNameOf(data) && stat.ok() && !MayBe(*stat, peek.stamp);
}

// A second name for a file, or a copy of it where there are no such names.
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
  if (status.ok()) status = Protect();
  // Refused, or up to date already, is no commit either.
  if (status.ok() && report_.committed) std::ranges::move(commit_warnings_, std::back_inserter(report_.warnings));
  if (!status.ok() || !report_.committed) {
    (void)NoThrow([&] { RemoveEmptySidecars(ReleaseLocks(std::move(view_))); });
    view_ = DatasetView();
  }
  total.AddTo(report_.phases.total);
  LZY_RETURN_IF_ERROR(GatherStats());
  return status;
}

// Opens the dataset with its locks held, after making sure that every file has a sidecar to lock.
Status Protector::Open() {
  if (request_.held == nullptr) LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return EnsureSidecars(); }));
  LZY_ASSIGN_OR_RETURN(view_, OpenDataset(context_, ref_, {.write = true, .held = request_.held}));
  // Of a program, each rank writes its own member of a set. Of what tools protect, nobody knows who wrote it.
  const bool written_by_owner = request_.touched.has_value();
  LZY_ASSIGN_OR_RETURN(caches_, ReadPastStalePages(context_.fs, comm_, written_by_owner, view_));
  if (request_.force) return Status::Ok();
  LZY_RETURN_IF_ERROR(RefuseDestroyed());
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { return RefuseRotten(); }));
  return RefuseUnsealed();
}

// Nothing beside the file tells what it was, and what does may be elsewhere: in device directories, or in another copy.
// Members of a set are told by each other, and what a program has just written by the program.
Status Protector::RefuseDestroyed() const {
  if (!shared() || request_.touched) return Status::Ok();
  const FileView& file = view_.ensembles[0].files[0];
  const bool unknown = file.present && file.fault == SidecarFault::kDestroyed;
  return unknown ? Status(Code::kUnprotected, file.fault_text) : Status::Ok();
}

// Nothing beside the file is its sidecar, but it was renamed, and is damaged: a commit would make that damage right.
Status Protector::RefuseRotten() const {
  if (request_.touched || (shared() && comm_.rank() != 0)) return Status::Ok();
  for (const FileView& file : view_.files()) {
    if ((!shared() && file.owner != comm_.rank()) || !file.present || LeavesOf(file) != nullptr) continue;
    const auto was = RottenAs(context_.fs, FollowLink(context_.fs, file.path), context_.options.key.get());
    if (!was) continue;
    return {Code::kUnprotected, fmt::format("{}: by its inode, size and time it was '{}' at the last commit, and not all of it is as it was "
                                            "then: it was renamed, and is damaged. Rename it back, then repair it. Or --force commits it as it is",
                                            file.path, *was)};
  }
  return Status::Ok();
}

// What is there may be forged: to seal it is for somebody to say who knows that it is not.
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

// There is no lock without a sidecar, so every file that is there gets one. It may hold nothing yet.
Status Protector::EnsureSidecars() {
  if (shared()) return comm_.rank() == 0 ? EnsureSidecar(ref_.path, 0) : Status::Ok();
  // Lost, with or without its sidecar: judged later.
  const auto is_lost = [&](const std::string& path) { return context_.fs.Stat(path).status().code() == Code::kNotFound; };
  for (const auto& [rank, path] : ref_.members) {
    if (ref_.IsDealtHere(rank) && !is_lost(path)) LZY_RETURN_IF_ERROR(EnsureSidecar(path, rank));
  }
  return Status::Ok();
}

// A ruined sidecar is replaced, with a warning. That of a shared file is replaced by force only (RefuseDestroyed), and
// with a key any: ruins may hide that the dataset was not sealed.
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
  LZY_ASSIGN_OR_RETURN(const std::string sidecar_path,
                       Rehome(context_.fs, path, {context_.options.timeout_seconds, occupants}));
  // Of a program's epoch it was looked at when that began, and what is in it is read under the lock.
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
  // Whoever owns the file locks it.
  LZY_RETURN_IF_ERROR(ruins ? LockSidecar(context_.fs, sidecar_path, data.get(), &empty, context_.options.timeout_seconds).status()
                            : MakeSidecar(context_.fs, sidecar_path, *data, empty));
  created_.emplace_back(path, sidecar_path);
  return Status::Ok();
}

// An attempt that commits nothing leaves no sidecars behind that say nothing.
void Protector::RemoveEmptySidecars(HeldLocks held) {
  std::vector<std::shared_ptr<File>> locked;
  for (const auto& [path, sidecar_path] : created_) locked.push_back(std::move(held[path]));
  held.clear();  // other ranks may have made what is locked here
  for (std::size_t i = 0; i < created_.size(); ++i) {
    const std::string& path = created_[i].second;
    // Under its lock: somebody may be about to use it.
    const auto sidecar = LockSidecar(context_.fs, path, nullptr, nullptr, 0, nullptr, std::move(locked[i]));
    if (sidecar.ok() && !(*sidecar)->committed() && !(*sidecar)->intent()) (void)context_.fs.Remove(path);
  }
}

// Hooks change the geometry only where all is encoded again anyway, with no block to be held to its leaf.
bool Protector::KeepsGeometry() const {
  if (!view_.committed) return false;
  return request_.parity_anew || (request_.touched && !std::ranges::all_of(touched_ | std::views::values, &IntervalSet::whole));
}

// A dataset keeps the geometry that it has, unless an option says otherwise.
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

// Without force, damage and loss stop the commit. Edits are what a commit is for. If nothing changed at all, there is
// nothing to commit.
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
  LZY_RETURN_IF_ERROR(TellRotFromOthers(context_, view_, findings));
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] { Describe(view_, findings, report_); }));
  if (view_.IsPartial()) return true;  // not even by force: what is left would become a set of its own
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
  // A lost file cannot be blessed even by force: there is nothing to hash. What is left of a set can.
  if ((missing && (shared() || !request_.force)) || (damaged > 0 && !request_.force)) return true;
  if (!request_.force && (report_.another || HasUncheckedPast())) return true;
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
    LZY_ASSIGN_OR_RETURN(const bool mixed, IsMixed());
    LZY_ASSIGN_OR_RETURN(const bool needed, ProvesAnother());
    if (needed || mixed) return true;
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

// Whether each byte of the data has a committed hash that it has just been found to have, and nobody's epoch is open: a commit
// ends all intents, and whoever repairs must not end that of a program.
bool Protector::IsProvenWhole() const {
  if (report_.another || report_.unjudged || !report_.unchecked.empty() || !view_.unknown_ranks.empty()) return false;
  if (std::ranges::any_of(report_.damage, [](const Damage& d) { return !d.transient && d.part != DamagePart::kParity; })) return false;
  return std::ranges::all_of(view_.files(), [](const FileView& file) { return file.sidecar_usable() && !file.intent; });
}

// Copied over another file, or exchanged by copies: the next repair would take that content for rot.
Result<bool> Protector::ProvesAnother() {
  std::vector<Holder> mine;
  std::set<std::uint32_t> edited;  // ranks of members
  for (const Damage& d : report_.damage) {
    if (d.part == DamagePart::kData && IsEdit(d.cause)) edited.insert(d.device);
  }
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
    for (const FileView& file : view_.files()) {
      const bool asked = shared() ? comm_.rank() == 0 : file.owner == comm_.rank() && edited.contains(file.rank) && file.sidecar_usable();
      if (asked) AddHolder(file, mine);
    }
  }));
  LZY_ASSIGN_OR_RETURN(const std::vector<Holder> all, UniteRecords(comm_, mine));
  for (const Holder& one : all) {
    report_.another = true;
    const bool both = std::ranges::any_of(view_.files(), [&](const FileView& file) {
      return file.path == one.file && file.identity.Is(Identity::Kind::kProven) && BaseNameOf(file.identity.name) == BaseNameOf(one.holder);
    });
    report_.warnings.push_back(
        both ? fmt::format("{0}: it and '{1}' hold what the other one was at its last commit, and nothing else proves that. Give the files "
                           "their contents back. Or --force commits this one as it is", one.file, one.holder)
             : fmt::format("{}: '{}' holds what this file was at its last commit, and nothing else proves that. First commit "
                           "that one, or give the files their contents back", one.file, one.holder));
  }
  return !all.empty();
}

// A member that was moved here from another directory, with its sidecar, may make the set that is here look like an older one. Whoever
// commits all of it dissolves that set.
Result<bool> Protector::IsMixed() {
  struct Member {
    std::string path;
    std::uint32_t members = 0;  // of its set
    LZY_FIELDS(path, members)
  };
  std::vector<Member> mine;
  for (const FileView& file : view_.files()) {
    if (shared() || file.owner != comm_.rank() || !file.former) continue;
    const SidecarContents& contents = file.former->contents();
    const Superblock& sb = contents.superblock;
    if (sb.kind != DatasetKind::kSet || sb.uuid == view_.superblock.uuid || !HasSizeAndTime(file.stat, sb.stamp)) continue;
    if (PatternFromTail(file.path, contents.info.name, sb.rank) == ref_.path) mine.push_back({file.path, sb.members});
  }
  LZY_ASSIGN_OR_RETURN(const auto all, UniteRecords(comm_, mine));
  for (const Member& one : all) {
    report_.another = true;
    report_.warnings.push_back(fmt::format("{}: it is as another set of this name left it, of {} files: members of two sets are mixed here. Move away "
                                           "those that do not belong here, with their sidecars; or --force commits all as they are",
                                           one.path, one.members));
  }
  return !all.empty();
}

// Only a file of the same mtime could be taken for another one: from an archive, by a coarse clock, or written within one tick. Two sets
// that exchanged their names prove each other, whatever their times are.
void Protector::AddHolder(const FileView& file, std::vector<Holder>& mine) const {
  const std::string real = FollowLink(context_.fs, file.path);
  const Holders which = file.identity.Is(Identity::Kind::kProven) ? Holders::kProtected : Holders::kOfItsTime;
  const auto holder = FindHolder(context_.fs, file.sidecar_path, real, context_.options.key.get(), which);
  const bool is_member = holder && std::ranges::any_of(ref_.members, [&](const auto& member) {
    return FollowLink(context_.fs, member.second) == holder->path;
  });
  if (holder && !is_member) mine.push_back({file.path, holder->path});
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

// What the file was when that was committed is told by its stamp there, as for a dataset that is protected again.
Status Protector::CompareWithFormer(const FileView& file, std::vector<Damage>& found, std::uint64_t& unchecked) const {
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
  FileView then;  // the file as its own sidecar knows it
  LZY_ASSIGN_OR_RETURN(then.stat, file.data->Stat());
  then.present = true;
  then.stamp = old.superblock.stamp;
  then.commit_clock_ns = old.superblock.commit_clock_ns;
  then.intent = former.intent();
  const auto add = [&](BlockFault fault, const ByteRange& bytes) {
    found.push_back({.path = file.path, .device = shared() ? 0 : file.rank, .offset = bytes.offset, .length = bytes.length,
                     .cause = CauseOf(then, fault, bytes)});
  };
  const std::vector<std::uint64_t>& unknown = former.unknown_data_leaves();
  for (const BadBlocks& run : bad) {
    for (std::uint64_t i = run.first; !run.transient && i < run.first + run.count; ++i) {
      const BlockPlace place = stream.place(i);
      if (run.fault == BlockFault::kHash && std::ranges::binary_search(unknown, i)) {
        unchecked += place.length;
      } else {
        add(run.fault, {place.offset, place.length});
      }
    }
  }
  if (then.stat.size > size) add(BlockFault::kHash, {size, then.stat.size - size});
  return Status::Ok();
}

// Nothing was encoded and nothing is replaced yet, so what another dataset has can still repair what is damaged.
Result<bool> Protector::JudgeFormer(std::span<const FileView* const> files) {
  struct Found {
    std::vector<std::uint32_t> ranks;  // of files that another dataset committed
    std::vector<Damage> differing;
    std::uint64_t unchecked = 0;
    LZY_FIELDS(ranks, differing, unchecked)
  };
  Found mine;
  LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&]() -> Status {
    for (const FileView* file : files) {
      const bool here = shared() ? comm_.rank() == 0 : file->owner == comm_.rank();
      if (!here || file->data == nullptr || FormerOf(*file) == nullptr) continue;
      mine.ranks.push_back(file->rank);
      // The other members know its root, and it has just been found to have that: content goes before a sidecar that was moved here.
      if (file->proven_data) continue;
      LZY_RETURN_IF_ERROR(CompareWithFormer(*file, mine.differing, mine.unchecked));
    }
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm_, mine));
  std::vector<Damage> differing;
  std::uint64_t stale = 0, at_risk = 0, damaged = 0, unchecked = 0;
  for (const Found& theirs : all) {
    // Judged already: none of it is held to its leaves again.
    for (const std::uint32_t rank : theirs.ranks) touched_[rank].AddWhole();
    differing.insert(differing.end(), theirs.differing.begin(), theirs.differing.end());
    unchecked += theirs.unchecked;
  }
  for (const Damage& d : differing) {
    (d.cause == DamageCause::kStale ? stale : d.cause == DamageCause::kAtRisk ? at_risk : damaged) += d.length;
  }
  if (damaged == 0 || request_.force) {
    WarnOfCommitting(stale, kCommittedStale);
    WarnOfCommitting(at_risk, kCommittedAtRisk);
    WarnOfCommitting(damaged, kCommittedDamaged);
    WarnOfCommitting(unchecked, kCommittedUnchecked);
    return false;
  }
  if (!view_.committed) DescribeMetadata(view_, report_);
  if (!shared()) report_.devices = std::max(report_.devices, static_cast<std::uint32_t>(files.size()));
  report_.state = DatasetState::kDamaged;
  for (const Damage& d : differing) {
    if (!IsEdit(d.cause)) report_.repair_first.push_back(d.path);
  }
  std::ranges::sort(report_.repair_first);
  const auto same = std::ranges::unique(report_.repair_first);
  report_.repair_first.erase(same.begin(), same.end());
  std::ranges::move(differing, std::back_inserter(report_.damage));
  MergeDamage(report_.damage);
  return true;
}

std::uint64_t Protector::LargestFile() const {
  std::uint64_t largest = 0;
  for (const FileView& file : view_.files()) largest = std::max(largest, file.stat.size);
  return largest;
}

// Without a commit before, there is nothing to hold to leaves, and what lzy-protect commits has just been judged.
Result<std::uint32_t> Protector::AgreeOnBlockSize(const Options& options, std::uint64_t largest,
                                                  std::span<const FileView* const> own) {
  // A program may have kept a size that is not the automatic one, and parity made anew must be of the same blocks.
  if (request_.parity_anew) return view_.superblock.block_size;
  const std::uint32_t wanted = ChooseBlockSize(options.block_size, largest);
  if (!request_.touched) return wanted;
  // The file's block size, if it is not `size`, and if something in it that the program did not write differs.
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

// Nothing is held to leaves whose blocks have another size, so this must be known before.
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

// A member that is as an older commit of its set left it may have lost what came later. If the hashes of the newest commit
// are lost too, nobody can tell; nor if members were renamed together with their sidecars.
bool Protector::HasUncheckedPast() {
  bool found = false;
  for (const std::uint32_t rank : view_.unknown_ranks) {
    const FileView* file = view_.UnknownFile(rank);
    if (file != nullptr && file->fault == SidecarFault::kForeign) {
      report_.warnings.push_back(fmt::format("{}: it has the sidecar of another file or member, so nothing is known of what it was; rename files "
                                             "and sidecars back, or commit it as it is: lzy-protect --force", file->path));
      found = true;
    }
    if (file == nullptr || !file->IsOfThePast()) continue;
    report_.warnings.push_back(fmt::format("{}: it is as an older commit of its set left it, and the hashes of the newest commit "
                                           "are lost; put back its newest version, or commit it as it is: lzy-protect --force",
                                           file->path));
    found = true;
  }
  return found;
}

// What was found different just now is what the new commit may find different.
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
  // Of files without an entry nothing changed but, perhaps, the size.
  for (const FileView& file : view_.files()) touched_.try_emplace(file.rank);
  holds_ = true;
  return Status::Ok();
}

// What was judged is void then, so no block of the file is held to its leaf. The hooks judge nothing before.
void Protector::CheckJudged(const FileView& file, const FileStat& now) {
  if (request_.touched || (now.size == file.stat.size && now.mtime_ns == file.stat.mtime_ns)) return;
  touched_[file.rank].AddWhole();
  judged_in_vain_ = true;
}

// Judging called the block right, or an edit; encoding then read it as rot. A file with the committed mtime and no
// intent is not meant: there the second reading has found rot, which keeps its old leaf and is reported.
Status Protector::CheckReadings(const Rot& rot) const {
  if (request_.touched) return Status::Ok();
  // Whoever makes parity again accepts no edits.
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

// Local; `rot` is agreed, so reports are the same on all ranks. A block is lost if its row has no parity that counts.
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

// The clocks of nodes differ.
Result<bool> Protector::AllStampsFresh() {
  LZY_ASSIGN_OR_RETURN(const std::uint64_t outdated, comm_.AllReduceMax(StampsFresh() ? 0 : 1));
  return outdated == 0;
}

// The sidecar that is locked is written, and a new one only later: the clock must be known before the data are read.
Status Protector::Settle(const FileView& file, FileJob& job) const {
  Sidecar* const sidecar = file.sidecar ? file.sidecar.get() : file.former.get();
  LZY_RETURN_IF_ERROR(job.Settle(sidecar != nullptr ? &sidecar->file() : file.held.get(), caches_.several));
  const Sidecar* const last = LeavesOf(file);
  if (last == nullptr || (!only_access_ && (!request_.touched || touched_.at(file.rank).whole()))) return Status::Ok();
  const Superblock& sb = last->contents().superblock;
  if (IsRacy(sb.stamp, sb.commit_clock_ns)) job.clock_ns = std::min(job.clock_ns, job.before.mtime_ns);
  return Status::Ok();
}

// A program of another user of the group may write the file, and may not change the sidecar's mode. Then it stays as
// narrow as it is.
void Protector::RenewAccess(const FileView& file, Sidecar& sidecar) {
  if (file.data && HasOwnerOfFile(file)) (void)sidecar.file().CopyAccess(*file.data);
}

// Intents are agreed facts, so no communication is needed. A repair's note is nobody's epoch.
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
  if (!request_.written_since || touched_.at(rank).whole() || !request_.written_since()) return Status::Ok();
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

// The rename makes the commit count, so everything else is durable before it. The directory's sync makes it stay.
Status Protector::Publish(const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string real, context_.fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string to, SidecarPath(real));
  kept_.clear();  // it may be the only one from now on
  LZY_RETURN_IF_ERROR(context_.fs.Rename(NewSidecarPath(real), to));
  return context_.fs.SyncDirectory(DirectoryOf(to));
}

// Files that were moved to other names brought their sidecars along, or sidecars were moved without them. From here on there are
// two of it, so nothing is lost wherever the commit breaks off, and whoever completes it.
Status Protector::KeepForOthers(const std::string& data_path, const std::set<Uuid>& replaced) {
  LZY_ASSIGN_OR_RETURN(const std::string real, context_.fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(real));
  const auto old = PeekSidecar(context_.fs, path);
  if (!old.ok() && old.status().code() != Code::kNotFound && !IsRuined(old.status())) return old.status();
  if (!old.ok() || !old->committed) return Status::Ok();
  const bool of_set = old->kind == DatasetKind::kSet && old->members > 1 && !replaced.contains(old->uuid);
  if (!of_set && !IsOfAnotherFile(context_.fs, real, *old)) return Status::Ok();
  std::string kept = TemporarySidecarPath(path);
  if (const auto made_at = WhereItWasMade(context_.fs, real, *old)) {
    const auto there = PeekSidecar(context_.fs, *made_at);
    if (there.ok() && there->uuid == old->uuid && there->rank == old->rank && there->generation >= old->generation) return Status::Ok();
    // A single file that has the name again may be another one.
    const auto namesake = DataPathOf(*made_at);
    const bool free = of_set || (namesake && context_.fs.Stat(*namesake, /*follow=*/false).status().code() == Code::kNotFound);
    if (free && there.status().code() == Code::kNotFound) kept = *made_at;
  }
  LZY_RETURN_IF_ERROR(Duplicate(context_.fs, path, kept));
  kept_.push_back(kept);
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
  TellCommit(contents.superblock, report_);
  report_.by_servers.reset();
  if (contents.superblock.placement == ParityPlacement::kStriped) report_.by_servers = {contents.superblock.unit, contents.info.groups};
  report_.state = DatasetState::kIntact;
  report_.groups = groups;
  if (contents.key) report_.key = KeyText(contents.key->id());
  report_.bytes = bytes;
  report_.committed = true;
}

// Also after a failure: ranks take part in it whatever their status is, for Run has agreed on it by then.
Status Protector::GatherStats() {
  const RowStats& stats = pass_.stats();
  Phases& phases = report_.phases;
  phases += stats;
  struct Numbers {
    Phases seconds;  // the slowest rank's count
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
    const auto run = [&](bool& adopted) {
      auto protector = dataset.kind == DatasetKind::kShared ? SharedProtector(context, dataset, request, report)
                                                            : SetProtector(context, dataset, request, report);
      const Status status = protector->Run();
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
