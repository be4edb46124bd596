#pragma once
// Common code of the two file systems over the operating system: every operation is relative to an open directory.
// PosixFileSystem (directory_posix.cc) passes the working directory. GuardedFileSystem (file_guarded.cc) passes directories
// that it holds open, so exchanging a name in the path above has no effect. Only for use within lib/base.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/file.h"

namespace lzy::posix {

inline constexpr int kMaxSymlinks = 40;  // as in the kernel

/// A name in a directory: the arguments of *at() system calls, and the path for messages.
struct Place {
  std::shared_ptr<const Descriptor> directory;  ///< null: the working directory
  std::string name;                             ///< relative to it
  std::string path;                             ///< for messages
  /// The first argument of openat() and its relatives.
  int at() const { return directory ? directory->get() : AT_FDCWD; }
};

/// Repeats a system call as long as a signal interrupts it. `call` returns a negative number and sets errno on failure.
template <class Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// "path: operation: strerror", with advice for errors such as a full disk. ENOENT is kNotFound, ENOMEM kNoMemory,
/// everything else kIo.
Status SystemError(const std::string& path, std::string_view operation, int error);
/// kInvalidArgument: "path: not a regular file".
Status NotRegular(const std::string& path);
/// Returns kInvalidArgument if the path contains a NUL. A name from a hostile sidecar could contain one. The system would
/// cut the name there and open another file.
Status CheckPath(const std::string& path);

/// For system calls that set times.
timespec FromNs(std::int64_t ns);
/// statx of `name` in `directory`. `flags`: AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH. It mounts nothing on demand, like stat.
/// `path` is for messages.
Result<FileStat> StatAt(int directory, const char* name, int flags, const std::string& path);

/// An ACL (base/acl.h) of an open file or directory. Empty if there is none. `path` is for messages.
Result<std::vector<std::uint8_t>> ReadAcl(int fd, const char* name, const std::string& path);
/// Extended attributes of the name space `user` of an open file or directory. `path` is for messages. Empty if the file
/// system has none.
Result<Attributes> UserAttributes(int fd, const std::string& path);
/// Sets extended attributes of any name space.
Status SetUserAttributes(int fd, const std::string& path, const Attributes& attributes);

/// Each function does the work of the FileSystem function with the same name, for a Place. For FreeBytes and List, the
/// Place is the directory itself. `may_map`: the file may be mapped into the memory of this process (base/many_writers.h),
/// which is a tool of lzy and not a user's program.
Result<std::unique_ptr<File>> Open(const Place& place, OpenMode mode, bool follow, std::uint32_t create_mode, bool may_map);
Result<FileStat> Stat(const Place& place, bool follow);
Result<std::uint64_t> FreeBytes(const Place& directory);
Status Rename(const Place& from, const Place& to);
Result<bool> RenameIfAbsent(const Place& from, const Place& to);
Status Remove(const Place& place);
Result<std::string> ReadLink(const Place& place);
Status MakeLink(const std::string& text, const Place& place, const FileStat& like);
Status MakeHardLink(const Place& of, const Place& place);
Result<Attributes> DirectoryAttributes(const Place& directory);
Status SetDirectory(const Place& directory, const FileStat& like, const Attributes& attributes);
Status SyncDirectory(const Place& place);
Result<std::vector<DirectoryEntry>> ListEntries(const Place& place);
Result<std::vector<std::string>> List(const Place& place);
std::string View();

}  // namespace lzy::posix
