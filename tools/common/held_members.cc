#include "common/held_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/printable.h"
#include "common/paths.h"
#include "common/print.h"
#include "names/holders.h"
#include "names/lookup.h"
#include "names/membership.h"
#include "names/neighbours.h"
#include "names/peek.h"
#include "names/reach.h"
#include "names/recorded.h"
#include "names/set_names.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// Members that are looked for, and files that are compared for one of them.
constexpr std::size_t kMostLostMembers = 64;
constexpr std::size_t kMostCandidates = 8;

bool IsOfCommit(const Peek& peek, const DatasetReport& report) {
  return peek.committed && peek.kind == DatasetKind::kSet && UuidText(peek.uuid) == report.uuid && peek.generation == report.generation;
}

// Looks for members of one report. Most of them have the same size and directory, so everything that is read is kept for the next one.
class Search {
 public:
  /// `moved_only`: files that belong to something else do not count.
  Search(FileSystem& fs, const DatasetReport& report, bool moved_only, const LeafKey* key)
      : fs_(fs), report_(report), moved_only_(moved_only), key_(key) {}
  /// A file that belongs to nothing else goes before others.
  std::optional<HeldMember> Find(std::uint32_t rank);

 private:
  // By member. Sidecars of the set, whatever their names are now.
  using ByRank = std::multimap<std::uint32_t, std::string>;
  void AddIfIts(ByRank& sidecars, const std::string& path) const;
  const ByRank& SidecarsBeside(const std::string& directory);
  std::string SidecarOf(std::uint32_t rank);
  const RecordedMember* RecordOf(std::uint32_t rank);
  std::vector<std::string> FilesOfSize(const std::string& directory, std::uint64_t bytes);
  bool IsOther(const std::string& path, const std::string& sidecar) const;
  bool HasOwnPlace(const std::string& file, const std::string& sidecar) const;
  bool MayHave(const std::string& file, const RecordedMember& record);
  std::vector<std::string> CopiesByRecord(const RecordedMember& record);
  HeldMember Judge(const std::string& place, const std::string& copy, const std::string& sidecar) const;

  FileSystem& fs_;
  const DatasetReport& report_;
  const bool moved_only_;
  const LeafKey* key_;
  std::map<std::string, ByRank> beside_;  // by directory
  std::optional<ByRank> in_reach_;
  std::map<std::uint32_t, RecordedMember> records_;
  std::uint32_t asked_ = 0;  // members whose sidecars are in records_
  std::map<std::string, std::multimap<std::uint64_t, std::string>> files_;  // by directory and size
  std::map<std::string, RootsOf> roots_;
  struct Own {
    std::uint32_t block_size = 0;
    Hash root;
  };
  std::map<std::string, std::optional<Own>> own_;  // what files have by sidecars of their own
};

void Search::AddIfIts(ByRank& sidecars, const std::string& path) const {
  if (const auto peek = PeekSidecar(fs_, path); peek.ok() && IsOfCommit(*peek, report_)) sidecars.emplace(peek->rank, path);
}

const Search::ByRank& Search::SidecarsBeside(const std::string& directory) {
  const auto [at, is_new] = beside_.try_emplace(directory);
  if (!is_new) return at->second;
  for (const std::string& name : Neighbours::Look(fs_, directory)->SidecarsOfSets()) AddIfIts(at->second, JoinPath(directory, name));
  return at->second;
}

// The sidecar of member `rank`, whatever its name is now. Empty: none is left.
std::string Search::SidecarOf(std::uint32_t rank) {
  const std::string place = ExpandPattern(report_.path, rank), directory = DirectoryOf(place);
  const auto own = SidecarPath(place);
  const auto peek = own.ok() ? PeekSidecar(fs_, *own) : Result<Peek>(own.status());
  if (peek.ok() && peek->rank == rank && IsOfCommit(*peek, report_)) return *own;
  const ByRank& beside = SidecarsBeside(directory);
  if (const auto found = beside.find(rank); found != beside.end()) return found->second;
  const std::string here = RealDirectory(fs_, directory);
  if (!in_reach_) {
    in_reach_.emplace();
    for (const std::string& path : fs_.Memo<Surroundings>().AllInReach(fs_, here)) AddIfIts(*in_reach_, path);
  }
  const auto [begin, end] = in_reach_->equal_range(rank);
  const auto found = std::find_if(begin, end, [&](const auto& one) { return DirectoryOf(one.second) != here; });
  return found == end ? std::string() : found->second;
}

// What the sidecars of other members record of member `rank`: each is read once.
const RecordedMember* Search::RecordOf(std::uint32_t rank) {
  for (; !records_.contains(rank) && asked_ < report_.devices; ++asked_) {
    const auto sidecar = SidecarPath(ExpandPattern(report_.path, asked_));
    const auto set = sidecar.ok() ? PeekSet(fs_, *sidecar) : Result<PeekedSet>(sidecar.status());
    if (!set.ok() || !IsOfCommit(set->peek, report_)) continue;
    for (const MemberRecord& member : set->members) {
      records_.emplace(member.rank, RecordedMember{*sidecar, ExpandPattern(report_.path, member.rank), set->block_size, set->key_id, set->peek.uuid,
                                                   set->peek.generation, member.size, member.mtime_ns, set->peek.commit_clock_ns, member.data_root});
    }
  }
  const auto found = records_.find(rank);
  return found == records_.end() ? nullptr : &found->second;
}

std::vector<std::string> Search::FilesOfSize(const std::string& directory, std::uint64_t bytes) {
  const auto [at, is_new] = files_.try_emplace(directory);
  const auto names = is_new ? fs_.List(directory.empty() ? "." : directory) : Result<std::vector<std::string>>(std::vector<std::string>());
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string path = JoinPath(directory, name);
    const auto stat = IsLzyName(name) ? Result<FileStat>(Code::kNotFound, path) : fs_.Stat(path, /*follow=*/false);
    if (stat.ok() && stat->type == FileStat::Type::kRegular) at->second.emplace(stat->size, path);
  }
  std::vector<std::string> paths;
  const auto [begin, end] = at->second.equal_range(bytes);
  std::transform(begin, end, std::back_inserter(paths), [](const auto& one) { return one.second; });
  return paths;
}

bool Search::IsOther(const std::string& path, const std::string& sidecar) const {
  return BaseNameOf(path) != BaseNameOf(sidecar) || RealPathOf(fs_, path) != RealPathOf(fs_, sidecar);
}

// True if the file must stay where it is: a sidecar other than `sidecar` has its name, perhaps that of a file which this one replaced, or a
// set has its name.
bool Search::HasOwnPlace(const std::string& file, const std::string& sidecar) const {
  const auto beside = SidecarPath(file);
  return (beside.ok() && IsThere(fs_, *beside) && IsOther(*beside, sidecar)) || IsClaimedByASet(fs_, file);
}

// False if sidecars prove another content of the file, so that it need not be read. Members of a set often have equal sizes.
bool Search::MayHave(const std::string& file, const RecordedMember& record) {
  const auto rank = MatchPattern(report_.path, file);
  const auto is_its = [&](const Damage& damage) { return damage.part == DamagePart::kData && damage.path == file && !damage.repaired; };
  if (rank && *rank < report_.devices && std::ranges::none_of(report_.damage, is_its)) {
    const RecordedMember* const its = RecordOf(*rank);
    return its != nullptr && its->root == record.root;
  }
  const auto [at, is_new] = own_.try_emplace(file);
  if (is_new) {
    const auto own = SidecarPath(file);
    const auto loaded = own.ok() ? Sidecar::Load(fs_, *own, OpenMode::kRead) : Result<std::unique_ptr<Sidecar>>(own.status());
    const auto stat = fs_.Stat(file, /*follow=*/false);
    const bool theirs = loaded.ok() && (*loaded)->committed() && stat.ok() && HasSizeAndTime(*stat, (*loaded)->contents().superblock.stamp);
    if (theirs) at->second = Own{(*loaded)->contents().superblock.block_size, (*loaded)->contents().data_tree.Root()};
  }
  return !at->second || at->second->block_size != record.block_size || at->second->root == record.root;
}

// The files beside a member that have the content of its record.
std::vector<std::string> Search::CopiesByRecord(const RecordedMember& record) {
  std::vector<std::string> copies;
  std::size_t compared = 0;
  for (const std::string& path : record.size > 0 ? FilesOfSize(DirectoryOf(record.path), record.size) : std::vector<std::string>()) {
    if (path == record.path || (moved_only_ && HasOwnPlace(path, "")) || !MayHave(path, record)) continue;
    if (++compared > kMostCandidates) break;
    if (roots_.try_emplace(path, fs_, path, key_).first->second.Are(record)) copies.push_back(path);
  }
  return copies;
}

HeldMember Search::Judge(const std::string& place, const std::string& copy, const std::string& sidecar) const {
  HeldMember one{.place = place, .copy = copy, .sidecar = "", .stays = false, .away = IsThere(fs_, place) ? FreeName(fs_, place) : ""};
  const auto its = FindSidecar(fs_, copy);
  one.stays = HasOwnPlace(copy, sidecar) || (its.ok() && (sidecar.empty() || IsOther(*its, sidecar)));
  const bool with_it = !one.stays && its.ok() && BaseNameOf(OwnerOf(sidecar)) == BaseNameOf(copy) && DirectoryOf(sidecar) == DirectoryOf(copy);
  if (with_it && BaseNameOf(copy) == BaseNameOf(place)) one.copy.clear();  // the set is in that directory, too (SplitSetText)
  const auto home = SidecarPath(place);
  if (with_it && home.ok() && !IsThere(fs_, *home)) one.sidecar = sidecar;
  if (!report_.path.starts_with('/')) {
    one.copy = ShortPath(fs_, one.copy);
    one.sidecar = ShortPath(fs_, one.sidecar);
  }
  return one;
}

std::optional<HeldMember> Search::Find(std::uint32_t rank) {
  const std::string place = ExpandPattern(report_.path, rank), sidecar = SidecarOf(rank);
  std::vector<std::string> copies;
  if (!sidecar.empty()) {
    const auto counts = [&](const std::string& file) { return !moved_only_ || !HasOwnPlace(file, sidecar); };
    copies = FindCopies(fs_, sidecar, place, key_, kMostCandidates, counts);
  } else if (const RecordedMember* const record = RecordOf(rank)) {
    copies = CopiesByRecord(*record);
  }
  std::optional<HeldMember> found;
  for (const std::string& copy : copies) {
    const HeldMember one = Judge(place, copy, sidecar);
    if (one.copy.empty() || (moved_only_ && one.stays)) continue;
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
  if (sought.size() > kMostLostMembers) return held;
  Search search(fs, report, /*moved_only=*/!beyond, key);
  for (const std::uint32_t rank : sought) {
    if (auto one = search.Find(rank)) held.push_back(*std::move(one));
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
