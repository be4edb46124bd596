#pragma once
// What the two file systems over the operating system (file_posix.cc and directory_posix.cc; file_guarded.cc) have in common: every operation
// relative to a directory that is open. For use within lib/base.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace lzy::posix {

/// A descriptor, closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Something in a directory.
struct Place {
  std::shared_ptr<const Descriptor> directory;  ///< null: the working directory
  std::string name;                             ///< relative to it
  std::string path;                             ///< for messages
  int at() const { return directory ? directory->get() : AT_FDCWD; }
};

/// Repeats a system call that a signal interrupted.
template <class Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Status SystemError(const std::string& path, std::string_view operation, int error);
Status NotRegular(const std::string& path);
/// A name from a sidecar could hold a NUL, at which the system would cut it and open something else.
Status CheckPath(const std::string& path);

/// Of `name` in `directory`. `flags`: AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH. Mounts nothing, as stat does not. `path` is for messages.
Result<FileStat> StatAt(int directory, const char* name, int flags, const std::string& path);

/// As the functions of FileSystem that have their names.
Result<std::unique_ptr<File>> Open(const Place& place, OpenMode mode, bool follow, std::uint32_t create_mode);
Result<FileStat> Stat(const Place& place, bool follow);
Result<std::uint64_t> FreeBytes(const Place& directory);
Status Rename(const Place& from, const Place& to);
Result<bool> RenameIfAbsent(const Place& from, const Place& to);
Status Remove(const Place& place);
Status SyncDirectory(const Place& place);
Result<std::vector<std::string>> List(const Place& place);

}  // namespace lzy::posix
