#include "common/moved_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/printable.h"
#include "common/held_members.h"
#include "common/moved_in_tree.h"
#include "common/paths.h"
#include "names/content_match.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "names/membership.h"
#include "names/reach.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// The most files that one report names.
constexpr std::size_t kMostTold = 8;

// A member that has the place of its set in another directory, together with its sidecar.
struct Elsewhere {
  std::string path, sidecar;
};

// Members of the set of `report` in other directories, by the path that they would have with this set. In reach only. `whole`: the
// directories that have all members.
std::map<std::string, Elsewhere> MembersElsewhere(FileSystem& fs, const DatasetReport& report, const std::set<std::string>& lost,
                                                  std::set<std::string>& whole) {
  std::map<std::string, std::uint32_t> members;  // by directory
  std::map<std::string, Elsewhere> found;
  const std::string here = RealDirectory(fs, DirectoryOf(report.path));
  for (const std::string& sidecar : SidecarsInReach(fs, here)) {
    const auto peek = PeekSidecar(fs, sidecar);
    if (!peek.ok() || peek->kind != DatasetKind::kSet || UuidText(peek->uuid) != report.uuid || peek->generation != report.generation) continue;
    const std::string path = OwnerOf(sidecar), place = ExpandPattern(report.path, peek->rank);
    if (path.empty() || !IsThere(fs, path)) continue;
    if (++members[DirectoryOf(path)] == report.devices) whole.insert(DirectoryOf(path));
    if (!lost.contains(place)) continue;
    found.emplace(place, Elsewhere{path, sidecar});
  }
  return found;
}

// The set is in two directories. Both reports must name the same moves, or the user would move the files to and fro: to where more
// members are, or else member 0.
std::string SplitSetText(FileSystem& fs, const DatasetReport& report, const std::set<std::string>& lost) {
  if (lost.empty() || HasRankPlaceholder(DirectoryOf(report.path))) return "";
  std::set<std::string> whole;
  auto elsewhere = MembersElsewhere(fs, report, lost, whole);
  if (elsewhere.empty()) return "";
  // If there are more directories, the next report names the next one.
  const std::string there = DirectoryOf(elsewhere.begin()->second.path), here = DirectoryOf(report.path);
  const bool backup = whole.contains(there);  // it must stay whole
  std::erase_if(elsewhere, [&](const auto& one) { return DirectoryOf(one.second.path) != there; });
  std::vector<std::string> files;
  const auto add = [&](const std::string& file, const std::string& to) {
    if (IsThere(fs, file) && !IsThere(fs, JoinPath(to, BaseNameOf(file)))) files.push_back(file);
  };
  const std::size_t present = report.devices - std::min<std::size_t>(report.devices, lost.size());
  const bool to_here = backup || present > elsewhere.size() || (present == elsewhere.size() && !lost.contains(ExpandPattern(report.path, 0)));
  if (to_here) {
    for (const auto& [place, member] : elsewhere) {
      if (BaseNameOf(member.path) != BaseNameOf(place)) continue;  // its name is another one, too
      add(member.path, here);
      add(member.sidecar, here);
    }
  } else {
    for (std::uint32_t rank = 0; rank < report.devices; ++rank) {
      const std::string member = ExpandPattern(report.path, rank);
      const auto sidecar = SidecarPath(member);
      if (elsewhere.contains(member) || !sidecar.ok()) continue;
      add(member, there);
      add(*sidecar, there);
    }
  }
  if (backup && (files.empty() || files.size() > 4 * kMostTold)) {
    return fmt::format("  {} has the whole set, as at the last commit; copy what is lost from there\n", Printable(there));
  }
  if (files.empty() || files.size() > 4 * kMostTold) {
    return fmt::format("  {} of its members are in {}; move all members, and their sidecars, into one directory\n", elsewhere.size(),
                       Printable(there));
  }
  std::string words;
  for (const std::string& file : files) words += " " + ShellQuote(file);
  const std::string to = to_here ? (here.empty() ? "." : here) : there;
  if (backup) {
    return fmt::format("  {} has the whole set, as at the last commit; to copy what is lost: cp -np{} {}\n", Printable(there), words,
                       ShellQuote(to));
  }
  return fmt::format("  {} of its members are in {}; to bring all members together: mv -n{} {}\n", elsewhere.size(), Printable(there), words,
                     ShellQuote(to));
}

// A file that has what a lost or replaced one was at its commit.
struct Copy {
  std::string path;
  bool is_protected = false;  ///< its own sidecar proves it
};

std::optional<Copy> CopyOf(FileSystem& fs, const std::string& path, const LeafKey* key) {
  const auto sidecar = FindSidecar(fs, path);
  const auto copies = sidecar.ok() ? FindCopies(fs, *sidecar, path, key, 1) : std::vector<std::string>();
  const auto moved = sidecar.ok() && copies.empty() && !IsThere(fs, path) ? FindMoved(fs, *sidecar, key) : std::nullopt;
  if (moved && moved->whole) return Copy{moved->path, false};
  if (copies.empty()) return std::nullopt;
  const auto own = SidecarPath(copies[0]);
  const auto right = own.ok() && IsThere(fs, *own) ? HoldsCommitted(fs, copies[0], *own, key) : Result<bool>(false);
  return Copy{copies[0], right.ok() && *right};
}

}  // namespace

std::set<std::string> LostFiles(const DatasetReport& report) {
  std::set<std::string> lost;
  for (const Damage& damage : report.damage) {
    if (damage.part == DamagePart::kData && damage.cause == DamageCause::kMissing && !damage.repaired) lost.insert(damage.path);
  }
  return lost;
}

std::string HeldElsewhereText(FileSystem& fs, const DatasetReport& report, const std::string& repeated, const LeafKey* key) {
  if (report.state != DatasetState::kUnrepairable || !report.not_visible.empty()) return "";
  if (report.kind == DatasetKind::kSet) {
    const std::string together = SplitSetText(fs, report, LostFiles(report));
    if (!together.empty()) return together;
    const auto held = FindHeldMembers(fs, report, /*beyond=*/true, key);
    const std::string renamed = RenamedSetText(report, held, repeated);
    return renamed.empty() ? HeldMembersText(held) : renamed;
  }
  if (!report.gone || IsThere(fs, report.path)) return "";
  const std::string path = ShellQuote(report.path);
  const auto copy = CopyOf(fs, report.path, key);
  if (!copy) return "";
  const std::string name = Printable(copy->path), quoted = ShellQuote(copy->path);
  if (copy->is_protected) {
    return fmt::format("  {} holds what it was, and is protected; to have it again: lzy-restore {}--from {} {}\n"
                       "  if you deleted or renamed it: lzy-protect {}--remove --force {}\n",
                       name, repeated, quoted, path, repeated, path);
  }
  return fmt::format("  {} holds what it was, so nothing is lost; if it was renamed: lzy-protect {}{}\n"
                     "  if it was renamed by mistake, give it its name back: mv -n {} {}\n",
                     name, repeated, quoted, quoted, path);
}

std::string ReplacedText(FileSystem& fs, const DatasetReport& report, const std::string& repeated, const LeafKey* key) {
  if (report.kind != DatasetKind::kShared || !report.status.ok()) return "";
  const std::string path = FollowLink(fs, report.path);
  const auto sidecar = FindSidecar(fs, path);
  if (!sidecar.ok()) return "";
  const auto stat = fs.Stat(path, /*follow=*/false);
  if (report.state == DatasetState::kUnrepairable && report.gone && !stat.ok()) {
    auto left = FindRotten(fs, *sidecar, path, key);
    const auto moved = left ? std::nullopt : FindMoved(fs, *sidecar, key);
    if (moved && !moved->whole) left = moved->path;
    const auto own = left ? SidecarPath(*left) : Result<std::string>(Code::kNotFound, path);
    if (!own.ok() || IsThere(fs, *own)) return "";
    return fmt::format("  {} may be what is left of it; to repair it under its name: mv -n {} {} && lzy-verify --repair {}\n", Printable(*left),
                       ShellQuote(*left), ShellQuote(report.path), ShellQuote(report.path));
  }
  const auto peek = PeekSidecar(fs, *sidecar);
  if (report.state != DatasetState::kStale || !stat.ok() || !peek.ok() || peek->stamp.inode == stat->inode) return "";
  const auto copy = CopyOf(fs, path, key);
  if (!copy) return "";
  // Else the report on that file tells of it.
  const auto own = SidecarPath(copy->path);
  if (!own.ok() || IsThere(fs, *own) || IsClaimedByASet(fs, copy->path)) return "";
  return fmt::format("  {} holds what it was at its last commit; if that file was renamed, protect it, too: lzy-protect {}{}\n",
                     Printable(copy->path), repeated, ShellQuote(copy->path));
}

std::vector<std::string> LeftBareBy(FileSystem& fs, const std::string& path, const LeafKey* key) {
  std::vector<std::string> bare;
  const std::string real = FollowLink(fs, path), here = RealDirectory(fs, DirectoryOf(real));
  const auto sidecar = FindSidecar(fs, real);
  if (!sidecar.ok() || !IsThere(fs, real)) return bare;
  for (const std::string& copy : FindCopies(fs, *sidecar, real, key, kMostTold)) {
    // A file in another directory is judged by the sidecars there. Without a sidecar of its name, nothing was said of it.
    const auto own = SidecarPath(copy);
    if (RealDirectory(fs, DirectoryOf(copy)) != here || !own.ok() || !IsThere(fs, *own) || IsClaimedByASet(fs, copy)) continue;
    if (const auto right = HoldsCommitted(fs, copy, *own, key); right.ok() && !*right) bare.push_back(copy);
  }
  return bare;
}

}  // namespace lzy
