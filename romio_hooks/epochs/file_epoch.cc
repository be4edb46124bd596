#include "hooks/epochs/file_epoch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <thread>
#include <utility>

#include "comm/records.h"
#include "hooks/files/pointers.h"
#include "hooks/files/registry.h"
#include "hooks/reports/messages.h"
#include "hooks/transfers/capturing.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy::hooks {
namespace {

std::optional<SidecarVersion> VersionOf(const std::string& data_path) {
  const auto state = ReadCommitState(PosixFileSystem(), data_path);
  return state ? std::optional(state->version) : std::nullopt;
}

bool IsAmong(const Intent& intent, const std::vector<Intent>& intents) {
  return std::any_of(intents.begin(), intents.end(), [&](const Intent& one) { return SameWriter(one, intent); });
}

/// The intents of the file's family that this process knows. `last` is the last epoch that this process began.
std::vector<Intent> OwnIntents(const OpenFile& file, const std::optional<EpochStart>& last) {
  std::vector<Intent> own = file.family.intents;
  if (last) own.push_back(last->intent);
  return own;
}

/// Begins an epoch of the file, which has the path `path` now, and stores it. The caller holds epoch_mutex.
Result<EpochStart> Begin(OpenFile& file, const std::string& path) {
  auto begun = BeginEpoch(PosixFileSystem(), file.options, path, file.set ? file.set->pattern : std::string());
  if (!begun.ok()) return begun;
  const std::lock_guard lock(file.disk->mutex);
  auto& last = file.disk->start;
  // If the previous intent is one of ours, keep the `before` of the epoch that set it.
  const bool ours = begun->before && IsAmong(*begun->before, OwnIntents(file, last));
  if (ours) begun->before = last ? last->before : std::nullopt;
  last = *begun;
  file.disk->intent_doubtful.store(false);
  return begun;
}

/// True if this rank may rely on an intent in the sidecar. False for an intent of another program, which may clear it, and
/// for one from before a failed commit.
bool IsReliable(OpenFile& file, const Intent& intent) {
  const Intent self = IntentOfThisProcess();
  if ((intent.pid != self.pid || intent.host != self.host) &&
      !file.family.processes.contains({intent.host, intent.pid})) {
    return false;
  }
  if (!file.disk->intent_doubtful.load()) return true;
  const std::lock_guard lock(file.disk->mutex);
  return !IsAmong(intent, OwnIntents(file, file.disk->start));
}

// --------------------------------------------------------------------------------------- State of the file on disk

/// Finds another name of the file in the directory of `path`, for programs that rename a file before they close it.
std::optional<std::string> NewName(const std::string& path, const DiskFile& disk) {
  const std::string directory = DirectoryOf(path);
  const auto names = PosixFileSystem().List(directory);
  if (!names.ok()) return std::nullopt;
  for (const std::string& name : *names) {
    std::string candidate = JoinPath(directory, name);
    if (IsLzyName(name)) continue;
    const auto stat = PosixFileSystem().Stat(candidate, /*follow=*/false);
    if (stat.ok() && stat->inode == disk.inode && stat->file_system == disk.file_system) return candidate;
  }
  return std::nullopt;
}

/// The path of the file that `place` has open, if it is still the file of `disk`.
std::optional<std::string> PathOfPlace(const Descriptor& place, const DiskFile& disk) {
  std::array<char, PATH_MAX> path{};
  const std::string link = fmt::format("/proc/self/fd/{}", place.get());
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= path.size()) return std::nullopt;
  std::string found(path.data(), static_cast<std::size_t>(length));
  const auto stat = PosixFileSystem().Stat(found, /*follow=*/false);
  if (!stat.ok() || stat->inode != disk.inode || stat->file_system != disk.file_system) return std::nullopt;
  return found;
}

/// The present path of the file; nullopt if it has none in its directory. Returns `path` if the inode of the file is not
/// known.
std::optional<std::string> NameNow(const OpenFile& file) {
  const DiskFile& disk = *file.disk;
  if (disk.inode == 0) return file.path;
  const auto stat = PosixFileSystem().Stat(file.path);
  if (stat.ok() && stat->inode == disk.inode && stat->file_system == disk.file_system) return file.path;
  if (file.place) {
    if (auto path = PathOfPlace(*file.place, disk)) return path;
  }
  return NewName(file.path, disk);
}

/// True if the program changed the size through MPI in a way that explains a size of `size` bytes.
bool WasResized(const IntervalSet& touched, std::uint64_t size) {
  if (touched.whole()) return true;
  const auto& intervals = touched.intervals();
  return !intervals.empty() && intervals.back().end == kEverythingBehind && intervals.back().begin <= size;
}

}  // namespace

void LookAtDisk(OpenFile& file, EpochPart& part) {
  const auto name = NameNow(file);
  const auto stat = PosixFileSystem().Stat(name.value_or(file.path));
  if (!name || !stat.ok()) {
    part.presence = EpochPart::Presence::kGone;
    return;
  }
  if (*name != file.path) {
    part.presence = EpochPart::Presence::kMoved;
    part.path = *name;
    part.cover_all = true;
  }
  const std::lock_guard lock(file.epoch_mutex);
  part.size = std::max(stat->size, file.epoch.size);
  // Somebody changed the file after the program had handed its commit over.
  const bool edited = file.handed_over && *file.handed_over != FileTime{stat->size, stat->mtime_ns};
  if (stat->size != file.epoch.size) {
    // A rank changed the size, or a write went beyond the old end.
    part.resized = {file.BeginOfChange(std::min(stat->size, file.epoch.size)), part.size};
  }
  // The file was truncated without MPI during the epoch. It may have been shorter than it is now.
  const bool truncated = stat->size < file.epoch.size && !WasResized(part.touched, stat->size);
  part.cover_all |= truncated || edited;
  // Another program committed the file: it has the file open, and may have written anything (docs/design/commit.md "Several
  // independent writers").
  part.met_commit = part.presence == EpochPart::Presence::kThere && VersionOf(file.path) != file.epoch.version;
  part.cover_all |= part.met_commit;
  part.capture_counts &= !truncated && !edited && !part.met_commit;
}

// ------------------------------------------------------------------------------------------------------ Begin and end

namespace {

/// With verify-reads, postpones the epoch to the first write, because reads in an epoch cannot be checked. Not if the file
/// has a state that only an epoch corrects. Returns whether it was postponed. The caller holds epoch_mutex.
bool PutOffFirstEpoch(OpenFile& file) {
  if (!file.check || file.disk->epoch_open.load()) return false;
  const auto clean = FollowToCleanEpoch(PosixFileSystem(), file.options, file.path);
  const auto stat = PosixFileSystem().Stat(file.path);
  if (!clean || !stat.ok()) return false;
  file.epoch = {stat->size, stat->mtime_ns, VersionOf(file.path)};
  const std::lock_guard touched_lock(file.mutex);
  file.expected = clean->made_with;
  file.must_cover_all = clean->changed_behind;
  return true;
}

}  // namespace

Status BeginFirstEpoch(OpenFile& file) {
  const std::lock_guard lock(file.epoch_mutex);
  if (PutOffFirstEpoch(file)) return Status::Ok();
  const auto start = Begin(file, file.path);
  if (!start.ok()) return start.status();
  const auto stat = PosixFileSystem().Stat(file.path);
  if (!stat.ok()) return stat.status();
  file.epoch = {stat->size, stat->mtime_ns, VersionOf(file.path)};
  const std::lock_guard touched_lock(file.mutex);
  // Without a usable sidecar, or after an epoch that never ended, this commit must cover the whole file. If another writer
  // may still be writing, all later commits must, too.
  file.must_cover_all = !start->had_sidecar || start->changed_behind;
  file.expected = start->made_with;
  file.uncoordinated |= start->before && !IsOfRepair(*start->before);
  file.disk->epoch_open.store(true);
  return Status::Ok();
}

void EnsureEpoch(OpenFile& file) {
  if (file.disk->epoch_open.load()) return;
  const std::lock_guard lock(file.epoch_mutex);
  if (file.disk->epoch_open.load()) return;
  // If the file was renamed since the last commit, the intent is set under its new name, and the sidecar is renamed.
  // (`path` itself changes only at a commit, for all ranks.) If the file was removed, there is nothing to mark: the file
  // that has its name now is another one.
  const auto path = NameNow(file);
  if (!path) return file.disk->epoch_open.store(true);
  // The order of stat and sidecar matters. If a rank finds a changed stamp and no intent, another program edited the file.
  // If it finds a changed stamp and an intent, these are writes of another rank of this file, whose intent was set before
  // them.
  const auto stat = PosixFileSystem().Stat(*path);
  const bool changed = !stat.ok() || stat->size != file.epoch.size || stat->mtime_ns != file.epoch.mtime_ns;
  const auto state = ReadCommitState(PosixFileSystem(), *path);
  if (!state || !state->whole_file_intent || !IsReliable(file, *state->whole_file_intent)) {
    const auto start = Begin(file, *path);
    if (!start.ok()) {
      SayOnce(file.options, Options::Log::kWarn, file.path, "reopen",
              fmt::format("{}: {}; what is written from now on is not marked as at risk", file.path,
                          start.status().message()));
    }
    if (!start.ok() || !start->had_sidecar || (changed && start->changed_behind)) {
      const std::lock_guard touched_lock(file.mutex);
      file.touched.AddWhole();
    }
  }
  file.disk->epoch_open.store(true);
}

void CompareSizes(OpenFile& file) {
  {
    const std::lock_guard lock(file.mutex);
    if (std::exchange(file.size_compared, true)) return;
  }
  const auto stat = PosixFileSystem().Stat(file.path);
  const std::lock_guard epoch_lock(file.epoch_mutex);
  const std::lock_guard lock(file.mutex);
  if (stat.ok() && (stat->size >= file.epoch.size || WasResized(file.touched, stat->size))) return;
  file.touched.AddWhole();
}

void EndEpoch(OpenFile& file, std::uint64_t generation, std::uint64_t size, bool met_others) {
  {
    const std::lock_guard lock(file.epoch_mutex);
    file.disk->epoch_open.store(false);
    file.disk->intent_doubtful.store(false);  // the commit voided them
    const auto stat = PosixFileSystem().Stat(file.path);
    file.epoch = {size, stat.ok() ? stat->mtime_ns : 0, std::nullopt};
    if (file.Leads()) file.epoch.version = VersionOf(file.path);
    if (file.epoch.version && file.epoch.version->generation != generation) file.epoch.version.reset();
  }
  if (file.check) file.check->Forget();
  {
    const std::lock_guard lock(file.disk->mutex);
    if (file.disk->start) file.disk->start->before.reset();
  }
  bool touched_meanwhile = false;
  {
    const std::lock_guard lock(file.mutex);
    file.must_cover_all = false;
    file.uncoordinated |= met_others;
    file.size_compared = false;
    // Another thread wrote during the commit. The commit may have read this write, or not.
    touched_meanwhile = file.writes_under_way > 0 || !file.touched.empty();
    if (touched_meanwhile) file.touched.AddWhole();
  }
  if (touched_meanwhile) EnsureEpoch(file);
}

void Untake(OpenFile& file) {
  bool touched_meanwhile = false;
  {
    const std::lock_guard lock(file.mutex);
    touched_meanwhile = file.writes_under_way > 0 || !file.touched.empty();
    file.touched.AddWhole();
  }
  // A commit that failed late may have voided the intent, perhaps only after a crash. So the next write sets a new intent.
  // A thread that is past this check gets its intent here.
  file.disk->intent_doubtful.store(true);
  file.disk->epoch_open.store(false);
  if (touched_meanwhile) EnsureEpoch(file);
}

void TakeIntentBack(OpenFile& file) {
  if (!file.disk->epoch_open.load()) return;
  std::optional<EpochStart> start;
  {
    const std::lock_guard lock(file.disk->mutex);
    start = file.disk->start;
  }
  if (!start) return;
  const Status status = AbandonEpoch(PosixFileSystem(), file.options, file.path, *start);
  if (!status.ok()) Say(file.options, Options::Log::kInfo, fmt::format("{}: {}", file.path, status.message()));
}

// --------------------------------------------------------------------------------------------------------------- Parts

Intent MarkOf(Intent intent) {
  intent.ranges.clear();
  return intent;
}

std::size_t IntervalsEach(int ranks) {
  return std::clamp<std::size_t>(kMostIntervals / static_cast<std::size_t>(ranks), 16, kMostTouched);
}

EpochPart TakePart(OpenFile& file, Moment moment, bool data_safe, bool look, std::size_t intervals) {
  EpochPart part;
  part.data_safe = data_safe;
  part.path = file.path;
  part.process = IntentOfThisProcess();
  part.handed_over = file.handed_over;
  part.open_elsewhere = moment == Moment::kClose ? Registry::Get().Leave(file) : Registry::Get().IsOpenElsewhere(file);
  {
    const std::lock_guard lock(file.mutex);
    part.touched = file.touched;
    part.written_until_ns = file.options.verify_writes ? 0 : file.written_until_ns.load();
    const bool misplaced = std::exchange(file.misplaced, false);
    part.cover_all = file.must_cover_all || file.uncoordinated || misplaced;
    if (file.writes_under_way > 0) part.touched.AddWhole();
    file.touched.Clear();
    part.capture = TakeCapture(file);
    if (part.capture && misplaced) part.capture->Distrust();
  }
  {
    const std::lock_guard lock(file.disk->mutex);
    if (file.disk->start) {
      part.intent = MarkOf(file.disk->start->intent);
      if (file.disk->start->before) part.before = MarkOf(*file.disk->start->before);
    }
  }
  part.capture_counts = part.capture != nullptr && !part.open_elsewhere;
  if (part.capture && part.touched.whole()) part.capture->MissAll();
  part.touched.Coarsen(intervals);
  if (look) LookAtDisk(file, part);
  return part;
}

std::optional<FileTime> TimeAtHandOver(const std::string& path) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  // If the time is further ahead, another clock sets it.
  const std::int64_t limit = std::max(100 * kMillisecond, 4 * CoarseGranularityNs());
  const auto opened = PosixFileSystem().Open(path, OpenMode::kRead);
  auto stat = opened.ok() ? (*opened)->Stat() : PosixFileSystem().Stat(path);
  const bool never_racy = opened.ok() && (*opened)->StampsEveryChange();
  for (std::int64_t waited = 0; stat.ok() && !never_racy && waited < limit; waited += kMillisecond) {
    const std::int64_t ahead = stat->mtime_ns - CoarseNowNs();
    if (ahead < 0 || ahead > limit) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stat = PosixFileSystem().Stat(path);
  }
  if (!stat.ok()) return std::nullopt;
  return FileTime{stat->size, stat->mtime_ns};
}

std::shared_ptr<const Descriptor> PlaceAtHandOver(const std::string& path) {
  constexpr long kNfs = 0x6969;
  auto place = std::make_shared<const Descriptor>(open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
  struct statfs system {};
  if (!place->valid() || fstatfs(place->get(), &system) != 0 || system.f_type == kNfs) return nullptr;
  return place;
}

void MarkCommitUnderWay(OpenFile& file, bool under_way) {
  std::optional<Intent> own;
  {
    const std::lock_guard lock(file.disk->mutex);
    if (file.disk->start) own = MarkOf(file.disk->start->intent);
  }
  if (!own) return;
  own->flags = under_way ? own->flags | kIntentHandedOver : own->flags & ~kIntentHandedOver;
  (void)MarkHandedOver(PosixFileSystem(), file.path, *own);
}

bool IsMovedAway(const OpenFile& file) {
  struct stat now {};
  return file.place && fstat(file.place->get(), &now) == 0 && now.st_nlink > 0;
}

void FillFromEpoch(OpenFile& file, ProtectRequest& request) {
  if (SeveralThreads()) {
    request.written_since = [&file] {
      const std::lock_guard lock(file.mutex);
      return file.writes_under_way > 0 || !file.touched.empty();
    };
  }
  if (file.handed_over && file.Leads()) {
    request.edited_since = [&file] {
      const auto now = PosixFileSystem().Stat(file.path);
      return !now.ok() || *file.handed_over != FileTime{now->size, now->mtime_ns};
    };
  }
  const std::lock_guard lock(file.epoch_mutex);
  if (!file.Leads() || !file.epoch.version) return;
  request.departs_from = file.epoch.version->uuid;
  request.departs_from_generation = file.epoch.version->generation;
}

void AdoptDoubts(OpenFile& file) {
  if (!file.doubts.intent) return;
  const std::lock_guard lock(file.epoch_mutex);
  file.family.intents.push_back(MarkOf(*file.doubts.intent));
}

std::vector<Intent> OwnIntents(const std::vector<EpochPart>& parts) {
  std::vector<Intent> own;
  for (const EpochPart& part : parts) {
    if (part.intent) own.push_back(*part.intent);
  }
  return own;
}

void MeetFamily(OpenFile& file, const std::vector<EpochPart>& parts) {
  Family family;
  for (const EpochPart& part : parts) family.processes.emplace(part.process.host, part.process.pid);
  family.intents = OwnIntents(parts);
  const std::lock_guard lock(file.epoch_mutex);
  file.family = std::move(family);
}

Status MeetProcesses(OpenFile& file) {
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(*file.comm, IntentOfThisProcess()));
  const std::lock_guard lock(file.epoch_mutex);
  for (const Intent& mark : all) file.family.processes.emplace(mark.host, mark.pid);
  return Status::Ok();
}

bool MetOthers(const EpochPart& part, const std::vector<Intent>& own) {
  return part.met_commit || (part.before && !IsAmong(*part.before, own));
}

Status SyncData(const std::string& path) {
  auto file = PosixFileSystem().Open(path, OpenMode::kRead);
  if (!file.ok()) file = PosixFileSystem().Open(path, OpenMode::kReadWrite);  // the program may have no permission to read
  return file.ok() ? (*file)->Sync() : file.status();
}

}  // namespace lzy::hooks
