#pragma once
// File systems in front of another one.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy {

/// Passes everything on: for file systems that differ in one thing.
class PassingFileSystem : public FileSystem {
 public:
  explicit PassingFileSystem(FileSystem& fs) : fs_(fs) {}
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow,
                                     std::uint32_t create_mode) override {
    return fs_.Open(path, mode, follow, create_mode);
  }
  Result<FileStat> Stat(const std::string& path, bool follow) override { return fs_.Stat(path, follow); }
  Status Rename(const std::string& from, const std::string& to) override { return fs_.Rename(from, to); }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override {
    return fs_.RenameIfAbsent(from, to);
  }
  Status Remove(const std::string& path) override { return fs_.Remove(path); }
  Status SyncDirectory(const std::string& path) override { return fs_.SyncDirectory(path); }
  Result<std::vector<std::string>> List(const std::string& path) override { return fs_.List(path); }
  Status MakeDirectories(const std::string& path) override { return fs_.MakeDirectories(path); }
  Result<std::string> RealPath(const std::string& path) override { return fs_.RealPath(path); }

 protected:
  FileSystem& fs_;
};

/// Counts operations on names: what a parallel file system's metadata server has to do. A list counts once for each
/// name in it. Calls may come from several threads.
class CountingFileSystem final : public PassingFileSystem {
 public:
  using PassingFileSystem::PassingFileSystem;
  std::uint64_t operations() const { return operations_; }
  /// Lists of directories, and the names in them, which are among the operations.
  std::uint64_t lists() const { return lists_; }
  std::uint64_t listed() const { return listed_; }

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode, bool follow,
                                     std::uint32_t create_mode) override {
    ++operations_;
    return PassingFileSystem::Open(path, mode, follow, create_mode);
  }
  Result<FileStat> Stat(const std::string& path, bool follow) override {
    ++operations_;
    return PassingFileSystem::Stat(path, follow);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    ++operations_;
    return PassingFileSystem::Rename(from, to);
  }
  Result<bool> RenameIfAbsent(const std::string& from, const std::string& to) override {
    ++operations_;
    return PassingFileSystem::RenameIfAbsent(from, to);
  }
  Status Remove(const std::string& path) override {
    ++operations_;
    return PassingFileSystem::Remove(path);
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return Count(PassingFileSystem::List(path));
  }
  Result<std::vector<DirectoryEntry>> ListEntries(const std::string& path) override {
    return Count(fs_.ListEntries(path));
  }

 private:
  template <class List>
  List Count(List list) {
    ++lists_;
    listed_ += list.ok() ? list->size() : 1;
    operations_ += list.ok() ? list->size() : 1;
    return list;
  }

  std::atomic<std::uint64_t> operations_ = 0;
  std::atomic<std::uint64_t> lists_ = 0;
  std::atomic<std::uint64_t> listed_ = 0;
};

}  // namespace lzy
