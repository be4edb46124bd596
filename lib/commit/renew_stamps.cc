#include "commit/renew_stamps.h"

#include <algorithm>

#include "comm/records.h"
#include "dataset/parts.h"
#include "names/peek.h"
#include "sidecar/commit_clock.h"
#include "sidecar/scratch.h"

namespace lzy {
namespace {

// The longest tick that a file system has: 2 s on FAT.
constexpr std::int64_t kLongestTick = 2 * kNsPerSecond;

// Only the rank that has the sidecar open knows whether all of it is there.
bool CanRenew(const FileView& file) {
  return file.present && file.data != nullptr && file.sidecar_usable() && file.sidecar != nullptr && file.sidecar->committed() &&
         !file.intent && file.sidecar->knows_all_leaves();
}

// False while a stamp of now would be racy: the file was written within the last tick, or has an mtime of the future.
bool IsSettled(const FileStat& file) {
  const std::int64_t age = CoarseNowNs() - file.mtime_ns;
  return age > (file.mtime_ns % kNsPerSecond == 0 ? kLongestTick : 0);
}

}  // namespace

// Not all clients of a file system tell when files were made: a time of birth that is gone is no news.
bool IsStampOutdated(const FileStat& file, const Stamp& stamp, std::int64_t commit_clock_ns) {
  const bool racy = IsRacy(stamp, commit_clock_ns) && CoarseNowNs() - stamp.mtime_ns > kLongestTick;
  const bool new_birth = stamp.birth_ns == 0 && file.birth_ns != 0;
  return racy || file.size != stamp.size || file.mtime_ns != stamp.mtime_ns || !MayBe(file, stamp) || new_birth;
}

// Of inode and birth alone nobody is told: a copy that kept its times is judged by its content. What cannot be recorded yet
// (StampRenewal::Begin) is not advised. The clocks of nodes differ, so ranks agree.
Result<StampNote> NoteOfStamps(const Context& context, const DatasetView& view) {
  StampNote worst = StampNote::kNone;
  for (const FileView& file : view.files()) {
    if (!file.present || !file.sidecar_usable() || file.intent) continue;
    if (!IsStampOutdated(file.stat, file.stamp, file.commit_clock_ns) || !IsSettled(file.stat)) continue;
    const bool same_time = file.stat.mtime_ns == file.stamp.mtime_ns;
    const bool racy = IsRacy(file.stamp, file.commit_clock_ns);
    worst = std::max(worst, !same_time ? StampNote::kTimesDiffer : racy ? StampNote::kRacy : StampNote::kNone);
  }
  LZY_ASSIGN_OR_RETURN(const std::uint64_t agreed, context.comm.AllReduceMax(static_cast<std::uint64_t>(worst)));
  return static_cast<StampNote>(agreed);
}

// The clock comes first, then the stat, then whoever calls reads the data: so each change that the reading may have missed
// shows in the mtime. A stamp that would be racy again is of no use. A clock that cannot be had is no failure: the stamp
// stays as it is. A file without a name is asked for it, since nothing of an edited file may change, not even the mtime of
// its sidecar.
void StampRenewal::Begin() {
  const bool shared = view_.ref.kind == DatasetKind::kShared;
  for (Ensemble& ensemble : view_.ensembles) {
    for (FileView& file : ensemble.files) {
      if ((shared ? 0 : file.owner) != context_.comm.rank() || !CanRenew(file)) continue;
      if (!IsStampOutdated(file.stat, file.stamp, file.commit_clock_ns)) continue;
      const std::unique_ptr<File> scratch = ScratchBeside(context_.fs, file.path)();
      const auto clock = scratch ? FileSystemClock(*scratch) : Result<std::int64_t>(Code::kNotFound, file.path);
      const auto stat = file.data->Stat();
      if (clock.ok() && stat.ok() && stat->mtime_ns < *clock) renewals_.push_back({&file, *stat, *clock});
    }
  }
}

Result<bool> StampRenewal::Finish() {
  LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
    for (const Renewal& renewal : renewals_) LZY_RETURN_IF_ERROR(Record(renewal));
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context_.comm.AllReduceMax(renewals_.empty() ? 0 : 1));
  return any != 0;
}

// The same generation again, as when damaged copies are healed: at any moment one copy is whole, with the old stamp or
// with the new one. The info record must not change in this way: copies with different ones do not fit together. So
// the mtime in the records of the group stays that of the commit, and with it what a restore gives a file that is lost.
Status StampRenewal::Record(const Renewal& renewal) const {
  FileView& file = *renewal.file;
  LZY_ASSIGN_OR_RETURN(const FileStat now, file.data->Stat());
  SidecarContents contents = file.sidecar->contents();
  Stamp& stamp = contents.superblock.stamp;
  if (now.mtime_ns != renewal.stat.mtime_ns || now.size != stamp.size) return Status::Ok();
  stamp.mtime_ns = now.mtime_ns;
  SetIdentity(stamp, now);
  contents.superblock.commit_clock_ns = renewal.clock_ns;
  LZY_RETURN_IF_ERROR(file.sidecar->WriteAll(std::move(contents)));
  std::vector<std::string> parts = file.part_paths;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (!file.part_obstacles[d].empty()) parts[d].clear();
  }
  return parts.empty() ? Status::Ok() : RenewParts(context_.fs, *file.sidecar, parts);
}

}  // namespace lzy
