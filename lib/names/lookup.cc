// Matches sidecars and files. The order of checks decides which answer wins; see the tables in docs/design/commit.md §7
// first.

#include "names/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "names/content_match.h"
#include "names/proven.h"
#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// True if the stat shows the committed file, unchanged.
bool IsStamped(const FileStat& file, const Stamp& stamp) {
  return IsSameFile(file, stamp) && HasSizeAndTime(file, stamp);
}

// The cached value for `name`; calls `find` the first time. References stay valid, because maps do not move nodes.
template <class Known, class Find>
const typename Known::mapped_type& Once(Known& known, const std::string& name, Find find) {
  auto at = known.find(name);
  if (at == known.end()) at = known.emplace(name, find()).first;
  return at->second;
}

// True if a program seems to have just created the file. Without births, a renamed file that was emptied looks the same.
bool LooksNew(const FileStat& file) {
  const bool made_then = file.birth_ns == 0 || file.birth_ns == file.mtime_ns;
  return file.size == 0 && file.mtime_ns != 0 && file.ctime_ns == file.mtime_ns && made_then;
}

// FindSidecar; `real` is data_path without a link at its end.
Result<std::string> FindIn(Directory& directory, const std::string& real, const std::string& data_path) {
  if (const Status possible = SidecarPath(real).status(); !possible.ok())
    return Status(Code::kUnprotected, fmt::format("not protected: {}", possible.message()));
  const std::string name = directory.SidecarOf(BaseNameOf(real));
  if (name.empty()) return Status(Code::kNotFound, fmt::format("{}: has no sidecar", data_path));
  return directory.PathOf(name);
}

}  // namespace

std::string FollowLink(FileSystem& fs, const std::string& path) {
  const auto self = fs.Stat(path, /*follow=*/false);
  if (!self.ok() || self->type != FileStat::Type::kOther) return path;
  auto real = fs.RealPath(path);
  return real.ok() ? *real : path;
}

void Directory::List() {
  listed_ = true;
  auto entries = fs_.ListEntries(path_);
  list_status_ = entries.status();
  if (!entries.ok()) return;
  inodes_.emplace();
  for (DirectoryEntry& entry : *entries) {
    if (entry.inode == 0) inodes_.reset();
    if (inodes_ && !IsLzyName(entry.name)) inodes_->push_back(entry.inode);
    names_.insert(names_.end(), std::move(entry.name));
  }
  if (inodes_) std::ranges::sort(*inodes_);
}

bool Directory::MayHold(std::uint64_t inode) {
  if (!listed_) List();
  return !list_status_.ok() || !inodes_ || std::ranges::binary_search(*inodes_, inode);
}

Result<const std::set<std::string>*> Directory::Names() {
  if (!listed_) List();
  if (!list_status_.ok()) return list_status_;
  return &names_;
}

const std::vector<std::string>& Directory::Sidecars() {
  if (!listed_) List();
  if (!sidecars_) {
    sidecars_.emplace();
    std::copy_if(names_.begin(), names_.end(), std::back_inserter(*sidecars_), [&](const std::string& name) {
      return (DataPathOf(name) || name.starts_with(kTemporaryPrefix)) && IsRegular(name);
    });
  }
  return *sidecars_;
}

const Result<Peek>& Directory::PeekAt(const std::string& sidecar) {
  return Once(peeks_, sidecar, [&] { return PeekSidecar(fs_, PathOf(sidecar)); });
}

std::optional<FileStat> Directory::StatOf(const std::string& name) {
  const auto stat = fs_.Stat(PathOf(name), /*follow=*/false);
  return stat.ok() && stat->type == FileStat::Type::kRegular ? std::optional(*stat) : std::nullopt;
}

bool Directory::OfSameSet(const std::string& sidecar, const Peek& peek) {
  if (peek.kind != DatasetKind::kSet || !IsRegular(sidecar)) return false;
  const auto& other = PeekAt(sidecar);
  return other.ok() && other->kind == DatasetKind::kSet && other->uuid == peek.uuid;
}

class Directory::Asking {
 public:
  Asking(Directory& directory, const std::string& name) : directory_(directory), outer_(directory.asking_.empty()) {
    if (outer_) directory_.asking_ = name;
  }
  ~Asking() {
    if (outer_) directory_.asking_.clear();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  Directory& directory_;
  const bool outer_;
};

const Neighbours& Directory::Around() {
  if (looked_now_) return *look_;
  const auto file = asking_.empty() ? std::nullopt : StatOf(asking_);
  if (look_ && file && look_->Saw(asking_, *file)) return *look_;
  const auto found = file ? Neighbours::For(fs_, path_, asking_, *file) : Neighbours::Found{Neighbours::Look(fs_, path_), true};
  look_ = found.look;
  looked_now_ = found.is_new;
  return *look_;
}

std::vector<std::string> Directory::StillTrue(const std::function<std::vector<std::string>()>& ask,
                                              const std::function<bool(const std::string&)>& is_true) {
  std::vector<std::string> names = ask();
  if (looked_now_ || std::ranges::all_of(names, is_true)) return names;
  look_ = Neighbours::Look(fs_, path_);
  looked_now_ = true;
  return ask();
}

// For a lookup without an existing file, only a new look would be valid. A list of the directory is as new, and usually
// shows that there is no such file.
std::vector<std::string> Directory::FilesOf(std::uint64_t inode) {
  if (!looked_now_ && asking_.empty() && !MayHold(inode)) return {};
  return StillTrue([&] { return Around().FilesOf(inode); },
                   [&](const std::string& name) {
                     const auto file = fs_.Stat(PathOf(name), /*follow=*/false);
                     return file.ok() && file->inode == inode;
                   });
}

// File systems use inodes again. If a program replaces its files one by one, each new file has the inode of the previous old
// one. The sidecar of that one was committed for its new file since the look. So it is not this file's, and no other look is
// needed.
std::vector<std::string> Directory::SidecarsFor(std::uint64_t inode) {
  const auto is_for = [&](const std::string& name) { return PeekAt(name).ok() && PeekAt(name)->stamp.inode == inode; };
  std::vector<std::string> names = StillTrue([&] { return Around().SidecarsFor(inode); }, [&](const std::string& name) {
    return is_for(name) || (PeekAt(name).ok() && Around().WasCommittedSince(name, *PeekAt(name)));
  });
  std::erase_if(names, [&](const std::string& name) { return !is_for(name); });
  return names;
}

std::string Directory::SidecarOf(const std::string& name) {
  return Once(sidecar_of_, name, [&] { return FindSidecarOf(name); });
}

// Exchanged sidecars record the names of each other's files. Follows them: the sidecar of the file that was deleted is at
// the end of the chain, at the name of a file that has another sidecar.
std::string Directory::SidecarOfLost(const std::string& name) {
  const std::string own = kSidecarPrefix + name;
  std::set<std::string> passed;
  for (std::string at = own; IsRegular(at) && passed.insert(at).second;) {
    const auto& peek = PeekAt(at);
    if (!peek.ok() || !peek->committed) break;
    const bool records_it = peek->kind == DatasetKind::kShared && peek->name == name;
    const auto home = at == own && RecordsItsName(own, *peek) ? std::nullopt : HomeOf(at);
    if (!home && records_it) return at;
    if (!home) break;
    at = kSidecarPrefix + *home;
  }
  return IsRegular(own) ? own : "";
}

std::optional<std::string> Directory::NameMeantBy(const std::string& sidecar) {
  const auto& peek = PeekAt(sidecar);
  const bool of_file = peek.ok() && peek->committed && peek->kind == DatasetKind::kShared && DataPathOf(sidecar) != peek->name;
  return of_file && !fs_.Stat(PathOf(peek->name), /*follow=*/false).ok() && SidecarOf(peek->name) == sidecar ? peek->name : DataPathOf(sidecar);
}

// The first table of docs/design/commit.md §7, cheapest and surest checks first:
//  1. the file is gone: the sidecar of its name, if there is one, or the one that was exchanged for it;
//  2. content has proven a sidecar (names/proven);
//  3. the sidecar of its name has its stamp;
//  4. the file is new, and there is no sidecar of its name: none;
//  5. the sidecar of its name has its inode and time of birth, or its size and mtime;
//  6. any sidecar with its stamp, else the latest one with its inode and time of birth;
//  7. the sidecar of its name, if it is not known to be another file's.
std::string Directory::FindSidecarOf(const std::string& name) {
  std::string own = kSidecarPrefix + name;
  const bool has_own = IsRegular(own);
  const auto data = fs_.Stat(PathOf(name), /*follow=*/false);
  if (!data.ok()) return has_own ? SidecarOfLost(name) : "";
  const Asking asking(*this, name);
  const Peek* peek = has_own && PeekAt(own).ok() ? &*PeekAt(own) : nullptr;
  const bool regular = data->type == FileStat::Type::kRegular;
  if (regular) {
    if (auto proven = ProvenSidecar(fs_, path_, name)) return *proven;
  }
  if (peek != nullptr && peek->committed && regular && IsStamped(*data, peek->stamp)) return own;
  // A file that a program has just created was not renamed. So not every sidecar of a directory is read while a program
  // fills it.
  const bool looks_new = LooksNew(*data);
  if (!has_own && looks_new) return "";
  if (peek != nullptr && Claims(*data, own, *peek)) return own;
  // Without births, no other sidecar can be recognised as this file's, so a look would find none.
  const bool may_be_renamed = BirthIdentifiesFile(data->birth_ns);
  if (may_be_renamed && !Around().status().ok()) return has_own ? own : "";
  if (may_be_renamed && !looks_new) {
    // Several sidecars may claim one inode. A stamp wins at once; among the others, the latest commit wins.
    std::string latest;
    for (const std::string& sidecar : SidecarsFor(data->inode)) {
      if (HomeByStamp(sidecar) == name) return sidecar;
      if (HomeByInode(sidecar) != name) continue;
      if (latest.empty() || PeekAt(sidecar)->wall_time_ns > PeekAt(latest)->wall_time_ns) latest = sidecar;
    }
    if (!latest.empty()) return latest;
  }
  // A sidecar that was committed for another file says nothing about this one, although it has its name.
  return has_own && !HomeByStamp(own) && !HomeByInode(own) ? own : "";
}

// True if the file of a sidecar's own name is the one for which it was made, or by size and mtime a copy of it (a restored
// backup). No file of another name gets such a sidecar.
bool Directory::Claims(const FileStat& file, const std::string& sidecar, const Peek& peek) const {
  if (IsSameFile(file, peek.stamp)) return true;
  return peek.committed && HasSizeAndTime(file, peek.stamp) && RecordsItsName(sidecar, peek);
}

// True if the sidecar has the name that it had at its commit.
bool Directory::RecordsItsName(const std::string& sidecar, const Peek& peek) const {
  const auto owner = DataPathOf(sidecar);
  if (!owner) return false;
  return peek.kind == DatasetKind::kSet ? PatternFromTail(PathOf(*owner), peek.name, peek.rank).has_value() : peek.name == *owner;
}

bool Directory::IsLinkInPlaceOfFile(const std::string& name) {
  if (!fs_.ReadLink(PathOf(name)).ok()) return false;
  const std::string own = kSidecarPrefix + name;
  const auto& peek = PeekAt(own);
  return peek.ok() && peek->committed && RecordsItsName(own, *peek);
}

// Goes by the pattern alone, because the other member's sidecar may be lost.
bool Directory::NamesMember(const std::string& name, const std::string& owner, const Peek& peek) const {
  if (peek.kind != DatasetKind::kSet) return false;
  const auto pattern = PatternFromTail(PathOf(owner), peek.name, peek.rank);
  return pattern && MatchPattern(*pattern, PathOf(name)).has_value();
}

// The info record has the name at the commit.
bool Directory::IsMisplaced(const std::string& sidecar, const Peek& peek) const {
  const auto owner = DataPathOf(sidecar);
  if (!owner || peek.kind != DatasetKind::kSet || PatternFromTail(PathOf(*owner), peek.name, peek.rank)) return false;
  return PatternFromTail(PathOf(*owner), peek.name).has_value();
}

// A file found by inode counts only if no other sidecar fits it better.
std::optional<std::string> Directory::HomeOf(const std::string& sidecar) {
  const auto owner = DataPathOf(sidecar);
  const Asking asking(*this, owner && StatOf(*owner) ? *owner : "");
  if (auto home = HomeByStamp(sidecar)) return home;
  auto home = HomeByInode(sidecar);
  return home && SidecarOf(*home) == sidecar ? home : std::nullopt;
}

bool Directory::IsClaimed(const std::string& sidecar, const Peek& peek) {
  const auto owner = DataPathOf(sidecar);
  const auto namesake = owner ? StatOf(*owner) : std::nullopt;
  const auto proven = namesake ? ProvenSidecar(fs_, path_, *owner) : std::nullopt;
  return namesake && (!proven || *proven == sidecar) && Claims(*namesake, sidecar, peek);
}

bool Directory::HasOwnSidecar(const std::string& name) {
  const std::string own = kSidecarPrefix + name;
  return IsRegular(own) && PeekAt(own).ok() && IsClaimed(own, *PeekAt(own));
}

bool Directory::OthersAreAtHome(const std::string& owner, const Peek& peek) {
  if (peek.kind != DatasetKind::kSet) return false;
  return std::ranges::any_of(Around().MembersAtHome(peek.uuid), [&](const std::string& other) {
    return other != owner && NamesMember(other, owner, peek);
  });
}

// Members that exchanged their names keep the sidecars of their names, unless the sidecars were exchanged.
bool Directory::IsExchanged(const std::string& name, const std::string& sidecar, const Peek& peek) {
  const auto owner = DataPathOf(sidecar);
  const bool other_member = owner && (OfSameSet(kSidecarPrefix + name, peek) || NamesMember(name, *owner, peek));
  return other_member && !IsMisplaced(sidecar, peek);
}

// The file was changed since the commit. Only its inode and birth identify it, so nothing may contradict them.
std::optional<std::string> Directory::HomeByInode(const std::string& sidecar) {
  return Once(home_by_inode_, sidecar, [&]() -> std::optional<std::string> {
    const auto& peek = PeekAt(sidecar);
    const auto owner = DataPathOf(sidecar);
    // A sidecar with a temporary name that was never committed is being made at this moment.
    if (!peek.ok() || (!peek->committed && !owner) || HomeByStamp(sidecar)) return std::nullopt;
    if (!BirthIdentifiesFile(peek->stamp.birth_ns)) return std::nullopt;
    // The file of the sidecar's own name contradicts if it took the place of a member that was moved away.
    const auto namesake = owner ? StatOf(*owner) : std::nullopt;
    if (namesake && IsClaimed(sidecar, *peek)) return std::nullopt;
    if (namesake && !IsMisplaced(sidecar, *peek) && OthersAreAtHome(*owner, *peek)) return std::nullopt;
    // The edited file was put aside, and the committed one was copied back. Content goes before identity.
    const auto is_back = [&] {
      if (!namesake || namesake->size != peek->stamp.size) return false;
      const auto same = HoldsCommitted(fs_, PathOf(*owner), PathOf(sidecar), nullptr);
      return same.ok() && *same;
    };
    for (const std::string& name : FilesOf(peek->stamp.inode)) {
      const auto file = StatOf(name);
      if (!file || !IsSameFile(*file, peek->stamp) || HasOwnSidecar(name)) continue;
      if (is_back()) return std::nullopt;
      if (!IsExchanged(name, sidecar, *peek)) return name;
    }
    return std::nullopt;
  });
}

std::optional<std::string> Directory::HomeByStamp(const std::string& sidecar) {
  return Once(home_by_stamp_, sidecar, [&]() -> std::optional<std::string> {
    const auto& peek = PeekAt(sidecar);
    if (!peek.ok() || !peek->committed) return std::nullopt;
    if (auto proven = ProvenHome(fs_, path_, sidecar)) return proven;
    const auto owner = DataPathOf(sidecar);
    // Hard links have the same stamp; the name decides among them.
    if (IsClaimed(sidecar, *peek)) {
      const auto namesake = StatOf(*owner);  // it may be gone since IsClaimed
      return namesake && HasSizeAndTime(*namesake, peek->stamp) ? owner : std::nullopt;
    }
    if (!BirthIdentifiesFile(peek->stamp.birth_ns)) return std::nullopt;
    for (const std::string& name : FilesOf(peek->stamp.inode)) {
      const auto file = StatOf(name);
      if (!file || !IsStamped(*file, peek->stamp)) continue;
      if (IsExchanged(name, sidecar, *peek)) return std::nullopt;
      if (!HasOwnSidecar(name)) return name;
    }
    return std::nullopt;
  });
}

std::optional<std::string> Directory::HomeByContent(const std::string& sidecar) {
  const auto& peek = PeekAt(sidecar);
  const auto owner = DataPathOf(sidecar);
  if (!owner || !peek.ok() || !peek->committed || peek->kind == DatasetKind::kSet || IsRegular(*owner)) return std::nullopt;
  const auto is_of = [&](const std::string& name, const std::string& by) {
    const auto same = HoldsCommitted(fs_, PathOf(name), PathOf(by), nullptr);
    return same.ok() && *same;
  };
  // A file that was committed again under its new name belongs to its new sidecar.
  const auto holds = [&](const std::string& name) {
    return is_of(name, sidecar) && !(HasOwnSidecar(name) && is_of(name, kSidecarPrefix + name));
  };
  const auto remember = [&](const std::string& name) {
    RememberProven(fs_, path_, name, sidecar);
    sidecar_of_[name] = sidecar;
    home_by_stamp_[sidecar] = name;
    return name;
  };
  // The file may have been renamed over a file of equal size and mtime. Then, by its stamp, it has the sidecar of that file.
  const auto same_inode = BirthIdentifiesFile(peek->stamp.birth_ns) ? FilesOf(peek->stamp.inode) : std::vector<std::string>();
  for (const std::string& name : same_inode) {
    const auto file = StatOf(name);
    if (file && IsStamped(*file, peek->stamp) && !IsExchanged(name, sidecar, *peek) && holds(name)) return remember(name);
  }
  if (!unowned_) {
    if (!listed_) List();
    unowned_.emplace();
    for (const std::string& name : names_) {
      if (IsLzyName(name) || names_.contains(kSidecarPrefix + name) || !SidecarOf(name).empty()) continue;
      const auto file = StatOf(name);
      // With births, a renamed file is recognised by its stamp, and another file with the same content is a copy.
      if (file && file->birth_ns == 0) unowned_->emplace(file->size, name);
    }
  }
  const auto [begin, end] = unowned_->equal_range(peek->stamp.size);
  for (auto at = begin; at != end; ++at) {
    if (holds(at->second)) return remember(at->second);
  }
  return std::nullopt;
}

std::vector<std::string> Directory::LeftBy(const std::string& sidecar) {
  const auto& peek = PeekAt(sidecar);
  std::vector<std::string> left;
  if (!peek.ok() || !peek->committed || peek->stamp.size == 0) return left;
  for (const std::string& name : Around().FilesOfSize(peek->stamp.size)) {
    const auto file = StatOf(name);
    if (file && HasSizeAndTime(*file, peek->stamp) && SidecarOf(name).empty()) left.push_back(name);
  }
  return left;
}

std::optional<std::string> Directory::UserOf(const std::string& sidecar) {
  auto file = HomeOf(sidecar);
  if (!file) file = DataPathOf(sidecar);
  if (!file || !IsRegular(*file) || SidecarOf(*file) != sidecar) return std::nullopt;
  return file;
}

// Only for hints. If members exchanged their names, the hashes show it.
std::optional<std::string> Directory::OtherMemberIn(const std::string& name) {
  const auto data = fs_.Stat(PathOf(name), /*follow=*/false);
  const std::string own = SidecarOf(name);
  if (!data.ok() || own.empty() || !PeekAt(own).ok() || IsSameFile(*data, PeekAt(own)->stamp)) return std::nullopt;
  const Asking asking(*this, name);
  for (const std::string& sidecar : SidecarsFor(data->inode)) {
    const auto& other = PeekAt(sidecar);
    if (sidecar != own && other.ok() && OfSameSet(own, *other) && IsStamped(*data, other->stamp)) return DataPathOf(sidecar);
  }
  return std::nullopt;
}

std::vector<std::string> Directory::SetPatternsAround(const std::string& name) {
  const Asking asking(*this, name);
  return Around().set_patterns();
}

Result<std::string> FindSidecar(FileSystem& fs, const std::string& data_path) {
  const std::string real = FollowLink(fs, data_path);
  Directory directory(fs, DirectoryOf(real));
  return FindIn(directory, real, data_path);
}

Result<Peek> FindAndPeek(FileSystem& fs, const std::string& data_path) {
  const std::string real = FollowLink(fs, data_path);
  Directory directory(fs, DirectoryOf(real));
  LZY_ASSIGN_OR_RETURN(const std::string path, FindIn(directory, real, data_path));
  return directory.PeekAt(BaseNameOf(path));
}

std::optional<std::string> FindSidecarOfMember(FileSystem& fs, const std::string& directory, const Uuid& set, std::uint32_t rank,
                                               bool temporary_only) {
  Directory around(fs, directory);
  const auto names = around.Names();
  for (const std::string& name : names.ok() ? **names : std::set<std::string>()) {
    const bool temporary = name.starts_with(kTemporaryPrefix);
    if (!temporary && (temporary_only || !DataPathOf(name))) continue;
    const auto& peek = around.PeekAt(name);
    const bool is_its = peek.ok() && peek->committed && peek->kind == DatasetKind::kSet && peek->uuid == set && peek->rank == rank;
    if (is_its && !around.HomeOf(name)) return around.PathOf(name);
  }
  return std::nullopt;
}

}  // namespace lzy
