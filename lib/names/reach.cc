#include "names/reach.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>

#include "names/peek.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// Calls see(path, peek) for each committed sidecar in these directories. Sidecars that were set aside count, too.
template <class See>
void LookInto(FileSystem& fs, const std::set<std::string>& directories, const See& see) {
  for (const std::string& directory : directories) {
    const auto names = fs.List(directory);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>{}) {
      if (!DataPathOf(name) && !DataPathOfTemporary(name)) continue;
      const auto peek = PeekSidecar(fs, JoinPath(directory, name));
      if (peek.ok() && peek->committed) see(JoinPath(directory, name), *peek);
    }
  }
}

// Calls see(stat, path) for each regular file in these directories that is none of lzy's.
template <class See>
void ForEachFileIn(FileSystem& fs, const std::set<std::string>& directories, const See& see) {
  for (const std::string& directory : directories) {
    const auto names = fs.List(directory);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>{}) {
      const std::string path = JoinPath(directory, name);
      const auto stat = IsLzyName(name) ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(path, /*follow=*/false);
      if (stat.ok() && stat->type == FileStat::Type::kRegular) see(*stat, path);
    }
  }
}

// The paths with this key that are not in the directory `here`.
template <class Key>
std::vector<std::string> PathsBeyond(const std::multimap<Key, std::string>& paths, const Key& key, const std::string& here) {
  std::vector<std::string> beyond;
  const auto [begin, end] = paths.equal_range(key);
  for (auto at = begin; at != end; ++at) {
    if (DirectoryOf(at->second) != here) beyond.push_back(at->second);
  }
  return beyond;
}

}  // namespace

std::string RealDirectory(FileSystem& fs, const std::string& directory) {
  auto real = fs.RealPath(directory.empty() ? "." : directory);
  return real.ok() ? *real : directory;
}

std::string RealPathOf(FileSystem& fs, const std::string& path) {
  return JoinPath(RealDirectory(fs, DirectoryOf(path)), BaseNameOf(path));
}

std::string OwnerOf(const std::string& sidecar) {
  const auto owner = DataPathOf(sidecar);
  return owner ? *owner : DataPathOfTemporary(sidecar).value_or("");
}

SameSize::SameSize(FileSystem& fs, const std::vector<std::string>& sidecars) {
  for (const std::string& path : sidecars) {
    (void)NoThrow([&] {
      const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
      if (!loaded.ok() || !(*loaded)->committed() || (*loaded)->contents().data_tree.leaf_count() == 0) return;
      const Superblock& sb = (*loaded)->contents().superblock;
      by_first_[{sb.block_size, sb.sealed()}].emplace((*loaded)->contents().data_tree.leaf(0).bytes, path);
    });
  }
}

Result<std::vector<std::string>> SameSize::WithFirstBlockOf(File& data, std::uint64_t size, const LeafKey* key) const {
  std::vector<std::string> out;
  for (const auto& [kind, sidecars] : by_first_) {
    const auto& [block, sealed] = kind;
    if (sealed != (key != nullptr)) continue;
    std::vector<std::uint8_t> bytes(std::min<std::uint64_t>(block, size));
    LZY_ASSIGN_OR_RETURN(const std::size_t got, data.ReadAt(0, bytes));
    if (got < bytes.size()) continue;
    const auto [begin, end] = sidecars.equal_range(LeafHash(key, HashTag::kDataLeaf, 0, bytes).bytes);
    for (auto at = begin; at != end; ++at) out.push_back(at->second);
  }
  return out;
}

std::shared_ptr<const SameSize> Surroundings::Beside(FileSystem& fs, const std::string& directory, std::uint64_t bytes,
                                                     const std::shared_ptr<const Neighbours>& look) {
  const std::lock_guard lock(mutex_);
  LookBeside(look);
  auto& known = beside_[bytes];
  if (known) return known;
  std::vector<std::string> paths;
  for (const std::string& name : look->SidecarsOfSize(bytes)) paths.push_back(JoinPath(directory, name));
  return known = std::make_shared<SameSize>(fs, paths);
}

std::shared_ptr<const SameSize> Surroundings::InReach(FileSystem& fs, std::uint64_t bytes, const std::string& here) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  if (ReachesBeyond(fs, here)) {
    const auto [begin, end] = by_size_->equal_range(bytes);
    std::ranges::transform(begin, end, std::back_inserter(paths), [](const auto& one) { return one.second; });
  }
  if (paths.empty()) return std::make_shared<SameSize>(fs, paths);
  auto& known = in_reach_[bytes];
  if (!known) known = std::make_shared<SameSize>(fs, paths);
  return known;
}

std::shared_ptr<const RecordedMembers> Surroundings::RecordedBeside(FileSystem& fs, const std::string& directory,
                                                                    const std::shared_ptr<const Neighbours>& look) {
  const std::lock_guard lock(mutex_);
  LookBeside(look);
  if (recorded_beside_) return recorded_beside_;
  std::vector<std::string> paths;
  for (const std::string& name : look->SidecarsOfSets()) paths.push_back(JoinPath(directory, name));
  return recorded_beside_ = std::make_shared<RecordedMembers>(fs, paths);
}

std::shared_ptr<const RecordedMembers> Surroundings::RecordedInReach(FileSystem& fs, const std::string& here) {
  const std::lock_guard lock(mutex_);
  if (!ReachesBeyond(fs, here)) return std::make_shared<RecordedMembers>(fs, std::vector<std::string>());
  if (!recorded_in_reach_) recorded_in_reach_ = std::make_shared<RecordedMembers>(fs, of_sets_);
  return recorded_in_reach_;
}

std::vector<std::string> Surroundings::AllInReach(FileSystem& fs, const std::string& here) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  if (!ReachesBeyond(fs, here)) return paths;
  std::ranges::transform(*by_size_, std::back_inserter(paths), [](const auto& one) { return one.second; });
  return paths;
}

std::optional<std::string> Surroundings::OfMember(FileSystem& fs, const Uuid& set, std::uint32_t rank, const std::string& here) {
  const std::lock_guard lock(mutex_);
  if (!ReachesBeyond(fs, here)) return std::nullopt;
  const auto found = by_member_.find({set, rank});
  return found == by_member_.end() || DirectoryOf(found->second) == here ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Surroundings::InReachFor(FileSystem& fs, std::uint64_t inode, const std::string& here) {
  const std::lock_guard lock(mutex_);
  return ReachesBeyond(fs, here) ? PathsBeyond(by_inode_, inode, here) : std::vector<std::string>();
}

void Surroundings::Seen::Add(const SizeAndTime& file, std::uint64_t inode, const std::string& path) {
  by_time.emplace(file, path);
  by_inode.emplace(inode, BySizeAndTime::value_type{file, path});
}

std::vector<std::string> Surroundings::Seen::Beyond(const SizeAndTime& first, const SizeAndTime& last, std::uint64_t inode,
                                                    const std::string& here) const {
  std::vector<std::string> beyond;
  const auto add = [&](const std::string& path) {
    if (DirectoryOf(path) != here) beyond.push_back(path);
  };
  for (auto at = by_time.lower_bound(first), end = by_time.upper_bound(last); at != end; ++at) add(at->second);
  const auto [begin, end] = by_inode.equal_range(inode);
  for (auto at = begin; at != end; ++at) {
    const auto& [file, path] = at->second;
    if (file < first || last < file) add(path);
  }
  return beyond;
}

bool Surroundings::NamesOthers(FileSystem& fs, const std::string& here) {
  TakeMore(fs, Reach::kNamed);
  return named_.size() > named_.count(here);
}

void Surroundings::LookAtNamed(FileSystem& fs) {
  if (named_sidecars_) return;
  named_sidecars_.emplace();
  named_of_sets_.clear();
  recorded_in_named_.reset();
  LookInto(fs, named_, [&](const std::string& path, const Peek& peek) {
    named_sidecars_->Add({peek.stamp.size, peek.stamp.mtime_ns}, peek.stamp.inode, path);
    if (peek.kind == DatasetKind::kSet) named_of_sets_.push_back(path);
  });
}

const Surroundings::BySizeAndTime& Surroundings::KnownOfSize(FileSystem& fs, std::uint64_t bytes) {
  const auto [at, is_new] = known_sidecars_.try_emplace(bytes);
  if (!is_new || !known_files_) return at->second;
  for (const std::string& path : known_files_(bytes)) {
    const auto sidecar = SidecarPath(path);
    const auto peek = sidecar.ok() ? PeekSidecar(fs, *sidecar) : Result<Peek>(sidecar.status());
    if (peek.ok() && peek->committed) at->second.emplace(SizeAndTime{peek->stamp.size, peek->stamp.mtime_ns}, *sidecar);
  }
  return at->second;
}

std::vector<std::string> Surroundings::CommittedFor(FileSystem& fs, const SizeAndTime& file, std::uint64_t inode, const std::string& here) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  if (NamesOthers(fs, here)) {
    LookAtNamed(fs);
    paths = named_sidecars_->Beyond(file, file, inode, here);
  }
  for (std::string& known : PathsBeyond(KnownOfSize(fs, file.bytes), file, here)) {
    if (!named_.contains(DirectoryOf(known))) paths.push_back(std::move(known));
  }
  return paths;
}

bool Surroundings::ForgetSidecars() {
  constexpr int kMostTimes = 64;  // each costs a look at all sidecars in named directories
  const std::lock_guard lock(mutex_);
  if (++forgotten_ > kMostTimes) return false;
  named_sidecars_.reset();
  known_sidecars_.clear();
  return true;
}

std::shared_ptr<const RecordedMembers> Surroundings::RecordedInNamed(FileSystem& fs, const std::string& here) {
  const std::lock_guard lock(mutex_);
  if (!NamesOthers(fs, here)) return std::make_shared<RecordedMembers>(fs, std::vector<std::string>());
  LookAtNamed(fs);
  if (!recorded_in_named_) recorded_in_named_ = std::make_shared<RecordedMembers>(fs, named_of_sets_);
  return recorded_in_named_;
}

std::vector<std::string> Surroundings::FilesOfSize(FileSystem& fs, std::uint64_t bytes, std::optional<std::int64_t> mtime_ns,
                                                  std::uint64_t inode, const std::string& here) {
  const std::lock_guard lock(mutex_);
  if (!ReachesBeyond(fs, here)) return {};
  if (!files_) {
    files_.emplace();
    ForEachFileIn(fs, directories_, [&](const FileStat& stat, const std::string& path) {
      files_->Add({stat.size, stat.mtime_ns}, stat.inode, path);
    });
  }
  using Times = std::numeric_limits<std::int64_t>;
  return files_->Beyond({bytes, mtime_ns.value_or(Times::min())}, {bytes, mtime_ns.value_or(Times::max())}, inode, here);
}

std::vector<std::string> Surroundings::FilesBelow(FileSystem& fs, const SizeAndTime& file, std::uint64_t inode, const std::string& here) {
  const std::lock_guard lock(mutex_);
  TakeMore(fs, Reach::kNamed);
  TakeMore(fs, Reach::kKnown);
  auto at = below_.find(here);
  if (at == below_.end()) at = below_.emplace(here, LookBelow(fs, here)).first;
  return at->second.Beyond(file, file, inode, here);
}

std::vector<std::string> Surroundings::FilesNear(FileSystem& fs, const SizeAndTime& file, std::uint64_t inode, const std::string& here) {
  const std::lock_guard lock(mutex_);
  (void)LookNear(fs, here);
  std::vector<std::string> paths = near_files_.Beyond(file, file, inode, here);
  std::erase_if(paths, [&](const std::string& path) { return path.starts_with(JoinPath(here, "")); });
  return paths;
}

bool Surroundings::KnowsNear(FileSystem& fs, const std::string& here) {
  const std::lock_guard lock(mutex_);
  return LookNear(fs, here);
}

Surroundings::Seen Surroundings::LookBelow(FileSystem& fs, const std::string& here) {
  Seen files;
  LookThrough(fs, here, /*aside=*/false, files, seen_below_);
  return files;
}

// True if all files below the directory above `here` are in near_files_.
bool Surroundings::LookNear(FileSystem& fs, const std::string& here) {
  TakeMore(fs, Reach::kNamed);
  TakeMore(fs, Reach::kKnown);
  const auto device_of = [&](const std::string& directory) {
    const auto stat = fs.Stat(directory);
    return stat.ok() ? std::optional(stat->file_system) : std::nullopt;
  };
  std::string below = here;
  for (std::string top = DirectoryOf(here); !top.empty() && below != top && device_of(top) == device_of(here); below = std::exchange(top, DirectoryOf(top))) {
    if (below != here) {
      if (!LookNearBelow(fs, top, seen_near_)) break;
      continue;
    }
    // If the search was cut short here for another directory, farther away, it begins again.
    if (near_above_.insert(top).second && near_.contains(top) && !near_[top]) near_.erase(top);
    std::size_t seen = 0;
    if (!LookNearBelow(fs, top, seen)) return false;
  }
  return true;
}

bool Surroundings::LookNearBelow(FileSystem& fs, const std::string& top, std::size_t& seen) {
  if (const auto at = near_.find(top); at != near_.end()) return at->second;
  const bool all = LookThrough(fs, top, /*aside=*/true, near_files_, seen);
  return near_[top] = all;
}

// Near directories first. Those in reach are passed through, because FilesOfSize has what is in them.
bool Surroundings::LookThrough(FileSystem& fs, const std::string& top, bool aside, Seen& files, std::size_t& seen) {
  const auto at = fs.Stat(top);
  std::deque<std::string> directories{top};
  for (; at.ok() && !directories.empty(); directories.pop_front()) {
    const auto entries = fs.ListEntries(directories.front());
    const bool known = (!aside && directories.front() == top) || directories_.contains(directories.front());
    for (const DirectoryEntry& entry : entries.ok() ? *entries : std::vector<DirectoryEntry>{}) {
      if (IsLzyName(entry.name) || (known && entry.regular)) continue;
      std::string path = JoinPath(directories.front(), entry.name);
      if (const auto done = near_.find(path); aside && done != near_.end() && done->second) continue;
      if (!known && ++seen > kMostBelow) return false;
      const auto stat = fs.Stat(path, /*follow=*/false);
      if (!stat.ok() || stat->file_system != at->file_system) continue;
      if (stat->type == FileStat::Type::kDirectory) directories.push_back(std::move(path));
      else if (!known && stat->type == FileStat::Type::kRegular) files.Add({stat->size, stat->mtime_ns}, stat->inode, path);
    }
  }
  return true;
}

bool Surroundings::IsNamed(FileSystem& fs, const std::string& directory) {
  const std::lock_guard lock(mutex_);
  TakeMore(fs, Reach::kNamed);
  return named_.contains(directory);
}

void Surroundings::AddToReach(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  Add(directory, Reach::kNamed);
}

void Surroundings::AddToReach(std::function<std::vector<std::string>()> more, Reach which) {
  const std::lock_guard lock(mutex_);
  more_[which].push_back(std::move(more));
}

void Surroundings::AddFilesToReach(std::function<std::vector<std::string>(std::uint64_t)> of_size) {
  const std::lock_guard lock(mutex_);
  known_files_ = std::move(of_size);
  known_sidecars_.clear();
}

void Surroundings::LookBeside(const std::shared_ptr<const Neighbours>& look) {
  if (look_ == look) return;
  look_ = look;
  beside_.clear();
  recorded_beside_.reset();
}

void Surroundings::Add(const std::string& directory, Reach which) {
  if (which == Reach::kNamed && named_.insert(directory).second) named_sidecars_.reset();
  if (!directories_.insert(directory).second) return;
  by_size_.reset();
  files_.reset();
  recorded_in_reach_.reset();
}

void Surroundings::TakeMore(FileSystem& fs, Reach which) {
  for (const auto& more : std::exchange(more_[which], {})) {
    for (const std::string& directory : more()) Add(RealDirectory(fs, directory), which);
  }
}

bool Surroundings::ReachesBeyond(FileSystem& fs, const std::string& here) {
  TakeMore(fs, Reach::kNamed);
  TakeMore(fs, Reach::kKnown);
  if (directories_.size() <= directories_.count(here)) return false;
  if (!by_size_) LookAtReach(fs);
  return true;
}

void Surroundings::LookAtReach(FileSystem& fs) {
  in_reach_.clear();
  by_size_.emplace();
  by_inode_.clear();
  of_sets_.clear();
  by_member_.clear();
  LookInto(fs, directories_, [&](const std::string& path, const Peek& peek) {
    by_size_->emplace(peek.stamp.size, path);
    by_inode_.emplace(peek.stamp.inode, path);
    if (peek.kind != DatasetKind::kSet) return;
    of_sets_.push_back(path);
    by_member_.emplace(std::pair(peek.uuid, peek.rank), path);
  });
}

void AddToReach(FileSystem& fs, const std::string& directory) {
  fs.Memo<Surroundings>().AddToReach(RealDirectory(fs, directory));
}

void AddToReach(FileSystem& fs, std::function<std::vector<std::string>()> directories, Reach which) {
  fs.Memo<Surroundings>().AddToReach(std::move(directories), which);
}

void AddFilesToReach(FileSystem& fs, std::function<std::vector<std::string>(std::uint64_t bytes)> of_size) {
  fs.Memo<Surroundings>().AddFilesToReach(std::move(of_size));
}

std::optional<std::string> SidecarOfMemberInReach(FileSystem& fs, const std::string& here, const Uuid& set, std::uint32_t rank) {
  return fs.Memo<Surroundings>().OfMember(fs, set, rank, RealDirectory(fs, here));
}

std::vector<std::string> SidecarsInReach(FileSystem& fs, const std::string& here) {
  const std::string real = RealDirectory(fs, here);
  std::vector<std::string> paths = fs.Memo<Surroundings>().AllInReach(fs, real);
  std::erase_if(paths, [&](const std::string& path) { return DirectoryOf(path) == real; });
  return paths;
}

}  // namespace lzy
