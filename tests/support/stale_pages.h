#pragma once
// One file system in memory, mounted by several nodes, each of which keeps pages, names, sizes and times that others may have
// changed since: as network file systems do (FUSE, NFS). Nothing is revalidated by time, so what a node has once read stays as it was.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/late_file.h"
#include "memory_files.h"
#include "passing_files.h"

namespace lzy::testing {

/// One node: its page cache, and the names that it knows. Several ranks of the node use one object.
class NodeFileSystem final : public PassingFileSystem {
 public:
  static constexpr std::uint64_t kPage = 1024;

  /// `stale_names`: a name means the file that it had when this node opened it first, until the node lists its directory, or
  /// changes the name.
  NodeFileSystem(MemoryFileSystem& server, std::uint64_t device, bool stale_names)
      : PassingFileSystem(server), server_(server), device_(device), stale_names_(stale_names) {}

  /// From now on this node keeps size and times of each file as it saw them first, until File::Refresh has been called `looks` times.
  /// `contents`: and the pages until the first such call, also for those who read from the device, as caches of small files do.
  void SeeLate(int looks, bool contents) {
    looks_ = looks;
    late_contents_ = looks > 0 && contents;
  }
  bool may_see_late() const { return stale_names_ || looks_ > 0; }

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow, std::uint32_t create_mode) override;
  Result<FileStat> Stat(const std::string& path, bool follow) override {
    auto stat = PassingFileSystem::Stat(path, follow);
    if (!stat.ok()) return stat;
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(stat->inode); known != known_.end()) *stat = known->second.stat;
    stat->file_system = device_;
    return stat;
  }
  Status Rename(const std::string& from, const std::string& to) override {
    Forget({from, to});
    return PassingFileSystem::Rename(from, to);
  }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override {
    Forget({from, to});
    return PassingFileSystem::RenameIfAbsent(from, to);
  }
  Status Remove(const std::string& path) override {
    Forget({path});
    return PassingFileSystem::Remove(path);
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(names_, [&](const auto& one) { return DirectoryOf(one.first) == path; });
    }
    return PassingFileSystem::List(path);
  }
  std::string View() override { return fmt::format("{}, device {}", FileSystem::View(), device_); }

  /// Readings that found a page in the cache, and in it something that the file has no more.
  std::uint64_t stale_readings() const {
    const std::lock_guard lock(mutex_);
    return stale_readings_;
  }

  /// Calls of File::Refresh.
  std::uint64_t refreshes() const {
    const std::lock_guard lock(mutex_);
    return refreshes_;
  }

  /// Writings to files of lzy.
  std::uint64_t sidecar_writes() const {
    const std::lock_guard lock(mutex_);
    return sidecar_writes_;
  }

 private:
  friend class NodeFile;
  using Pages = std::map<std::uint64_t, std::vector<std::uint8_t>>;  // by number; each kPage bytes, or less at the end
  struct Known {
    FileStat stat;
    int looks = 0;  // since it was seen first
  };
  void Forget(const std::vector<std::string>& paths) {
    const std::lock_guard lock(mutex_);
    for (const std::string& path : paths) names_.erase(path);
  }

  MemoryFileSystem& server_;
  const std::uint64_t device_;
  const bool stale_names_;
  mutable std::mutex mutex_;
  int looks_ = 0;
  bool late_contents_ = false;
  std::map<std::uint64_t, Known> known_;  // by inode, if this node sees late
  std::map<std::uint64_t, Pages> pages_;  // by inode
  std::map<std::string, std::shared_ptr<MemoryFileSystem::Node>> names_;
  std::uint64_t stale_readings_ = 0, refreshes_ = 0, sidecar_writes_ = 0;
};

/// A file as a node sees it. What is written goes to the file system at once, byte for byte, and into the node's pages.
class NodeFile final : public File, public LateFile {
 public:
  NodeFile(NodeFileSystem& node, std::unique_ptr<File> file, std::uint64_t inode)
      : node_(node), file_(std::move(file)), inode_(inode) {}

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override {
    const std::lock_guard lock(node_.mutex_);
    LZY_ASSIGN_OR_RETURN(const FileStat stat, Seen());
    const std::uint64_t end = std::min(stat.size, offset + to.size());
    if (offset >= end) return std::size_t{0};
    for (std::uint64_t at = offset; at < end;) {
      LZY_ASSIGN_OR_RETURN(std::vector<std::uint8_t>* const page, PageAt(at / NodeFileSystem::kPage));
      const std::uint64_t begin = at % NodeFileSystem::kPage;
      const std::uint64_t count = std::min(NodeFileSystem::kPage - begin, end - at);
      std::copy_n(page->begin() + static_cast<std::ptrdiff_t>(begin), count, to.begin() + static_cast<std::ptrdiff_t>(at - offset));
      at += count;
    }
    std::vector<std::uint8_t> now(end - offset);
    LZY_ASSIGN_OR_RETURN(const std::size_t there, file_->ReadAt(offset, now));
    node_.stale_readings_ += there != now.size() || !std::equal(now.begin(), now.end(), to.begin());
    return now.size();
  }
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override {
    if (node_.late_contents_) return ReadAt(offset, to);
    const std::lock_guard lock(node_.mutex_);
    LZY_ASSIGN_OR_RETURN(const FileStat stat, Seen());
    const std::uint64_t end = std::min(stat.size, offset + to.size());
    return offset >= end ? std::size_t{0} : file_->ReadAtUncached(offset, to.first(end - offset));
  }
  Status WriteAt(std::uint64_t offset, ByteSpan from) override {
    const std::lock_guard lock(node_.mutex_);
    const auto see = Changing();
    node_.sidecar_writes_ += BaseNameOf(path()).starts_with(".LZY");
    // A page that is written in part is read first.
    for (std::uint64_t page = offset / NodeFileSystem::kPage; page * NodeFileSystem::kPage < offset + from.size(); ++page) {
      LZY_ASSIGN_OR_RETURN(std::vector<std::uint8_t>* const bytes, PageAt(page));
      for (std::uint64_t i = 0; i < bytes->size(); ++i) {
        const std::uint64_t at = page * NodeFileSystem::kPage + i;
        if (at >= offset && at < offset + from.size()) (*bytes)[i] = from[at - offset];
      }
    }
    LZY_RETURN_IF_ERROR(file_->WriteAt(offset, from));
    return see([&](FileStat& stat) { stat.size = std::max(stat.size, offset + from.size()); });
  }
  Status Truncate(std::uint64_t size) override {
    const std::lock_guard lock(node_.mutex_);
    const auto see = Changing();
    auto& pages = node_.pages_[inode_];
    pages.erase(pages.lower_bound(size / NodeFileSystem::kPage), pages.end());
    LZY_RETURN_IF_ERROR(file_->Truncate(size));
    return see([&](FileStat& stat) { stat.size = size; });
  }
  Status Sync() override { return file_->Sync(); }
  Result<FileStat> Stat() override {
    const std::lock_guard lock(node_.mutex_);
    return Seen();
  }
  bool may_see_late() override { return node_.may_see_late(); }
  void ForgetPages() override {
    const std::lock_guard lock(node_.mutex_);
    node_.pages_.erase(inode_);
  }
  Status Refresh() override {
    const std::lock_guard lock(node_.mutex_);
    ++node_.refreshes_;
    const auto there = node_.server_.nodes().find(path());
    if (there == node_.server_.nodes().end() || there->second->stat.inode != inode_) return {Code::kNotFound, path() + ": was replaced"};
    if (node_.late_contents_) node_.pages_.erase(inode_);
    const auto known = node_.known_.find(inode_);
    if (known != node_.known_.end() && ++known->second.looks >= node_.looks_) node_.known_.erase(known);
    return Status::Ok();
  }
  Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) override {
    const std::lock_guard lock(node_.mutex_);
    const auto see = Changing();
    LZY_RETURN_IF_ERROR(file_->SetTimes(atime_ns, mtime_ns));
    return see([](FileStat&) {});
  }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return file_->AccessAcl(); }
  Status CopyAccess(File& like) override { return file_->CopyAccess(like); }
  Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) override { return file_->SetAccess(mode, uid, gid); }
  Status Lock() override { return file_->Lock(); }
  const std::string& path() const override { return file_->path(); }

 private:
  // What this node sees of the file; node_.mutex_ is held, as for all that follow.
  Result<FileStat> Seen() {
    if (const auto known = node_.known_.find(inode_); known != node_.known_.end()) return known->second.stat;
    LZY_ASSIGN_OR_RETURN(FileStat stat, file_->Stat());
    stat.file_system = node_.device_;
    if (node_.looks_ > 0) node_.known_[inode_] = {stat};
    return stat;
  }
  // To be called before this node changes the file. What it returns is called afterwards: the node knows what it did itself, and the
  // time that this got.
  std::function<Status(const std::function<void(FileStat&)>&)> Changing() {
    (void)Seen();
    return [this](const std::function<void(FileStat&)>& change) -> Status {
      const auto known = node_.known_.find(inode_);
      if (known == node_.known_.end()) return Status::Ok();
      LZY_ASSIGN_OR_RETURN(const FileStat now, file_->Stat());
      known->second.stat.mtime_ns = now.mtime_ns;
      known->second.stat.ctime_ns = now.ctime_ns;
      change(known->second.stat);
      return Status::Ok();
    };
  }
  // The node's page of this number: what it keeps, or what is there now. node_.mutex_ is held.
  Result<std::vector<std::uint8_t>*> PageAt(std::uint64_t number) {
    std::vector<std::uint8_t>& page = node_.pages_[inode_][number];
    if (page.empty()) {
      page.resize(NodeFileSystem::kPage);  // zeros behind the end
      LZY_RETURN_IF_ERROR(file_->ReadAt(number * NodeFileSystem::kPage, page).status());
    }
    return &page;
  }

  NodeFileSystem& node_;
  const std::unique_ptr<File> file_;
  const std::uint64_t inode_;
};

inline Result<std::unique_ptr<File>> NodeFileSystem::Open(const std::string& path, OpenMode mode, bool follow, std::uint32_t create_mode) {
  std::unique_ptr<File> file;
  if (stale_names_ && mode != OpenMode::kCreateNew) {
    const std::lock_guard lock(mutex_);
    if (const auto known = names_.find(path); known != names_.end()) file = std::make_unique<MemoryFile>(server_, path, known->second);
  }
  if (!file) {
    LZY_ASSIGN_OR_RETURN(file, PassingFileSystem::Open(path, mode, follow, create_mode));
    const std::lock_guard lock(mutex_);
    if (const auto there = server_.nodes().find(path); there != server_.nodes().end()) names_[path] = there->second;
  }
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  return std::unique_ptr<File>(std::make_unique<NodeFile>(*this, std::move(file), stat.inode));
}

}  // namespace lzy::testing
