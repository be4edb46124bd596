// Epochs as the interposition layer begins and abandons them (docs/design/commit.md "Epochs").
//
// The one rule: an intent is durable before the first byte of data changes. So whatever a crash leaves is known to be
// at risk. Each function takes the lock of the sidecar, changes it, and lets go; no lock is held while the program
// writes.

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

// The options of the last commit, which the next one keeps.
MadeWith MadeWithOf(const SidecarContents& contents) {
  const Superblock& sb = contents.superblock;
  MadeWith made{sb.parity, contents.info.group_option, BlockSizeOptionOf(sb), contents.info.stripe_option, sb.stamp.size,
                static_cast<std::uint32_t>(contents.info.parts.directories.size())};
  if (sb.placement == ParityPlacement::kStriped) made.by_servers = {sb.unit, contents.info.groups};
  return made;
}

// Whether the sidecar is that of this file (in the same directory), whatever was written to it since the last commit.
// One that was never committed does not count here.
bool Describes(const Sidecar& sidecar, const FileStat& file) {
  return sidecar.committed() && MayBe(file, sidecar.contents().superblock.stamp);
}

}  // namespace

// The sidecar must have the name of the file: BeginEpoch takes care of a renamed one. No lock is needed, since a
// writer would set an intent first.
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

// The steps of docs/design/commit.md §4, in this order: the sidecar gets the file's name, is locked (and made, with the
// intent in it), is compared with the file, and gets the intent. SetIntent returns after the sync, so the caller may
// write as soon as this returns.
Result<EpochStart> BeginEpoch(FileSystem& fs, const Options& options, const std::string& data_path,
                              const std::string& pattern) {
  EpochStart start;
  LZY_ASSIGN_OR_RETURN(auto data, fs.Open(data_path, OpenMode::kRead));
  if (pattern.empty() && !options.device_dirs.empty()) {
    // What a program is about to make can have lost nothing.
    LZY_ASSIGN_OR_RETURN(const FileStat now, data->Stat());
    if (now.size > 0) LZY_RETURN_IF_ERROR(RecoverSidecar(fs, data_path, *data, options).status());
  }
  // A sidecar that still has the old name of a renamed file comes along before anything is decided.
  LZY_ASSIGN_OR_RETURN(const std::string sidecar_path, Rehome(fs, data_path, {options.timeout_seconds, Occupants::kGo}));
  const bool member = !pattern.empty();
  std::uint32_t rank = 0;
  if (member) rank = MatchPattern(pattern, data_path).value_or(0);
  EmptySidecar empty = NewSidecar(options, member ? DatasetKind::kSet : DatasetKind::kShared,
                                  member ? PatternTail(pattern) : BaseNameOf(data_path), rank);
  empty.intent = NewIntent(kIntentWholeFile);
  // Where there is a key nobody seals what ruins may have told otherwise, unless he says so.
  if (options.key) {
    const auto there = Sidecar::Load(fs, sidecar_path, OpenMode::kRead);
    const Status sound = there.ok() ? CheckContents((*there)->contents()) : there.status();
    if (IsRuined(sound)) return sound.WithContext(sidecar_path);
  }
  LZY_ASSIGN_OR_RETURN(auto sidecar, LockSidecar(fs, sidecar_path, data.get(), &empty, options.timeout_seconds));
  // What could not be committed is better not begun.
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
  // An intent that is already set is from an epoch that broke off, or from another process that writes now: neither
  // leaves anything to rely on. But what a repair left that broke off, mtime included, is damage as it was.
  const bool mending = sidecar->intent() && IsOfRepair(*sidecar->intent());
  // Another file in its place, with the same size and mtime, may have any content.
  const bool edited = stat.mtime_ns != stamp.mtime_ns || sidecar->intent().has_value() || !MayBe(stat, stamp);
  start.changed_behind = !start.had_sidecar || stat.size != stamp.size || (edited && !mending);
  start.generation = sidecar->generation();
  const bool made_with_it = sidecar->intent() && SameWriter(*sidecar->intent(), *empty.intent);
  if (!made_with_it) {
    start.before = sidecar->intent();
    LZY_RETURN_IF_ERROR(sidecar->SetIntent(*empty.intent));
  }
  start.intent = *sidecar->intent();
  // In place of the file that it was committed for there is another one, which has to be known by it whatever becomes
  // of its name.
  if (!MayBe(stat, stamp) && sidecar->knows_all_leaves()) {
    SidecarContents contents = sidecar->contents();
    SetIdentity(contents.superblock.stamp, stat);
    // As a copy it would look renamed now (OwnsParts).
    if (const auto real = fs.RealPath(data_path); !real.ok() || *real != contents.info.parts.home) contents.info.parts.home.clear();
    LZY_RETURN_IF_ERROR(sidecar->WriteAll(std::move(contents)));
  }
  return start;
}

// Nothing was written, so the intent of before says all that there is to say.
Status AbandonEpoch(FileSystem& fs, const Options& options, const std::string& data_path, const EpochStart& start) {
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(data_path));
  auto locked = LockSidecar(fs, path, nullptr, nullptr, options.timeout_seconds);
  if (!locked.ok()) return locked.status().code() == Code::kNotFound ? Status::Ok() : locked.status();
  Sidecar& sidecar = **locked;
  if (!sidecar.intent() || !SameWriter(*sidecar.intent(), start.intent)) return Status::Ok();
  // What was set before may be a writer's who relies on it still; unless there was a commit since, which saw to it.
  if (start.before && start.before->uuid == sidecar.contents().superblock.uuid &&
      start.before->generation == sidecar.generation()) {
    return sidecar.SetIntent(*start.before);
  }
  return sidecar.committed() ? sidecar.ClearIntent() : fs.Remove(path);
}

// The intent must not stay behind: under its new name, the file would look as if nobody wrote it. A sidecar on which
// somebody else relies is not replaced.
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
  // The old name may be another file's by now, whose writers have made this sidecar theirs.
  const bool wanted_there = intent && fs.Stat(from, /*follow=*/false).ok();
  if (!set_by_us && (wanted_there || !Describes(**old, file))) return Status::Ok();
  const auto occupant = LockSidecar(fs, new_path, nullptr, nullptr, options.timeout_seconds);
  if (occupant.ok() && Describes(**occupant, file)) return Status::Ok();
  if (!occupant.ok() && occupant.status().code() == Code::kBusy) return occupant.status();
  // Nothing but an intent: somebody else is about to write under the new name, and relies on it.
  const bool intent_only = occupant.ok() && !(*occupant)->committed() && (*occupant)->intent();
  if (intent_only && !is_own(*(*occupant)->intent())) return Status::Ok();
  LZY_RETURN_IF_ERROR(fs.Rename(old_path, new_path));
  return fs.SyncDirectory(DirectoryOf(new_path));
}

// Parts first: without their sidecar, nobody could find them any more.
Status Forget(FileSystem& fs, const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string path, SidecarPath(data_path));
  RemovePartsOf(fs, data_path, path);
  for (const std::string& one : {path, NewSidecarPath(data_path), IndexPath(data_path)}) {
    if (Status removed = fs.Remove(one); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  }
  return Status::Ok();
}

}  // namespace lzy
