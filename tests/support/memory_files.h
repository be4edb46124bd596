#pragma once
// Files in memory, with the misfortunes that real ones have: bad sectors, wrong first readings, a full disk, a crash of
// the process at any operation, writes that are torn or lost, readings of what was there before, and a loss of power
// that keeps any part of what was not synced.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy::testing {

/// What was done to a file or a directory, as far as a loss of power cares.
struct StorageOp {
  enum class Kind { kCreate, kWrite, kTruncate, kSetTimes, kSync, kRename, kRemove, kSyncDirectory };
  Kind kind;
  std::string path;           ///< kSyncDirectory: of the directory
  std::uint64_t inode = 0;    ///< of the file
  std::int64_t mtime_ns = 0;  ///< of the file, from then on
  std::uint64_t offset = 0;   ///< kWrite; kTruncate: the new size
  std::vector<std::uint8_t> bytes = {};  ///< kWrite
  std::string to = {};                   ///< kRename
};

class MemoryFileSystem final : public FileSystem {
 public:
  enum class Op { kRead, kWrite, kTruncate, kSync, kRename, kRemove, kCreate, kSetTimes };
  /// Called before every operation; a Status that is not ok is what the caller gets, and nothing is done.
  std::function<Status(Op, const std::string& path, std::uint64_t offset, std::uint64_t length)> fault;
  /// How storage deceives whoever reads or writes.
  struct Lie {
    enum class Kind {
      kNone,
      kTorn,        ///< of a write: its first bytes are done, and it fails
      kTornMutely,  ///< of a write: its first bytes are done, and it is said to be done
      kLost,        ///< of a write: nothing is done, and it is said to be done
      kStale,       ///< of a read: as it was before the last write that changed it
    };
    Kind kind = Kind::kNone;
    std::uint64_t bytes = 0;  ///< that are done, of a torn write
  };
  /// Called before every read and write that `fault` lets pass. May be empty.
  std::function<Lie(Op, const std::string& path, std::uint64_t offset, std::uint64_t length, bool uncached)> lie;
  /// Told of every operation that was done and is in StorageOp, in their order. May be empty.
  std::function<void(const StorageOp&)> record;
  /// The time that files are stamped with.
  std::function<std::int64_t()> now = [] { return CoarseNowNs(); };
  std::uint64_t uncached_reads = 0;
  /// How often each file was locked, by inode. Locking again through the descriptor that has the lock does not count.
  std::map<std::uint64_t, int> lockings;
  /// SetTimes keeps no parts of seconds.
  bool whole_seconds = false;
  /// As most network file systems and FUSE: nothing tells when a file was made.
  bool without_births = false;
  /// MakeHardLink works. It is not recorded: make links before.
  bool hard_links = false;
  /// What would make a file larger fails, as with the limit that every file system has.
  std::uint64_t largest_file = 1u << 30;

  struct Node {
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint8_t> durable;  ///< as of the last sync
    std::vector<std::uint8_t> before;   ///< each byte as it was before it was last written; shorter: as it is
    FileStat stat;
    bool locked = false;
    std::vector<std::pair<std::uint64_t, std::uint64_t>>
        unreadable;  ///< offset, length; written over, they are well again
    std::vector<std::pair<std::uint64_t, std::uint64_t>>
        flaky;  ///< read wrong from the page cache, right from the device
  };

  Node& At(const std::string& path) { return *nodes_.at(path); }
  bool Has(const std::string& path) const { return nodes_.count(path) != 0; }
  /// A file of these bytes, all durable. `mtime_ns` 0: now.
  Node& Put(const std::string& path, std::vector<std::uint8_t> bytes, std::int64_t mtime_ns = 0) {
    auto& node = nodes_[path];
    if (!node) node = std::make_shared<Node>(Fresh(0644));
    node->bytes = node->durable = std::move(bytes);
    node->before.clear();
    node->stat.mtime_ns = mtime_ns != 0 ? mtime_ns : now();
    ++node->stat.ctime_ns;
    return *node;
  }
  const std::map<std::string, std::shared_ptr<Node>>& nodes() const { return nodes_; }

  /// Everything as it is, to come back to.
  std::map<std::string, Node> Copy() const {
    std::map<std::string, Node> out;
    for (const auto& [path, node] : nodes_) out.emplace(path, *node);
    return out;
  }
  void Restore(const std::map<std::string, Node>& copy) {
    ForgetMemos();
    nodes_.clear();
    std::map<std::uint64_t, std::shared_ptr<Node>> linked;  // by inode
    for (const auto& [path, node] : copy) {
      auto& known = linked[node.stat.links > 1 ? node.stat.inode : 0];
      if (node.stat.links == 1 || !known) known = std::make_shared<Node>(node);
      nodes_[path] = known;
      nodes_[path]->locked = false;
    }
  }
  /// The power fails: of what was not synced, each sector is there or not, as chance has it.
  void PowerLoss(std::mt19937_64& rng, std::size_t sector = 4096) {
    ForgetMemos();
    for (auto& [path, node] : nodes_) {
      std::vector<std::uint8_t> left = rng() % 2 != 0 ? node->durable : node->bytes;
      std::vector<std::uint8_t> was = node->durable, is = node->bytes;
      was.resize(left.size(), 0);
      is.resize(left.size(), 0);
      for (std::size_t at = 0; at < left.size(); at += sector) {
        const auto& from = rng() % 2 != 0 ? was : is;
        std::copy(from.begin() + static_cast<std::ptrdiff_t>(at),
                  from.begin() + static_cast<std::ptrdiff_t>(std::min(at + sector, left.size())),
                  left.begin() + static_cast<std::ptrdiff_t>(at));
      }
      node->bytes = node->durable = left;
      node->locked = false;
    }
  }

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool = true,
                                     std::uint32_t create_mode = 0600) override;
  Result<FileStat> Stat(const std::string& path, bool = true) override {
    std::lock_guard lock(mutex_);
    if (IsDirectory(path)) {
      FileStat stat;
      stat.type = FileStat::Type::kDirectory;
      return stat;
    }
    auto at = nodes_.find(path);
    if (at == nodes_.end()) return Absent(path);
    return StatOf(*at->second);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    LZY_RETURN_IF_ERROR(Check(Op::kRename, to, 0, 0));
    std::lock_guard lock(mutex_);
    auto at = nodes_.find(from);
    if (at == nodes_.end()) return Absent(from);
    auto node = at->second;
    nodes_.erase(at);
    if (nodes_[to]) --nodes_[to]->stat.links;
    nodes_[to] = node;
    ++node->stat.ctime_ns;
    Record({.kind = StorageOp::Kind::kRename, .path = from, .to = to}, node.get());
    return Status::Ok();
  }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override {
    LZY_RETURN_IF_ERROR(Check(Op::kRename, to, 0, 0));
    std::lock_guard lock(mutex_);
    auto at = nodes_.find(from);
    if (at == nodes_.end()) return Absent(from);
    if (!nodes_.emplace(to, at->second).second) return false;
    nodes_.erase(from);
    ++nodes_[to]->stat.ctime_ns;
    Record({.kind = StorageOp::Kind::kRename, .path = from, .to = to}, nodes_[to].get());
    return true;
  }
  Status Remove(const std::string& path) override {
    {
      std::lock_guard lock(mutex_);
      if (nodes_.count(path) == 0) return Absent(path);
    }
    LZY_RETURN_IF_ERROR(Check(Op::kRemove, path, 0, 0));
    std::lock_guard lock(mutex_);
    if (nodes_.count(path) == 0) return Absent(path);
    Record({.kind = StorageOp::Kind::kRemove, .path = path}, nodes_[path].get());
    --nodes_[path]->stat.links;
    nodes_.erase(path);
    return Status::Ok();
  }
  Status MakeHardLink(const std::string& of, const std::string& path) override {
    if (!hard_links) return FileSystem::MakeHardLink(of, path);
    std::lock_guard lock(mutex_);
    if (nodes_.count(of) == 0) return Absent(of);
    nodes_[path] = nodes_[of];
    ++nodes_[of]->stat.links;
    ++nodes_[of]->stat.ctime_ns;
    return Status::Ok();
  }
  Status SyncDirectory(const std::string& path) override {
    LZY_RETURN_IF_ERROR(Check(Op::kSync, path, 0, 0));
    std::lock_guard lock(mutex_);
    Record({.kind = StorageOp::Kind::kSyncDirectory, .path = path}, nullptr);
    return Status::Ok();
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, node] : nodes_) {
      if (DirectoryOf(name) == path) names.push_back(BaseNameOf(name));
    }
    return names;
  }
  Status MakeDirectories(const std::string&) override { return Status::Ok(); }
  Result<std::string> RealPath(const std::string& path) override { return path; }

 private:
  friend class MemoryFile;
  static Status Absent(const std::string& path) { return {Code::kNotFound, path + ": No such file or directory"}; }
  Status Check(Op op, const std::string& path, std::uint64_t offset, std::uint64_t length) {
    return fault ? fault(op, path, offset, length) : Status::Ok();
  }
  Lie LieOf(Op op, const std::string& path, std::uint64_t offset, std::uint64_t length, bool uncached) {
    return lie ? lie(op, path, offset, length, uncached) : Lie();
  }
  void Record(StorageOp op, const Node* node) const {
    if (!record) return;
    if (node != nullptr) {
      op.inode = node->stat.inode;
      op.mtime_ns = node->stat.mtime_ns;
    }
    record(op);
  }
  bool IsDirectory(const std::string& path) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& one) { return DirectoryOf(one.first) == path; });
  }
  Node Fresh(std::uint32_t mode) {
    Node node;
    node.stat.inode = ++inodes_;
    node.stat.file_system = 7;
    node.stat.mode = mode;
    node.stat.mtime_ns = node.stat.ctime_ns = node.stat.birth_ns = now();
    if (without_births) node.stat.birth_ns = 0;
    return node;
  }
  static FileStat StatOf(const Node& node) {
    FileStat stat = node.stat;
    stat.size = node.bytes.size();
    return stat;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Node>> nodes_;
  std::uint64_t inodes_ = 100;
};

class MemoryFile final : public File {
 public:
  using Op = MemoryFileSystem::Op;
  using Lie = MemoryFileSystem::Lie::Kind;
  MemoryFile(MemoryFileSystem& fs, std::string path, std::shared_ptr<MemoryFileSystem::Node> node)
      : fs_(fs), path_(std::move(path)), node_(std::move(node)) {}
  ~MemoryFile() override {
    std::lock_guard lock(fs_.mutex_);
    if (holds_lock_) node_->locked = false;
  }

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override { return Read(offset, to, false); }
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override {
    return Read(offset, to, true);
  }

  Status WriteAt(std::uint64_t offset, ByteSpan from) override {
    LZY_RETURN_IF_ERROR(fs_.Check(Op::kWrite, path_, offset, from.size()));
    const auto lie = fs_.LieOf(Op::kWrite, path_, offset, from.size(), false);
    std::lock_guard lock(fs_.mutex_);
    if (TooLarge(offset) || TooLarge(offset + from.size())) return {Code::kIo, path_ + ": File too large"};
    if (lie.kind != Lie::kNone) return WriteWrongly(offset, from, lie);
    Put(offset, from);
    std::erase_if(node_->unreadable,
                  [&](const auto& r) { return r.first >= offset && r.first + r.second <= offset + from.size(); });
    node_->stat.mtime_ns = fs_.now();
    if (!fs_.record) return Status::Ok();  // spares the copy
    fs_.Record({.kind = StorageOp::Kind::kWrite, .path = path_, .offset = offset, .bytes = {from.begin(), from.end()}},
               node_.get());
    return Status::Ok();
  }
  Status Truncate(std::uint64_t size) override {
    LZY_RETURN_IF_ERROR(fs_.Check(Op::kTruncate, path_, size, 0));
    std::lock_guard lock(fs_.mutex_);
    if (TooLarge(size)) return {Code::kIo, path_ + ": File too large"};
    node_->bytes.resize(size, 0);
    if (node_->before.size() > size) node_->before.resize(size);
    node_->stat.mtime_ns = fs_.now();
    fs_.Record({.kind = StorageOp::Kind::kTruncate, .path = path_, .offset = size}, node_.get());
    return Status::Ok();
  }
  Status Sync() override {
    LZY_RETURN_IF_ERROR(fs_.Check(Op::kSync, path_, 0, 0));
    std::lock_guard lock(fs_.mutex_);
    node_->durable = node_->bytes;
    fs_.Record({.kind = StorageOp::Kind::kSync, .path = path_}, node_.get());
    return Status::Ok();
  }
  Result<FileStat> Stat() override {
    std::lock_guard lock(fs_.mutex_);
    return MemoryFileSystem::StatOf(*node_);
  }
  Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) override {
    LZY_RETURN_IF_ERROR(fs_.Check(Op::kSetTimes, path_, 0, 0));
    std::lock_guard lock(fs_.mutex_);
    node_->stat.atime_ns = atime_ns;
    node_->stat.mtime_ns = fs_.whole_seconds ? mtime_ns / kNsPerSecond * kNsPerSecond : mtime_ns;
    ++node_->stat.ctime_ns;
    fs_.Record({.kind = StorageOp::Kind::kSetTimes, .path = path_}, node_.get());
    return Status::Ok();
  }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return std::vector<std::uint8_t>(); }
  Status CopyAccess(File& like) override {
    LZY_ASSIGN_OR_RETURN(const FileStat stat, like.Stat());
    node_->stat.mode = stat.mode & 0666;
    return Status::Ok();
  }
  Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) override {
    node_->stat.mode = mode;
    node_->stat.uid = uid;
    node_->stat.gid = gid;
    return Status::Ok();
  }
  Status Lock() override {
    std::lock_guard lock(fs_.mutex_);
    if (holds_lock_) return Status::Ok();
    if (node_->locked) return {Code::kBusy, path_ + ": locked"};
    node_->locked = holds_lock_ = true;
    ++fs_.lockings[node_->stat.inode];
    return Status::Ok();
  }
  std::optional<LockHolder> FindLockHolder() override {
    std::lock_guard lock(fs_.mutex_);
    return node_->locked && !holds_lock_ ? std::optional(LockHolder()) : std::nullopt;
  }
  const std::string& path() const override { return path_; }

 private:
  void Put(std::uint64_t offset, ByteSpan from) {
    auto& bytes = node_->bytes;
    if (bytes.size() < offset + from.size()) bytes.resize(offset + from.size(), 0);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    if (fs_.lie) {  // spares the copy
      auto& before = node_->before;
      if (before.size() < offset + from.size()) {
        before.insert(before.end(), bytes.begin() + static_cast<std::ptrdiff_t>(before.size()),
                      begin + static_cast<std::ptrdiff_t>(from.size()));
      }
      std::copy_n(begin, from.size(), before.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    std::copy(from.begin(), from.end(), begin);
  }
  Status WriteWrongly(std::uint64_t offset, ByteSpan from, const MemoryFileSystem::Lie& lie) {
    const std::size_t done = lie.kind == Lie::kLost ? 0 : std::min<std::size_t>(lie.bytes, from.size());
    Put(offset, from.first(done));
    node_->stat.mtime_ns = fs_.now();
    if (lie.kind == Lie::kTorn) return {Code::kIo, path_ + ": Input/output error"};
    if (node_->bytes.size() < offset + from.size()) node_->bytes.resize(offset + from.size(), 0);
    return Status::Ok();
  }
  bool TooLarge(std::uint64_t size) const { return size > fs_.largest_file && size > node_->bytes.size(); }
  static bool Overlaps(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges, std::uint64_t offset,
                       std::uint64_t length) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& r) { return r.first < offset + length && offset < r.first + r.second; });
  }
  Result<std::size_t> Read(std::uint64_t offset, MutableByteSpan to, bool uncached) {
    LZY_RETURN_IF_ERROR(fs_.Check(Op::kRead, path_, offset, to.size()));
    const auto lie = fs_.LieOf(Op::kRead, path_, offset, to.size(), uncached);
    std::lock_guard lock(fs_.mutex_);
    if (uncached) ++fs_.uncached_reads;
    if (Overlaps(node_->unreadable, offset, to.size())) return {Code::kUnreadable, path_ + ": Input/output error"};
    const auto& bytes = node_->bytes;
    const std::size_t count = offset >= bytes.size() ? 0 : std::min<std::size_t>(to.size(), bytes.size() - offset);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(offset, bytes.size())), count,
                to.begin());
    const auto& before = node_->before;
    if (lie.kind == Lie::kStale && offset < before.size()) {
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(offset),
                  std::min<std::size_t>(count, before.size() - offset), to.begin());
    }
    if (!uncached && !node_->flaky.empty()) {
      for (std::size_t i = 0; i < count; ++i) {
        if (Overlaps(node_->flaky, offset + i, 1)) to[i] ^= 0x40;
      }
    }
    return count;
  }

  MemoryFileSystem& fs_;
  const std::string path_;
  const std::shared_ptr<MemoryFileSystem::Node> node_;
  bool holds_lock_ = false;
};

inline Result<std::unique_ptr<File>> MemoryFileSystem::Open(const std::string& path, OpenMode mode, bool,
                                                            std::uint32_t create_mode) {
  std::shared_ptr<Node> node;
  {
    std::lock_guard lock(mutex_);
    auto at = nodes_.find(path);
    if (at != nodes_.end()) node = at->second;
  }
  if (node && mode == OpenMode::kCreateNew) return Status(Code::kIo, path + ": File exists");
  if (!node && (mode == OpenMode::kRead || mode == OpenMode::kReadWrite)) return Absent(path);
  if (!node) {
    LZY_RETURN_IF_ERROR(Check(Op::kCreate, path, 0, 0));
    std::lock_guard lock(mutex_);
    node = nodes_[path] = std::make_shared<Node>(Fresh(create_mode));
    Record({.kind = StorageOp::Kind::kCreate, .path = path}, node.get());
  }
  return std::unique_ptr<File>(std::make_unique<MemoryFile>(*this, path, node));
}

}  // namespace lzy::testing
