#include "names/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "merkle/hash.h"
#include "names/set_names.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

Peek PeekOf(const Superblock& sb, const InfoRecord& info) {
  const bool committed = sb.state != SidecarState::kNeverCommitted;
  const bool counts = committed && sb.kind == DatasetKind::kSet;
  return {.uuid = sb.uuid,
          .generation = sb.generation,
          .kind = sb.kind,
          .committed = committed,
          .rank = sb.rank,
          .members = counts ? sb.members : 0,
          .wall_time_ns = sb.wall_time_ns,
          .stamp = sb.stamp,
          .name = info.name,
          .parts = info.parts};
}

bool HasSizeAndTime(const FileStat& file, const Stamp& stamp) {
  return file.size == stamp.size && file.mtime_ns == stamp.mtime_ns;
}

/// Reads a superblock and the info record alone. Fails when anything is unusual.
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

// What is known of `name`, looked up the first time.
template <class Known, class Find>
const typename Known::mapped_type& Once(Known& known, const std::string& name, Find find) {
  auto at = known.find(name);
  if (at == known.end()) at = known.emplace(name, find()).first;
  return at->second;
}

// How a file that a program has just created looks. A renamed one may look so too where nobody tells when it was made: emptied.
bool LooksNew(const FileStat& file) {
  const bool made_then = file.birth_ns == 0 || file.birth_ns == file.mtime_ns;
  return file.size == 0 && file.mtime_ns != 0 && file.ctime_ns == file.mtime_ns && made_then;
}

}  // namespace

bool MayBe(const FileStat& file, const Stamp& stamp) {
  const bool known = file.birth_ns != 0 && stamp.birth_ns != 0;
  return file.inode == stamp.inode && (!known || file.birth_ns == stamp.birth_ns);
}

void SetIdentity(Stamp& stamp, const FileStat& file) {
  stamp.inode = file.inode;
  stamp.device = file.device;
  stamp.birth_ns = file.birth_ns;
}

Result<Peek> PeekSidecar(FileSystem& fs, const std::string& path) {
  if (auto quick = PeekQuickly(fs, path); quick.ok()) return quick;
  LZY_ASSIGN_OR_RETURN(const auto sidecar, Sidecar::Load(fs, path, OpenMode::kRead));
  return PeekOf(sidecar->contents().superblock, sidecar->contents().info);
}

std::string FollowLink(FileSystem& fs, const std::string& path) {
  const auto self = fs.Stat(path, /*follow=*/false);
  if (!self.ok() || self->type != FileStat::Type::kOther) return path;
  auto real = fs.RealPath(path);
  return real.ok() ? *real : path;
}

std::string Directory::PathOf(const std::string& name) const {
  return JoinPath(path_, name);
}

void Directory::List() {
  listed_ = true;
  auto names = fs_.List(path_);
  list_status_ = names.status();
  if (!names.ok()) return;
  names_.insert(names->begin(), names->end());
  for (const std::string& name : names_) {
    const auto owner = DataPathOf(name);
    if (!owner && !name.starts_with(kTemporaryPrefix)) continue;
    sidecar_names_.push_back(name);
    if (!owner || !names_.contains(*owner)) without_owner_.push_back(name);
  }
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
    std::copy_if(sidecar_names_.begin(), sidecar_names_.end(), std::back_inserter(*sidecars_),
                 [&](const std::string& name) { return IsRegular(name); });
  }
  return *sidecars_;
}

const Result<Peek>& Directory::PeekAt(const std::string& sidecar) {
  return Once(peeks_, sidecar, [&] { return PeekSidecar(fs_, PathOf(sidecar)); });
}

bool Directory::IsRegular(const std::string& name) {
  return StatOf(name).has_value();
}

std::optional<FileStat> Directory::StatOf(const std::string& name) {
  const auto stat = fs_.Stat(PathOf(name), /*follow=*/false);
  return stat.ok() && stat->type == FileStat::Type::kRegular ? std::optional(*stat) : std::nullopt;
}

bool Directory::HasStamp(const std::string& name, const Stamp& stamp) {
  const auto stat = StatOf(name);
  return stat && stamp.inode == stat->inode && HasSizeAndTime(*stat, stamp);
}

bool Directory::OfSameSet(const std::string& sidecar, const Peek& peek) {
  if (peek.kind != DatasetKind::kSet || !IsRegular(sidecar)) return false;
  const auto& other = PeekAt(sidecar);
  return other.ok() && other->kind == DatasetKind::kSet && other->uuid == peek.uuid;
}

const std::multimap<std::uint64_t, std::string>& Directory::FilesByInode() {
  if (!files_by_inode_) {
    files_by_inode_.emplace();
    if (!listed_) List();
    for (const std::string& name : names_) {
      if (IsLzyName(name)) continue;
      if (auto stat = fs_.Stat(PathOf(name), /*follow=*/false); stat.ok()) files_by_inode_->emplace(stat->inode, name);
    }
  }
  return *files_by_inode_;
}

const std::multimap<std::uint64_t, std::string>& Directory::SidecarsByInode() {
  if (!sidecars_by_inode_) {
    sidecars_by_inode_.emplace();
    for (const std::string& sidecar : Sidecars()) {
      const auto& peek = PeekAt(sidecar);
      if (peek.ok()) sidecars_by_inode_->emplace(peek->stamp.inode, sidecar);
    }
  }
  return *sidecars_by_inode_;
}

std::string Directory::SidecarOf(const std::string& name) {
  return Once(sidecar_of_, name, [&] { return FindSidecarOf(name); });
}

std::string Directory::FindSidecarOf(const std::string& name) {
  std::string own = kSidecarPrefix + name;
  const bool has_own = IsRegular(own);
  const auto data = fs_.Stat(PathOf(name), /*follow=*/false);
  if (!data.ok()) return has_own ? own : "";
  const Peek* peek = has_own && PeekAt(own).ok() ? &*PeekAt(own) : nullptr;
  if (peek != nullptr && peek->committed && HasStamp(name, peek->stamp)) return own;
  // What a program has just created is no renamed file. Spares a look into every sidecar of a directory that it fills.
  const bool looks_new = LooksNew(*data);
  if (!has_own && looks_new) return "";
  if (!Names().ok()) return has_own ? own : "";
  if (peek != nullptr && MayBe(*data, peek->stamp)) {
    // Edited, as a rule, or never committed yet; but inodes are given out again, to a file that another sidecar was committed for.
    // Only one without a file of its own name can be that: spares a look into every sidecar.
    const auto it = std::find_if(without_owner_.begin(), without_owner_.end(),
                                 [&](const std::string& sidecar) { return HomeByStamp(sidecar) == name; });
    return it != without_owner_.end() ? *it : own;
  }
  if (!looks_new || data->birth_ns == 0) {
    const std::string* latest = nullptr;
    for (auto [at, end] = SidecarsByInode().equal_range(data->inode); at != end; ++at) {
      if (HomeByStamp(at->second) == name) return at->second;
      if (HomeByInode(at->second) != name) continue;
      if (latest == nullptr || PeekAt(at->second)->wall_time_ns > PeekAt(*latest)->wall_time_ns) latest = &at->second;
    }
    if (latest != nullptr) return *latest;
  }
  // What was committed for another file says nothing about this one.
  return has_own && !HomeByStamp(own) && !HomeByInode(own) ? own : "";
}

// Whether `name` is the name of another member of the set of which `owner` is one, by its pattern; its own sidecar may be lost.
bool Directory::NamesMember(const std::string& name, const std::string& owner, const Peek& peek) const {
  if (peek.kind != DatasetKind::kSet) return false;
  const auto pattern = PatternFromTail(PathOf(owner), peek.name, peek.rank);
  return pattern && MatchPattern(*pattern, PathOf(name)).has_value();
}

std::optional<std::string> Directory::HomeOf(const std::string& sidecar) {
  if (auto home = HomeByStamp(sidecar)) return home;
  auto home = HomeByInode(sidecar);
  return home && SidecarOf(*home) == sidecar ? home : std::nullopt;
}

bool Directory::FitsOwnSidecar(const std::string& name, const FileStat& file) {
  const std::string own = kSidecarPrefix + name;
  const bool fits = IsRegular(own) && PeekAt(own).ok() && PeekAt(own)->committed && HasSizeAndTime(file, PeekAt(own)->stamp);
  return fits && !HomeByStamp(own);  // not if it is another file's, of which this one may be a copy
}

bool Directory::OthersAreAtHome(const std::string& owner, const Peek& peek) {
  if (peek.kind != DatasetKind::kSet) return false;
  return std::any_of(Sidecars().begin(), Sidecars().end(), [&](const std::string& sidecar) {
    const auto other = DataPathOf(sidecar);
    if (!other || *other == owner || !NamesMember(*other, owner, peek) || !OfSameSet(sidecar, peek)) return false;
    const auto file = StatOf(*other);
    return file && MayBe(*file, PeekAt(sidecar)->stamp);
  });
}

std::optional<std::string> Directory::HomeByInode(const std::string& sidecar) {
  return Once(home_by_inode_, sidecar, [&] { return FindHomeByInode(sidecar); });
}

// An inode says less than a stamp: it is given out again, at once on some file systems, and is another one after each mount of
// others. So the time of birth must be the same, and all else speak for it.
std::optional<std::string> Directory::FindHomeByInode(const std::string& sidecar) {
  const auto& peek = PeekAt(sidecar);
  const auto owner = DataPathOf(sidecar);
  // Under a temporary name, what was never committed is just being made.
  if (!peek.ok() || (!peek->committed && !owner) || HomeByStamp(sidecar)) return std::nullopt;
  const auto namesake = owner ? StatOf(*owner) : std::nullopt;
  if (namesake && MayBe(*namesake, peek->stamp)) return std::nullopt;
  // A copy, restored with its times.
  if (namesake && peek->committed && HasSizeAndTime(*namesake, peek->stamp)) return std::nullopt;
  if (namesake && OthersAreAtHome(*owner, *peek)) return std::nullopt;
  for (auto [at, end] = FilesByInode().equal_range(peek->stamp.inode); at != end; ++at) {
    const auto file = StatOf(at->second);
    const bool told = file && file->birth_ns != 0 && peek->stamp.birth_ns != 0;
    if (!told || !MayBe(*file, peek->stamp) || FitsOwnSidecar(at->second, *file)) continue;
    if (owner && (OfSameSet(kSidecarPrefix + at->second, *peek) || NamesMember(at->second, *owner, *peek))) continue;
    return at->second;
  }
  return std::nullopt;
}

std::optional<std::string> Directory::HomeByStamp(const std::string& sidecar) {
  return Once(home_by_stamp_, sidecar, [&] { return FindHomeByStamp(sidecar); });
}

std::optional<std::string> Directory::FindHomeByStamp(const std::string& sidecar) {
  const auto& peek = PeekAt(sidecar);
  if (!peek.ok() || !peek->committed) return std::nullopt;
  const auto owner = DataPathOf(sidecar);
  if (owner && HasStamp(*owner, peek->stamp)) return owner;
  for (auto [at, end] = FilesByInode().equal_range(peek->stamp.inode); at != end; ++at) {
    if (!HasStamp(at->second, peek->stamp)) continue;
    if (owner && (OfSameSet(kSidecarPrefix + at->second, *peek) || NamesMember(at->second, *owner, *peek))) return std::nullopt;
    return at->second;
  }
  return std::nullopt;
}

std::optional<std::string> Directory::UserOf(const std::string& sidecar) {
  auto file = HomeOf(sidecar);
  if (!file) file = DataPathOf(sidecar);
  if (!file || !IsRegular(*file) || SidecarOf(*file) != sidecar) return std::nullopt;
  return file;
}

std::optional<std::string> Directory::OtherMemberIn(const std::string& name) {
  const auto data = fs_.Stat(PathOf(name), /*follow=*/false);
  const std::string own = SidecarOf(name);
  if (!data.ok() || own.empty() || !PeekAt(own).ok() || PeekAt(own)->stamp.inode == data->inode) return std::nullopt;
  for (auto [at, end] = SidecarsByInode().equal_range(data->inode); at != end; ++at) {
    const Peek& other = *PeekAt(at->second);
    if (at->second != own && OfSameSet(own, other) && HasStamp(name, other.stamp)) return DataPathOf(at->second);
  }
  return std::nullopt;
}

const std::vector<std::string>& Directory::SetPatterns() {
  if (!set_patterns_) {
    std::set<std::string> patterns;
    for (const std::string& sidecar : Sidecars()) {
      const auto owner = DataPathOf(sidecar);
      const auto& peek = PeekAt(sidecar);
      if (!owner || !peek.ok() || peek->kind != DatasetKind::kSet || !peek->committed) continue;
      if (auto pattern = PatternFromTail(PathOf(*owner), peek->name, peek->rank)) patterns.insert(*pattern);
    }
    set_patterns_.emplace(patterns.begin(), patterns.end());
  }
  return *set_patterns_;
}

Result<std::string> FindSidecar(FileSystem& fs, const std::string& data_path) {
  const std::string real = FollowLink(fs, data_path);
  if (const Status possible = SidecarPath(real).status(); !possible.ok())
    return Status(Code::kUnprotected, fmt::format("not protected: {}", possible.message()));
  Directory directory(fs, DirectoryOf(real));
  const std::string name = directory.SidecarOf(BaseNameOf(real));
  if (name.empty()) return Status(Code::kNotFound, fmt::format("{}: has no sidecar", data_path));
  return directory.PathOf(name);
}

}  // namespace lzy
