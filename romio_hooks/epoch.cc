#include "epoch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "commit_report.h"
#include "messages.h"
#include "registry.h"
#include "sidecar/names.h"

namespace lzy::hooks {
namespace {

/// All ranks' intervals together: a megabyte of them on every rank.
constexpr std::size_t kMostIntervals = 65536;
constexpr std::size_t kMostPath = 65536;

FileSystem& Disk() {
  return PosixFileSystem();
}

// ---------------------------------------------------------------------------------------------------- What sidecars
// say

struct Peek {
  SidecarVersion version;
  bool intent = false;  ///< an intent for the whole file is set
};

/// A look at the first copy's superblock and intent page, two small reads, where loading the sidecar would read all its
/// hashes. nullopt when there is nothing there that can be told from these alone.
std::optional<Peek> PeekAt(const std::string& data_path) {
  const auto path = SidecarPath(data_path);
  if (!path.ok()) return std::nullopt;
  const auto file = Disk().Open(*path, OpenMode::kRead);
  if (!file.ok()) return std::nullopt;
  std::vector<std::uint8_t> page(kSuperblockSize);
  if (!ReadExactly(**file, 0, page).ok()) return std::nullopt;
  const auto superblock = DecodeSuperblock(page, 0);
  if (!superblock.ok()) return std::nullopt;
  Peek peek{{superblock->uuid, superblock->generation}, false};
  for (const Extent& extent : superblock->extents) {
    if (extent.kind != ExtentKind::kIntent || extent.length < kIntentPageSize) continue;
    page.resize(kIntentPageSize);
    if (!ReadExactly(**file, extent.offset, page).ok()) break;
    const auto intent = DecodeIntent(page, 0);
    peek.intent = intent.ok() && intent->uuid == peek.version.uuid && intent->generation == peek.version.generation &&
                  (intent->flags & kIntentWholeFile) != 0;
  }
  return peek;
}

std::optional<SidecarVersion> VersionOf(const std::string& data_path) {
  const auto peek = PeekAt(data_path);
  return peek ? std::optional(peek->version) : std::nullopt;
}

// --------------------------------------------------------------------------------------------------------------
// Waiting

/// Pauses between attempts, doubling up to half a second, `timeout` in all. Counts the pauses and not the clock, so
/// that ranks that make the same attempts give up at the same one.
class Patience {
 public:
  explicit Patience(std::uint32_t timeout_seconds) : left_(std::chrono::seconds(timeout_seconds)) {}
  /// False when there is no more.
  bool Wait() {
    if (left_ <= std::chrono::milliseconds::zero()) return false;
    const auto pause = std::min(pause_, left_);
    std::this_thread::sleep_for(pause);
    left_ -= pause;
    pause_ = std::min(pause_ * 2, std::chrono::milliseconds(500));
    return true;
  }

 private:
  std::chrono::milliseconds left_;
  std::chrono::milliseconds pause_{10};
};

Result<EpochStart> BeginPatiently(const OpenFile& file) {
  Patience patience(file.options.timeout_seconds);
  const std::string pattern = file.set ? file.set->pattern : std::string();
  auto start = BeginEpoch(Disk(), file.options, file.path, pattern);
  while (!start.ok() && start.status().code() == Code::kBusy && patience.Wait()) {
    start = BeginEpoch(Disk(), file.options, file.path, pattern);
  }
  return start;
}

// ------------------------------------------------------------------------------------------- What became of the file

/// Another name of the file in the directory of `path`: where a program that renames before it closes has put it.
std::optional<std::string> NewName(const std::string& path, const DiskFile& disk) {
  const std::string directory = DirectoryOf(path);
  const auto names = Disk().List(directory);
  if (!names.ok()) return std::nullopt;
  for (const std::string& name : *names) {
    std::string candidate = JoinPath(directory, name);
    if (IsLzyName(name)) continue;
    const auto stat = Disk().Stat(candidate, /*follow=*/false);
    if (stat.ok() && stat->inode == disk.inode && stat->device == disk.device) return candidate;
  }
  return std::nullopt;
}

void LookAtDisk(OpenFile& file, Part& part) {
  auto stat = Disk().Stat(file.path);
  const bool known = file.disk->inode != 0;
  if (!stat.ok() || (known && (stat->inode != file.disk->inode || stat->device != file.disk->device))) {
    const auto moved = known ? NewName(file.path, *file.disk) : std::nullopt;
    if (moved) stat = Disk().Stat(*moved);
    if (!moved || !stat.ok()) {
      part.presence = Part::Presence::kGone;
      return;
    }
    part.presence = Part::Presence::kMoved;
    part.path = *moved;
    part.cover_all = true;
  }
  const std::lock_guard lock(file.epoch_mutex);
  part.size = std::max(stat->size, file.epoch.size);
  if (stat->size != file.epoch.size) {
    // Whoever changed the size, and whatever a write left beyond the old end. Begins a byte early because the block
    // with the end in it is another one now.
    const std::uint64_t least = std::min(stat->size, file.epoch.size);
    part.resized = {least == 0 ? 0 : least - 1, part.size};
  }
  // A commit that is not ours: somebody else has the file open, and may have written anything (DESIGN §6, end).
  if (part.presence == Part::Presence::kThere && VersionOf(file.path) != file.epoch.version) part.cover_all = true;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------ Begin and end

Status BeginFirstEpoch(OpenFile& file) {
  const std::lock_guard lock(file.epoch_mutex);
  const auto before = PeekAt(file.path);
  const auto start = BeginPatiently(file);
  if (!start.ok()) return start.status();
  const auto stat = Disk().Stat(file.path);
  if (!stat.ok()) return stat.status();
  file.epoch = {before && before->intent, stat->size, stat->mtime_ns, VersionOf(file.path)};
  // What is in no usable sidecar, or was left by somebody who never came to commit, must be read whole.
  const std::lock_guard touched_lock(file.mutex);
  file.must_cover_all = !start->had_sidecar || start->changed_behind || file.epoch.had_leftover_intent;
  file.disk->epoch_open.store(true);
  return Status::Ok();
}

void EnsureEpoch(OpenFile& file) {
  if (file.disk->epoch_open.load()) return;
  const std::lock_guard lock(file.epoch_mutex);
  if (file.disk->epoch_open.load()) return;
  // The order matters. A rank that finds the stamp changed and no intent saw somebody else's edit. One that finds the
  // stamp changed and an intent sees the writes of another rank of this file, whose intent was there before them.
  const auto stat = Disk().Stat(file.path);
  const bool changed = !stat.ok() || stat->size != file.epoch.size || stat->mtime_ns != file.epoch.mtime_ns;
  const auto peek = PeekAt(file.path);
  if (!peek || !peek->intent) {
    const auto start = BeginPatiently(file);
    if (!start.ok()) {
      SayOnce(file.options, Options::Log::kWarn, file.path, "reopen",
              fmt::format("{}: {}; what is written now is not marked as being at risk", file.path,
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
  const auto stat = Disk().Stat(file.path);
  const std::lock_guard epoch_lock(file.epoch_mutex);
  if (stat.ok() && stat->size >= file.epoch.size) return;
  const std::lock_guard lock(file.mutex);
  file.touched.AddWhole();
}

void EndEpoch(OpenFile& file, std::uint64_t generation, std::uint64_t size) {
  {
    const std::lock_guard lock(file.epoch_mutex);
    const auto stat = Disk().Stat(file.path);
    file.epoch = {false, size, stat.ok() ? stat->mtime_ns : 0, std::nullopt};
    if (file.Leads()) file.epoch.version = VersionOf(file.path);
    if (file.epoch.version && file.epoch.version->generation != generation) file.epoch.version.reset();
  }
  file.disk->epoch_open.store(false);
  bool touched_meanwhile = false;
  {
    const std::lock_guard lock(file.mutex);
    file.must_cover_all = false;
    file.size_compared = false;
    // Another thread wrote while the commit was made: what it wrote may be in the commit, or not.
    touched_meanwhile = file.writes_of_unknown_place > 0 || !file.touched.empty();
    if (touched_meanwhile) file.touched.AddWhole();
  }
  if (touched_meanwhile) EnsureEpoch(file);
}

void TakeIntentBack(OpenFile& file) {
  const std::lock_guard lock(file.epoch_mutex);
  if (file.epoch.had_leftover_intent || !file.disk->epoch_open.load()) return;
  const auto stat = Disk().Stat(file.path);
  const bool unchanged = stat.ok() && stat->size == file.epoch.size && stat->mtime_ns == file.epoch.mtime_ns;
  if (!unchanged || VersionOf(file.path) != file.epoch.version) return;
  const Status status = AbandonEpoch(Disk(), file.path);
  if (!status.ok()) Say(file.options, Options::Log::kInfo, fmt::format("{}: {}", file.path, status.message()));
}

// --------------------------------------------------------------------------------------------------------------- Parts

void Part::Put(ByteWriter& to) const {
  to.Put<std::uint8_t>(data_safe);
  to.Put<std::uint8_t>(open_elsewhere);
  to.Put<std::uint8_t>(cover_all);
  to.Put<std::uint8_t>(static_cast<std::uint8_t>(presence));
  to.PutString(path);
  to.Put<std::uint64_t>(size);
  to.Put<std::uint64_t>(resized.begin);
  to.Put<std::uint64_t>(resized.end);
  to.Put<std::uint8_t>(touched.whole());
  to.Put<std::uint32_t>(touched.whole() ? 0 : static_cast<std::uint32_t>(touched.intervals().size()));
  if (touched.whole()) return;
  for (const Interval& interval : touched.intervals()) {
    to.Put<std::uint64_t>(interval.begin);
    to.Put<std::uint64_t>(interval.end);
  }
}

Part Part::Get(ByteReader& from) {
  Part part;
  part.data_safe = from.Get<std::uint8_t>() != 0;
  part.open_elsewhere = from.Get<std::uint8_t>() != 0;
  part.cover_all = from.Get<std::uint8_t>() != 0;
  part.presence = static_cast<Presence>(from.Get<std::uint8_t>());
  part.path = from.GetString(kMostPath);
  part.size = from.Get<std::uint64_t>();
  part.resized.begin = from.Get<std::uint64_t>();
  part.resized.end = from.Get<std::uint64_t>();
  if (from.Get<std::uint8_t>() != 0) part.touched.AddWhole();
  const auto count = from.Get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && from.ok(); ++i) {
    const auto begin = from.Get<std::uint64_t>();
    part.touched.Add({begin, from.Get<std::uint64_t>()});
  }
  if (!from.ok()) part.touched.AddWhole();
  return part;
}

std::size_t IntervalsEach(int ranks) {
  return std::clamp<std::size_t>(kMostIntervals / static_cast<std::size_t>(ranks), 16, IntervalSet::kDefaultLimit);
}

Part TakePart(OpenFile& file, Moment moment, bool data_safe, bool look, std::size_t intervals) {
  Part part;
  part.data_safe = data_safe;
  part.path = file.path;
  part.open_elsewhere = moment == Moment::kClose ? Registry::Get().Leave(file) : Registry::Get().IsOpenElsewhere(file);
  {
    const std::lock_guard lock(file.mutex);
    part.touched = file.touched;
    part.cover_all = file.must_cover_all || file.uncoordinated;
    if (file.writes_of_unknown_place > 0) part.touched.AddWhole();
    file.touched.Clear();
  }
  part.touched.Coarsen(intervals);
  if (look) LookAtDisk(file, part);
  return part;
}

void Untake(OpenFile& file) {
  const std::lock_guard lock(file.mutex);
  file.touched.AddWhole();
}

Touched ToTouched(const IntervalSet& set, std::uint64_t size) {
  Touched touched;
  touched.whole = set.whole();
  if (touched.whole) return touched;
  IntervalSet clipped = set;
  clipped.Clip(size);
  for (const Interval& interval : clipped.intervals()) {
    touched.ranges.push_back({interval.begin, interval.end - interval.begin});
  }
  return touched;
}

Status SyncData(const std::string& path) {
  auto file = Disk().Open(path, OpenMode::kRead);
  if (!file.ok()) file = Disk().Open(path, OpenMode::kReadWrite);  // a file that may be written but not read
  return file.ok() ? (*file)->Sync() : file.status();
}

DatasetReport ProtectPatiently(const Context& context, const DatasetRef& dataset, const ProtectRequest& request) {
  Patience patience(context.options.timeout_seconds);
  DatasetReport report = Protect(context, dataset, request);
  while (report.status.code() == Code::kBusy && patience.Wait()) report = Protect(context, dataset, request);
  return report;
}

// -------------------------------------------------------------------------------------------------------- Shared files

namespace {

/// All ranks' parts as one.
struct Union {
  bool data_safe = true;
  bool any_elsewhere = false;
  bool all_elsewhere = true;
  bool cover_all = false;
  Part lead;
  IntervalSet touched;
};

Result<Union> Exchange(OpenFile& file, const Part& mine) {
  ByteWriter writer;
  mine.Put(writer);
  LZY_ASSIGN_OR_RETURN(const std::vector<Communicator::Bytes> all, file.comm->AllGather(writer.bytes()));
  Union sum;
  sum.touched = IntervalSet(kMostIntervals);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    ByteReader reader(all[rank]);
    Part part = Part::Get(reader);
    sum.data_safe &= part.data_safe;
    sum.any_elsewhere |= part.open_elsewhere;
    sum.all_elsewhere &= part.open_elsewhere;
    sum.cover_all |= part.cover_all;
    if (part.touched.whole()) sum.touched.AddWhole();
    for (const Interval& interval : part.touched.intervals()) sum.touched.Add(interval);
    if (rank == 0) sum.lead = std::move(part);
  }
  return sum;
}

/// The file was renamed while it was open: the sidecar at its old place goes, unless that place is another file's by
/// now.
void FollowMove(OpenFile& file, const std::string& to) {
  if (file.Leads() && !Disk().Stat(file.path, /*follow=*/false).ok()) {
    const Status status = Forget(Disk(), file.path);
    if (!status.ok()) Say(file.options, Options::Log::kInfo, fmt::format("{}: {}", file.path, status.message()));
  }
  file.path = to;
}

Status CommitUnion(OpenFile& file, Moment moment, const Union& sum) {
  // Aggregators hold bytes that other ranks wrote, so all ranks sync. Agreeing is also the barrier between the last
  // rank's data being durable and the first read.
  const Status synced = Agree(*file.comm, moment == Moment::kClose ? SyncData(file.path) : Status::Ok());
  if (!synced.ok()) return synced;
  const Context context{.fs = Disk(), .comm = *file.comm, .options = file.options};
  const DatasetRef dataset{.kind = DatasetKind::kShared, .path = file.path, .members = {}};
  ProtectRequest request;
  request.touched.emplace();
  (*request.touched)[0] = sum.cover_all ? Touched{} : ToTouched(sum.touched, sum.lead.size);
  const DatasetReport report = ProtectPatiently(context, dataset, request);
  if (file.Leads()) TellOfCommit(file.options, report);
  if (report.status.ok()) EndEpoch(file, report.generation, report.bytes);
  return report.status;
}

}  // namespace

Status CommitShared(OpenFile& file, Moment moment, bool data_safe) {
  const Part mine = TakePart(file, moment, data_safe, file.Leads(), IntervalsEach(file.comm->size()));
  auto exchanged = Exchange(file, mine);
  if (!exchanged.ok()) {
    Untake(file);
    return exchanged.status();
  }
  Union& sum = *exchanged;
  if (sum.lead.presence == Part::Presence::kGone) {
    // Deleted while it was open, by MPI_File_delete or behind MPI's back: nothing is left to protect. A file that took
    // its name has a life of its own.
    if (file.Leads() && !Disk().Stat(file.path, /*follow=*/false).ok()) (void)Forget(Disk(), file.path);
    return Status::Ok();
  }
  if (!sum.data_safe) {  // the program has its own error code to tell it
    Untake(file);
    return Status::Ok();
  }
  if (sum.touched.empty()) {
    if (moment == Moment::kClose && !sum.any_elsewhere && file.Leads()) TakeIntentBack(file);
    return Status::Ok();
  }
  if (sum.any_elsewhere) {
    // Writes by another handle may be on their way. Where every rank has one, its close commits; where only some have,
    // nobody could say whose close that is, so all of the file is committed now and again at each close to come.
    Registry::Get().TouchWholeElsewhere(file);
    if (moment == Moment::kClose && sum.all_elsewhere) return Status::Ok();
    sum.cover_all = true;
  }
  sum.touched.Add(sum.lead.resized);
  if (sum.lead.presence == Part::Presence::kMoved) FollowMove(file, sum.lead.path);
  const Status status = CommitUnion(file, moment, sum);
  if (!status.ok()) {
    Untake(file);
    if (file.Leads()) TellOfFailure(file.options, file.path, status);
  }
  return status;
}

}  // namespace lzy::hooks
