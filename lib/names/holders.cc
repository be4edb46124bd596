#include "names/holders.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "names/content_match.h"
#include "names/lookup.h"
#include "names/membership.h"
#include "names/neighbours.h"
#include "names/peek.h"
#include "names/reach.h"
#include "names/set_names.h"
#include "names/unwritten.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// Files other than `except` that may have the content of `sidecar`, or be what is left of its file: by their size and, if requested, mtime;
// or by inode, birth and mtime, whatever their size (HasLostItsSize). Some of those beside it, those in reach, and with kOfItsTime those
// below it, because a program may move its old files there.
std::vector<std::string> CandidatesFor(FileSystem& fs, const std::string& sidecar, const Superblock& sb, const std::string& except,
                                       Holders which) {
  const Stamp& stamp = sb.stamp;
  constexpr std::size_t kMost = 256;
  const std::string directory = DirectoryOf(sidecar);
  std::vector<std::string> paths;
  if (stamp.size == 0) return paths;
  if (which == Holders::kNear) return fs.Memo<Surroundings>().FilesNear(fs, {stamp.size, stamp.mtime_ns}, stamp.inode, RealDirectory(fs, directory));
  const bool of_its_time = which == Holders::kOfItsTime;
  const auto add = [&](const std::string& path) {
    const auto stat = path == except ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(path, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kRegular) return;
    const bool of_size = stat->size == stamp.size && (!of_its_time || stat->mtime_ns == stamp.mtime_ns);
    if (of_size || HasLostItsSize(*stat, stamp, sb.commit_clock_ns)) paths.push_back(path);
  };
  const auto stat = fs.Stat(except, /*follow=*/false);
  const auto time = of_its_time ? std::optional(stamp.mtime_ns) : std::nullopt;
  const auto look = stat.ok() ? Neighbours::For(fs, directory, BaseNameOf(except), *stat).look : nullptr;
  const Result<std::vector<std::string>> names =
      look ? look->FilesOfSize(stamp.size, time) : fs.List(directory.empty() ? "." : directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>{}) {
    if (paths.size() < kMost && !IsLzyName(name)) add(JoinPath(directory, name));
  }
  for (const std::string& name : look ? look->FilesOf(stamp.inode) : std::vector<std::string>()) {
    if (std::ranges::find(*names, name) == names->end()) add(JoinPath(directory, name));
  }
  const std::string here = RealDirectory(fs, directory);
  Surroundings& around = fs.Memo<Surroundings>();
  std::vector<std::string> further = around.FilesOfSize(fs, stamp.size, time, stamp.inode, here);
  if (of_its_time) std::ranges::move(around.FilesBelow(fs, {stamp.size, stamp.mtime_ns}, stamp.inode, here), std::back_inserter(further));
  for (const std::string& path : further) {
    if (paths.size() < 2 * kMost || which == Holders::kProtected) add(path);
  }
  return paths;
}

// True if `path` ends with the name that the set of `peek` gives to this member.
bool IsMemberName(const std::string& path, const Peek& peek) {
  const std::string name = ExpandPattern(peek.name, peek.rank);
  return path == name || path.ends_with("/" + name);
}

}  // namespace

// A file that was damaged and then committed again under another name has a sidecar that proves it. If no other file has the
// committed content, only `sidecar` can give it back.
std::optional<Holder> FindHolder(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key,
                                 Holders which) {
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  if (!loaded.ok() || !(*loaded)->committed()) return std::nullopt;
  const Superblock& sb = (*loaded)->contents().superblock;
  bool is_elsewhere = false;
  std::optional<Holder> rotten;
  for (const std::string& path : CandidatesFor(fs, sidecar, sb, except, which)) {
    const auto own = SidecarPath(path);
    const bool has_own = own.ok() && fs.Stat(*own, /*follow=*/false).ok();
    const bool all = which == Holders::kAll || which == Holders::kNear;
    if (!all && !has_own && !IsClaimedByASet(fs, path)) continue;  // before anything of the file is read
    const auto holds = HoldsCommitted(fs, path, **loaded, key);
    const bool proven = holds.ok() && *holds;
    const auto stat = fs.Stat(path, /*follow=*/false);
    if (!proven && (!all || !stat.ok() || !LooksUnwritten(*stat, sb.stamp, sb.commit_clock_ns))) continue;
    // Equal sizes and times alone say nothing: archives and copies make many of them.
    if (!proven && !MayBeRottenFrom(fs, path, *stat, **loaded, key) && !IsMostlyAs(fs, path, **loaded, key)) continue;
    const auto right = has_own ? HoldsCommitted(fs, path, *own, key) : Result<bool>(false);
    if (right.ok() && !*right) return Holder{path, proven};
    is_elsewhere = is_elsewhere || (proven && right.ok());
    if (!proven && right.ok() && !rotten) rotten = Holder{path, false, /*committed=*/true};
  }
  return is_elsewhere ? std::nullopt : rotten;
}
std::optional<std::string> FindRotten(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key) {
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  if (!loaded.ok() || !(*loaded)->committed()) return std::nullopt;
  std::optional<std::string> rotten;
  for (const std::string& path : CandidatesFor(fs, sidecar, (*loaded)->contents().superblock, except, Holders::kOfItsTime)) {
    const auto holds = HoldsCommitted(fs, path, **loaded, key);
    if (!holds.ok()) continue;
    if (*holds) return std::nullopt;
    const auto stat = fs.Stat(path, /*follow=*/false);
    const auto own = SidecarPath(path);
    const auto peek = own.ok() ? PeekSidecar(fs, *own) : Result<Peek>(own.status());
    // By its own sidecar it can be repaired, unless that is of a member that had another name: its set finds it there only.
    const bool has_its_own = stat.ok() && peek.ok() && peek->committed && HasSizeAndTime(*stat, peek->stamp);
    const bool has_its_name = has_its_own && (peek->kind == DatasetKind::kShared || IsMemberName(path, *peek));
    // Files that changed places may have equal sizes and times. Then inode and birth tell, or else the content.
    const bool at_home = has_its_name && (MayBe(*stat, peek->stamp) || MayBeRot(fs, path, *own, key));
    if (rotten || !stat.ok() || at_home) continue;
    const auto right = peek.ok() ? HoldsCommitted(fs, path, *own, key) : Result<bool>(false);
    if (!right.ok() || *right) continue;
    if (IsSameFile(*stat, (*loaded)->contents().superblock.stamp) || IsMostlyAs(fs, path, **loaded, key)) rotten = path;
  }
  return rotten;
}

std::vector<std::string> FindCopies(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key, std::size_t most,
                                    const std::function<bool(const std::string&)>& counts) {
  std::vector<std::string> copies;
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  if (!loaded.ok() || !(*loaded)->committed()) return copies;
  for (std::string& path : CandidatesFor(fs, sidecar, (*loaded)->contents().superblock, except, Holders::kAll)) {
    if (copies.size() == most) break;
    if (counts && !counts(path)) continue;
    const auto holds = HoldsCommitted(fs, path, **loaded, key);
    if (holds.ok() && *holds) copies.push_back(std::move(path));
  }
  return copies;
}

bool IsHeldByAnother(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key) {
  return !FindCopies(fs, sidecar, except, key, 1).empty();
}

}  // namespace lzy
