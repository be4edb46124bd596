#include "names/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "names/reach.h"
#include "names/set_claim.h"
#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

Status Nothing(const std::string& path) {
  return {Code::kInvalidArgument,
          fmt::format("'{}' matches nothing: a file, a file-set pattern (name.%r) or a directory is accepted", path)};
}

// The most ranks of a set that are examined, because many members may be lost.
constexpr std::uint32_t kMostAsked = 64;

/// True if two patterns give each rank the same name. They may pad with zeros in different ways.
bool MeansTheSame(const std::string& a, const std::string& b) {
  constexpr std::uint32_t kRanks[] = {0, 1, 10, 100, 1000, 10'000, 100'000, 1'000'000};
  return std::ranges::all_of(kRanks, [&](std::uint32_t rank) { return ExpandPattern(a, rank) == ExpandPattern(b, rank); });
}

Status BelongToOthers(const std::string& pattern, const std::set<std::string>& others) {
  std::string list;
  for (const std::string& other : others) list += fmt::format("{}{}", list.empty() ? "" : ", ", ShellQuote(other));
  return {Code::kInvalidArgument,
          fmt::format("pattern '{}' matches members of other sets, which are no members of this one. Name one of the sets that are "
                      "here: {}", pattern, list)};
}

/// True if the file of `rank` is left over from a run with more ranks, or was protected alone: `newest` has no such rank. A
/// file without a sidecar is not a leftover, because lzy-protect would make it a member.
bool IsLeftover(std::uint32_t rank, const std::optional<Peek>& peek, const SetVersion& newest, Resolve what) {
  if (newest.members == 0 || rank < newest.members || !peek) return false;
  return peek->committed ? peek->uuid != newest.uuid : what == Resolve::kProtected;
}

}  // namespace

Directory& Survey::At(const std::string& path) {
  return directories_.try_emplace(path, fs_, path).first->second;
}

std::string Survey::SidecarOf(const std::string& path) {
  const std::string real = FollowLink(fs_, path);
  Directory& directory = At(DirectoryOf(real));
  const std::string name = directory.SidecarOf(BaseNameOf(real));
  return name.empty() ? name : directory.PathOf(name);
}

std::optional<Peek> Survey::PeekFor(const std::string& path) {
  const std::string sidecar = SidecarOf(path);
  if (sidecar.empty()) return std::nullopt;
  const auto& peek = At(DirectoryOf(sidecar)).PeekAt(BaseNameOf(sidecar));
  return peek.ok() ? std::optional<Peek>(*peek) : std::nullopt;
}

// A link to a directory is a directory. A dangling link is a file that is gone, which may have a sidecar.
bool Survey::IsThere(const std::string& path) {
  if (const auto stat = fs_.Stat(path); stat.ok()) return stat->type != FileStat::Type::kDirectory;
  const auto link = fs_.Stat(path, /*follow=*/false);
  return !(link.ok() && link->type == FileStat::Type::kDirectory) && !SidecarOf(path).empty();
}

// A name with a '*' is a glob only if no file has this name.
// A protected file whose name has %r or a star goes before what its name would match, also if the file is lost: tools print its name in
// commands. Exception: it is a pattern of a set. Then neither may hide the other: IsHiddenByASet.
Status Survey::Add(const std::string& path) {
  const bool may_match = HasRankPlaceholder(path) || path.find('*') != std::string::npos;
  const auto own = may_match ? SidecarPath(path) : Result<std::string>(Code::kNotFound, path);
  const auto peek = own.ok() ? PeekSidecar(fs_, *own) : Result<Peek>(own.status());
  const bool is_file = peek.ok() && peek->committed && peek->kind == DatasetKind::kShared && peek->name == BaseNameOf(path);
  by_pattern_ = HasRankPlaceholder(path);
  if (is_file && !IsHiddenByASet(path)) return AddPath(path);
  if (by_pattern_) return AddPattern(path);
  if (path.find('*') != std::string::npos && !fs_.Stat(path, /*follow=*/false).ok()) return AddGlob(path);
  return AddPath(path);
}

DatasetRef& Survey::AddSet(const std::string& pattern) {
  set_patterns_.insert(pattern);
  DatasetRef& found = found_.emplace(pattern, DatasetRef{DatasetKind::kSet, pattern, {}, {}}).first->second;
  if (found.kind == DatasetKind::kSet) return found;
  (void)IsHiddenByASet(pattern);  // a file of this name was found before
  return found = DatasetRef{DatasetKind::kSet, pattern, {}, {}};
}

// Goes by what exists at `path`: a directory, a file, or nothing. A file that is gone is still a dataset if it has a
// sidecar, or if other members of its set record it.
Status Survey::AddPath(const std::string& path) {
  const std::string name = BaseNameOf(path);
  if (IsLzyName(name)) {
    const auto data = DataPathOf(path);
    if (what_ == Resolve::kProtected && data) return AddPath(*data);
    return {Code::kInvalidArgument, fmt::format("'{}' is lzy's own file: name the file it belongs to", path)};
  }
  const auto stat = fs_.Stat(path);
  if (!stat.ok()) {
    const auto above = fs_.Stat(DirectoryOf(path));
    // Nothing is below a file, whatever error the system returns.
    const bool absent =
        stat.status().code() == Code::kNotFound || (above.ok() && above->type != FileStat::Type::kDirectory);
    if (!absent) return stat.status();
    // A dangling link may have the name of a file that is lost.
    const auto own = SidecarPath(path);
    const bool link = what_ == Resolve::kProtected && fs_.ReadLink(path).ok() && own.ok() && fs_.Stat(*own, /*follow=*/false).ok();
    if (name.empty() || !above.ok() || (!link && !IsThere(path) && !PatternOfSiblings(path))) return Nothing(path);
    if (what_ != Resolve::kProtected || !AddRenamed(path)) AddFile(path);
    return Status::Ok();
  }
  if (path.ends_with('/') && stat->type != FileStat::Type::kDirectory) {
    return {Code::kInvalidArgument, fmt::format("'{}' is a file, not a directory", path)};
  }
  switch (stat->type) {
    case FileStat::Type::kDirectory:
      if (IsReplaced(path)) AddFile(path);
      return AddDirectory(path);
    case FileStat::Type::kRegular:
      AddFile(path);
      return Status::Ok();
    case FileStat::Type::kOther:
      if (!IsReplaced(path)) break;
      AddFile(path);
      return Status::Ok();
  }
  if (At(DirectoryOf(path)).IsLinkInPlaceOfFile(BaseNameOf(path))) {
    return {Code::kInvalidArgument, fmt::format("'{}' is a symbolic link in the place of a file that was protected. Remove the link, or give it another "
                                                "name; or name the file to which it leads", path)};
  }
  return {Code::kInvalidArgument, fmt::format("'{}' is neither a regular file nor a directory", path)};
}

// True if something else has the name of a lost file whose sidecar exists. Checks the sidecar first: there is nearly never
// one, and a search for one of another name would read the whole directory above.
bool Survey::IsReplaced(const std::string& path) {
  const auto own = SidecarPath(path);
  const auto there = own.ok() ? fs_.Stat(*own, /*follow=*/false) : Result<FileStat>(own.status());
  const bool has_own = there.ok() && there->type == FileStat::Type::kRegular;
  return what_ == Resolve::kProtected && has_own && !SidecarOf(path).empty();
}

// Without a set, files that the pattern matches are single files. But lzy-protect makes a set of them, if it gets the pattern.
bool Survey::IsHiddenByASet(const std::string& path) {
  if (!HasRankPlaceholder(path) || !CheckPattern(path).ok()) return false;
  const bool may_become_one = by_pattern_ && what_ == Resolve::kProtectable && !MembersOf(path).empty();
  if (NewestOf(path).members == 0 && !set_patterns_.contains(path) && !may_become_one) return false;
  // The first part of the path with a placeholder gets a name without it.
  const std::vector<std::string> components = Components(path);
  std::string now = path.starts_with('/') ? "/" : "", then;
  std::size_t last = 0;
  for (; last < components.size(); ++last) {
    std::string name = components[last];
    std::ranges::replace(name, '%', '_');
    then = JoinPath(now, name);
    now = JoinPath(now, components[last]);
    if (HasRankPlaceholder(components[last])) break;
  }
  const bool is_name = last + 1 == components.size();
  std::string moves;
  const auto move = [&](const std::string& from, const std::string& to) {
    if (!fs_.Stat(from, /*follow=*/false).ok()) return;
    moves += fmt::format("{}mv -n {} {}", moves.empty() ? "" : " && ", ShellQuote(from), ShellQuote(to));
  };
  move(now, then);
  const auto sidecar = SidecarPath(path), to = SidecarPath(then);
  if (is_name && sidecar.ok() && to.ok()) move(*sidecar, *to);
  troubles_.emplace_back(Code::kUnprotected, fmt::format("{}: a {} has this name, which is also the pattern of a set. Commands mean the set, and no command "
                                                         "means the file. Give it another name: {}", path, is_name ? "file" : "file in a directory", moves));
  return true;
}

void Survey::AddFile(const std::string& path) {
  if (IsHiddenByASet(path)) return;
  const auto own = PeekFor(path);
  const bool of_set = own && own->kind == DatasetKind::kSet;
  if (of_set && AddMember(path, *own)) return;
  // Without a usable sidecar, the sidecars of its neighbours may still show that it is a member.
  const auto pattern = own && !of_set ? std::nullopt : PatternOfSiblings(path);
  if (pattern) {
    AddSet(*pattern);
    meant_.insert(*pattern);
  } else {
    found_.emplace(path, DatasetRef{DatasetKind::kShared, path, {}, {}});
  }
}

// A sidecar records only the tail of the pattern, and files may have been renamed since. So the whole pattern is searched
// for in several ways, the surest first.
bool Survey::AddMember(const std::string& path, const Peek& peek) {
  auto pattern = PatternByTail(path, peek.name, peek.rank);
  if (pattern) pattern = PresentPattern(path, *pattern, peek);
  if (!pattern) pattern = PatternOfRenamed(path, peek);
  if (!pattern) {
    // Members may each be in a directory of their own, and have been renamed there ("node%r/state" to "node%r/old").
    const std::size_t slash = peek.name.rfind('/');
    if (slash != std::string::npos && !HasRankPlaceholder(peek.name.substr(slash))) {
      pattern = PatternByTail(path, peek.name.substr(0, slash + 1) + EscapePercent(BaseNameOf(path)), peek.rank);
      if (!pattern || !IsLikely(*pattern, path, peek)) pattern = PatternOfRenamedDirectory(path, peek);
    }
  }
  // It may be the sidecar of another member.
  if (!pattern) {
    if (const auto set = PatternFromTail(path, peek.name)) {
      AddSet(*set);
      meant_.insert(*set);
      return true;
    }
  }
  // A file that was moved out of its set, or whose sidecar was moved here, does not show that the set is here.
  if (!pattern && fs_.Stat(path).ok()) return false;
  // Otherwise the recorded name stands for the set, and its members are those that PATH leads to.
  if (!pattern) pattern = JoinPath(EscapePercent(DirectoryOf(path)), peek.name);
  AddSet(*pattern).members.emplace(peek.rank, path);
  named_members_[*pattern].emplace(peek.rank, Member{path, peek});
  return true;
}

std::string Survey::PresentPattern(const std::string& path, const std::string& recorded, const Peek& peek) {
  if (peek.members < 2 || HasOtherMember(recorded, peek)) return recorded;
  const auto now = PatternOfRenamed(path, peek);
  return now && HasOtherMember(*now, peek) ? *now : recorded;
}

bool Survey::WasRenamed(const std::string& pattern) {
  for (std::uint32_t rank = 0; rank < kMostAsked; ++rank) {
    const std::string path = ExpandPattern(pattern, rank);
    const auto peek = PeekFor(path);
    const bool at_home = peek && peek->kind == DatasetKind::kSet && peek->rank == rank && PatternFromTail(path, peek->name, rank) == pattern;
    if (at_home) return !MeansTheSame(PresentPattern(path, pattern, *peek), pattern);
  }
  return false;
}

std::optional<std::string> Survey::PatternByTail(const std::string& path, const std::string& tail, std::uint32_t rank) {
  if (auto pattern = PatternFromTail(path, tail, rank)) return pattern;
  const auto real = fs_.RealPath(path);
  return real.ok() ? PatternFromTail(*real, tail, rank) : std::nullopt;
}

// The number of the last directory is the rank: "d%r/state" was renamed to "e%r/state".
std::optional<std::string> Survey::PatternOfRenamedDirectory(const std::string& path, const Peek& peek) {
  for (const std::string& guess : GuessPatterns(DirectoryOf(path), peek.rank)) {
    const std::string pattern = JoinPath(guess, EscapePercent(BaseNameOf(path)));
    if (IsLikely(pattern, path, peek)) return pattern;
  }
  return std::nullopt;
}

// If only one member is where the guess says, while others have their old names, the set was not renamed. Members on disks
// of other nodes are not seen, and do not count.
bool Survey::IsLikely(const std::string& guess, const std::string& path, const Peek& peek) {
  return HasOtherMember(guess, peek) || !HasOtherMember(PatternBeside(path, peek.name), peek);
}

bool Survey::HasOtherMember(const std::string& pattern, const Peek& peek) {
  for (std::uint32_t rank = 0; rank < std::min(peek.members, kMostAsked); ++rank) {
    const auto other = rank == peek.rank ? std::nullopt : PeekFor(ExpandPattern(pattern, rank));
    if (other && other->kind == DatasetKind::kSet && other->uuid == peek.uuid && other->rank == rank) return true;
  }
  return false;
}

bool Survey::AddRenamed(const std::string& path) {
  const std::string real = FollowLink(fs_, path);
  Directory& directory = At(DirectoryOf(real));
  std::string sidecar = directory.SidecarOf(BaseNameOf(real));
  if (sidecar.empty()) sidecar = kSidecarPrefix + BaseNameOf(real);
  auto home = directory.HomeOf(sidecar);
  if (!home) home = directory.HomeByContent(sidecar);
  if (!home || *home == BaseNameOf(real)) return false;
  const Peek& peek = *directory.PeekAt(sidecar);
  const std::string now = directory.PathOf(*home);
  if (peek.kind == DatasetKind::kShared) {
    AddFile(now);
    found_.at(now).notes.push_back(fmt::format("'{}' is gone: it was renamed to '{}'", path, now));
    return true;
  }
  // Only if the whole set was renamed. If one member has another name, the set lacks that member.
  const auto pattern = PatternOfRenamed(now, peek);
  if (!pattern) return false;
  DatasetRef& set = AddSet(*pattern);
  meant_.insert(*pattern);
  // One note for the set, not one for each member.
  const std::string note = fmt::format("its members were renamed: '{}' to '{}'", path, now);
  if (set.notes.empty()) set.notes.push_back(note);
  return true;
}

// A guess counts under two conditions. Every member of the set in this directory has, by its sidecar, the rank that the
// guess gives it. And two of them are the committed files or copies of them; or, if there is only one, it is the very file.
// Otherwise somebody may have moved or copied a sidecar to a name that happens to contain the rank. Of
// two files with sidecars of one member, only one has to fit.
std::optional<std::string> Survey::PatternOfRenamed(const std::string& path, const Peek& peek) {
  Directory& directory = At(DirectoryOf(path));
  if (!directory.Names().ok()) return std::nullopt;
  // A path, and its pattern if the member and others of its set still have the names of their commit.
  std::map<std::uint32_t, std::vector<std::pair<std::string, std::string>>> renamed;
  std::size_t same = 0, likely = 0;
  for (const std::string& sidecar : directory.Sidecars()) {
    const auto& other = directory.PeekAt(sidecar);
    if (!other.ok() || other->uuid != peek.uuid || other->kind != DatasetKind::kSet) continue;
    const auto name = directory.UserOf(sidecar);
    if (!name) continue;
    const auto recorded = PatternFromTail(directory.PathOf(*name), other->name, other->rank);
    const bool at_home = recorded && HasOtherMember(*recorded, *other);
    renamed[other->rank].emplace_back(directory.PathOf(*name), at_home ? *recorded : "");
    const auto stat = fs_.Stat(directory.PathOf(*name));
    const bool copied = stat.ok() && HasSizeAndTime(*stat, other->stamp);
    const bool is_same = stat.ok() && (IsSameFile(*stat, other->stamp) || (copied && !BirthIdentifiesFile(other->stamp.birth_ns)));
    same += is_same ? 1 : 0;
    likely += is_same || copied ? 1 : 0;
  }
  if (same == 0 && likely < 2) return std::nullopt;
  for (const std::string& guess : GuessPatterns(path, peek.rank)) {
    const bool fits = std::ranges::all_of(renamed, [&](const auto& member) {
      return std::ranges::any_of(member.second, [&](const auto& one) {
        return MatchPattern(guess, one.first) == member.first && (one.second.empty() || MeansTheSame(one.second, guess));
      });
    });
    if (fits) return guess;
  }
  return std::nullopt;
}

// Tries first the sets that PATH has led to: their members may be in other directories. Ranks beyond the newest version are
// not missing members.
std::optional<std::string> Survey::PatternOfSiblings(const std::string& path) {
  const auto is_member = [&](const std::string& pattern) {
    const auto rank = MatchPattern(pattern, path);
    return rank && *rank < NewestOf(pattern).members;
  };
  for (const std::string& pattern : set_patterns_) {
    if (is_member(pattern)) return pattern;
  }
  for (const std::string& pattern : At(DirectoryOf(path)).SetPatternsAround(BaseNameOf(path))) {
    if (is_member(pattern) && !WasRenamed(pattern)) return pattern;
  }
  return std::nullopt;
}

bool Survey::IsOfRenamedSet(Directory& directory, const std::string& sidecar) {
  const auto& peek = directory.PeekAt(sidecar);
  if (!peek.ok() || peek->kind != DatasetKind::kSet) return false;
  bool any = false, at_home = false;
  for (const std::string& sibling : directory.Sidecars()) {
    const auto& other = directory.PeekAt(sibling);
    if (!other.ok() || other->uuid != peek->uuid) continue;
    const auto user = directory.UserOf(sibling);
    if (!user) continue;
    // The member was made again and has a sidecar of its own. Or this sidecar is of a copy of it; then the other sidecars
    // show that it is missing.
    if (other->rank == peek->rank && peek->members > 1) return true;
    at_home = at_home || *user == DataPathOf(sibling);
    any = true;
  }
  return any && !at_home;
}

Status Survey::AddDirectory(const std::string& given) {
  // Names are made from it ("./" would become ".//name").
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const bool protectable = what_ == Resolve::kProtectable;
  LZY_RETURN_IF_ERROR(Walk(path, /*hidden=*/!protectable, [&](Directory& directory) {
    if (!protectable) {
      for (const std::string& sidecar : directory.Sidecars()) {
        auto file = directory.UserOf(sidecar);
        if (!file) file = directory.HomeByContent(sidecar);
        if (!file && IsOfRenamedSet(directory, sidecar)) continue;  // the other sidecars lead to its set
        if (!file) file = directory.NameMeantBy(sidecar);
        // Not added if that file has another sidecar, which replaced this one.
        if (file && directory.SidecarOf(*file) == sidecar) {
          AddFile(directory.PathOf(*file));
        } else {
          // What a file says that is named alone, its directory says, too.
          for (const std::string& left : directory.LeftBy(sidecar)) AddFile(directory.PathOf(left));
        }
      }
      return;
    }
    const std::set<std::string>& names = **directory.Names();
    std::set<std::string> regular;
    for (const std::string& name : names) {
      const auto stat = fs_.Stat(directory.PathOf(name), /*follow=*/false);
      if (stat.ok() && stat->type == FileStat::Type::kRegular) regular.insert(regular.end(), name);
    }
    // Something else may have the name of a file that was moved away, such as a link to where it is now.
    const auto is_alone = [&](const std::string& name) { return DataPathOf(name) && !regular.contains(*DataPathOf(name)); };
    if (std::ranges::any_of(regular, is_alone)) bereft_.insert(directory.PathOf(""));
    for (const std::string& name : regular) {
      if (!name.starts_with('.')) AddFile(directory.PathOf(name));
    }
  }));
  DropMembers();
  if (!found_.empty() || !troubles_.empty()) return Status::Ok();
  if (protectable)
    return {Code::kInvalidArgument, fmt::format("'{}': there is no regular, non-hidden file below it", path)};
  return {Code::kUnprotected, fmt::format("'{}': nothing below it is protected", path)};
}

// A member without a sidecar may be found before another directory shows which set it is of.
void Survey::DropMembers() {
  std::erase_if(found_, [&](const auto& found) {
    const auto& [path, dataset] = found;
    const bool member = dataset.kind == DatasetKind::kShared && std::ranges::any_of(set_patterns_, [&](const std::string& pattern) {
      const auto rank = MatchPattern(pattern, path);
      return rank && *rank < NewestOf(pattern).members;
    });
    if (!member) return false;
    const auto own = PeekFor(path);
    return !own || !own->committed || own->kind == DatasetKind::kSet;
  });
}

std::size_t Survey::CountOf(const std::string& pattern, const Uuid& uuid) {
  return static_cast<std::size_t>(std::ranges::count_if(MembersOf(pattern), [&](const auto& one) {
    const Member& member = one.second;
    return member.peek && member.peek->uuid == uuid && fs_.Stat(member.path).ok();
  }));
}

// A sidecar may have a name that the recorded pattern does not lead to.
const std::map<std::uint32_t, Survey::Member>& Survey::SeenOf(const std::string& pattern) {
  const auto& members = MembersOf(pattern);
  return members.empty() ? named_members_[pattern] : members;
}

// Whoever moves or copies a few members leaves most sidecars where they were. And if the other directory has the members that are here,
// too, and by inode and birth these are the committed files, the other one is the copy: a backup.
bool Survey::IsPlaceOfSet(const std::string& pattern, const Peek& stray, const std::string& home) {
  std::size_t sidecars = 0, originals = 0;
  for (const auto& [rank, member] : SeenOf(pattern)) {
    if (!member.peek || member.peek->uuid != stray.uuid) continue;
    ++sidecars;
    const auto here = fs_.Stat(member.path), there = fs_.Stat(ExpandPattern(home, member.peek->rank));
    const bool linked = here.ok() && there.ok() && here->inode == there->inode && here->file_system == there->file_system;
    if (here.ok() && there.ok() && !linked && IsSameFile(*here, member.peek->stamp)) ++originals;
  }
  return 2 * sidecars > stray.members || originals > 0;
}

std::optional<std::string> Survey::HomeOfStray(const std::string& pattern, const Peek& stray) {
  // Sets that PATH leads to come first: they are named as PATH names them.
  std::vector<std::string> places(set_patterns_.begin(), set_patterns_.end());
  std::set<std::string> others;
  const std::string here = DirectoryOf(SeenOf(pattern).begin()->second.path);
  for (const std::string& sidecar : sees_all_ ? SidecarsInReach(fs_, here) : std::vector<std::string>()) {
    const auto& peek = At(DirectoryOf(sidecar)).PeekAt(BaseNameOf(sidecar));
    const auto owner = peek.ok() && peek->kind == DatasetKind::kSet && peek->uuid == stray.uuid ? DataPathOf(sidecar) : std::nullopt;
    if (const auto there = owner ? PatternFromTail(*owner, peek->name, peek->rank) : std::nullopt) others.insert(*there);
  }
  places.insert(places.end(), others.begin(), others.end());
  // A backup of an older commit, or the set as it was committed again, is no place from where these members can have come. If no member
  // here has a name of the set, what is here is no backup of it, but sidecars that came along with other names.
  const bool may_be_older = MembersOf(pattern).empty();
  const auto is_of_this_commit = [&](const std::string& place) {
    return NewestOf(place).uuid == stray.uuid && std::ranges::any_of(MembersOf(place), [&](const auto& one) {
      return one.second.peek && one.second.peek->uuid == stray.uuid && (may_be_older || one.second.peek->generation == stray.generation);
    });
  };
  std::optional<std::string> home;
  std::size_t most = CountOf(pattern, stray.uuid);
  for (const std::string& place : places) {
    const std::size_t count = is_of_this_commit(place) ? CountOf(place, stray.uuid) : 0;
    if (count <= most) continue;
    most = count;
    home = place;
  }
  return home;
}

// The commands in this message overwrite nothing.
Status Survey::DescribeStray(const Member& member, const std::string& home) {
  const std::string there = ExpandPattern(home, member.peek->rank), sidecar = SidecarOf(member.path);
  const auto own = SidecarPath(there);
  const bool present = fs_.Stat(member.path).ok();
  const std::string set = ShellQuote(home);
  const std::uint32_t rank = member.peek->rank;
  std::string moves;
  const auto move = [&](const std::string& from, const std::string& to) {
    moves += fmt::format("{}{} {}", moves.empty() ? "" : " && mv -n ", ShellQuote(from), ShellQuote(to));
  };
  if (present && !fs_.Stat(there, /*follow=*/false).ok()) move(member.path, there);
  if (own.ok() && !fs_.Stat(*own, /*follow=*/false).ok()) move(sidecar, *own);
  if (!moves.empty()) {
    return {Code::kUnprotected,
            fmt::format("{}: its sidecar is that of member {} of the set {}, which is elsewhere and lacks it. If it was moved here by mistake, "
                        "move it back: mv -n {}",
                        member.path, rank, set, moves)};
  }
  if (!present) {
    return {Code::kUnprotected,
            fmt::format("{}: its sidecar is that of member {} of the set {}, which is elsewhere and has a sidecar of this member. If you do not "
                        "need the sidecar here, move it away: {}",
                        member.path, rank, set, sidecar)};
  }
  // The data are not read here, so lzy does not know whether they are a copy. So the message does not tell the user to
  // remove them.
  return {Code::kUnprotected,
          fmt::format("{}: its sidecar is that of member {} of the set {}, which is elsewhere and has this member. Nothing protects what is here; "
                      "if it is a file that you want, copy it to another name, and protect that",
                      member.path, rank, set)};
}

void Survey::DropStrays() {
  if (by_pattern_) return;
  std::map<std::string, std::string> strays;
  for (const std::string& pattern : set_patterns_) {
    if (!found_.contains(pattern) || SeenOf(pattern).empty()) continue;
    const SetVersion newest = NewestOf(pattern);
    const auto& seen = SeenOf(pattern);
    const auto stray = std::ranges::find_if(seen, [&](const auto& one) {
      return one.second.peek && (MembersOf(pattern).empty() || one.second.peek->uuid == newest.uuid);
    });
    if (stray == seen.end()) continue;
    const Peek peek = *stray->second.peek;
    // What is here may be the set, with members that were lost, unless they are too many for a repair.
    const std::size_t count = CountOf(pattern, peek.uuid);
    if (2 * count >= peek.members || peek.members - count <= peek.parity) continue;
    // If another set is here, too, these are files of it. The engine decides which set counts.
    const bool mixed = std::ranges::any_of(MembersOf(pattern), [&](const auto& one) {
      const auto& other = one.second.peek;
      return other && other->committed && other->kind == DatasetKind::kSet && other->uuid != peek.uuid;
    });
    if (mixed) continue;
    const auto home = HomeOfStray(pattern, peek);
    const auto directory_of = [](const std::string& one) { return DirectoryOf(ExpandPattern(one, 0)); };
    if (home && directory_of(*home) != directory_of(pattern) && !IsPlaceOfSet(pattern, peek, *home)) strays.emplace(pattern, *home);
  }
  for (const auto& [pattern, home] : strays) {
    for (const auto& [rank, member] : SeenOf(pattern)) {
      if (member.peek) troubles_.push_back(DescribeStray(member, home));
      AddToReach(fs_, DirectoryOf(member.path));  // the report on the set says where they are
    }
    found_.erase(pattern);
    set_patterns_.erase(pattern);
  }
}

// Copies the names before it discards the directory. The tree may be larger than memory, so at most one directory of each
// level is held.
Status Survey::Walk(const std::string& path, bool hidden, const std::function<void(Directory&)>& visit) {
  Directory& directory = At(path);
  auto names = directory.Names();
  if (!names.ok()) return names.status();
  visit(directory);
  std::vector<std::string> below_it;
  for (const std::string& name : **names) {
    if (!name.starts_with('.') || hidden) below_it.push_back(directory.PathOf(name));
  }
  directories_.erase(path);
  for (const std::string& below : below_it) {
    const auto stat = fs_.Stat(below, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kDirectory) continue;
    // A directory that vanished meanwhile is no error.
    if (Status walked = Walk(below, hidden, visit); !walked.ok() && walked.code() != Code::kNotFound) {
      troubles_.push_back(walked);
    }
  }
  return Status::Ok();
}

// Lists directories only for components with a star or a placeholder. For the last component, the name of a sidecar counts
// as the name of its data file, so that lost members are found.
Status Survey::WalkPattern(const std::vector<std::string>& components, std::size_t depth, const std::string& directory,
                           const std::string& resolved, std::optional<std::uint32_t> rank, std::vector<Match>& out) {
  const std::string& component = components[depth];
  const bool last = depth + 1 == components.size();
  const auto step = [&](const std::string& name, const std::string& as, std::optional<std::uint32_t> now) -> Status {
    const std::string path = JoinPath(directory, name);
    const std::string pattern = JoinPath(resolved, as);
    if (!last) return WalkPattern(components, depth + 1, path, pattern, now, out);
    out.push_back({pattern, path, now});
    return Status::Ok();
  };
  if (component.find('*') == std::string::npos && !HasRankPlaceholder(component)) {
    const std::string name = ExpandPattern(component, 0);
    const Status looked = last ? fs_.Stat(JoinPath(directory, name)).status() : Status::Ok();
    // There may be members behind a link that is not followed. One such link is reported for all.
    if (looked.code() == Code::kIo && troubles_.empty() && fs_.ReadLink(directory).ok()) troubles_.push_back(looked);
    if (!looked.ok() && !IsThere(JoinPath(directory, name))) return Status::Ok();
    return step(name, component, rank);
  }
  const auto stat = fs_.Stat(directory.empty() ? "." : directory);
  // A directory that cannot be listed may have members, so it does not count as empty.
  if (stat.status().code() == Code::kIo) troubles_.push_back(stat.status());
  if (!stat.ok() || stat->type != FileStat::Type::kDirectory) return Status::Ok();
  Directory& here = At(directory.empty() ? "." : directory);
  LZY_ASSIGN_OR_RETURN(const std::set<std::string>* listed, here.Names());
  std::set<std::string> names;
  for (const std::string& name : *listed) {
    if (!IsLzyName(name)) names.insert(name);
    if (auto owner = DataPathOf(name); owner && last) names.insert(*owner);
  }
  for (const std::string& name : names) {
    const auto match = MatchComponent(component, name, rank);
    if (match) LZY_RETURN_IF_ERROR(step(name, match->resolved, match->rank));
  }
  return Status::Ok();
}

Result<std::vector<Survey::Match>> Survey::MatchesOf(const std::string& pattern) {
  const auto components = Components(pattern);
  std::vector<Match> out;
  if (components.empty()) return out;
  const std::string root = pattern.starts_with('/') ? "/" : "";
  LZY_RETURN_IF_ERROR(WalkPattern(components, 0, root, root, std::nullopt, out));
  return out;
}

std::optional<std::string> Survey::OtherSetOf(const Match& match, const std::optional<Peek>& peek) {
  if (!peek || !peek->committed || peek->kind != DatasetKind::kSet) return std::nullopt;
  // If members exchanged their sidecars, or took them along, the recorded rank differs from that of the name.
  auto recorded = PatternFromTail(match.path, peek->name, peek->rank);
  if (recorded) recorded = PresentPattern(match.path, *recorded, *peek);
  if (!recorded) recorded = PatternFromTail(match.path, peek->name);
  return recorded && !MeansTheSame(*recorded, match.resolved) ? recorded : std::nullopt;
}

// If whole sets were renamed, their sidecars record other names. If no matched member is of a set of the given pattern, that
// pattern must give each member its recorded rank, or be the present name of their set: some members may be beside a sidecar that
// somebody copied there.
std::set<std::string> Survey::RenamedSetsIn(const std::vector<Match>& matches) {
  std::set<std::string> others;
  std::set<Uuid> asked;
  std::size_t members = 0;
  for (const Match& match : matches) {
    const auto peek = match.rank && IsThere(match.path) ? PeekFor(match.path) : std::nullopt;
    if (!peek || !peek->committed || peek->kind != DatasetKind::kSet) continue;
    if (auto recorded = PatternFromTail(match.path, peek->name)) {
      if (MatchPattern(*recorded, match.path) == peek->rank) recorded = PresentPattern(match.path, *recorded, *peek);
      if (MeansTheSame(*recorded, match.resolved)) return {};
      continue;
    }
    ++members;
    if (*match.rank != peek->rank) {
      others.insert(PatternOfRenamed(match.path, *peek).value_or(PatternBeside(match.path, peek->name)));
    } else if (asked.insert(peek->uuid).second) {
      const auto now = PatternOfRenamed(match.path, *peek);
      if (now && MeansTheSame(*now, match.resolved)) return {};
    }
  }
  // One file alone may be protected anew, whatever sidecar came along with it.
  return members > (what_ == Resolve::kProtected ? 0 : 1) ? others : std::set<std::string>();
}

// The sidecar of the file is lost, or was made for a member of a set of which no other member has a name of this pattern. If no member
// that the pattern matches records the file, it is a member of the set that does.
std::optional<std::string> Survey::ClaimantOf(const Match& match) {
  const auto peek = PeekFor(match.path);
  const bool came_alone = peek && peek->committed && peek->kind == DatasetKind::kSet && !HasOtherMember(match.resolved, *peek);
  if (peek && !came_alone) return std::nullopt;
  const auto claimant = PatternOfSiblings(match.path);
  if (!claimant || MeansTheSame(*claimant, match.resolved)) return std::nullopt;
  return came_alone || NewestOf(match.resolved).members <= *match.rank ? claimant : std::nullopt;
}

// With stars, one pattern can match several sets: each way to replace the stars is a set.
Status Survey::AddPattern(const std::string& pattern) {
  LZY_RETURN_IF_ERROR(CheckPattern(pattern));
  LZY_ASSIGN_OR_RETURN(const auto matches, MatchesOf(pattern));
  const bool starred = pattern.find('*') != std::string::npos;
  std::map<std::string, std::vector<Match>> by_set;
  std::set<std::string> others = starred ? std::set<std::string>() : RenamedSetsIn(matches);
  for (const Match& match : matches) {
    if (!match.rank || !IsThere(match.path)) continue;
    if (auto other = OtherSetOf(match, PeekFor(match.path)); other || (other = ClaimantOf(match))) {
      others.insert(std::move(*other));
    } else {
      by_set[starred ? match.resolved : pattern].push_back(match);
    }
  }
  // A star may match a part of the rank, so the sets themselves are meant. Without a star, it is not known what is meant.
  if (!others.empty() && !starred) return BelongToOthers(pattern, others);
  for (const std::string& other : others) {
    if (!by_set.contains(other)) LZY_RETURN_IF_ERROR(AddPattern(other));
  }
  for (const auto& [set, members] : by_set) {
    // If all members of this name are gone, the whole set may have been renamed.
    const bool all_gone =
        std::none_of(members.begin(), members.end(), [&](const Match& match) { return fs_.Stat(match.path).ok(); });
    if (all_gone && what_ == Resolve::kProtected && AddRenamed(members.front().path)) continue;
    for (const Match& match : members) AddSet(set).members.emplace(*match.rank, match.path);
    meant_.insert(set);
  }
  if (!found_.empty()) return Status::Ok();
  if (IsThere(pattern)) return AddPath(pattern);  // a file whose name happens to look like a pattern
  if (!troubles_.empty()) return Status::Ok();  // it may match something in a directory that could not be listed
  return {
      Code::kInvalidArgument,
      fmt::format("pattern '{}' matches no file and no sidecar: %r stands for the rank in decimal, %04r for it padded "
                  "with zeros",
                  pattern)};
}

Status Survey::AddGlob(const std::string& glob) {
  // In a glob without a rank, '%' is an ordinary character.
  LZY_ASSIGN_OR_RETURN(const auto matches, MatchesOf(EscapePercent(glob)));
  if (matches.empty()) return Nothing(glob);
  Status first_failure;
  for (const Match& match : matches) {
    const Status added = AddPath(match.path);
    if (added.ok()) continue;
    if (first_failure.ok()) first_failure = added;
    // Matches that are not protected, or not files, are skipped if others are found.
    const bool mere_absence = added.code() == Code::kUnprotected || added.code() == Code::kInvalidArgument;
    if (!mere_absence) troubles_.push_back(added);
  }
  // Files without sidecars are skipped, too, unless all are without: then this is the error.
  const bool none = what_ == Resolve::kProtected && std::ranges::none_of(found_, [&](const auto& found) {
    return found.second.kind == DatasetKind::kSet || !SidecarOf(found.first).empty();
  });
  if (none && !found_.empty()) {
    found_.clear();
    first_failure = {Code::kUnprotected, fmt::format("'{}': nothing that it matches is protected", glob)};
  }
  return found_.empty() && troubles_.empty() ? first_failure : Status::Ok();
}

// Finds the members once for each pattern. A pattern that cannot be walked is an error, not an empty set.
const std::map<std::uint32_t, Survey::Member>& Survey::MembersOf(const std::string& pattern) {
  auto [at, fresh] = surveyed_.try_emplace(pattern);
  if (!fresh) return at->second;
  auto matches = MatchesOf(pattern);
  if (!matches.ok()) troubles_.push_back(matches.status());
  for (const Match& match : matches.ok() ? *matches : std::vector<Match>{}) {
    if (!match.rank || !IsThere(match.path)) continue;
    auto peek = PeekFor(match.path);
    if (!OtherSetOf(match, peek)) at->second[*match.rank] = {match.path, std::move(peek)};
  }
  return at->second;
}

bool Survey::IsBesideItsFile(const Member& member) {
  const auto stat = fs_.Stat(member.path);
  return stat.ok() && member.peek && IsSameFile(*stat, member.peek->stamp);
}

SetVersion Survey::NewestOf(const std::string& pattern) {
  std::vector<SetClaim> claims;
  std::vector<const Member*> beside;
  for (const auto& [rank, member] : MembersOf(pattern)) {
    const auto& peek = member.peek;
    if (!peek || !peek->committed || peek->kind != DatasetKind::kSet) continue;
    beside.push_back(&member);
    claims.push_back({peek->uuid, peek->rank, peek->members, peek->generation, peek->wall_time_ns});
  }
  const bool several = std::ranges::any_of(claims, [&](const SetClaim& claim) { return claim.uuid != claims[0].uuid; });
  for (std::size_t i = 0; several && i < claims.size(); ++i) claims[i].same_file = IsBesideItsFile(*beside[i]);
  const auto counts = WhichSetCounts(claims);
  return counts ? SetVersion{claims[*counts].wall_time_ns, claims[*counts].uuid, claims[*counts].members} : SetVersion{};
}

std::vector<Leftover> Survey::FillMembers(DatasetRef& dataset, const SetVersion& newest) {
  if (auto mine = found_.find(dataset.path); mine != found_.end()) dataset.members = mine->second.members;
  for (const auto& [rank, member] : MembersOf(dataset.path)) dataset.members[rank] = member.path;
  std::vector<Leftover> leftovers;
  const auto& named = named_members_[dataset.path];
  std::erase_if(dataset.members, [&](const auto& entry) {
    const auto& [rank, path] = entry;
    const auto peek = PeekFor(path);
    if (!IsLeftover(rank, peek, newest, what_)) return false;
    if (peek->kind == DatasetKind::kSet) {
      const auto pattern = PatternFromTail(path, peek->name, peek->rank);
      const bool foreign = peek->members > 0 && (!pattern || *pattern != dataset.path);
      leftovers.push_back({path, SidecarOf(path), peek->members, fs_.Stat(path).ok(), named.contains(rank), /*needless=*/false, foreign ? peek->name : ""});
    }
    return true;
  });
  HintAtSwaps(dataset);
  return leftovers;
}

// If members exchanged their names, the hashes show damage or edits. The hint says what really happened.
void Survey::HintAtSwaps(DatasetRef& dataset) {
  for (const auto& [rank, path] : dataset.members) {
    const std::string real = FollowLink(fs_, path);
    Directory& directory = At(DirectoryOf(real));
    const auto other = directory.OtherMemberIn(BaseNameOf(real));
    if (!other) continue;
    dataset.hints.push_back(
        fmt::format("'{}' is the file that was '{}' at the last commit: members have exchanged their names. If "
                    "that was a mistake, rename them back",
                    path, directory.PathOf(*other)));
  }
}

bool Survey::IsMeant(const std::string& pattern, const SetVersion& newest) const {
  if (meant_.contains(pattern)) return true;
  const auto named = named_members_.find(pattern);
  return named != named_members_.end() &&
         std::any_of(named->second.begin(), named->second.end(),
                     [&](const auto& member) { return !IsLeftover(member.first, member.second.peek, newest, what_); });
}

}  // namespace lzy
