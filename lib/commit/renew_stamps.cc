#include "commit/renew_stamps.h"

#include <algorithm>

#include "comm/records.h"
#include "dataset/parts.h"
#include "names/lookup.h"
#include "names/peek.h"
#include "sidecar/commit_clock.h"
#include "sidecar/names.h"
#include "sidecar/scratch.h"

namespace lzy {
namespace {

// The longest tick of any file system: 2 s on FAT.
constexpr std::int64_t kLongestTick = 2 * kNsPerSecond;

// Only the rank that has the sidecar open knows whether all of its leaves are there.
bool CanRenew(const FileView& file) {
  return file.present && file.data != nullptr && file.sidecar_usable() && file.sidecar != nullptr && file.sidecar->committed() &&
         !file.intent && file.sidecar->knows_all_leaves();
}

// False if a new stamp would be racy: the file was written within the last tick, or its mtime is in the future.
bool IsSettled(const FileStat& file) {
  const std::int64_t age = CoarseNowNs() - file.mtime_ns;
  return age > (file.mtime_ns % kNsPerSecond == 0 ? kLongestTick : 0);
}

// True if the sidecar was made for another file, which is beside this one and as committed: sidecars have each other's names. By a new stamp
// that file would lose its sidecar.
bool BelongsToAnother(FileSystem& fs, const FileView& file) {
  if (MayBe(file.stat, file.stamp)) return false;
  const auto peek = PeekSidecar(fs, file.sidecar_path);
  if (!peek.ok()) return false;
  const std::string name = BaseNameOf(peek->kind == DatasetKind::kSet ? ExpandPattern(peek->name, peek->rank) : peek->name);
  const std::string real = FollowLink(fs, file.path);
  const auto other = name == BaseNameOf(real) ? Result<FileStat>(Code::kNotFound, name) : fs.Stat(JoinPath(DirectoryOf(real), name), /*follow=*/false);
  return other.ok() && HasSizeAndTime(*other, file.stamp) && IsSameFile(*other, file.stamp);
}

}  // namespace

// Some clients of a file system know no time of birth. If only the birth is missing now, the stamp is still valid.
bool IsStampOutdated(const FileStat& file, const Stamp& stamp, std::int64_t commit_clock_ns) {
  const bool racy = IsRacy(stamp, commit_clock_ns) && CoarseNowNs() - stamp.mtime_ns > kLongestTick;
  const bool new_birth = stamp.birth_ns == 0 && file.birth_ns != 0;
  return racy || file.size != stamp.size || file.mtime_ns != stamp.mtime_ns || !MayBe(file, stamp) || new_birth;
}

// If only inode or birth differ, the user gets no note: lzy judges a copy that kept its times by its content. Nor if the
// stamp cannot be recorded yet (StampRenewal::Begin). The clocks of nodes differ, so ranks agree.
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

// The order is clock, stat, then the caller reads the data. So a change that the reading missed shows in the mtime. If the
// new stamp would be racy or the clock is not available, the stamp stays as it is; that is no failure. The clock comes from
// a file without a name, because nothing that belongs to an edited file may change, not even the mtime of its sidecar.
void StampRenewal::Begin() {
  const bool shared = view_.ref.kind == DatasetKind::kShared;
  for (Ensemble& ensemble : view_.ensembles) {
    for (FileView& file : ensemble.files) {
      if ((shared ? 0 : file.owner) != context_.comm.rank() || !CanRenew(file)) continue;
      if (!IsStampOutdated(file.stat, file.stamp, file.commit_clock_ns) || BelongsToAnother(context_.fs, file)) continue;
      const std::unique_ptr<File> scratch = ScratchBeside(context_.fs, file.path)();
      const auto clock = scratch ? FileSystemClock(*scratch) : Result<std::int64_t>(Code::kNotFound, file.path);
      const auto stat = file.data->Stat();
      if (clock.ok() && stat.ok() && stat->mtime_ns < *clock) renewals_.push_back({&file, *stat, *clock});
    }
  }
}

void StampRenewal::Leave(const std::string& path) {
  std::erase_if(renewals_, [&](const Renewal& renewal) { return renewal.file->path == path; });
}

Result<bool> StampRenewal::Finish() {
  LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
    for (const Renewal& renewal : renewals_) LZY_RETURN_IF_ERROR(Record(renewal));
    return Status::Ok();
  }));
  LZY_ASSIGN_OR_RETURN(const std::uint64_t any, context_.comm.AllReduceMax(renewals_.empty() ? 0 : 1));
  return any != 0;
}

// Writes the same generation again, as when damaged copies are repaired, so at any moment one whole copy has the old stamp or
// the new one. The info record must not change in this way, because copies with different info records do not fit together.
// So the records of the group keep the mtime of the commit, and a restore of a lost file uses that.
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
