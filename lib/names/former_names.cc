#include "names/former_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

#include "base/printable.h"
#include "names/content_match.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "names/provers.h"
#include "names/reach.h"
#include "names/recorded.h"
#include "names/set_names.h"
#include "names/unwritten.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// The name of the file of `sidecar` at its commit.
std::string NameAtCommit(const std::string& sidecar, const Peek& peek, bool beside) {
  std::string name = peek.kind == DatasetKind::kSet ? ExpandPattern(peek.name, peek.rank) : peek.name;
  return beside || name.find('/') != std::string::npos ? name : JoinPath(DirectoryOf(sidecar), name);
}

// The file that has the name of a sidecar, if it is a regular file other than `data_path`. (A symbolic link at the old name may
// lead to the new one.)
struct Owner {
  std::string path;
  FileStat stat;
};
std::optional<Owner> OtherOwner(FileSystem& fs, const std::string& sidecar, const std::string& data_path) {
  std::string path = OwnerOf(sidecar);
  const auto stat = path.empty() ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(path, /*follow=*/false);
  if (!stat.ok() || stat->type != FileStat::Type::kRegular || RealPathOf(fs, path) == RealPathOf(fs, data_path)) return std::nullopt;
  return Owner{std::move(path), *stat};
}

// Those of these sidecars that were committed with the size and mtime of the file, and of which it has at least half of the blocks,
// or, in another directory of the same file system, inode and birth. Not if the file of a sidecar's name is as committed, by its
// size, time, inode and birth, or by its content: then this file is a copy of it.
// `outdated`: set to true if a sidecar is not as the look saw it.
std::vector<FormerName> LeftBehind(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::vector<std::string>& sidecars,
                                   const LeafKey* key, bool beside, bool* outdated) {
  const std::size_t most = beside ? 8 : 64;  // sidecars whose blocks are compared: each costs reading the file
  std::vector<FormerName> names;
  std::size_t compared = 0;
  for (const std::string& path : sidecars) {
    // Beside the file, every file asks. So even looks at all sidecars of its size and time would cost too much.
    if (beside && ++compared > most) break;
    auto peek = PeekSidecar(fs, path);
    const bool as_seen = peek.ok() && peek->committed && (HasSizeAndTime(stat, peek->stamp) || (!beside && peek->stamp.inode == stat.inode));
    if (!as_seen) {
      *outdated = true;
      continue;
    }
    if (!LooksUnwritten(stat, peek->stamp, peek->commit_clock_ns)) continue;
    const auto owner = OtherOwner(fs, path, data_path);
    if (owner && HasSizeAndTime(owner->stat, peek->stamp) && MayBe(owner->stat, peek->stamp)) continue;
    if (!beside && ++compared > most) break;
    const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
    if (!loaded.ok() || (*loaded)->contents().superblock.uuid != peek->uuid) {
      *outdated = true;
      continue;
    }
    const auto place = fs.Stat(path, /*follow=*/false);
    const bool moved = !beside && MayBe(stat, peek->stamp) && place.ok() && place->file_system == stat.file_system;
    if (!moved && !IsMostlyAs(fs, data_path, **loaded, key)) continue;
    const auto still_there = owner ? HoldsCommitted(fs, owner->path, **loaded, key) : Result<bool>(false);
    if (!still_there.ok() || *still_there) continue;
    std::string name = NameAtCommit(path, *peek, beside);
    names.push_back({path, std::move(*peek), std::move(name)});
  }
  return names;
}

// Sidecars in other directories that the command names, or of files that lzy knows of, whose file was moved here.
std::vector<FormerName> MovedFrom(FileSystem& fs, const std::string& data_path, const FileStat& stat, const LeafKey* key) {
  const std::string here = RealDirectory(fs, DirectoryOf(data_path));
  Surroundings& around = fs.Memo<Surroundings>();
  while (true) {
    bool outdated = false;
    const auto sidecars = around.CommittedFor(fs, {stat.size, stat.mtime_ns}, stat.inode, here);
    std::vector<FormerName> names = LeftBehind(fs, data_path, stat, sidecars, key, /*beside=*/false, &outdated);
    // A commit beside this one has set the sidecar aside.
    if (!names.empty() || !outdated || !around.ForgetSidecars()) return names;
  }
}

// The names for CommittedAs. `outdated`: set to true if a sidecar beside the file is not as the look saw it, so that what it held may have
// another name now.
std::vector<FormerName> CommittedAsOnce(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                        Within within, bool& outdated) {
  const std::string directory = DirectoryOf(data_path);
  const auto look = Neighbours::For(fs, directory, BaseNameOf(data_path), stat).look;
  std::vector<std::string> sidecars;
  for (const std::string& sidecar : look->SidecarsFor(stat.inode)) sidecars.push_back(JoinPath(directory, sidecar));
  const std::size_t beside = sidecars.size();
  if (within == Within::kReach) {
    // Numbers of inodes mean something on one file system only.
    for (const std::string& path : fs.Memo<Surroundings>().InReachFor(fs, stat.inode, RealDirectory(fs, directory))) {
      const auto place = fs.Stat(path, /*follow=*/false);
      if (place.ok() && place->file_system == stat.file_system) sidecars.push_back(path);
    }
  }
  std::vector<FormerName> names;
  for (std::size_t i = 0; i < sidecars.size(); ++i) {
    const std::string& path = sidecars[i];
    auto peek = PeekSidecar(fs, path);
    const bool as_seen = peek.ok() && (peek->stamp.inode == stat.inode || look->WasCommittedSince(BaseNameOf(path), *peek));
    outdated = outdated || (i < beside && !as_seen);
    if (!except.empty() && RealPathOf(fs, path) == RealPathOf(fs, except)) continue;
    if (!peek.ok() || !peek->committed || !MayBe(stat, peek->stamp) || !LooksUnwritten(stat, peek->stamp, peek->commit_clock_ns)) continue;
    // A hard link; but the sidecar of this name may have been set aside.
    const auto owner = fs.Stat(OwnerOf(path), /*follow=*/false);
    const bool linked = owner.ok() && owner->inode == stat.inode && owner->file_system == stat.file_system;
    if (linked && RealPathOf(fs, OwnerOf(path)) != RealPathOf(fs, data_path)) continue;
    std::string name = NameAtCommit(path, *peek, i < beside);
    names.push_back({path, std::move(*peek), std::move(name)});
  }
  return names;
}

}  // namespace

std::vector<FormerName> CommittedAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                    Within within) {
  for (bool again = false;; again = true) {
    bool outdated = false;
    std::vector<FormerName> names = CommittedAsOnce(fs, data_path, stat, except, within, outdated);
    if (!names.empty() || !outdated || again) return names;
    // A commit beside this one has set the sidecar aside. It has another name now.
    Neighbours::Forget(fs, DirectoryOf(data_path));
  }
}

std::vector<FormerName> MostlyAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                 const LeafKey* key) {
  if (stat.size == 0) return {};
  const std::string directory = DirectoryOf(data_path);
  for (bool again = false;; again = true) {
    std::vector<std::string> sidecars;
    const auto look = Neighbours::For(fs, directory, BaseNameOf(data_path), stat).look;
    for (const std::string& sidecar : look->SidecarsOfSizeAndTime(stat.size, stat.mtime_ns)) {
      const std::string path = JoinPath(directory, sidecar);
      if (except.empty() || RealPathOf(fs, path) != RealPathOf(fs, except)) sidecars.push_back(path);
    }
    bool outdated = false;
    std::vector<FormerName> names = LeftBehind(fs, data_path, stat, sidecars, key, /*beside=*/true, &outdated);
    if (!names.empty() || !outdated || again) return names;
    // A commit beside this one has set the sidecar aside. It has another name now.
    Neighbours::Forget(fs, directory);
  }
}

namespace {

// A member of a set, beside the file or in directories that the command names, that is lost together with its sidecar, if the file has
// the size and mtime that its set records, and nothing proves its content.
std::optional<FormerName> LostMemberOf(FileSystem& fs, const std::string& data_path, const FileStat& stat, const LeafKey* key) {
  const std::string directory = DirectoryOf(data_path);
  Surroundings& around = fs.Memo<Surroundings>();
  const auto look = Neighbours::For(fs, directory, BaseNameOf(data_path), stat).look;
  std::vector<RecordedMember> members;
  if (look->HasSetBut(Uuid{})) members = around.RecordedBeside(fs, directory, look)->OfSize(stat.size, Uuid{});
  std::ranges::move(around.RecordedInNamed(fs, RealDirectory(fs, directory))->OfSize(stat.size, Uuid{}), std::back_inserter(members));
  // In its own place, its set judges it.
  const auto is_this = [&](const RecordedMember& member) { return RealPathOf(fs, member.path) == RealPathOf(fs, data_path); };
  if (std::ranges::any_of(members, is_this)) return std::nullopt;
  for (const RecordedMember& member : members) {
    if (member.mtime_ns != stat.mtime_ns || IsRacy({.size = member.size, .mtime_ns = member.mtime_ns}, member.commit_clock_ns)) continue;
    auto peek = PeekSidecar(fs, member.sidecar);
    // A sidecar that was moved here does not show that its set was here.
    if (!peek.ok() || !PatternFromTail(OwnerOf(member.sidecar), peek->name, peek->rank)) continue;
    const auto there = fs.Stat(member.path, /*follow=*/false);
    if (there.ok() && there->type == FileStat::Type::kRegular && RootsOf(fs, member.path, key).Are(member)) continue;
    const auto prover = FindProver(fs, data_path, "", key);
    if (!prover.ok() || *prover) return std::nullopt;
    return FormerName{member.sidecar, std::move(*peek), member.path, /*lost=*/true};
  }
  return std::nullopt;
}

// A file that was not changed since it was written (ctime) was not renamed; this saves a look at the directories.
std::optional<FormerName> RottenFormer(FileSystem& fs, const std::string& data_path, const LeafKey* key) {
  const auto stat = fs.Stat(data_path, /*follow=*/false);
  if (!stat.ok() || stat->type != FileStat::Type::kRegular || stat->ctime_ns == stat->mtime_ns) return std::nullopt;
  std::vector<FormerName> names = CommittedAs(fs, data_path, *stat, "", Within::kDirectory);
  for (FormerName& moved : MovedFrom(fs, data_path, *stat, key)) names.push_back(std::move(moved));
  if (names.empty()) names = MostlyAs(fs, data_path, *stat, "", key);
  // What was committed empty cannot be damaged.
  std::erase_if(names, [](const FormerName& one) { return one.peek.stamp.size == 0; });
  std::optional<FormerName> found;
  for (FormerName& one : names) {
    const std::string owner = OwnerOf(one.sidecar);
    if (owner.empty()) continue;
    // A commit beside this one may put another sidecar in its place at any moment. Then a comparison says nothing.
    const auto is_same = [&] {
      const auto now = PeekSidecar(fs, one.sidecar);
      return now.ok() && now->uuid == one.peek.uuid;
    };
    const auto there = fs.Stat(owner, /*follow=*/false);
    if (there.ok() && there->type == FileStat::Type::kRegular) {
      const auto is_there = HoldsCommitted(fs, owner, one.sidecar, key);
      if ((!is_there.ok() || *is_there) && is_same()) continue;
    }
    // A file that was never sealed may be asked for with a key. That it has no seal does not make it differ.
    const auto sealed = PeekSet(fs, one.sidecar);
    const bool unsealed = sealed.ok() && sealed->key_id == KeyId{};
    const auto holds = HoldsCommitted(fs, data_path, one.sidecar, unsealed ? nullptr : key);
    if (holds.ok() && *holds && is_same()) return std::nullopt;
    found = std::move(one);
  }
  return found ? found : LostMemberOf(fs, data_path, *stat, key);
}

}  // namespace

std::optional<std::string> RottenAs(FileSystem& fs, const std::string& data_path, const LeafKey* key) {
  const auto former = RottenFormer(fs, data_path, key);
  return former ? std::optional(former->name) : std::nullopt;
}

namespace {

// The protected file that `data_path` is a hard link to, beside it or as for MovedFrom, if that file is damaged: its content is not
// what the sidecar committed for this inode, size and mtime.
std::optional<std::string> DamagedFileOfLink(FileSystem& fs, const std::string& data_path, const LeafKey* key) {
  const auto stat = fs.Stat(data_path, /*follow=*/false);
  if (!stat.ok() || stat->links <= 1) return std::nullopt;
  const std::string directory = DirectoryOf(data_path);
  const auto look = Neighbours::For(fs, directory, BaseNameOf(data_path), *stat).look;
  std::vector<std::string> sidecars = fs.Memo<Surroundings>().CommittedFor(fs, {stat->size, stat->mtime_ns}, stat->inode, RealDirectory(fs, directory));
  for (const std::string& name : look->SidecarsFor(stat->inode)) sidecars.push_back(JoinPath(directory, name));
  for (const std::string& sidecar : sidecars) {
    std::string owner = OwnerOf(sidecar);
    const auto there = owner.empty() ? Result<FileStat>(Code::kNotFound, sidecar) : fs.Stat(owner, /*follow=*/false);
    const bool linked = there.ok() && there->inode == stat->inode && there->file_system == stat->file_system &&
                        RealPathOf(fs, owner) != RealPathOf(fs, data_path);
    const auto loaded = linked ? Sidecar::Load(fs, sidecar, OpenMode::kRead) : Result<std::unique_ptr<Sidecar>>(there.status());
    if (!loaded.ok() || !(*loaded)->committed()) continue;
    const Superblock& sb = (*loaded)->contents().superblock;
    // With a racy stamp, or while a program writes the file, a difference may be an edit.
    if (sb.sealed() != (key != nullptr) || !LooksUnwritten(*stat, sb.stamp, sb.commit_clock_ns) || IsRacy(sb.stamp, sb.commit_clock_ns)) continue;
    if ((*loaded)->intent()) continue;
    const auto holds = HoldsCommitted(fs, data_path, **loaded, key);
    if (holds.ok() && !*holds) return owner;
  }
  return std::nullopt;
}

}  // namespace

Status RefuseRotten(FileSystem& fs, const std::string& path, const std::string& dataset, const LeafKey* key) {
  const std::string real = FollowLink(fs, path);
  if (const auto owner = DamagedFileOfLink(fs, real, key)) {
    return {Code::kUnprotected, fmt::format("{}: it is a hard link to '{}', which is damaged. First repair that: lzy-verify --repair {}", path, *owner,
                                            ShellQuote(*owner))};
  }
  const auto was = RottenFormer(fs, real, key);
  if (!was) return Status::Ok();
  if (was->lost) {
    return {Code::kUnprotected, fmt::format("{}: it has the size and time of '{}', a member of a set that is lost together with its sidecar, but not "
                                            "its content: it may have been renamed or moved, and be damaged. Give it that name back, and repair the "
                                            "set. Or commit it as it is: lzy-protect --force {}", path, was->name, ShellQuote(dataset))};
  }
  const auto own = SidecarPath(real);
  // With a key, a sidecar without a seal does not count, but it is where it belongs.
  if (key != nullptr && was->name == BaseNameOf(real) && own.ok() && RealPathOf(fs, was->sidecar) == RealPathOf(fs, *own)) {
    return {Code::kUnprotected, fmt::format("{}: it is not sealed, and not all of it is as it was at the last commit: it is damaged. First repair it, "
                                            "without the key: lzy-verify --repair {}", path, ShellQuote(dataset))};
  }
  const std::string home = DirectoryOf(RealPathOf(fs, was->sidecar));
  const bool here = home == DirectoryOf(RealPathOf(fs, real));
  if (was->name == BaseNameOf(real) && own.ok() && here && BaseNameOf(was->sidecar).starts_with(kTemporaryPrefix)) {
    return {Code::kUnprotected, fmt::format("{}: its sidecar was set aside, and not all of it is as it was at the last commit: it is damaged, or "
                                            "a copy of another version was put here. To commit it as it is: lzy-protect --force {}; if it is damaged, give it "
                                            "its sidecar back, then repair it: mv -n {} {}", path, ShellQuote(dataset), ShellQuote(was->sidecar),
                                            ShellQuote(*own))};
  }
  const auto owner = OtherOwner(fs, was->sidecar, real);
  if (owner && HasSizeAndTime(owner->stat, was->peek.stamp) && IsMostlyAs(fs, owner->path, was->sidecar, key)) {
    return {Code::kUnprotected, fmt::format("{}: by its size, time and content, it is a copy of '{}', which is damaged. First repair that: lzy-verify --repair "
                                            "{}. Or commit this one as it is: lzy-protect --force {}", path, owner->path, ShellQuote(owner->path),
                                            ShellQuote(dataset))};
  }
  const std::string name = here || was->name.starts_with('/') ? was->name : JoinPath(home, was->name);
  const auto stat = fs.Stat(real, /*follow=*/false);
  if (stat.ok() && stat->size != was->peek.stamp.size) {
    return {Code::kUnprotected, fmt::format("{}: by its inode and time, it was '{}' at the last commit, but it has another size: it was renamed "
                                            "or moved, and is damaged. Give it that name back, then repair it. Or commit it as it is: lzy-protect --force {}", path, name,
                                            ShellQuote(dataset))};
  }
  return {Code::kUnprotected, fmt::format("{}: by its size and time, and by its inode or most of its content, it was '{}' at the last commit, and "
                                          "not all of it is as it was then: it was renamed or moved, and is damaged. Give it that name back, then "
                                          "repair it. Or commit it as it is: lzy-protect --force {}", path, name,
                                          ShellQuote(dataset))};
}

}  // namespace lzy
