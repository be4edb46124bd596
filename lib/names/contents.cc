#include "names/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "names/lookup.h"
#include "names/neighbours.h"
#include "names/recorded.h"
#include "names/set_names.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// Resolves links, because one directory may have several paths.
std::string RealDirectory(FileSystem& fs, const std::string& directory) {
  auto real = fs.RealPath(directory.empty() ? "." : directory);
  return real.ok() ? *real : directory;
}

std::string RealPathOf(FileSystem& fs, const std::string& path) {
  return JoinPath(RealDirectory(fs, DirectoryOf(path)), BaseNameOf(path));
}

bool IsUnchanged(const FileStat& now, const FileStat& then) {
  return now.inode == then.inode && now.size == then.size && now.mtime_ns == then.mtime_ns && now.ctime_ns == then.ctime_ns;
}

// Leaves of a sealed dataset can be compared only with its key. With a key, a sidecar without a seal may be forged.
bool MayBeAskedWith(const Superblock& sb, const LeafKey* key) {
  return sb.sealed() ? key != nullptr && key->id() == sb.key_id : key == nullptr;
}

Result<bool> CompareAll(File& data, std::uint64_t size, const Sidecar& sidecar, const LeafKey* key) {
  const SidecarContents& contents = sidecar.contents();
  const std::uint64_t block = contents.superblock.block_size;
  std::vector<std::uint8_t> bytes(std::min(block, size));
  for (std::uint64_t offset = 0, index = 0; offset < size; offset += block, ++index) {
    const MutableByteSpan piece(bytes.data(), std::min(block, size - offset));
    LZY_ASSIGN_OR_RETURN(const std::size_t got, data.ReadAt(offset, piece));
    if (got < piece.size() || index >= contents.data_tree.leaf_count()) return false;
    if (LeafHash(key, HashTag::kDataLeaf, index, piece) != contents.data_tree.leaf(index)) return false;
  }
  return true;
}

// The number of blocks of the file that have their leaf. Blocks that cannot be read have none.
std::uint64_t CountCommitted(File& data, const Sidecar& sidecar, const LeafKey* key) {
  const SidecarContents& contents = sidecar.contents();
  const std::uint64_t block = contents.superblock.block_size, size = contents.superblock.stamp.size;
  std::vector<std::uint8_t> bytes(std::min(block, size));
  std::uint64_t count = 0;
  for (std::uint64_t offset = 0, index = 0; offset < size && index < contents.data_tree.leaf_count(); offset += block, ++index) {
    const MutableByteSpan piece(bytes.data(), std::min(block, size - offset));
    const auto got = data.ReadAt(offset, piece);
    if (!got.ok() || *got < piece.size()) continue;
    if (LeafHash(key, HashTag::kDataLeaf, index, piece) == contents.data_tree.leaf(index)) ++count;
  }
  return count;
}

// The data file of a sidecar's name. For a sidecar that was set aside: the file of the name that it had.
std::string OwnerOf(const std::string& sidecar) {
  const auto owner = DataPathOf(sidecar);
  return owner ? *owner : DataPathOfTemporary(sidecar).value_or("");
}

// Sidecars of files of one size, by the hash of the first block. So one block of a file shows which of them are worth a
// comparison, however many there are.
class SameSize {
 public:
  SameSize(FileSystem& fs, const std::vector<std::string>& sidecars) {
    for (const std::string& path : sidecars) {
      (void)NoThrow([&] {
        const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
        if (!loaded.ok() || !(*loaded)->committed() || (*loaded)->contents().data_tree.leaf_count() == 0) return;
        const Superblock& sb = (*loaded)->contents().superblock;
        by_first_[{sb.block_size, sb.sealed()}].emplace((*loaded)->contents().data_tree.leaf(0).bytes, path);
      });
    }
  }
  // Sidecars whose first leaf matches the first block of the file.
  Result<std::vector<std::string>> WithFirstBlockOf(File& data, std::uint64_t size, const LeafKey* key) const {
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

 private:
  std::map<std::pair<std::uint32_t, bool>, std::multimap<decltype(Hash::bytes), std::string>> by_first_;  // by block size and seal
};

// A cache of the sidecars around, for the next files. Thread-safe.
class Around {
 public:
  // The sidecars beside a file, from the look at its directory.
  std::shared_ptr<const SameSize> Beside(FileSystem& fs, const std::string& directory, std::uint64_t bytes,
                                         const std::shared_ptr<const Neighbours>& look) {
    const std::lock_guard lock(mutex_);
    LookBeside(look);
    auto& known = beside_[bytes];
    if (known) return known;
    std::vector<std::string> paths;
    for (const std::string& name : look->SidecarsOfSize(bytes)) {
      paths.push_back(JoinPath(directory, name));
    }
    return known = std::make_shared<SameSize>(fs, paths);
  }
  // The sidecars in reach, if any is in another directory than `here`. They are read at most once.
  std::shared_ptr<const SameSize> InReach(FileSystem& fs, std::uint64_t bytes, const std::string& here) {
    const std::lock_guard lock(mutex_);
    const std::vector<std::string> paths = PathsOfSize(fs, bytes, here);
    if (paths.empty()) return std::make_shared<SameSize>(fs, paths);
    auto& known = reach_[bytes];
    if (!known) known = std::make_shared<SameSize>(fs, paths);
    return known;
  }
  // Members without a sidecar that sets beside the file record; below, those that sets in reach record.
  std::shared_ptr<const RecordedMembers> RecordedBeside(FileSystem& fs, const std::string& directory, const std::shared_ptr<const Neighbours>& look) {
    const std::lock_guard lock(mutex_);
    LookBeside(look);
    if (recorded_beside_) return recorded_beside_;
    std::vector<std::string> paths;
    for (const std::string& name : look->SidecarsOfSets()) paths.push_back(JoinPath(directory, name));
    return recorded_beside_ = std::make_shared<RecordedMembers>(fs, paths);
  }
  std::shared_ptr<const RecordedMembers> RecordedInReach(FileSystem& fs, const std::string& here) {
    const std::lock_guard lock(mutex_);
    if (!ReachesBeyond(fs, here)) return std::make_shared<RecordedMembers>(fs, std::vector<std::string>());
    if (recorded_in_reach_) return recorded_in_reach_;
    return recorded_in_reach_ = std::make_shared<RecordedMembers>(fs, sets_in_reach_);
  }
  // All sidecars in reach, not read.
  std::vector<std::string> AllInReach(FileSystem& fs, const std::string& here) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> paths;
    if (!ReachesBeyond(fs, here)) return paths;
    std::ranges::transform(*reach_sizes_, std::back_inserter(paths), [](const auto& one) { return one.second; });
    return paths;
  }
  // Sidecars that were committed for a file of this size, in named directories other than `here`. Does not look at directories
  // that only the catalogue names: files that are protected for the first time must not read all of its sidecars.
  std::vector<std::string> NamedOfSize(FileSystem& fs, std::uint64_t bytes, const std::string& here) {
    const std::lock_guard lock(mutex_);
    TakeMore(fs, Reach::kNamed);
    std::vector<std::string> paths;
    if (named_.size() <= named_.count(here)) return paths;
    if (!named_sizes_) {
      named_sizes_.emplace();
      LookInto(fs, named_, [&](const std::string& path, const Peek& peek) { named_sizes_->emplace(peek.stamp.size, path); });
    }
    const auto [begin, end] = named_sizes_->equal_range(bytes);
    for (auto at = begin; at != end; ++at) {
      if (DirectoryOf(at->second) != here) paths.push_back(at->second);
    }
    return paths;
  }
  // Those that were committed for a file of this inode number, in directories other than `here`.
  std::vector<std::string> InReachFor(FileSystem& fs, std::uint64_t inode, const std::string& here) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> paths;
    if (!ReachesBeyond(fs, here)) return paths;
    const auto [begin, end] = reach_inodes_.equal_range(inode);
    for (auto at = begin; at != end; ++at) {
      if (DirectoryOf(at->second) != here) paths.push_back(at->second);
    }
    return paths;
  }
  // Files of this size in directories in reach other than `here`, protected or not. The first call stats all files.
  std::vector<std::string> FilesOfSize(FileSystem& fs, std::uint64_t bytes, const std::string& here) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> paths;
    if (!ReachesBeyond(fs, here)) return paths;
    if (!files_) LookAtFiles(fs);
    const auto [begin, end] = files_->equal_range(bytes);
    for (auto at = begin; at != end; ++at) {
      if (DirectoryOf(at->second) != here) paths.push_back(at->second);
    }
    return paths;
  }
  void AddToReach(const std::string& directory) {
    const std::lock_guard lock(mutex_);
    Add(directory, Reach::kNamed);
  }
  bool IsNamed(FileSystem& fs, const std::string& directory) {
    const std::lock_guard lock(mutex_);
    TakeMore(fs, Reach::kNamed);
    return named_.contains(directory);
  }
  void AddToReach(std::function<std::vector<std::string>()> more, Reach which) {
    const std::lock_guard lock(mutex_);
    more_[which].push_back(std::move(more));
  }

 private:
  void LookBeside(const std::shared_ptr<const Neighbours>& look) {
    if (look_ == look) return;
    look_ = look;
    beside_.clear();
    recorded_beside_.reset();
  }
  // The mutex must be held here and below.
  void Add(const std::string& directory, Reach which) {
    if (which == Reach::kNamed && named_.insert(directory).second) named_sizes_.reset();
    if (directories_.insert(directory).second) ForgetReach();
  }
  void TakeMore(FileSystem& fs, Reach which) {
    for (const auto& more : std::exchange(more_[which], {})) {
      for (const std::string& directory : more()) Add(RealDirectory(fs, directory), which);
    }
  }
  // Calls see(path, peek) for each committed sidecar in these directories.
  template <class See>
  static void LookInto(FileSystem& fs, const std::set<std::string>& directories, const See& see) {
    for (const std::string& directory : directories) {
      const auto names = fs.List(directory);
      for (const std::string& name : names.ok() ? *names : std::vector<std::string>{}) {
        if (!DataPathOf(name) && !DataPathOfTemporary(name)) continue;  // sidecars that were set aside count, too
        const auto peek = PeekSidecar(fs, JoinPath(directory, name));
        if (peek.ok() && peek->committed) see(JoinPath(directory, name), *peek);
      }
    }
  }
  // Returns true if another directory than `here` is in reach; then
  // reach_sizes_ is filled.
  bool ReachesBeyond(FileSystem& fs, const std::string& here) {
    TakeMore(fs, Reach::kNamed);
    TakeMore(fs, Reach::kKnown);
    if (directories_.size() <= directories_.count(here)) return false;
    if (!reach_sizes_) LookAtReach(fs);
    return true;
  }
  std::vector<std::string> PathsOfSize(FileSystem& fs, std::uint64_t bytes, const std::string& here) {
    std::vector<std::string> paths;
    if (!ReachesBeyond(fs, here)) return paths;
    const auto [begin, end] = reach_sizes_->equal_range(bytes);
    std::ranges::transform(begin, end, std::back_inserter(paths), [](const auto& one) { return one.second; });
    return paths;
  }
  void ForgetReach() {
    reach_sizes_.reset();
    files_.reset();
    recorded_in_reach_.reset();
  }
  void LookAtFiles(FileSystem& fs) {
    files_.emplace();
    for (const std::string& directory : directories_) {
      const auto names = fs.List(directory);
      for (const std::string& name : names.ok() ? *names : std::vector<std::string>{}) {
        const std::string path = JoinPath(directory, name);
        const auto stat = IsLzyName(name) ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(path, /*follow=*/false);
        if (stat.ok() && stat->type == FileStat::Type::kRegular) files_->emplace(stat->size, path);
      }
    }
  }
  void LookAtReach(FileSystem& fs) {
    reach_.clear();
    reach_sizes_.emplace();
    reach_inodes_.clear();
    sets_in_reach_.clear();
    LookInto(fs, directories_, [&](const std::string& path, const Peek& peek) {
      reach_sizes_->emplace(peek.stamp.size, path);
      reach_inodes_.emplace(peek.stamp.inode, path);
      if (peek.kind == DatasetKind::kSet) sets_in_reach_.push_back(path);
    });
  }
  std::mutex mutex_;
  std::shared_ptr<const Neighbours> look_;
  std::map<std::uint64_t, std::shared_ptr<const SameSize>> beside_, reach_;  // by size
  std::shared_ptr<const RecordedMembers> recorded_beside_, recorded_in_reach_;
  std::set<std::string> directories_, named_;
  std::map<Reach, std::vector<std::function<std::vector<std::string>()>>> more_;
  std::optional<std::multimap<std::uint64_t, std::string>> named_sizes_;  // sidecars in named_, by size of the file
  std::optional<std::multimap<std::uint64_t, std::string>> reach_sizes_;
  std::multimap<std::uint64_t, std::string> reach_inodes_;  // the same paths
  std::vector<std::string> sets_in_reach_;  // those of reach_sizes_ that are of sets
  std::optional<std::multimap<std::uint64_t, std::string>> files_;  // in reach, by size
};

/// The sidecars of files that were proven by content.
class ProvenOwners {
 public:
  void Remember(FileSystem& fs, const std::string& directory, const std::string& name, const std::string& sidecar) {
    const auto file = fs.Stat(JoinPath(directory, name), /*follow=*/false);
    const auto made = fs.Stat(JoinPath(directory, sidecar), /*follow=*/false);
    if (!file.ok() || !made.ok()) return;
    const std::lock_guard lock(mutex_);
    owners_[RealDirectory(fs, directory)][name] = {sidecar, made->inode, *file};
    any_ = true;
  }
  std::optional<std::string> SidecarOf(FileSystem& fs, const std::string& directory, const std::string& name) {
    return Find(fs, directory, [&](const auto& entry) { return entry.first == name; },
                [](const auto& entry) { return entry.second.sidecar; });
  }
  std::optional<std::string> HomeOf(FileSystem& fs, const std::string& directory, const std::string& sidecar) {
    return Find(fs, directory, [&](const auto& entry) { return entry.second.sidecar == sidecar; },
                [](const auto& entry) { return entry.first; });
  }
  void RememberUser(const LeftBare& user) {
    const std::lock_guard lock(mutex_);
    users_.try_emplace(user.path, user);
  }
  std::map<std::string, LeftBare> TakeUsers() {
    const std::lock_guard lock(mutex_);
    return std::exchange(users_, {});
  }

 private:
  struct Proof {
    std::string sidecar;
    std::uint64_t inode = 0;  // of the sidecar
    FileStat file;
  };
  // An entry is valid until the file changes or the sidecar is renamed.
  template <class Is, class Answer>
  std::optional<std::string> Find(FileSystem& fs, const std::string& directory, const Is& is, const Answer& answer) {
    if (!any_) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto known = owners_.find(RealDirectory(fs, directory));
    if (known == owners_.end()) return std::nullopt;
    const auto at = std::ranges::find_if(known->second, is);
    if (at == known->second.end()) return std::nullopt;
    const auto& [name, proof] = *at;
    const auto file = fs.Stat(JoinPath(directory, name), /*follow=*/false);
    const auto sidecar = fs.Stat(JoinPath(directory, proof.sidecar), /*follow=*/false);
    if (!file.ok() || !sidecar.ok() || sidecar->inode != proof.inode || !IsUnchanged(*file, proof.file)) return std::nullopt;
    return answer(*at);
  }

  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, Proof>> owners_;  // by directory and file
  std::map<std::string, LeftBare> users_;  // by path: users of sidecars that content gave to others
};

// How much of a file is as a sidecar committed it, in blocks.
struct Likeness {
  std::uint64_t same = 0, total = 0;
};
// Nothing is alike if the file has another size, or if the sidecar is sealed with another key.
Likeness LikenessOf(FileSystem& fs, const std::string& data, const Sidecar& sidecar, const LeafKey* key) {
  Likeness likeness;
  (void)NoThrow([&] {
    const Superblock& sb = sidecar.contents().superblock;
    const auto file = MayBeAskedWith(sb, key) ? fs.Open(data, OpenMode::kRead, /*follow=*/false) : Result<std::unique_ptr<File>>(Code::kNotFound, data);
    const auto stat = file.ok() ? (*file)->Stat() : Result<FileStat>(file.status());
    if (!stat.ok() || stat->size != sb.stamp.size) return;
    likeness = {CountCommitted(**file, sidecar, key), sidecar.contents().data_tree.leaf_count()};
  });
  return likeness;
}

// The block of a file of one block, from its parity, which is a copy of it; empty if it cannot be had in this way.
std::vector<std::uint8_t> OnlyBlockOf(Sidecar& sidecar, const LeafKey* key) {
  const SidecarContents& contents = sidecar.contents();
  std::vector<std::uint8_t> bytes(contents.superblock.stamp.size);
  if (contents.superblock.parted() || contents.superblock.parity == 0 || contents.superblock.kind == DatasetKind::kSet) return {};
  if (!ReadExactly(sidecar.file(), sidecar.ParityFileOffset(0), bytes).ok()) return {};
  return LeafHash(key, HashTag::kDataLeaf, 0, bytes) == contents.data_tree.leaf(0) ? bytes : std::vector<std::uint8_t>();
}

// False if the file differs from what `own` committed as no rot does: in more than half of its blocks, or, if it has one block, in
// more than a quarter of its bytes.
bool MayBeRot(FileSystem& fs, const std::string& data_path, const std::string& own, const LeafKey* key) {
  bool may_be = true;
  (void)NoThrow([&]() -> Status {
    LZY_ASSIGN_OR_RETURN(const auto sidecar, Sidecar::Load(fs, own, OpenMode::kRead));
    const Likeness alike = LikenessOf(fs, data_path, *sidecar, key);
    if (alike.total > 1) may_be = 2 * alike.same >= alike.total;
    if (alike.total != 1) return Status::Ok();
    const std::vector<std::uint8_t> block = OnlyBlockOf(*sidecar, key);
    std::vector<std::uint8_t> bytes(block.size());
    LZY_ASSIGN_OR_RETURN(const auto file, fs.Open(data_path, OpenMode::kRead, /*follow=*/false));
    LZY_RETURN_IF_ERROR(ReadExactly(*file, 0, bytes));
    std::size_t same = 0;
    for (std::size_t i = 0; i < block.size(); ++i) same += bytes[i] == block[i];
    may_be = 4 * same >= 3 * block.size();
    return Status::Ok();
  });
  return may_be;
}

// True if the other dataset is a copy of this file, or a link to it, that was protected after this file rotted. That proves
// nothing. By its own sidecar the file is as committed (inode, birth, size, mtime), and it was not changed since before the
// other commit (ctime). But the other dataset may have been committed before, and once more since. So the file must look
// rotten (`looks_rotten`). If it is repaired, the copy still has the content.
template <class Looks, class Holds>
bool WasCopiedSince(const FileStat& file, const Result<Peek>& own, std::int64_t other_commit_ns, const Looks& looks_rotten,
                    const Holds& copy_holds) {
  if (!own.ok() || !own->committed || !MayBe(file, own->stamp) || !HasSizeAndTime(file, own->stamp)) return false;
  return file.ctime_ns < other_commit_ns && own->commit_clock_ns < other_commit_ns && looks_rotten() && copy_holds();
}

// Members of other sets that had the present content of the file, and have no sidecar any more.
std::vector<Prover> RecordedProvers(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& own_path,
                                    const Result<Peek>& own, const std::shared_ptr<const Neighbours>& look, const LeafKey* key) {
  const std::string directory = DirectoryOf(data_path), real = RealDirectory(fs, directory);
  Around& around = fs.Memo<Around>();
  const Uuid set = own.ok() ? own->uuid : Uuid{};
  RootsOf roots(fs, data_path, key);
  std::vector<Prover> provers;
  const auto add = [&](const RecordedMember& record, bool beside) {
    if (!roots.Are(record) || RealPathOf(fs, record.path) == RealPathOf(fs, data_path)) return;
    const auto copy_holds = [&] {
      const auto copy = fs.Stat(record.path, /*follow=*/false);
      return copy.ok() && copy->size == record.size && RootsOf(fs, record.path, key).Are(record);
    };
    const auto looks_rotten = [&] { return MayBeRot(fs, data_path, own_path, key); };
    if (WasCopiedSince(stat, own, record.commit_clock_ns, looks_rotten, copy_holds)) return;
    provers.push_back({.sidecar = record.sidecar, .owner = record.path, .beside = beside, .named = around.IsNamed(fs, DirectoryOf(record.sidecar)),
                       .recorded = true});
  };
  const auto beside = look->HasSetBut(set) ? around.RecordedBeside(fs, directory, look)->OfSize(stat.size, set) : std::vector<RecordedMember>();
  for (const RecordedMember& one : beside) add(one, true);
  for (const RecordedMember& one : around.RecordedInReach(fs, real)->OfSize(stat.size, set)) {
    if (DirectoryOf(one.sidecar) != real) add(one, false);
  }
  return provers;
}

// All sidecars but `own` that were committed for the present content of the file. If there is none, sidecars that record it
// of a member without a sidecar. Does not set Prover::usable.
Result<std::vector<Prover>> ProversOf(FileSystem& fs, const std::string& data_path, const std::string& own, const LeafKey* key) {
  const std::string directory = DirectoryOf(data_path);
  std::vector<Prover> provers;
  const auto stat = fs.Stat(data_path, /*follow=*/false);
  if (!stat.ok() || stat->type != FileStat::Type::kRegular || stat->size == 0) return provers;
  const auto file = fs.Open(data_path, OpenMode::kRead, /*follow=*/false);
  if (!file.ok()) return file.status();
  const std::string real = RealDirectory(fs, directory);
  Around& around = fs.Memo<Around>();
  const auto look = Neighbours::For(fs, directory, BaseNameOf(data_path), *stat).look;
  LZY_ASSIGN_OR_RETURN(const auto beside, around.Beside(fs, directory, stat->size, look)->WithFirstBlockOf(**file, stat->size, key));
  LZY_ASSIGN_OR_RETURN(const auto others, around.InReach(fs, stat->size, real)->WithFirstBlockOf(**file, stat->size, key));
  std::vector<Prover> candidates;
  for (const std::string& path : beside) {
    if (BaseNameOf(path) != BaseNameOf(own)) candidates.push_back({.sidecar = path, .owner = OwnerOf(path), .beside = true});
  }
  for (const std::string& path : others) {
    if (DirectoryOf(path) != real) candidates.push_back({.sidecar = path, .owner = OwnerOf(path), .named = around.IsNamed(fs, DirectoryOf(path))});
  }
  const auto peek = own.empty() ? Result<Peek>(Code::kNotFound, own) : PeekSidecar(fs, own);
  for (Prover& one : candidates) {
    LZY_ASSIGN_OR_RETURN(const bool holds, HoldsCommitted(fs, data_path, one.sidecar, key));
    if (!holds) continue;
    const auto other = PeekSidecar(fs, one.sidecar);
    const auto copy_holds = [&] {
      const auto copy = HoldsCommitted(fs, one.owner, one.sidecar, key);
      return copy.ok() && *copy;
    };
    const auto looks_rotten = [&] { return MayBeRot(fs, data_path, own, key); };
    if (!other.ok() || !WasCopiedSince(*stat, peek, other->commit_clock_ns, looks_rotten, copy_holds)) provers.push_back(std::move(one));
  }
  return provers.empty() ? RecordedProvers(fs, data_path, *stat, own, peek, look, key) : provers;
}

// The file that is judged by the sidecar of the prover, for all that stamps tell.
std::optional<std::string> UserOf(FileSystem& fs, const Prover& prover) {
  const std::string directory = DirectoryOf(prover.sidecar);
  const auto user = Directory(fs, directory).UserOf(BaseNameOf(prover.sidecar));
  return user ? std::optional(JoinPath(directory, *user)) : std::nullopt;
}

// True if the sidecar may be used for another file than that of its name. Sidecars of members are not free, because a set is
// protected as a whole, nor is that of a file that was edited in place.
Result<bool> IsFree(FileSystem& fs, const Prover& prover, const LeafKey* key) {
  const auto peek = PeekSidecar(fs, prover.sidecar);
  if (!peek.ok() || peek->kind == DatasetKind::kSet) return false;
  // Sidecars may have been exchanged: it is that of a third file, which is as it was committed.
  if (const auto user = UserOf(fs, prover); user && *user != prover.owner) {
    LZY_ASSIGN_OR_RETURN(const bool holds, HoldsCommitted(fs, *user, prover.sidecar, key));
    if (holds) return false;
  }
  const auto owner = fs.Stat(prover.owner, /*follow=*/false);
  if (!owner.ok() || owner->type != FileStat::Type::kRegular) return true;
  if (MayBe(*owner, peek->stamp)) return false;
  LZY_ASSIGN_OR_RETURN(const bool holds, HoldsCommitted(fs, prover.owner, prover.sidecar, key));
  if (holds || !HasSizeAndTime(*owner, peek->stamp)) return !holds;
  // The owner may be the rotten original, put back from a backup, and the other file a copy of it.
  LZY_ASSIGN_OR_RETURN(const auto others, ProversOf(fs, prover.owner, prover.sidecar, key));
  return !others.empty();
}

// Whether anything tells of a file: a sidecar of its own, or the set that it is a member of.
bool IsToldOf(FileSystem& fs, const std::string& path) {
  const auto peek = FindAndPeek(fs, path);
  if (!peek.ok()) return peek.status().code() != Code::kNotFound;
  return peek->kind == DatasetKind::kShared || PatternFromTail(path, peek->name, peek->rank).has_value();
}

// True if `data` has the content that `sidecar` committed.
Result<bool> Holds(FileSystem& fs, const std::string& data, const Sidecar& sidecar, const LeafKey* key) {
  Result<bool> holds = false;
  LZY_RETURN_IF_ERROR(NoThrow([&]() -> Status {
    const Superblock& sb = sidecar.contents().superblock;
    if (sb.stamp.size == 0 || !MayBeAskedWith(sb, key)) return Status::Ok();
    const auto file = fs.Open(data, OpenMode::kRead, /*follow=*/false);
    if (file.status().code() == Code::kNotFound) return Status::Ok();
    LZY_RETURN_IF_ERROR(file.status());
    LZY_ASSIGN_OR_RETURN(const FileStat stat, (*file)->Stat());
    if (stat.size == sb.stamp.size) holds = CompareAll(**file, stat.size, sidecar, key);
    return holds.status();
  }));
  return holds;
}

// True if at least half of the blocks of a file are as `sidecar` committed them. A file that has the committed size and mtime,
// too, is the committed one, damaged since: it was renamed, and is a copy (from a backup, or on another file system).
bool IsMostlyAs(FileSystem& fs, const std::string& data, const Sidecar& sidecar, const LeafKey* key) {
  const Likeness alike = LikenessOf(fs, data, sidecar, key);
  return alike.same > 0 && 2 * alike.same >= alike.total;
}

// True if a file with the committed size and mtime may be what is left of the committed one: it is that file by inode and
// birth, or a block of it is as committed.
bool MayBeRottenFrom(FileSystem& fs, const std::string& data, const FileStat& stat, const Sidecar& sidecar, const LeafKey* key) {
  return MayBe(stat, sidecar.contents().superblock.stamp) || LikenessOf(fs, data, sidecar, key).same > 0;
}

// Files other than `except` that may have the content of `sidecar`, by their size and, if requested, mtime. Examines some of
// those beside it and protected ones in reach; with kAll, also others in reach.
std::vector<std::string> CandidatesFor(FileSystem& fs, const std::string& sidecar, const Stamp& stamp, const std::string& except,
                                       Holders which) {
  constexpr std::size_t kMost = 256;
  const std::string directory = DirectoryOf(sidecar);
  std::vector<std::string> paths;
  if (stamp.size == 0) return paths;
  const auto add = [&](const std::string& path) {
    const auto stat = path == except ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(path, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kRegular || stat->size != stamp.size) return;
    if (which != Holders::kOfItsTime || stat->mtime_ns == stamp.mtime_ns) paths.push_back(path);
  };
  const auto stat = fs.Stat(except, /*follow=*/false);
  const Result<std::vector<std::string>> names =
      stat.ok() ? Neighbours::For(fs, directory, BaseNameOf(except), *stat).look->FilesOfSize(stamp.size)
                : fs.List(directory.empty() ? "." : directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>{}) {
    if (paths.size() < kMost && !IsLzyName(name)) add(JoinPath(directory, name));
  }
  const std::string here = RealDirectory(fs, directory);
  if (which == Holders::kAll) {
    for (const std::string& path : fs.Memo<Around>().FilesOfSize(fs, stamp.size, here)) {
      if (paths.size() < 2 * kMost) add(path);
    }
    return paths;
  }
  for (const std::string& other : fs.Memo<Around>().AllInReach(fs, here)) {
    const auto owner = DirectoryOf(other) == here ? std::nullopt : DataPathOf(other);
    if (owner) add(*owner);
  }
  return paths;
}

// True if sidecars of a set say that the file is one of its members.
bool IsClaimedByASet(FileSystem& fs, const std::string& path) {
  const std::vector<std::string> patterns = Directory(fs, DirectoryOf(path)).SetPatternsAround(BaseNameOf(path));
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return MatchPattern(pattern, path).has_value(); });
}

}  // namespace

Result<bool> HoldsCommitted(FileSystem& fs, const std::string& data, const std::string& sidecar, const LeafKey* key) {
  Result<bool> holds = false;
  LZY_RETURN_IF_ERROR(NoThrow([&]() -> Status {
    const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
    if (loaded.ok() && (*loaded)->committed()) holds = Holds(fs, data, **loaded, key);
    return holds.status();
  }));
  return holds;
}

Result<std::optional<Prover>> FindProver(FileSystem& fs, const std::string& data_path, const std::string& own,
                                         const LeafKey* key) {
  LZY_ASSIGN_OR_RETURN(auto provers, ProversOf(fs, data_path, own, key));
  std::optional<Prover> other;
  for (Prover& prover : provers) {
    if (prover.beside && !prover.recorded) {
      const bool is_own = BaseNameOf(prover.owner) == BaseNameOf(data_path);
      LZY_ASSIGN_OR_RETURN(prover.usable, is_own ? Result<bool>(true) : IsFree(fs, prover, key));
    }
    if (prover.usable) return std::optional(prover);
    if (!other) other = std::move(prover);
  }
  return other;
}

// A file that was damaged and then committed again under another name has a sidecar that proves it. If no other file has the
// committed content, only `sidecar` can give it back.
std::optional<Holder> FindHolder(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key,
                                 Holders which) {
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  if (!loaded.ok() || !(*loaded)->committed()) return std::nullopt;
  const Stamp& stamp = (*loaded)->contents().superblock.stamp;
  bool is_elsewhere = false;
  std::optional<Holder> rotten;
  for (const std::string& path : CandidatesFor(fs, sidecar, stamp, except, which)) {
    const auto holds = Holds(fs, path, **loaded, key);
    const bool proven = holds.ok() && *holds;
    const auto stat = fs.Stat(path, /*follow=*/false);
    if (!proven && (which != Holders::kAll || !stat.ok() || !HasSizeAndTime(*stat, stamp))) continue;
    const auto own = SidecarPath(path);
    const bool has_own = own.ok() && fs.Stat(*own, /*follow=*/false).ok();
    if (which != Holders::kAll && !has_own && !IsClaimedByASet(fs, path)) continue;
    const auto right = has_own ? HoldsCommitted(fs, path, *own, key) : Result<bool>(false);
    if (right.ok() && !*right) return Holder{path, proven};
    is_elsewhere = is_elsewhere || (proven && right.ok());
    const bool committed = !proven && right.ok() && !rotten;
    if (committed && MayBeRottenFrom(fs, path, *stat, **loaded, key)) rotten = Holder{path, false, /*committed=*/true};
  }
  return is_elsewhere ? std::nullopt : rotten;
}

namespace {

// True if `path` ends with the name that the set of `peek` gives to this member.
bool IsMemberName(const std::string& path, const Peek& peek) {
  const std::string name = ExpandPattern(peek.name, peek.rank);
  return path == name || path.ends_with("/" + name);
}

}  // namespace

std::optional<std::string> FindRotten(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key) {
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  if (!loaded.ok() || !(*loaded)->committed()) return std::nullopt;
  std::optional<std::string> rotten;
  for (const std::string& path : CandidatesFor(fs, sidecar, (*loaded)->contents().superblock.stamp, except, Holders::kOfItsTime)) {
    const auto holds = Holds(fs, path, **loaded, key);
    if (!holds.ok()) continue;
    if (*holds) return std::nullopt;
    const auto stat = fs.Stat(path, /*follow=*/false);
    const auto own = SidecarPath(path);
    const auto peek = own.ok() ? PeekSidecar(fs, *own) : Result<Peek>(own.status());
    // By its own sidecar it can be repaired, unless that is of a member that had another name: its set finds it there only.
    const bool has_its_own = stat.ok() && peek.ok() && peek->committed && HasSizeAndTime(*stat, peek->stamp);
    const bool at_home = has_its_own && (peek->kind == DatasetKind::kShared || IsMemberName(path, *peek));
    if (rotten || !stat.ok() || at_home) continue;
    const auto right = peek.ok() ? HoldsCommitted(fs, path, *own, key) : Result<bool>(false);
    if (!right.ok() || *right) continue;
    if (IsSameFile(*stat, (*loaded)->contents().superblock.stamp) || IsMostlyAs(fs, path, **loaded, key)) rotten = path;
  }
  return rotten;
}

bool IsHeldByAnother(FileSystem& fs, const std::string& sidecar, const std::string& except, const LeafKey* key) {
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  if (!loaded.ok() || !(*loaded)->committed()) return false;
  const std::vector<std::string> candidates = CandidatesFor(fs, sidecar, (*loaded)->contents().superblock.stamp, except, Holders::kAll);
  return std::ranges::any_of(candidates, [&](const std::string& path) {
    const auto holds = Holds(fs, path, **loaded, key);
    return holds.ok() && *holds;
  });
}

// Goes on with each file that loses its sidecar, because files may have been swapped or rotated.
Result<bool> AdoptByContent(FileSystem& fs, const std::string& data_path, const LeafKey* key) {
  const std::string directory = DirectoryOf(data_path);
  std::set<std::string> asked;
  bool any = false;
  for (std::string path = data_path; asked.insert(path).second;) {
    const auto own = FindSidecar(fs, path);
    if (!own.ok() && own.status().code() != Code::kNotFound) break;
    const auto file = fs.Stat(path, /*follow=*/false);
    const auto peek = own.ok() ? PeekSidecar(fs, *own) : Result<Peek>(own.status());
    if (!file.ok() || (own.ok() && !peek.ok())) break;
    if (peek.ok() && peek->kind == DatasetKind::kSet) break;
    LZY_ASSIGN_OR_RETURN(const auto prover, FindProver(fs, path, own.ok() ? *own : "", key));
    if (!prover || !prover->usable) break;
    if (own.ok()) {
      LZY_ASSIGN_OR_RETURN(const bool right, HoldsCommitted(fs, path, *own, key));
      if (right) break;
    }
    const auto user = UserOf(fs, *prover);
    RememberProven(fs, directory, BaseNameOf(path), BaseNameOf(prover->sidecar));
    if (user && *user != path) fs.Memo<ProvenOwners>().RememberUser({*user, path, prover->sidecar});
    any = true;
    path = prover->owner;
  }
  return any;
}

namespace {

// The name of the file of `sidecar` at its commit.
std::string NameAtCommit(const std::string& sidecar, const Peek& peek, bool beside) {
  std::string name = peek.kind == DatasetKind::kSet ? ExpandPattern(peek.name, peek.rank) : peek.name;
  return beside || name.find('/') != std::string::npos ? name : JoinPath(DirectoryOf(sidecar), name);
}

// Sidecars in other directories that the command names, with the size and mtime of the file, whose file is gone. The file was
// moved here if it is the same one by inode and birth, or, for moves between file systems, if it has at least half of the blocks.
std::vector<FormerName> MovedFrom(FileSystem& fs, const std::string& data_path, const FileStat& stat, const LeafKey* key) {
  constexpr std::size_t kMost = 64;  // sidecars that are compared
  std::vector<FormerName> names;
  std::size_t compared = 0;
  for (const std::string& path : fs.Memo<Around>().NamedOfSize(fs, stat.size, RealDirectory(fs, DirectoryOf(data_path)))) {
    if (fs.Stat(OwnerOf(path), /*follow=*/false).status().code() != Code::kNotFound) continue;
    auto peek = PeekSidecar(fs, path);
    if (!peek.ok() || !peek->committed || !HasSizeAndTime(stat, peek->stamp) || ++compared > kMost) continue;
    const auto place = fs.Stat(path, /*follow=*/false);
    bool same = MayBe(stat, peek->stamp) && place.ok() && place->device == stat.device;
    if (!same) {
      const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
      same = loaded.ok() && IsMostlyAs(fs, data_path, **loaded, key);
    }
    std::string name = NameAtCommit(path, *peek, /*beside=*/false);
    if (same) names.push_back({path, std::move(*peek), std::move(name)});
  }
  return names;
}

}  // namespace

std::vector<FormerName> CommittedAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                    Within within) {
  const std::string directory = DirectoryOf(data_path);
  const auto look = Neighbours::For(fs, directory, BaseNameOf(data_path), stat).look;
  std::vector<std::string> sidecars;
  for (const std::string& sidecar : look->SidecarsFor(stat.inode)) sidecars.push_back(JoinPath(directory, sidecar));
  const std::size_t beside = sidecars.size();
  if (within == Within::kReach) {
    // Numbers of inodes mean something on one file system only.
    for (const std::string& path : fs.Memo<Around>().InReachFor(fs, stat.inode, RealDirectory(fs, directory))) {
      const auto place = fs.Stat(path, /*follow=*/false);
      if (place.ok() && place->device == stat.device) sidecars.push_back(path);
    }
  }
  std::vector<FormerName> names;
  for (std::size_t i = 0; i < sidecars.size(); ++i) {
    const std::string& path = sidecars[i];
    if (!except.empty() && RealPathOf(fs, path) == RealPathOf(fs, except)) continue;
    auto peek = PeekSidecar(fs, path);
    if (!peek.ok() || !peek->committed || !MayBe(stat, peek->stamp) || !HasSizeAndTime(stat, peek->stamp)) continue;
    // A hard link; but the sidecar of this name may have been set aside.
    const auto owner = fs.Stat(OwnerOf(path), /*follow=*/false);
    const bool linked = owner.ok() && owner->inode == stat.inode && owner->device == stat.device;
    if (linked && RealPathOf(fs, OwnerOf(path)) != RealPathOf(fs, data_path)) continue;
    std::string name = NameAtCommit(path, *peek, i < beside);
    names.push_back({path, std::move(*peek), std::move(name)});
  }
  return names;
}

std::vector<FormerName> MostlyAs(FileSystem& fs, const std::string& data_path, const FileStat& stat, const std::string& except,
                                 const LeafKey* key) {
  constexpr std::size_t kMost = 8;  // sidecars that are compared: each costs reading the file
  const std::string directory = DirectoryOf(data_path);
  std::vector<FormerName> names;
  if (stat.size == 0) return names;
  std::size_t compared = 0;
  for (const std::string& sidecar : Neighbours::For(fs, directory, BaseNameOf(data_path), stat).look->SidecarsOfSizeAndTime(stat.size, stat.mtime_ns)) {
    const std::string path = JoinPath(directory, sidecar);
    if ((!except.empty() && RealPathOf(fs, path) == RealPathOf(fs, except)) || ++compared > kMost) continue;
    const auto loaded = Sidecar::Load(fs, path, OpenMode::kRead);
    auto peek = PeekSidecar(fs, path);
    if (!peek.ok() || !peek->committed || !loaded.ok() || !IsMostlyAs(fs, data_path, **loaded, key)) continue;
    // If the file that has the name is as committed by its size and time, or by its content, this is a copy of it.
    const std::string owner = OwnerOf(path);
    const auto there = owner.empty() ? Result<FileStat>(Code::kNotFound, path) : fs.Stat(owner, /*follow=*/false);
    if (there.ok() && RealPathOf(fs, owner) != RealPathOf(fs, data_path)) {
      const auto right = HasSizeAndTime(*there, peek->stamp) ? Result<bool>(true) : Holds(fs, owner, **loaded, key);
      if (!right.ok() || *right) continue;
    }
    std::string name = NameAtCommit(path, *peek, /*beside=*/true);
    names.push_back({path, std::move(*peek), std::move(name)});
  }
  return names;
}

namespace {

// A file that was not changed since it was written (ctime) was not renamed; this saves a look at the directories.
std::optional<FormerName> RottenFormer(FileSystem& fs, const std::string& data_path, const LeafKey* key) {
  const auto stat = fs.Stat(data_path, /*follow=*/false);
  if (!stat.ok() || stat->type != FileStat::Type::kRegular || stat->size == 0 || stat->ctime_ns == stat->mtime_ns) return std::nullopt;
  std::vector<FormerName> names = CommittedAs(fs, data_path, *stat, "", Within::kDirectory);
  for (FormerName& moved : MovedFrom(fs, data_path, *stat, key)) names.push_back(std::move(moved));
  if (names.empty()) names = MostlyAs(fs, data_path, *stat, "", key);
  std::optional<FormerName> found;
  for (FormerName& one : names) {
    const std::string owner = OwnerOf(one.sidecar);
    if (owner.empty()) continue;
    if (fs.Stat(owner, /*follow=*/false).ok()) {
      const auto is_there = HoldsCommitted(fs, owner, one.sidecar, key);
      if (!is_there.ok() || *is_there) continue;
    }
    const auto holds = HoldsCommitted(fs, data_path, one.sidecar, key);
    if (holds.ok() && *holds) return std::nullopt;
    found = std::move(one);
  }
  return found;
}

}  // namespace

std::optional<std::string> RottenAs(FileSystem& fs, const std::string& data_path, const LeafKey* key) {
  const auto former = RottenFormer(fs, data_path, key);
  return former ? std::optional(former->name) : std::nullopt;
}

Status RefuseRotten(FileSystem& fs, const std::string& path, const std::string& dataset, const LeafKey* key) {
  const std::string real = FollowLink(fs, path);
  const auto was = RottenFormer(fs, real, key);
  if (!was) return Status::Ok();
  const auto own = SidecarPath(real);
  if (was->name == BaseNameOf(real) && own.ok()) {
    return {Code::kUnprotected, fmt::format("{}: its sidecar was set aside, and not all of it is as it was at the last commit: it is damaged. Give "
                                            "it its sidecar back, then repair it: mv -n {} {}", path, ShellQuote(was->sidecar), ShellQuote(*own))};
  }
  return {Code::kUnprotected, fmt::format("{}: by its size and time, and by its inode or most of its content, it was '{}' at the last commit, and "
                                          "not all of it is as it was then: it was renamed or moved, and is damaged. Give it that name back, then "
                                          "repair it. Or commit it as it is: lzy-protect --force {}", path, was->name, ShellQuote(dataset))};
}

std::optional<std::string> ProvenSidecar(FileSystem& fs, const std::string& directory, const std::string& name) {
  return fs.Memo<ProvenOwners>().SidecarOf(fs, directory, name);
}

std::optional<std::string> ProvenHome(FileSystem& fs, const std::string& directory, const std::string& sidecar) {
  return fs.Memo<ProvenOwners>().HomeOf(fs, directory, sidecar);
}

void RememberProven(FileSystem& fs, const std::string& directory, const std::string& name, const std::string& sidecar) {
  fs.Memo<ProvenOwners>().Remember(fs, directory, name, sidecar);
}

void AddToReach(FileSystem& fs, const std::string& directory) {
  fs.Memo<Around>().AddToReach(RealDirectory(fs, directory));
}

void AddToReach(FileSystem& fs, std::function<std::vector<std::string>()> directories, Reach which) {
  fs.Memo<Around>().AddToReach(std::move(directories), which);
}

// A sidecar that has kept its name is still found for the file. A new sidecar, a record of a set, or a set that has the file
// as a member tells of it, too.
std::vector<LeftBare> TakeLeftBare(FileSystem& fs) {
  std::vector<LeftBare> bare;
  for (auto& [path, user] : fs.Memo<ProvenOwners>().TakeUsers()) {
    const auto own = SidecarPath(path);
    const bool has_own = own.ok() && *own != user.sidecar && fs.Stat(*own, /*follow=*/false).ok();
    // A repair renames no sidecar to a name that is taken, but it may have recorded the times of the other file.
    const auto kept = PeekSidecar(fs, user.sidecar);
    const auto by = kept.ok() ? fs.Stat(user.by, /*follow=*/false) : Result<FileStat>(kept.status());
    const bool recorded = by.ok() && IsSameFile(*by, kept->stamp) && HasSizeAndTime(*by, kept->stamp);
    if (kept.status().code() != Code::kNotFound && !recorded) continue;
    if (!has_own && fs.Stat(path, /*follow=*/false).ok() && !IsToldOf(fs, path) && !IsClaimedByASet(fs, path)) {
      bare.push_back(std::move(user));
    }
  }
  return bare;
}

std::vector<std::string> SidecarsInReach(FileSystem& fs, const std::string& here) {
  const std::string real = RealDirectory(fs, here);
  std::vector<std::string> paths = fs.Memo<Around>().AllInReach(fs, real);
  std::erase_if(paths, [&](const std::string& path) { return DirectoryOf(path) == real; });
  return paths;
}

}  // namespace lzy
