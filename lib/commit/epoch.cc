// Begins and abandons epochs for the layer (docs/design/commit.md "Epochs").
//
// An intent is durable before the first byte of data changes, so everything that a crash leaves is known to be at risk.
// Each function locks the sidecar, changes it, and unlocks it. No lock is held while the program writes.

#include "commit/epoch.h"

#include <algorithm>

#include "dataset/by_servers.h"
#include "dataset/lock.h"
#include "dataset/parts.h"
#include "dataset/rehome.h"
#include "names/lookup.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {

namespace {

// The geometry of the last commit, which the next commit keeps.
MadeWith MadeWithOf(const SidecarContents& contents) {
  const Superblock& sb = contents.superblock;
  MadeWith made{sb.parity, contents.info.group_option, BlockSizeOptionOf(sb), contents.info.stripe_option, sb.stamp.size,
                static_cast<std::uint32_t>(contents.info.parts.directories.size())};
  if (sb.placement == ParityPlacement::kStriped) made.by_servers = {sb.unit, contents.info.groups};
  return made;
}

// True if `sidecar` was committed for this file, in the same directory, whatever was written to the sidecar since.
bool Describes(const Sidecar& sidecar, const FileStat& file) {
  return sidecar.committed() && MayBe(file, sidecar.contents().superblock.stamp);
}

}  // namespace

// Expects the sidecar under the name of the file: BeginEpoch handles renamed files. Takes no lock, because a writer would
// set an intent first.
std::optional<EpochStart> FindCleanEpoch(FileSystem& fs, const Options& options, const std::string& data_path) {
  const auto path = SidecarPath(data_path);
  const auto found = FindSidecar(fs, data_path);
  if (!path.ok() || !found.ok() || *path != *found) return std::nullopt;
  const auto sidecar = Sidecar::Load(fs, *path, OpenMode::kRead);
  const auto stat = fs.Stat(data_path);
  if (!sidecar.ok() || !stat.ok() || (*sidecar)->intent() || !(*sidecar)->Unseal(options.key).ok()) return std::nullopt;
  const Superblock& sb = (*sidecar)->contents().superblock;
  const bool same = stat->mtime_ns == sb.stamp.mtime_ns && MayBe(*stat, sb.stamp);
  if (sb.state != SidecarState::kCommitted || !same) return std::nullopt;
  EpochStart start;
  start.had_sidecar = true;
  start.changed_behind = stat->size != sb.stamp.size;
  start.made_with = MadeWithOf((*sidecar)->contents());
  start.generation = (*sidecar)->generation();
  return start;
}

std::optional<EpochStart> FollowToCleanEpoch(FileSystem& fs, const Options& options, const std::string& data_path) {
  const auto path = SidecarPath(data_path);
  const auto found = FindSidecar(fs, data_path);
  const bool elsewhere = path.ok() && found.ok() && *path != *found;
  if (elsewhere && !Rehome(fs, data_path, {options.timeout_seconds, Occupants::kGo}).ok()) return std::nullopt;
  return FindCleanEpoch(fs, options, data_path);
}

// The steps are those of docs/design/commit.md §4: rename the sidecar, lock it (or create it with the intent), compare the
// stamp, set the intent. SetIntent returns after the sync, so the caller may write when BeginEpoch returns.
Result<EpochStart> BeginEpoch(FileSystem& fs, const Options& options, const std::string& data_path,
                              const std::string& pattern) {
  EpochStart start;
  LZY_ASSIGN_OR_RETURN(auto data, fs.Open(data_path, OpenMode::kRead));
  if (pattern.empty() && !options.device_dirs.empty()) {
    // A new, empty file cannot have lost a sidecar.
    LZY_ASSIGN_OR_RETURN(const FileStat now, data->Stat());
    if (now.size > 0) LZY_RETURN_IF_ERROR(RecoverSidecar(fs, data_path, *data, options).status());
  }
  // First rename the sidecar of a renamed file.
  LZY_ASSIGN_OR_RETURN(const std::string sidecar_path, Rehome(fs, data_path, {options.timeout_seconds, Occupants::kGo}));
  const bool member = !pattern.empty();
  std::uint32_t rank = 0;
  if (member) rank = MatchPattern(pattern, data_path).value_or(0);
  EmptySidecar empty = NewSidecar(options, member ? DatasetKind::kSet : DatasetKind::kShared,
                                  member ? PatternTail(pattern) : BaseNameOf(data_path), rank);
  empty.intent = NewIntent(kIntentWholeFile);
  // With a key, refuse a corrupted sidecar: it may have been unsealed.
  if (options.key) {
    const auto there = Sidecar::Load(fs, sidecar_path, OpenMode::kRead);
    const Status sound = there.ok() ? CheckContents((*there)->contents()) : there.status();
    if (IsRuined(sound)) return sound.WithContext(sidecar_path);
  }
  LZY_ASSIGN_OR_RETURN(auto sidecar, LockSidecar(fs, sidecar_path, data.get(), &empty, options.timeout_seconds));
  // Fail now if the commit could not use the sidecar (no seal, or another key).
  LZY_RETURN_IF_ERROR(sidecar->Unseal(options.key));
  LZY_ASSIGN_OR_RETURN(const FileStat stat, data->Stat());
  const Stamp& stamp = sidecar->contents().superblock.stamp;
  start.had_sidecar = sidecar->contents().superblock.state == SidecarState::kCommitted;
  start.made_with = {options.parity, options.group, options.block_size, options.stripe, 0,
                     static_cast<std::uint32_t>(options.device_dirs.size())};
  if (start.had_sidecar) start.made_with = MadeWithOf(sidecar->contents());
  if (!start.had_sidecar && !member && options.stripe_servers) {
    const ServersChoice choice = ChooseByServers(fs, *data, options, stat.size);
    start.made_with.by_servers = choice.geometry;
    start.made_with.stripe = choice.stripe;
  }
  // If an intent is set already, an epoch was interrupted or another process writes now: the whole file must be committed.
  // Exception: after an interrupted repair, the mtime does not matter, and differences are still damage.
  const bool repairing = sidecar->intent() && IsOfRepair(*sidecar->intent());
  // Another file in the place of the committed one may have any content, even with the same size and mtime.
  const bool edited = stat.mtime_ns != stamp.mtime_ns || sidecar->intent().has_value() || !MayBe(stat, stamp);
  start.changed_behind = !start.had_sidecar || stat.size != stamp.size || (edited && !repairing);
  start.generation = sidecar->generation();
  const bool made_with_it = sidecar->intent() && SameWriter(*sidecar->intent(), *empty.intent);
  if (!made_with_it) {
    start.before = sidecar->intent();
    LZY_RETURN_IF_ERROR(sidecar->SetIntent(*empty.intent));
  }
  start.intent = *sidecar->intent();
  // Another file is in the place of the committed one. Record its inode and birth, so that lzy recognises it if it is
  // renamed.
  if (!MayBe(stat, stamp) && sidecar->knows_all_leaves()) {
    SidecarContents contents = sidecar->contents();
    SetIdentity(contents.superblock.stamp, stat);
    // This is a copy of the file that owns the parts. With the old home it would own them (OwnsParts).
    if (const auto real = fs.RealPath(data_path); !real.ok() || *real != contents.info.parts.home) contents.info.parts.home.clear();
    LZY_RETURN_IF_ERROR(sidecar->WriteAll(std::move(contents)));
  }
  return start;
}

// Nothing was written, so the previous intent still describes the file.
Status AbandonEpoch(FileSystem& fs, const Options& options, const std::string& data_path, const EpochStart& start) {
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(data_path));
  auto locked = LockSidecar(fs, path, nullptr, nullptr, options.timeout_seconds);
  if (!locked.ok()) return locked.status().code() == Code::kNotFound ? Status::Ok() : locked.status();
  Sidecar& sidecar = **locked;
  if (!sidecar.intent() || !SameWriter(*sidecar.intent(), start.intent)) return Status::Ok();
  // Another writer may rely on the previous intent. A commit since then has handled that intent.
  if (start.before && start.before->uuid == sidecar.contents().superblock.uuid &&
      start.before->generation == sidecar.generation()) {
    return sidecar.SetIntent(*start.before);
  }
  return sidecar.committed() ? sidecar.ClearIntent() : fs.Remove(path);
}

Status MarkHandedOver(FileSystem& fs, const std::string& data_path, const Intent& own) {
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(data_path));
  LZY_ASSIGN_OR_RETURN(const auto sidecar, LockSidecar(fs, path, nullptr, nullptr, /*timeout_seconds=*/0));
  if (!sidecar->intent() || !SameWriter(*sidecar->intent(), own)) return Status::Ok();
  if ((own.flags & kIntentHandedOver) != 0) return sidecar->MarkHandedOver();
  Intent plain = *sidecar->intent();
  plain.flags &= ~kIntentHandedOver;
  return sidecar->SetIntent(std::move(plain));
}

// If the intent stayed under the old name, the file would look as if nobody wrote it. A sidecar that another writer relies
// on is not replaced.
Status FollowRename(FileSystem& fs, const Options& options, const std::string& from, const std::string& to,
                    const std::vector<Intent>& own) {
  LZY_ASSIGN_OR_RETURN(const std::string old_path, SidecarPath(from));
  LZY_ASSIGN_OR_RETURN(const FileStat file, fs.Stat(to));
  LZY_ASSIGN_OR_RETURN(const std::string new_path, Rehome(fs, to, {options.timeout_seconds, Occupants::kGo}));
  const auto old = LockSidecar(fs, old_path, nullptr, nullptr, options.timeout_seconds);
  if (!old.ok()) return old.status().code() == Code::kNotFound ? Status::Ok() : old.status();
  const auto& intent = (*old)->intent();
  const auto is_own = [&](const Intent& set) {
    return std::ranges::any_of(own, [&](const Intent& one) { return SameWriter(one, set); });
  };
  const bool set_by_us = intent && is_own(*intent);
  // The old name may belong to another file now, whose writer has set an intent in this sidecar.
  const bool wanted_there = intent && fs.Stat(from, /*follow=*/false).ok();
  if (!set_by_us && (wanted_there || !Describes(**old, file))) return Status::Ok();
  const auto occupant = LockSidecar(fs, new_path, nullptr, nullptr, options.timeout_seconds);
  if (occupant.ok() && Describes(**occupant, file)) return Status::Ok();
  if (!occupant.ok() && occupant.status().code() == Code::kBusy) return occupant.status();
  // The sidecar contains only an intent of another writer, who is about to write under the new name.
  const bool intent_only = occupant.ok() && !(*occupant)->committed() && (*occupant)->intent();
  if (intent_only && !is_own(*(*occupant)->intent())) return Status::Ok();
  LZY_RETURN_IF_ERROR(fs.Rename(old_path, new_path));
  return fs.SyncDirectory(DirectoryOf(new_path));
}

// Remove the parts first: without their sidecar, nobody could find them.
Status Forget(FileSystem& fs, const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(data_path));
  RemovePartsOf(fs, data_path, path);
  for (const std::string& one : {path, NewSidecarPath(data_path), IndexPath(data_path)}) {
    if (Status removed = fs.Remove(one); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  }
  return Status::Ok();
}

}  // namespace lzy
