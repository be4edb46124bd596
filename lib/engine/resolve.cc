#include "engine/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "merkle/hash.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// ------------------------------------------------------------------------------------------------- what sidecars say

/// Whom a sidecar belongs to.
struct Peek {
  Uuid uuid{};
  DatasetKind kind = DatasetKind::kShared;
  bool committed = false;
  std::uint32_t rank = 0;
  std::uint32_t members = 0;  ///< 0 while a set was never committed: nobody knows then
  std::int64_t wall_time_ns = 0;
  Stamp stamp;
  std::string name;  ///< info record: base name, or the pattern's tail
};

Peek PeekOf(const Superblock& sb, const InfoRecord& info) {
  const bool committed = sb.state != SidecarState::kNeverCommitted;
  const bool counts = committed && sb.kind == DatasetKind::kSet;
  return {sb.uuid, sb.kind, committed, sb.rank, counts ? sb.members : 0, sb.wall_time_ns, sb.stamp, info.name};
}

/// Reads a superblock and the info record, not the trees, which may be large. Fails when anything is unusual.
Result<Peek> PeekQuickly(FileSystem& fs, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kRead, /*follow=*/false));
  std::vector<std::uint8_t> page(kSuperblockSize);
  LZY_RETURN_IF_ERROR(ReadExactly(*file, 0, page));
  LZY_ASSIGN_OR_RETURN(Superblock sb, DecodeSuperblock(page, 0));
  if (sb.state == SidecarState::kPrepared) return {Code::kCorrupt, "prepared"};
  // A commit writes copy 0 last: an interrupted one is seen in copy 1.
  if (ReadExactly(*file, sb.spacing, page).ok()) {
    auto other = DecodeSuperblock(page, 1);
    const bool newer = other.ok() && other->uuid == sb.uuid && other->generation > sb.generation;
    if (newer && other->state == SidecarState::kCommitted) sb = std::move(other).value();
  }
  const auto extent =
      std::find_if(sb.extents.begin(), sb.extents.end(), [](const Extent& e) { return e.kind == ExtentKind::kInfo; });
  if (extent == sb.extents.end() || extent->length > kMaxInfoBytes) return {Code::kCorrupt, "no info record"};
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  if (extent->length > stat.size) return {Code::kCorrupt, "info record lies past the end"};
  std::vector<std::uint8_t> bytes(extent->length);
  LZY_RETURN_IF_ERROR(ReadExactly(*file, extent->offset, bytes));
  if (HashBytes(HashTag::kInfo, 0, bytes) != sb.info_hash) return {Code::kCorrupt, "info record differs from its hash"};
  LZY_ASSIGN_OR_RETURN(const InfoRecord info, DecodeInfo(bytes));
  return PeekOf(sb, info);
}

Result<Peek> PeekSidecar(FileSystem& fs, const std::string& path) {
  if (auto quick = PeekQuickly(fs, path); quick.ok()) return quick;
  LZY_ASSIGN_OR_RETURN(const auto sidecar, Sidecar::Load(fs, path, OpenMode::kRead));
  return PeekOf(sidecar->contents().superblock, sidecar->contents().info);
}

/// True when a file that looks like `stat` is the one `stamp` was taken of. The device number is left out: it changes
/// from mount to mount.
bool SameFile(const Stamp& stamp, const FileStat& stat) {
  return stat.type == FileStat::Type::kRegular && stamp.inode == stat.inode && stamp.size == stat.size &&
         stamp.mtime_ns == stat.mtime_ns;
}

/// The path a symbolic link in the last component leads to (dangling ones too); other paths as they are.
std::string FollowLink(FileSystem& fs, const std::string& path) {
  const auto self = fs.Stat(path, /*follow=*/false);
  if (!self.ok() || self->type != FileStat::Type::kOther) return path;
  auto real = fs.RealPath(path);
  return real.ok() ? *real : path;
}

std::string EscapePercent(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '%' ? "%%" : std::string(1, c);
  return out;
}

/// The pattern of which `path` is the expansion for `rank`, if `path` ends in that of `tail`.
std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail, std::uint32_t rank) {
  const std::string end = ExpandPattern(tail, rank);
  if (path == end) return tail;
  if (!path.ends_with("/" + end)) return std::nullopt;
  return EscapePercent(path.substr(0, path.size() - end.size())) + tail;
}

/// Patterns that `path` may come from as member `rank`, going by its name: each number in it that equals the rank, last
/// one first.
std::vector<std::string> GuessPatterns(const std::string& path, std::uint32_t rank) {
  const std::string name = BaseNameOf(path);
  std::vector<std::string> out;
  for (std::size_t end = name.size(); end > 0; --end) {
    const auto digit = [&](std::size_t at) { return name[at] >= '0' && name[at] <= '9'; };
    if (!digit(end - 1) || (end < name.size() && digit(end))) continue;
    std::size_t begin = end;
    while (begin > 0 && digit(begin - 1)) --begin;
    const std::size_t width = end - begin;
    for (const std::string& placeholder : {std::string("%r"), fmt::format("%0{}r", width)}) {
      if (ExpandPattern(placeholder, rank) != name.substr(begin, width)) continue;
      const std::string guess = EscapePercent(name.substr(0, begin)) + placeholder + EscapePercent(name.substr(end));
      out.push_back(JoinPath(EscapePercent(DirectoryOf(path)), guess));
    }
  }
  return out;
}

/// One directory's files and sidecars, looked up as needed, once each.
class Directory {
 public:
  Directory(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  /// Every name there is.
  Result<const std::set<std::string>*> Names() {
    if (!listed_) List();
    if (!list_status_.ok()) return list_status_;
    return &names_;
  }
  /// Names of data files that have a sidecar of their name, and those of them that are not there themselves.
  const std::vector<std::string>& SidecarOwners() {
    if (!listed_) List();
    return owners_;
  }
  const std::vector<std::string>& LostOwners() {
    if (!listed_) List();
    return lost_owners_;
  }

  const Result<Peek>& PeekAt(const std::string& sidecar_name) {
    auto at = peeks_.find(sidecar_name);
    if (at == peeks_.end()) at = peeks_.emplace(sidecar_name, PeekSidecar(fs_, PathOf(sidecar_name))).first;
    return at->second;
  }

  /// The name of the sidecar of data file `name`; empty when it has none. See FindSidecar.
  std::string SidecarOf(const std::string& name) {
    std::string own = kSidecarPrefix + name;
    const bool has_own = IsRegular(own);
    const auto data = fs_.Stat(PathOf(name), /*follow=*/false);
    if (!data.ok()) return has_own ? own : "";
    if (has_own && PeekAt(own).ok() && SameFile(PeekAt(own)->stamp, *data)) return own;
    if (!Names().ok()) return has_own ? own : "";
    // Whoever still has a file of his own name did not have it renamed away.
    for (const std::string& owner : LostOwners()) {
      std::string sidecar = kSidecarPrefix + owner;
      if (PeekAt(sidecar).ok() && SameFile(PeekAt(sidecar)->stamp, *data)) return sidecar;
    }
    return has_own ? own : "";
  }

  /// The patterns of the sets that committed sidecars here are of, going by the sidecars' own places.
  const std::vector<std::string>& SetPatterns() {
    if (!set_patterns_) {
      std::set<std::string> patterns;
      for (const std::string& owner : SidecarOwners()) {
        const auto& peek = PeekAt(kSidecarPrefix + owner);
        if (!peek.ok() || peek->kind != DatasetKind::kSet || !peek->committed) continue;
        if (auto pattern = PatternFromTail(PathOf(owner), peek->name, peek->rank)) patterns.insert(*pattern);
      }
      set_patterns_.emplace(patterns.begin(), patterns.end());
    }
    return *set_patterns_;
  }

  /// The name that `owner`, which is gone, was given after its commit: that of the file its sidecar's stamp was taken
  /// of.
  std::optional<std::string> RenamedFrom(const std::string& owner) {
    const auto& peek = PeekAt(kSidecarPrefix + owner);
    if (!peek.ok() || !peek->committed || !Names().ok()) return std::nullopt;
    if (!by_inode_) {
      by_inode_.emplace();
      for (const std::string& name : names_) {
        if (IsLzyName(name)) continue;
        if (auto stat = fs_.Stat(PathOf(name), /*follow=*/false); stat.ok()) by_inode_->emplace(stat->inode, name);
      }
    }
    for (auto [at, end] = by_inode_->equal_range(peek->stamp.inode); at != end; ++at) {
      if (auto stat = fs_.Stat(PathOf(at->second), /*follow=*/false); stat.ok() && SameFile(peek->stamp, *stat)) {
        return at->second;
      }
    }
    return std::nullopt;
  }

  std::string PathOf(const std::string& name) const { return JoinPath(path_, name); }

 private:
  void List() {
    listed_ = true;
    auto names = fs_.List(path_);
    list_status_ = names.status();
    if (!names.ok()) return;
    names_.insert(names->begin(), names->end());
    for (const std::string& name : names_) {
      const auto data = DataPathOf(name);
      if (!data || !IsRegular(name)) continue;
      owners_.push_back(*data);
      if (!names_.contains(*data)) lost_owners_.push_back(*data);
    }
  }

  bool IsRegular(const std::string& name) {
    const auto stat = fs_.Stat(PathOf(name), /*follow=*/false);
    return stat.ok() && stat->type == FileStat::Type::kRegular;
  }

  FileSystem& fs_;
  const std::string path_;
  bool listed_ = false;
  Status list_status_;
  std::set<std::string> names_;
  std::vector<std::string> owners_;
  std::vector<std::string> lost_owners_;
  std::optional<std::vector<std::string>> set_patterns_;
  std::map<std::string, Result<Peek>> peeks_;
  std::optional<std::multimap<std::uint64_t, std::string>> by_inode_;
};

// -------------------------------------------------------------------------------------------------- patterns and globs

/// Matches one component of a pattern against a name: '*' is any text, a placeholder the rank. `visit` gets each way to
/// do it, with the component as it is with every '*' replaced, shortest text for '*' first, until it returns true.
class ComponentMatcher {
 public:
  using Visit = std::function<bool(const std::string& resolved, std::optional<std::uint32_t> rank)>;
  ComponentMatcher(const std::string& pattern, const std::string& name, Visit visit)
      : pattern_(pattern), name_(name), visit_(std::move(visit)) {}

  bool Match(std::optional<std::uint32_t> rank) {
    // As in a shell: hidden files only where the pattern says so.
    if (name_.starts_with('.') && !pattern_.starts_with('.')) return false;
    return From(0, 0, "", rank);
  }

 private:
  bool From(std::size_t p, std::size_t n, const std::string& resolved, std::optional<std::uint32_t> rank) {
    if (p == pattern_.size()) return n == name_.size() && visit_(resolved, rank);
    if (pattern_[p] == '*') return Star(p, n, resolved, rank);
    const bool escape = pattern_[p] == '%' && p + 1 < pattern_.size() && pattern_[p + 1] == '%';
    if (pattern_[p] == '%' && !escape) return Rank(p, n, resolved, rank);
    if (n == name_.size() || pattern_[p] != name_[n]) return false;
    return From(p + (escape ? 2 : 1), n + 1, resolved + pattern_.substr(p, escape ? 2 : 1), rank);
  }

  bool Star(std::size_t p, std::size_t n, const std::string& resolved, std::optional<std::uint32_t> rank) {
    for (std::size_t end = n; end <= name_.size(); ++end) {
      if (From(p + 1, end, resolved + EscapePercent(name_.substr(n, end - n)), rank)) return true;
    }
    return false;
  }

  bool Rank(std::size_t p, std::size_t n, const std::string& resolved, std::optional<std::uint32_t> rank) {
    const std::size_t length = pattern_.find('r', p) + 1 - p;
    const std::string placeholder = pattern_.substr(p, length);
    const auto try_rank = [&](std::uint32_t value) {
      const std::string text = ExpandPattern(placeholder, value);
      return name_.compare(n, text.size(), text) == 0 &&
             From(p + length, n + text.size(), resolved + placeholder, value);
    };
    if (rank) return try_rank(*rank);
    std::size_t end = n;
    while (end < name_.size() && name_[end] >= '0' && name_[end] <= '9') ++end;
    for (; end > n; --end) {
      const auto value = NumberIn(name_.substr(n, end - n));
      if (value && ExpandPattern(placeholder, *value).size() == end - n && try_rank(*value)) return true;
    }
    return false;
  }

  static std::optional<std::uint32_t> NumberIn(const std::string& digits) {
    std::uint64_t value = 0;
    for (const char c : digits) {
      value = value * 10 + static_cast<std::uint64_t>(c - '0');
      if (value > 0xffffffffu) return std::nullopt;
    }
    return static_cast<std::uint32_t>(value);
  }

  const std::string& pattern_;
  const std::string& name_;
  const Visit visit_;
};

/// A member or file found: the pattern without its '*', the path, and the rank where the pattern has a placeholder.
struct Match {
  std::string resolved;
  std::string path;
  std::optional<std::uint32_t> rank;
};

std::vector<std::string> Components(const std::string& path) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) out.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// -------------------------------------------------------------------------------------------------------- the resolver

/// A version of a set that members were seen of.
struct SetVersion {
  std::int64_t wall_time_ns = 0;
  Uuid uuid{};
  std::uint32_t members = 0;
  friend auto operator<=>(const SetVersion&, const SetVersion&) = default;
};

/// What one process sees of the datasets that a PATH stands for.
class Resolver {
 public:
  Resolver(FileSystem& fs, Resolve what) : fs_(fs), what_(what) {}

  /// Looks for PATH's datasets; found() has them then. The Status is of PATH as a whole.
  Status Add(const std::string& path) {
    if (HasRankPlaceholder(path)) return AddPattern(path);
    if (path.find('*') != std::string::npos && !fs_.Stat(path, /*follow=*/false).ok()) return AddGlob(path);
    return AddPath(path);
  }

  const std::map<std::string, DatasetRef>& found() const { return found_; }
  const std::vector<Status>& troubles() const { return troubles_; }

  /// The members of `pattern` that are to be seen here, whatever set they are of, and the newest set among them.
  SetVersion Survey(const std::string& pattern);
  /// Gives `dataset`, a set, the members seen here, without those that only an older set of the same name has.
  void FillMembers(DatasetRef& dataset, const SetVersion& newest);

  /// Sidecars below `path`, without those of living data.
  std::vector<std::string> Orphans(const std::string& path);

 private:
  struct Member {
    std::string path;
    std::optional<Peek> peek;  // of its sidecar, when it has a usable one
  };

  Directory& At(const std::string& path) {
    auto at = directories_.find(path);
    if (at == directories_.end()) at = directories_.emplace(path, Directory(fs_, path)).first;
    return at->second;
  }
  /// The sidecar of the data file `path`, and what it says.
  struct Lookup {
    std::string sidecar;  // empty: none
    std::optional<Peek> peek;
  };
  Lookup SidecarOf(const std::string& path) {
    const std::string real = FollowLink(fs_, path);
    Directory& directory = At(DirectoryOf(real));
    const std::string name = directory.SidecarOf(BaseNameOf(real));
    if (name.empty()) return {};
    const auto& peek = directory.PeekAt(name);
    return {directory.PathOf(name), peek.ok() ? std::optional<Peek>(*peek) : std::nullopt};
  }

  Status AddPath(const std::string& path);
  Status AddPattern(const std::string& pattern);
  Status AddGlob(const std::string& glob);
  Status AddDirectory(const std::string& path);
  void AddFile(const std::string& path);
  void AddShared(const std::string& path) { found_.emplace(path, DatasetRef{DatasetKind::kShared, path, {}}); }
  void AddMember(const std::string& path, const Peek& peek);
  DatasetRef& AddSet(const std::string& pattern) {
    set_patterns_.insert(pattern);
    return found_.emplace(pattern, DatasetRef{DatasetKind::kSet, pattern, {}}).first->second;
  }
  /// The pattern of the set whose sidecars say that `path` is one of its members; nothing of its own need be there.
  std::optional<std::string> PatternOfSiblings(const std::string& path);
  /// The pattern of a set whose members were renamed, from what they are called now.
  std::optional<std::string> PatternOfRenamed(const std::string& path, const Peek& peek);

  /// Calls `visit` for each directory below `path`, itself first; symbolic links to directories are not followed.
  Status Walk(const std::string& path, bool hidden, const std::function<void(Directory&)>& visit);
  Status WalkPattern(const std::vector<std::string>& components, std::size_t depth, const std::string& directory,
                     const std::string& resolved, std::optional<std::uint32_t> rank, std::vector<Match>& out);
  Result<std::vector<Match>> MatchesOf(const std::string& pattern);
  bool IsThere(const std::string& path);

  FileSystem& fs_;
  const Resolve what_;
  std::map<std::string, Directory> directories_;
  std::map<std::string, DatasetRef> found_;
  std::set<std::string> set_patterns_;  // keys of the sets in found_
  std::map<std::string, std::map<std::uint32_t, Member>> surveyed_;
  std::vector<Status> troubles_;
};

Status Nothing(const std::string& path) {
  return {Code::kInvalidArgument,
          fmt::format("'{}' matches nothing: a file, a file-set pattern (name.%r) or a directory is accepted", path)};
}

/// A data file (of any type but directory), or a sidecar for it.
bool Resolver::IsThere(const std::string& path) {
  if (const auto stat = fs_.Stat(path); stat.ok()) return stat->type != FileStat::Type::kDirectory;
  if (const auto link = fs_.Stat(path, /*follow=*/false); link.ok() && link->type == FileStat::Type::kDirectory)
    return false;
  return !SidecarOf(path).sidecar.empty();
}

Status Resolver::AddPath(const std::string& path) {
  const std::string name = BaseNameOf(path);
  if (IsLzyName(name)) {
    const auto data = DataPathOf(path);
    if (what_ == Resolve::kProtected && data) return AddPath(*data);
    return {Code::kInvalidArgument, fmt::format("'{}' is lzy's own file: name the file it belongs to", path)};
  }
  const auto stat = fs_.Stat(path);
  if (!stat.ok()) {
    const auto above = fs_.Stat(DirectoryOf(path));
    const bool absent =
        stat.status().code() == Code::kNotFound || (above.ok() && above->type != FileStat::Type::kDirectory);
    if (!absent) return stat.status();
    if (name.empty() || !above.ok() || (!IsThere(path) && !PatternOfSiblings(path))) return Nothing(path);
    AddFile(path);
    return Status::Ok();
  }
  switch (stat->type) {
    case FileStat::Type::kDirectory:
      return AddDirectory(path);
    case FileStat::Type::kRegular:
      AddFile(path);
      return Status::Ok();
    case FileStat::Type::kOther:
      break;
  }
  return {Code::kInvalidArgument, fmt::format("'{}' is neither a regular file nor a directory", path)};
}

void Resolver::AddFile(const std::string& path) {
  const Lookup own = SidecarOf(path);
  if (own.peek && own.peek->kind == DatasetKind::kSet) return AddMember(path, *own.peek);
  // Without a usable sidecar of its own, its neighbours' may still say that it is one of them.
  const auto pattern = own.peek ? std::nullopt : PatternOfSiblings(path);
  if (pattern) {
    AddSet(*pattern);
  } else {
    AddShared(path);
  }
}

void Resolver::AddMember(const std::string& path, const Peek& peek) {
  auto pattern = PatternFromTail(path, peek.name, peek.rank);
  if (!pattern) {
    // A name relative to a directory inside the pattern ("state" in /local/3): its real path has it all.
    if (auto real = fs_.RealPath(path); real.ok()) pattern = PatternFromTail(*real, peek.name, peek.rank);
  }
  if (!pattern) pattern = PatternOfRenamed(path, peek);
  // When all else fails what was recorded names the set, and its members are known one by one.
  AddSet(pattern ? *pattern : JoinPath(EscapePercent(DirectoryOf(path)), peek.name)).members.emplace(peek.rank, path);
}

std::optional<std::string> Resolver::PatternOfRenamed(const std::string& path, const Peek& peek) {
  Directory& directory = At(DirectoryOf(path));
  if (!directory.Names().ok()) return std::nullopt;
  std::map<std::uint32_t, std::string> renamed;
  for (const std::string& owner : directory.SidecarOwners()) {
    const auto& other = directory.PeekAt(kSidecarPrefix + owner);
    if (!other.ok() || other->uuid != peek.uuid || other->kind != DatasetKind::kSet) continue;
    if ((*directory.Names())->contains(owner)) {
      renamed[other->rank] = owner;
    } else if (auto name = directory.RenamedFrom(owner)) {
      renamed[other->rank] = *name;
    }
  }
  for (const std::string& guess : GuessPatterns(path, peek.rank)) {
    const bool fits = std::all_of(renamed.begin(), renamed.end(), [&](const auto& member) {
      return MatchPattern(guess, directory.PathOf(member.second)) == member.first;
    });
    if (fits) return guess;
  }
  return std::nullopt;
}

std::optional<std::string> Resolver::PatternOfSiblings(const std::string& path) {
  const auto is_member = [&](const std::string& pattern) {
    const auto rank = MatchPattern(pattern, path);
    return rank && *rank < Survey(pattern).members;
  };
  for (const std::string& pattern : set_patterns_) {
    if (is_member(pattern)) return pattern;
  }
  for (const std::string& pattern : At(DirectoryOf(path)).SetPatterns()) {
    if (is_member(pattern)) return pattern;
  }
  return std::nullopt;
}

Status Resolver::AddDirectory(const std::string& path) {
  const bool protectable = what_ == Resolve::kProtectable;
  LZY_RETURN_IF_ERROR(Walk(path, /*hidden=*/!protectable, [&](Directory& directory) {
    if (!protectable) {
      for (const std::string& owner : directory.SidecarOwners()) {
        const bool there = (*directory.Names())->contains(owner);
        const auto renamed = there ? std::nullopt : directory.RenamedFrom(owner);
        AddFile(directory.PathOf(renamed ? *renamed : owner));
      }
      return;
    }
    for (const std::string& name : **directory.Names()) {
      const auto stat = fs_.Stat(directory.PathOf(name), /*follow=*/false);
      const bool regular = stat.ok() && stat->type == FileStat::Type::kRegular;
      if (regular && !name.starts_with('.')) AddFile(directory.PathOf(name));
    }
  }));
  if (!found_.empty() || !troubles_.empty()) return Status::Ok();
  if (protectable)
    return {Code::kInvalidArgument, fmt::format("'{}': there is no regular, non-hidden file below it", path)};
  return {Code::kUnprotected, fmt::format("'{}': nothing below it is protected", path)};
}

Status Resolver::Walk(const std::string& path, bool hidden, const std::function<void(Directory&)>& visit) {
  Directory& directory = At(path);
  auto names = directory.Names();
  if (!names.ok()) return names.status();
  visit(directory);
  for (const std::string& name : **names) {
    if (name.starts_with('.') && !hidden) continue;
    const std::string below = directory.PathOf(name);
    const auto stat = fs_.Stat(below, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kDirectory) continue;
    // Something that vanished meanwhile is no trouble.
    if (Status walked = Walk(below, hidden, visit); !walked.ok() && walked.code() != Code::kNotFound) {
      troubles_.push_back(walked);
    }
  }
  return Status::Ok();
}

Status Resolver::WalkPattern(const std::vector<std::string>& components, std::size_t depth,
                             const std::string& directory, const std::string& resolved,
                             std::optional<std::uint32_t> rank, std::vector<Match>& out) {
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
    if (last && !fs_.Stat(JoinPath(directory, name)).ok() && !IsThere(JoinPath(directory, name))) return Status::Ok();
    return step(name, component, rank);
  }
  const auto stat = fs_.Stat(directory.empty() ? "." : directory);
  if (!stat.ok() || stat->type != FileStat::Type::kDirectory) return Status::Ok();
  Directory& here = At(directory.empty() ? "." : directory);
  LZY_ASSIGN_OR_RETURN(const std::set<std::string>* listed, here.Names());
  std::set<std::string> names;
  for (const std::string& name : *listed) {
    if (!IsLzyName(name)) names.insert(name);
    if (auto owner = DataPathOf(name); owner && last) names.insert(*owner);
  }
  for (const std::string& name : names) {
    Status status;
    ComponentMatcher matcher(component, name, [&](const std::string& as, std::optional<std::uint32_t> now) {
      status = step(name, as, now);
      return true;
    });
    matcher.Match(rank);
    LZY_RETURN_IF_ERROR(status);
  }
  return Status::Ok();
}

Result<std::vector<Match>> Resolver::MatchesOf(const std::string& pattern) {
  const auto components = Components(pattern);
  std::vector<Match> out;
  if (components.empty()) return out;
  const std::string root = pattern.starts_with('/') ? "/" : "";
  LZY_RETURN_IF_ERROR(WalkPattern(components, 0, root, root, std::nullopt, out));
  return out;
}

Status Resolver::AddPattern(const std::string& pattern) {
  LZY_RETURN_IF_ERROR(CheckPattern(pattern));
  LZY_ASSIGN_OR_RETURN(const auto matches, MatchesOf(pattern));
  const bool starred = pattern.find('*') != std::string::npos;
  for (const Match& match : matches) {
    if (!match.rank || !IsThere(match.path)) continue;
    AddSet(starred ? match.resolved : pattern).members.emplace(*match.rank, match.path);
  }
  if (!found_.empty()) return Status::Ok();
  return {
      Code::kInvalidArgument,
      fmt::format("pattern '{}' matches no file and no sidecar: %r stands for the rank in decimal, %04r for it padded "
                  "with zeros",
                  pattern)};
}

Status Resolver::AddGlob(const std::string& glob) {
  // A '%' is an ordinary character where there is no rank.
  LZY_ASSIGN_OR_RETURN(const auto matches, MatchesOf(EscapePercent(glob)));
  if (matches.empty()) return Nothing(glob);
  Status first_failure;
  for (const Match& match : matches) {
    const Status added = AddPath(match.path);
    if (added.ok()) continue;
    if (first_failure.ok()) first_failure = added;
    const bool mere_absence = added.code() == Code::kUnprotected || added.code() == Code::kInvalidArgument;
    if (!mere_absence) troubles_.push_back(added);
  }
  return found_.empty() && troubles_.empty() ? first_failure : Status::Ok();
}

SetVersion Resolver::Survey(const std::string& pattern) {
  auto at = surveyed_.find(pattern);
  if (at == surveyed_.end()) {
    at = surveyed_.emplace(pattern, std::map<std::uint32_t, Member>{}).first;
    auto matches = MatchesOf(pattern);
    if (!matches.ok()) troubles_.push_back(matches.status());
    for (const Match& match : matches.ok() ? *matches : std::vector<Match>{}) {
      if (match.rank && IsThere(match.path)) at->second[*match.rank] = {match.path, SidecarOf(match.path).peek};
    }
  }
  SetVersion newest;
  for (const auto& [rank, member] : at->second) {
    if (!member.peek || !member.peek->committed || member.peek->kind != DatasetKind::kSet) continue;
    newest = std::max(newest, SetVersion{member.peek->wall_time_ns, member.peek->uuid, member.peek->members});
  }
  return newest;
}

void Resolver::FillMembers(DatasetRef& dataset, const SetVersion& newest) {
  Survey(dataset.path);
  if (auto mine = found_.find(dataset.path); mine != found_.end()) dataset.members = mine->second.members;
  for (const auto& [rank, member] : surveyed_[dataset.path]) dataset.members[rank] = member.path;
  if (newest.members == 0) return;
  // A rank beyond the newest set's last is a remnant of a run with more ranks, or, to be protected, a new member.
  std::erase_if(dataset.members, [&](const auto& entry) {
    if (entry.first < newest.members) return false;
    const auto peek = SidecarOf(entry.second).peek;
    const bool older = peek && peek->committed && peek->uuid != newest.uuid;
    return older || what_ == Resolve::kProtected;
  });
}

std::vector<std::string> Resolver::Orphans(const std::string& path) {
  std::vector<std::string> out;
  const auto visit = [&](Directory& directory) {
    for (const std::string& owner : directory.SidecarOwners()) {
      if ((*directory.Names())->contains(owner) || directory.RenamedFrom(owner)) continue;
      const std::string data = directory.PathOf(owner);
      const auto& peek = directory.PeekAt(kSidecarPrefix + owner);
      if (!peek.ok()) {
        const bool unusable = peek.status().code() == Code::kUnprotected || peek.status().code() == Code::kCorrupt;
        if (unusable && !PatternOfSiblings(data)) out.push_back(directory.PathOf(kSidecarPrefix + owner));
        continue;
      }
      if (peek->members > 0) {
        const auto pattern = PatternFromTail(data, peek->name, peek->rank);
        if (pattern) Survey(*pattern);
        bool needed = !pattern;
        for (std::uint32_t rank = 0; rank < peek->members && !needed; ++rank) {
          const auto& members = surveyed_[*pattern];
          const auto member = members.find(rank);
          if (member == members.end()) {
            needed = true;  // its file may be out of sight
          } else {
            const bool alive = fs_.Stat(member->second.path).ok();
            needed = alive && (!member->second.peek || member->second.peek->uuid == peek->uuid);
          }
        }
        if (needed) continue;
      }
      out.push_back(directory.PathOf(kSidecarPrefix + owner));
    }
  };
  if (Status walked = Walk(path, /*hidden=*/true, visit); !walked.ok()) troubles_.push_back(walked);
  std::sort(out.begin(), out.end());
  return out;
}

// ------------------------------------------------------------------------------------------------ agreeing among ranks

using Bytes = Communicator::Bytes;

Bytes EncodeFound(const Resolver& resolver) {
  ByteWriter out;
  out.Put(static_cast<std::uint32_t>(resolver.troubles().size()));
  for (const Status& trouble : resolver.troubles()) {
    out.Put(static_cast<std::uint32_t>(trouble.code()));
    out.PutString(trouble.message());
  }
  out.Put(static_cast<std::uint32_t>(resolver.found().size()));
  for (const auto& [path, dataset] : resolver.found()) {
    out.Put(static_cast<std::uint32_t>(dataset.kind));
    out.PutString(path);
  }
  return std::move(out.bytes());
}

constexpr std::size_t kMostText = 64u << 20;

/// What all ranks found, in a fixed order.
struct Union {
  std::map<std::string, DatasetKind> datasets;
  std::vector<Status> troubles;
};
Union DecodeFound(const std::vector<Bytes>& all) {
  Union out;
  std::set<std::string> told;
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
      const auto code = static_cast<Code>(in.Get<std::uint32_t>());
      std::string message = in.GetString(kMostText);
      if (told.insert(message).second) out.troubles.emplace_back(code, std::move(message));
    }
    for (auto count = in.Get<std::uint32_t>(); count > 0 && in.ok(); --count) {
      const auto kind = static_cast<DatasetKind>(in.Get<std::uint32_t>());
      std::string path = in.GetString(kMostText);
      // A file one rank knows to be a set's pattern is one for all.
      auto [at, fresh] = out.datasets.emplace(std::move(path), kind);
      if (!fresh && kind == DatasetKind::kSet) at->second = kind;
    }
  }
  return out;
}

/// The newest version of each of `patterns` that any rank sees.
Result<std::vector<SetVersion>> AgreeOnVersions(Resolver& resolver, Communicator& comm,
                                                const std::vector<std::string>& patterns) {
  ByteWriter mine;
  for (const std::string& pattern : patterns) {
    const SetVersion version = resolver.Survey(pattern);
    mine.Put(version.wall_time_ns);
    mine.PutBytes(version.uuid);
    mine.Put(version.members);
  }
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(mine.bytes()));
  std::vector<SetVersion> newest(patterns.size());
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    for (SetVersion& version : newest) {
      SetVersion seen;
      seen.wall_time_ns = in.Get<std::int64_t>();
      if (const ByteSpan raw = in.GetBytes(seen.uuid.size()); raw.size() == seen.uuid.size()) {
        std::copy(raw.begin(), raw.end(), seen.uuid.begin());
      }
      seen.members = in.Get<std::uint32_t>();
      version = std::max(version, seen);
    }
  }
  return newest;
}

/// Datasets that are named in more than one way (through a link, say) are kept once. The same on all ranks, since only
/// what all of them find to be one is dropped.
Status DropDoubles(FileSystem& fs, Communicator& comm, std::vector<DatasetRef>& datasets) {
  ByteWriter mine;
  std::map<std::string, std::uint32_t> first;
  for (std::uint32_t i = 0; i < datasets.size(); ++i) {
    mine.Put(first.emplace(DatasetKey(fs, datasets[i]), i).first->second);
  }
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(mine.bytes()));
  std::vector<bool> distinct(datasets.size(), false);
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    for (std::uint32_t i = 0; i < datasets.size(); ++i) {
      if (in.Get<std::uint32_t>() == i) distinct[i] = true;
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (distinct[i]) std::swap(datasets[kept++], datasets[i]);
  }
  datasets.resize(kept);
  return Status::Ok();
}

}  // namespace

Result<std::vector<DatasetRef>> ResolvePath(FileSystem& fs, Communicator& comm, const std::string& path, Resolve what,
                                            std::vector<Status>* troubles) {
  if (path.empty())
    return Status(Code::kInvalidArgument, "an empty PATH: a file, a pattern or a directory is accepted");
  Resolver resolver(fs, what);
  const Status mine = resolver.Add(path);
  const bool absent = mine.code() == Code::kInvalidArgument || mine.code() == Code::kUnprotected;
  LZY_RETURN_IF_ERROR(Agree(comm, absent ? Status::Ok() : mine));
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(EncodeFound(resolver)));
  Union found = DecodeFound(all);
  if (!found.troubles.empty() && troubles == nullptr) return found.troubles.front();
  if (troubles != nullptr) troubles->insert(troubles->end(), found.troubles.begin(), found.troubles.end());
  // A file may be on one rank's disk and not on another's: only what no rank has is not there.
  if (found.datasets.empty() && found.troubles.empty()) {
    LZY_RETURN_IF_ERROR(Agree(comm, mine));
    return Status(Code::kInternal, fmt::format("{}: nothing found and nothing wrong", path));
  }

  std::vector<DatasetRef> datasets;
  std::vector<std::string> patterns;
  for (const auto& [name, kind] : found.datasets) {
    datasets.push_back({kind, name, {}});
    if (kind == DatasetKind::kSet) patterns.push_back(name);
  }
  if (!patterns.empty()) {
    LZY_ASSIGN_OR_RETURN(const auto versions, AgreeOnVersions(resolver, comm, patterns));
    auto version = versions.begin();
    for (DatasetRef& dataset : datasets) {
      if (dataset.kind == DatasetKind::kSet) resolver.FillMembers(dataset, *version++);
    }
  }
  LZY_RETURN_IF_ERROR(DropDoubles(fs, comm, datasets));
  return datasets;
}

std::string DatasetKey(FileSystem& fs, const DatasetRef& dataset) {
  const auto real = [&](const std::string& path) {
    auto resolved = fs.RealPath(path);
    return resolved.ok() ? *resolved : path;
  };
  if (dataset.kind == DatasetKind::kShared) return "file:" + real(dataset.path);
  const std::string tail = PatternTail(dataset.path);
  const std::string base = dataset.path.substr(0, dataset.path.size() - tail.size());
  return "set:" + JoinPath(EscapePercent(real(base.empty() ? "." : ExpandPattern(base, 0))), tail);
}

Result<std::string> FindSidecar(FileSystem& fs, const std::string& data_path) {
  const std::string real = FollowLink(fs, data_path);
  LZY_RETURN_IF_ERROR(SidecarPath(real).status());
  Directory directory(fs, DirectoryOf(real));
  const std::string name = directory.SidecarOf(BaseNameOf(real));
  if (name.empty()) return Status(Code::kNotFound, fmt::format("{}: has no sidecar", data_path));
  return directory.PathOf(name);
}

Result<std::vector<std::string>> FindOrphans(FileSystem& fs, const std::string& directory) {
  Resolver resolver(fs, Resolve::kProtected);
  auto orphans = resolver.Orphans(directory);
  if (!resolver.troubles().empty()) return resolver.troubles().front();
  return orphans;
}

}  // namespace lzy
