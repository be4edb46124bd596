#include "common/changed_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/printable.h"
#include "common/paths.h"
#include "common/print.h"
#include "names/content_match.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "names/peek.h"
#include "names/provers.h"
#include "names/reach.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// The most files that are examined for one report, and sidecars that are compared with one file.
constexpr std::size_t kMostSought = 64;
constexpr std::size_t kMostCompared = 8;

// A sidecar that was committed for what a file has now, and the path of the file that has its name.
struct Origin {
  std::string sidecar, path;
};

// A file that was damaged since counts, too, if most of it is as committed.
std::optional<Origin> OriginOf(FileSystem& fs, const std::string& path, const LeafKey* key) {
  const auto own = SidecarPath(path);
  const auto stat = fs.Stat(path, /*follow=*/false);
  if (!own.ok() || !stat.ok() || stat->type != FileStat::Type::kRegular) return std::nullopt;
  const auto prover = FindProver(fs, path, *own, key);
  if (prover.ok() && *prover) {
    if ((*prover)->recorded || (*prover)->owner.empty()) return std::nullopt;
    return Origin{(*prover)->sidecar, (*prover)->owner};
  }
  std::size_t compared = 0;
  // The look is shared by all edited files, so the sidecars around are read once.
  const std::string directory = DirectoryOf(path);
  const auto look = Neighbours::For(fs, directory, BaseNameOf(path), *stat).look;
  for (const std::string& name : look->SidecarsOfSizeAndTime(stat->size, stat->mtime_ns)) {
    const std::string sidecar = JoinPath(directory, name), owner = OwnerOf(sidecar);
    if (owner.empty() || owner == path) continue;
    if (++compared > kMostCompared) break;
    const auto peek = PeekSidecar(fs, sidecar);
    if (!peek.ok() || !peek->committed || !HasSizeAndTime(*stat, peek->stamp)) continue;
    const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
    if (loaded.ok() && IsMostlyAs(fs, path, **loaded, key)) return Origin{sidecar, owner};
  }
  return std::nullopt;
}

// True if the file at `path` must stay there: it has the content of `sidecar`, which has its name, or of the sidecar that counts for it now,
// as after an exchange of whole sets. Also if that cannot be found out.
bool IsRightWhereItIs(FileSystem& fs, const std::string& path, const std::string& sidecar, const LeafKey* key) {
  const auto counts = FindSidecar(fs, path);
  for (const std::string& one : {sidecar, counts.ok() ? *counts : sidecar}) {
    const auto holds = HoldsCommitted(fs, path, one, key);
    if (!holds.ok() || *holds) return true;
  }
  return false;
}

// True if the file `path` has the content, or most of it, that the sidecar of `other` committed. Else it is new, or of a third file.
bool MayHaveBeen(FileSystem& fs, const std::string& path, const std::string& other, const LeafKey* key) {
  const auto sidecar = SidecarPath(other);
  const auto loaded = sidecar.ok() ? Sidecar::Load(fs, *sidecar, OpenMode::kRead) : Result<std::unique_ptr<Sidecar>>(sidecar.status());
  return loaded.ok() && (*loaded)->committed() && IsMostlyAs(fs, path, **loaded, key);
}

// The name of the file at the commit of the sidecar; empty if that cannot be read.
std::string CommittedNameIn(FileSystem& fs, const std::string& sidecar) {
  const auto peek = PeekSidecar(fs, sidecar);
  if (!peek.ok()) return "";
  return BaseNameOf(peek->kind == DatasetKind::kSet ? ExpandPattern(peek->name, peek->rank) : peek->name);
}

// The files of the report that were edited or replaced, by the times or the content.
std::set<std::string> EditedFiles(const DatasetReport& report) {
  std::set<std::string> files;
  for (const Damage& damage : report.damage) {
    if (damage.part == DamagePart::kData && IsEdit(damage.cause) && !damage.repaired) files.insert(damage.path);
  }
  return files;
}

}  // namespace

// In a ring of more files, each exchange gives at least one of them its name back, so reports come to an end.
std::string ChangedPlacesText(FileSystem& fs, const DatasetReport& report, const LeafKey* key) {
  if (report.state != DatasetState::kStale && report.state != DatasetState::kUnrepairable) return "";
  const std::set<std::string> edited = EditedFiles(report);
  if (edited.size() > kMostSought) return "";
  const bool absolute = report.path.starts_with('/');
  const auto shown = [&](const std::string& path) { return absolute ? path : ShortPath(fs, path); };
  std::set<std::string> used;
  std::string files, command;
  for (const std::string& path : edited) {
    const std::string real = FollowLink(fs, path);
    const auto origin = OriginOf(fs, real, key);
    if (!origin) continue;
    const std::string here = RealPathOf(fs, real), home = RealPathOf(fs, origin->path);
    if (here == home || used.contains(here) || used.contains(home)) continue;
    const auto there = fs.Stat(home, /*follow=*/false);
    if (!there.ok() || there->type != FileStat::Type::kRegular) continue;  // the report on that file tells of it
    if (IsRightWhereItIs(fs, home, origin->sidecar, key)) continue;
    used.insert({here, home});
    const auto add = [&](const std::string& from, const std::string& to) {
      command += fmt::format("{}mv -n {} {}", command.empty() ? "" : " && ", ShellQuote(shown(from)), ShellQuote(shown(to)));
    };
    const std::string comma = files.empty() ? "" : ", ";
    // The file has the name of its commit. So it is where it was, and its sidecar is not.
    if (CommittedNameIn(fs, origin->sidecar) == BaseNameOf(here)) {
      const auto own = SidecarPath(here);
      if (!own.ok() || CommittedNameIn(fs, *own) != BaseNameOf(home)) continue;
      const auto& [one, other] = std::minmax(*own, origin->sidecar);
      const std::string away = FreeName(fs, one);
      files += fmt::format("{}the sidecars of {} and {} changed places", comma, Printable(shown(here)), Printable(shown(home)));
      add(one, away);
      add(other, one);
      add(away, other);
      continue;
    }
    if (!MayHaveBeen(fs, home, here, key)) {
      const std::string away = FreeName(fs, home);
      files += fmt::format("{}{} holds what {} was", comma, Printable(shown(here)), Printable(shown(home)));
      add(home, away);
      add(here, home);
      continue;
    }
    // The same in the reports on both.
    const auto& [one, other] = std::minmax(here, home);
    const std::string away = FreeName(fs, one);
    files += fmt::format("{}{} and {} changed places", comma, Printable(shown(one)), Printable(shown(other)));
    add(one, away);
    add(other, one);
    add(away, other);
  }
  if (command.empty()) return "";
  return fmt::format("  {}; if that was a mistake, give the files their names back: {}\n", files, command);
}

}  // namespace lzy
