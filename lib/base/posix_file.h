#pragma once
// One open file of the operating system. file_posix.cc reads and writes its bytes, file_attributes_posix.cc handles times,
// owner and access. Only for use within lib/base.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_posix.h"
#include "base/late_file.h"
#include "base/many_writers.h"
#include "base/shared_pages.h"

namespace lzy::posix {

/// A regular file, by its descriptor. Also remembers its name, for O_DIRECT and for a temporary file beside it. The
/// directory of the name is a weak pointer: a GuardedFileSystem may close directories that it no longer needs.
class PosixFile final : public File, public LateFile, public ManyWriters {
 public:
  /// `may_map`: see Open (base/file_posix.h).
  PosixFile(const Place& place, Descriptor fd, const FileStat& stat, bool may_map)
      : path_(place.path),
        name_(place.name),
        relative_(place.directory != nullptr),
        directory_(place.directory),
        fd_(std::move(fd)),
        at_opening_(stat),
        may_map_(may_map) {}
  /// Releases the lock first. A close does not tell FUSE file systems that an OFD lock ends: their servers keep the lock
  /// until they release the descriptor, which can be seconds later.
  ~PosixFile() override {
    if (locked_) Unlock();
  }

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override;
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override;
  void ExpectReading() override;
  std::uint64_t NextData(std::uint64_t offset) override;
  Status WriteAt(std::uint64_t offset, ByteSpan from) override;
  void ExpectWriters(unsigned here, unsigned elsewhere) override;
  void StartWriting(std::uint64_t offset, std::uint64_t length) override;
  Status Truncate(std::uint64_t size) override;
  Status Sync() override;
  Result<FileStat> Stat() override;
  bool may_see_late() override;
  Status Refresh() override;
  void ForgetPages() override;
  Result<FileStat> StatAtOpening() override { return at_opening_; }
  bool StampsEveryChange() override;
  Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) override;
  Result<std::vector<std::uint8_t>> AccessAcl() override;
  Status CopyAccess(File& like) override;
  Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) override;
  Result<Attributes> UserAttributes() override { return posix::UserAttributes(fd_.get(), path_); }
  Status SetUserAttributes(const Attributes& attributes) override { return posix::SetUserAttributes(fd_.get(), path_, attributes); }
  Status Lock() override;
  std::optional<LockHolder> FindLockHolder() override;
  const std::string& path() const override { return path_; }
  int SystemDescriptor() const override { return fd_.get(); }

 private:
  Status Error(std::string_view operation, int error) const { return SystemError(path_, operation, error); }
  Status ReadError(std::uint64_t offset, std::size_t size, int error) const;
  Status CheckRange(std::uint64_t offset, std::uint64_t size) const;
  /// The descriptor for O_DIRECT, opened at first use; -1 if the file system does not support it.
  int DirectDescriptor();
  Descriptor OpenDirect() const;
  /// Reads with O_DIRECT from `fd`. kInvalidArgument if the file system does not support it after all.
  Result<std::size_t> ReadDirect(int fd, std::uint64_t offset, MutableByteSpan to);
  /// Writes back and drops the cached pages of the range, then reads.
  Result<std::size_t> DropAndRead(std::uint64_t offset, MutableByteSpan to);
  Status WriteByCalls(std::uint64_t offset, ByteSpan from);
  Status ChangeMode(std::uint32_t mode);
  void Unlock();
  /// Sets owner and group as far as allowed; returns the file's state afterwards.
  Result<FileStat> ChangeOwner(const FileStat& want);

  /// The name of the file and its directory. nullopt if the directory has been closed meanwhile.
  std::optional<Place> Whereabouts() const {
    Place place{directory_.lock(), name_, path_};
    return relative_ && !place.directory ? std::nullopt : std::optional(std::move(place));
  }

  const std::string path_;
  const std::string name_;
  // True if name_ is relative to directory_, false if to the working directory.
  const bool relative_;
  const std::weak_ptr<const Descriptor> directory_;
  const Descriptor fd_;
  const FileStat at_opening_;
  const bool may_map_;
  // Set while pages are the faster way for some of the writers (ExpectWriters).
  std::unique_ptr<SharedPages> pages_;
  // True if no other process writes. Then one thread at a time writes by calls, and the others do not wait for it.
  bool one_by_calls_ = false;
  std::atomic_flag calling_;
  std::atomic<bool> locked_{false};
  std::once_flag direct_once_;
  Descriptor direct_;
  // Cleared for good by the first thread that finds that O_DIRECT does not work; the descriptor stays open.
  std::atomic<bool> direct_works_{false};
  std::once_flag whole_once_;
  // Number of bytes from the beginning that had no hole at the first check.
  std::uint64_t whole_ = 0;
};

}  // namespace lzy::posix
