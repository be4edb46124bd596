#include "common/held_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "base/printable.h"
#include "common/changed_places.h"
#include "common/print.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "names/membership.h"
#include "names/reach.h"
#include "names/recorded.h"
#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// Members that are looked for, and files that are compared for one of them.
constexpr std::size_t kMostSought = 64;
constexpr std::size_t kMostCompared = 8;

bool IsThere(FileSystem& fs, const std::string& path) { return fs.Stat(path, /*follow=*/false).ok(); }

bool IsOfCommit(const Peek& peek, const DatasetReport& report) {
  return peek.committed && peek.kind == DatasetKind::kSet && UuidText(peek.uuid) == report.uuid && peek.generation == report.generation;
}

// The sidecar of member `rank`, whatever its name is now. Empty: none is left.
std::string SidecarOfMember(FileSystem& fs, const DatasetReport& report, std::uint32_t rank) {
  const auto is_its = [&](const std::string& sidecar) {
    const auto peek = PeekSidecar(fs, sidecar);
    return peek.ok() && peek->rank == rank && IsOfCommit(*peek, report);
  };
  const std::string place = ExpandPattern(report.path, rank), directory = DirectoryOf(place);
  std::vector<std::string> sidecars;
  if (const auto own = SidecarPath(place); own.ok()) sidecars.push_back(*own);
  Directory around(fs, directory);
  for (const std::string& name : around.Sidecars()) sidecars.push_back(JoinPath(directory, name));
  std::ranges::move(SidecarsInReach(fs, RealDirectory(fs, directory)), std::back_inserter(sidecars));
  const auto found = std::ranges::find_if(sidecars, is_its);
  return found == sidecars.end() ? std::string() : *found;
}

// What the sidecars of other members record of member `rank`.
std::optional<RecordedMember> RecordOf(FileSystem& fs, const DatasetReport& report, std::uint32_t rank) {
  for (std::uint32_t other = 0; other < report.devices; ++other) {
    const auto sidecar = SidecarPath(ExpandPattern(report.path, other));
    const auto set = sidecar.ok() ? PeekSet(fs, *sidecar) : Result<PeekedSet>(sidecar.status());
    if (!set.ok() || !IsOfCommit(set->peek, report)) continue;
    for (const MemberRecord& member : set->members) {
      if (member.rank != rank) continue;
      return RecordedMember{*sidecar, ExpandPattern(report.path, rank), set->block_size, set->key_id, set->peek.uuid, set->peek.generation,
                            member.size, set->peek.commit_clock_ns, member.data_root};
    }
  }
  return std::nullopt;
}

// The files beside a member that have the content of its record.
std::vector<std::string> CopiesByRecord(FileSystem& fs, const RecordedMember& record, const LeafKey* key) {
  std::vector<std::string> copies;
  const std::string directory = DirectoryOf(record.path);
  const auto names = fs.List(directory.empty() ? "." : directory);
  std::size_t compared = 0;
  for (const std::string& name : names.ok() && record.size > 0 ? *names : std::vector<std::string>()) {
    const std::string path = JoinPath(directory, name);
    const auto stat = IsLzyName(name) || path == record.path ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(path, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kRegular || stat->size != record.size || ++compared > kMostCompared) continue;
    if (RootsOf(fs, path, key).Are(record)) copies.push_back(path);
  }
  return copies;
}

// A file that belongs to nothing else goes before others.
std::optional<HeldMember> WhereIs(FileSystem& fs, const DatasetReport& report, std::uint32_t rank, const LeafKey* key) {
  const std::string place = ExpandPattern(report.path, rank), sidecar = SidecarOfMember(fs, report, rank);
  std::vector<std::string> copies;
  if (!sidecar.empty()) {
    copies = FindCopies(fs, sidecar, place, key, kMostCompared);
  } else if (const auto record = RecordOf(fs, report, rank)) {
    copies = CopiesByRecord(fs, *record, key);
  }
  std::optional<HeldMember> found;
  for (const std::string& copy : copies) {
    HeldMember one{.place = place, .copy = copy, .sidecar = "", .stays = false, .away = IsThere(fs, place) ? FreeName(fs, place) : ""};
    const auto its = FindSidecar(fs, copy);
    const auto is_others = [&](const std::string& path) { return sidecar.empty() || RealPathOf(fs, path) != RealPathOf(fs, sidecar); };
    const auto beside = SidecarPath(copy);  // perhaps that of a file which this one replaced
    const bool has_own = beside.ok() && IsThere(fs, *beside) && is_others(*beside);
    one.stays = IsClaimedByASet(fs, copy) || has_own || (its.ok() && is_others(*its));
    const auto home = SidecarPath(place);
    const bool with_it = !one.stays && its.ok() && BaseNameOf(OwnerOf(sidecar)) == BaseNameOf(copy) && DirectoryOf(sidecar) == DirectoryOf(copy);
    if (with_it && BaseNameOf(copy) == BaseNameOf(place)) continue;  // the set is in that directory, too (SplitSetText)
    if (with_it && home.ok() && !IsThere(fs, *home)) one.sidecar = sidecar;
    if (!report.path.starts_with('/')) {
      one.copy = ShortPath(fs, copy);
      one.sidecar = ShortPath(fs, one.sidecar);
    }
    if (!found || (found->stays && !one.stays)) found = one;
  }
  return found;
}

}  // namespace

std::vector<HeldMember> FindHeldMembers(FileSystem& fs, const DatasetReport& report, bool beyond, const LeafKey* key) {
  std::vector<HeldMember> held;
  if (report.kind != DatasetKind::kSet) return held;
  std::set<std::uint32_t> sought;
  for (const Damage& damage : report.damage) {
    const bool lacks = damage.part == DamagePart::kData && !damage.repaired && !damage.transient;
    if (!lacks || damage.device >= report.devices) continue;
    const bool gone = damage.cause == DamageCause::kMissing && !IsThere(fs, damage.path);
    if (gone || (beyond && damage.beyond_repair)) sought.insert(damage.device);
  }
  if (sought.size() > kMostSought) return held;
  for (const std::uint32_t rank : sought) {
    if (auto one = WhereIs(fs, report, rank, key)) held.push_back(*std::move(one));
  }
  return held;
}

std::string HeldMembersText(const std::vector<HeldMember>& held) {
  if (held.empty()) return "";
  std::string files, command;
  bool all_move = true;
  const auto add = [&](const char* tool, const std::string& from, const std::string& to) {
    command += fmt::format("{}{} {} {}", command.empty() ? "" : " && ", tool, ShellQuote(from), ShellQuote(to));
  };
  for (const HeldMember& one : held) {
    files += fmt::format("{}{} {}what {} was", files.empty() ? "" : ", ", Printable(one.copy), files.empty() ? "holds " : "", Printable(one.place));
    // The file may be a copy that somebody wants to keep where it is.
    const bool moves = !one.stays && one.away.empty();
    if (!one.away.empty()) add("mv -n", one.place, one.away);
    add(moves ? "mv -n" : "cp -np", one.copy, one.place);
    const auto home = SidecarPath(one.place);
    if (moves && !one.sidecar.empty() && home.ok()) add("mv -n", one.sidecar, *home);
    all_move = all_move && moves;
  }
  const bool many = held.size() > 1;
  const char* const what = all_move ? many ? "if they were moved by mistake, move them back" : "if it was moved by mistake, move it back"
                           : many   ? "to have these members again"
                                    : "to have this member again";
  return fmt::format("  {}; {}: {}\n", files, what, command);
}

std::string RenamedSetText(const DatasetReport& report, const std::vector<HeldMember>& held, const std::string& repeated) {
  std::vector<std::string> copies;
  for (const HeldMember& one : held) {
    if (one.stays != held[0].stays || !one.away.empty() || !one.sidecar.empty()) return "";
    copies.push_back(one.copy);
  }
  const auto sets = GuessSets(copies);
  if (copies.size() < report.devices || sets.size() != 1 || sets[0].members != copies) return "";
  const std::string now = ShellQuote(sets[0].pattern), path = ShellQuote(report.path);
  if (held[0].stays) {
    return fmt::format("  {} holds what it was, and is protected; to have it again: lzy-restore {}--from {} {}\n"
                       "  if you deleted or renamed it: lzy-protect {}--remove --force {}\n",
                       Printable(sets[0].pattern), repeated, now, path, repeated, path);
  }
  return fmt::format("  {} holds what it was, so nothing is lost; if it was renamed: lzy-protect {}{}\n{}", Printable(sets[0].pattern), repeated, now,
                     HeldMembersText(held));
}

}  // namespace lzy
