#include "names/neighbours.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <tuple>

#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// A sidecar that changed less than this before a look may have changed again within the same tick of the clock. The clock of
// a remote file system may also be a little behind.
constexpr std::int64_t kSettledNs = 2'000'000'000;

// The number of looks that are kept; the oldest are discarded first. A tool that walks a tree goes through directories one
// by one.
constexpr std::size_t kMaxKept = 8;

bool SameFile(const FileStat& a, const FileStat& b) {
  return a.inode == b.inode && a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns;
}

// True if no name was created, changed or removed between the two stats of a directory. The first stat must be of a time
// when the directory had not changed for a while; then its times show any change.
bool StoodStill(const Result<FileStat>& before, const Result<FileStat>& after, std::int64_t began_ns) {
  return before.ok() && after.ok() && before->ctime_ns != 0 && before->ctime_ns < began_ns - kSettledNs &&
         before->mtime_ns < began_ns - kSettledNs && before->file_system == after->file_system && SameFile(*before, *after);
}

// True if a process is renaming sidecars (dataset/rehome). One that is being renamed may not be in the list.
bool IsUnsettled(const std::vector<DirectoryEntry>& names) {
  return std::ranges::binary_search(names, std::string(kTemporaryPrefix) + "lock", {}, &DirectoryEntry::name);
}

}  // namespace

struct Neighbours::Kept {
  struct Place {
    std::mutex mutex;
    std::shared_ptr<const Neighbours> look;
  };
  // One directory may have several paths. It gets one look.
  std::shared_ptr<Place> At(FileSystem& fs, const std::string& directory) {
    {
      std::lock_guard lock(mutex);
      if (const auto known = places.find(directory); known != places.end()) return known->second;
    }
    const auto stat = fs.Stat(directory);
    std::lock_guard lock(mutex);
    auto [at, is_new] = places.try_emplace(directory);
    if (!is_new) return at->second;
    order.push_back(directory);
    if (stat.ok() && stat->inode != 0) {
      auto& same = by_identity[{stat->file_system, stat->inode, stat->birth_ns}];
      at->second = same.lock();
      if (!at->second) same = at->second = std::make_shared<Place>();
    } else {
      at->second = std::make_shared<Place>();
    }
    auto found = at->second;
    if (order.size() > kMaxKept) {
      places.erase(order.front());
      order.pop_front();
      std::erase_if(by_identity, [](const auto& one) { return one.second.expired(); });
    }
    return found;
  }

  using Identity = std::tuple<std::uint64_t, std::uint64_t, std::int64_t>;  // file system, inode, time of birth
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Place>> places;
  std::map<Identity, std::weak_ptr<Place>> by_identity;
  std::deque<std::string> order;
};

std::shared_ptr<const Neighbours> Neighbours::Look(FileSystem& fs, const std::string& directory) {
  const auto place = fs.Memo<Kept>().At(fs, directory);
  std::lock_guard lock(place->mutex);
  return LookAgain(fs, directory, place->look);
}

Neighbours::Found Neighbours::For(FileSystem& fs, const std::string& directory, const std::string& name, const FileStat& file) {
  const auto place = fs.Memo<Kept>().At(fs, directory);
  std::lock_guard lock(place->mutex);
  if (place->look && place->look->Saw(name, file)) return {place->look, false};
  return {LookAgain(fs, directory, place->look), true};
}

void Neighbours::Forget(FileSystem& fs, const std::string& directory) {
  const auto place = fs.Memo<Kept>().At(fs, directory);
  std::lock_guard lock(place->mutex);
  place->look = nullptr;
}

std::vector<std::string> Neighbours::FilesOfSize(std::uint64_t bytes, std::optional<std::int64_t> mtime_ns) const {
  std::vector<std::string> names;
  for (const Seen& file : files_) {
    if (file.bytes == bytes && file.mtime_ns == mtime_ns.value_or(file.mtime_ns)) names.push_back(file.name);
  }
  return names;
}

// Stats files before it lists sidecars. In the other order, a file could be protected and renamed in between, and the look
// would have its new name without its sidecar. If the directory did not change meanwhile, one list serves both.
std::shared_ptr<const Neighbours> Neighbours::LookAgain(FileSystem& fs, const std::string& directory,
                                                        std::shared_ptr<const Neighbours>& kept) {
  auto look = std::make_shared<Neighbours>();
  look->began_ns_ = CoarseNowNs();
  const auto before = fs.Stat(directory);
  const auto first = fs.ListEntries(directory);
  if (first.ok()) look->SeeFiles(fs, directory, *first);
  const bool still = first.ok() && StoodStill(before, fs.Stat(directory), look->began_ns_);
  const auto second = first.ok() && !still ? fs.ListEntries(directory) : Result<std::vector<DirectoryEntry>>(Status());
  look->status_ = first.ok() && !still ? second.status() : first.status();
  if (!look->status_.ok()) return look;
  const auto& names = still ? *first : *second;
  look->SeeSidecars(fs, directory, names, kept.get());
  look->Index();
  kept = IsUnsettled(*first) || IsUnsettled(names) ? nullptr : look;
  return look;
}

bool Neighbours::Saw(const std::string& name, const FileStat& file) const {
  const auto at = std::ranges::lower_bound(files_, name, {}, &Seen::name);
  const bool as_seen = at != files_.end() && at->name == name && at->inode == file.inode && at->ctime_ns == file.ctime_ns &&
                       at->birth_ns == file.birth_ns;
  // A file with several names may have been protected by another name since. That name is in the look, too, unless it was
  // made within the tick of the last change before the look.
  return as_seen && (file.links == 1 || (file.ctime_ns < began_ns_ - kSettledNs && FilesOf(file.inode).size() == 1));
}

void Neighbours::SeeFiles(FileSystem& fs, const std::string& directory, const std::vector<DirectoryEntry>& names) {
  for (const DirectoryEntry& entry : names) {
    if (IsLzyName(entry.name)) continue;
    const auto stat = fs.Stat(JoinPath(directory, entry.name), /*follow=*/false);
    if (stat.ok()) files_.push_back({entry.name, stat->inode, stat->ctime_ns, stat->birth_ns, stat->size, stat->mtime_ns});
  }
}

void Neighbours::SeeSidecars(FileSystem& fs, const std::string& directory, const std::vector<DirectoryEntry>& names,
                             const Neighbours* before) {
  for (const auto& [name, inode, regular] : names) {
    const auto owner = DataPathOf(name);
    // Temporary names are kept, too; their names lead to no data file.
    if (!owner && !name.starts_with(kTemporaryPrefix)) continue;
    const std::string path = JoinPath(directory, name);
    const Entry* known = nullptr;
    if (before != nullptr) {
      const auto at = std::ranges::lower_bound(before->sidecars_, name, {}, &Entry::name);
      if (at != before->sidecars_.end() && at->name == name) known = &*at;
    }
    // A sidecar that must be read needs no stat: opening it gives one.
    if (known == nullptr && regular) {
      if (auto entry = Read(fs, path, name)) sidecars_.push_back(std::move(*entry));
      continue;
    }
    const auto stat = fs.Stat(path, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kRegular) continue;
    const bool same = known != nullptr && SameFile(known->file, *stat) && stat->ctime_ns < before->began_ns_ - kSettledNs;
    if (same) {
      sidecars_.push_back(*known);
    } else if (auto entry = Read(fs, path, name)) {
      sidecars_.push_back(std::move(*entry));
    }
  }
}

std::optional<Neighbours::Entry> Neighbours::Read(FileSystem& fs, const std::string& path, const std::string& name) {
  Entry entry;
  entry.name = name;
  const auto file = fs.OpenListed(path);
  const auto stat = file.ok() ? (*file)->StatAtOpening() : Result<FileStat>(file.status());
  if (file.status().code() == Code::kNotFound) return std::nullopt;
  entry.status = stat.status();
  if (!stat.ok()) return entry;
  entry.file = *stat;
  const auto peek = PeekSidecar(fs, **file);
  entry.status = peek.status();
  if (!peek.ok()) return entry;
  entry.inode = peek->stamp.inode;
  entry.birth_ns = peek->stamp.birth_ns;
  entry.bytes = peek->committed ? peek->stamp.size : 0;
  entry.mtime_ns = peek->stamp.mtime_ns;
  entry.uuid = peek->uuid;
  entry.rank = peek->rank;
  entry.generation = peek->generation;
  entry.of_set = peek->kind == DatasetKind::kSet && peek->committed;
  if (!entry.of_set) return entry;
  const auto owner = DataPathOf(path);
  entry.pattern = owner ? PatternFromTail(*owner, peek->name, peek->rank).value_or("") : "";
  return entry;
}

void Neighbours::Index() {
  for (std::uint32_t i = 0; i < files_.size(); ++i) files_by_inode_.emplace_back(files_[i].inode, i);
  std::set<std::string> patterns;
  for (std::uint32_t i = 0; i < sidecars_.size(); ++i) {
    const Entry& entry = sidecars_[i];
    if (!entry.status.ok()) continue;
    sidecars_by_inode_.emplace_back(entry.inode, i);
    if (!entry.of_set) continue;
    if (!entry.pattern.empty()) patterns.insert(entry.pattern);
    const auto owner = DataPathOf(entry.name);
    const auto at = owner ? std::ranges::lower_bound(files_, *owner, {}, &Seen::name) : files_.end();
    if (at == files_.end() || at->name != *owner) continue;
    const FileStat file{.inode = at->inode, .birth_ns = at->birth_ns};
    if (IsSameFile(file, {.inode = entry.inode, .birth_ns = entry.birth_ns})) at_home_[entry.uuid].push_back(*owner);
  }
  std::ranges::sort(files_by_inode_);
  std::ranges::sort(sidecars_by_inode_);
  set_patterns_.assign(patterns.begin(), patterns.end());
}

template <class Item>
std::vector<std::string> Neighbours::NamesWith(std::uint64_t inode, const ByInode& by_inode,
                                               const std::vector<Item>& items) {
  std::vector<std::string> names;
  for (const auto& [_, at] : std::ranges::equal_range(by_inode, inode, {}, &ByInode::value_type::first)) {
    names.push_back(items[at].name);
  }
  return names;
}

std::vector<std::string> Neighbours::FilesOf(std::uint64_t inode) const {
  return NamesWith(inode, files_by_inode_, files_);
}

std::vector<std::string> Neighbours::SidecarsFor(std::uint64_t inode) const {
  return NamesWith(inode, sidecars_by_inode_, sidecars_);
}

bool Neighbours::WasCommittedSince(const std::string& name, const Peek& now) const {
  const auto at = std::ranges::lower_bound(sidecars_, name, {}, &Entry::name);
  return at != sidecars_.end() && at->name == name && at->status.ok() && at->uuid == now.uuid && at->rank == now.rank &&
         at->generation < now.generation;
}

std::vector<std::string> Neighbours::SidecarsOfSize(std::uint64_t bytes) const {
  std::vector<std::string> names;
  for (const Entry& entry : sidecars_) {
    if (entry.status.ok() && entry.bytes == bytes) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> Neighbours::SidecarsOfSizeAndTime(std::uint64_t bytes, std::int64_t mtime_ns) const {
  std::vector<std::string> names;
  for (const Entry& entry : sidecars_) {
    if (entry.status.ok() && entry.bytes == bytes && entry.mtime_ns == mtime_ns) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> Neighbours::SidecarsOfSets() const {
  std::vector<std::string> names;
  for (const Entry& entry : sidecars_) {
    if (entry.status.ok() && entry.of_set) names.push_back(entry.name);
  }
  return names;
}

bool Neighbours::HasSetBut(const Uuid& set) const {
  return std::ranges::any_of(sidecars_, [&](const Entry& entry) { return entry.status.ok() && entry.of_set && entry.uuid != set; });
}

const std::vector<std::string>& Neighbours::MembersAtHome(const Uuid& set) const {
  static const std::vector<std::string> none;
  const auto at = at_home_.find(set);
  return at == at_home_.end() ? none : at->second;
}

}  // namespace lzy
