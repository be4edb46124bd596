// The bytes of one open file: reading through and past the page cache, writing, syncing, locking. Its times and access are
// in file_attributes_posix.cc, operations on names in directory_posix.cc. Both file systems open their files here (Open at
// the end).
//
// Invariants: no call raises SIGXFSZ or blocks on a FIFO, because lzy runs inside other programs. Every call that a
// signal can interrupt is repeated.

#include "base/file_posix.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <thread>

#include "base/posix_file.h"
#include "base/printable.h"
#include "fmt/format.h"

namespace lzy::posix {

namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // Linux stops a little short of 2 GiB
constexpr std::size_t kDirectAlignment = 4096;              // also covers sectors of 512 bytes
constexpr std::size_t kDirectBufferSize = std::size_t{4} << 20;

/// Advice for the user about an error, if it is not obvious; empty for most errors.
std::string Remedy(const std::string& path, int error) {
  switch (error) {
    case ENOSPC: {
      const std::string directory = ShellQuote(DirectoryOf(path));
      return fmt::format(" (make room there: df -h {0}; df -i {0})", directory);
    }
    case EDQUOT:
      return " (make room there, or have the quota raised)";
    case EFBIG:
      return " (the limit is that of ulimit -f, or of the file system)";
    default:
      return "";
  }
}

/// Errors by which Linux reports a range that the medium cannot read. EIO comes from the page cache. Under O_DIRECT the
/// codes of the block layer are returned (blk_errors[] in block/blk-core.c). File systems with checksums have codes of
/// their own. All of these are erasures to be repaired, not failures of the operation.
bool IsMediumError(int error) {
  return error == EIO || error == ENODATA || error == EREMOTEIO || error == EILSEQ || error == EBADMSG ||
         error == EUCLEAN;
}

/// True if a write up to `end` would exceed RLIMIT_FSIZE. The kernel would raise SIGXFSZ, which would kill the program. So
/// check before each write.
bool ExceedsFileSizeLimit(std::uint64_t end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}

/// By OpenMode: kRead, kReadWrite, kCreate, kCreateNew.
constexpr int kOpenFlags[] = {O_RDONLY, O_RDWR, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_EXCL};

}  // namespace

Status SystemError(const std::string& path, std::string_view operation, int error) {
  Code code = error == ENOENT ? Code::kNotFound : error == ENOMEM ? Code::kNoMemory : Code::kIo;
  return Status(code, fmt::format("{}: {}: {}{}", path, operation, std::generic_category().message(error),
                                  Remedy(path, error)));
}

Status NotRegular(const std::string& path) {
  return Status(Code::kInvalidArgument, path + ": not a regular file");
}

Status CheckPath(const std::string& path) {
  if (path.find('\0') == std::string::npos) return Status::Ok();
  return Status(Code::kInvalidArgument, path.substr(0, path.find('\0')) + ": path with a NUL character in it");
}

// Bad media are kUnreadable, with offset and size, because a repair can correct them. All other errors are kIo.
Status PosixFile::ReadError(std::uint64_t offset, std::size_t size, int error) const {
  if (!IsMediumError(error)) return Error(fmt::format("read at offset {}", offset), error);
  return Status(Code::kUnreadable, fmt::format("{}: read of {} bytes at offset {}: {}", path_, size, offset,
                                               std::generic_category().message(error)));
}

// Offsets may come from a hostile sidecar. The casts below would turn offsets beyond off_t into other, valid ones.
Status PosixFile::CheckRange(std::uint64_t offset, std::uint64_t size) const {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (offset <= kLimit && size <= kLimit - offset) return Status::Ok();
  return Status(Code::kInvalidArgument,
                fmt::format("{}: {} bytes at offset {} are beyond what a file can hold", path_, size, offset));
}

// Short reads are repeated until the buffer is full or the file ends. Signals and network file systems cause them, too.
Result<std::size_t> PosixFile::ReadAt(std::uint64_t offset, MutableByteSpan to) {
  LZY_RETURN_IF_ERROR(CheckRange(offset, to.size()));
  std::size_t done = 0;
  while (done < to.size()) {
    std::size_t want = std::min(to.size() - done, kMaxTransfer);
    ssize_t got = Retry([&] { return pread(fd_.get(), to.data() + done, want, static_cast<off_t>(offset + done)); });
    if (got < 0) return ReadError(offset + done, want, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void PosixFile::ExpectReading() {
  (void)posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

// If a file has as many blocks as its size needs, it has no holes, and the kernel need not be asked for each piece. On
// tmpfs each such question takes the lock of writers, so readers on many cores would wait for each other.
std::uint64_t PosixFile::NextData(std::uint64_t offset) {
  std::call_once(whole_once_, [this] {
    constexpr std::uint64_t kUnit = 512;  // of st_blocks, on every file system
    struct stat raw {};
    if (fstat(fd_.get(), &raw) != 0) return;
    const auto size = static_cast<std::uint64_t>(raw.st_size);
    if (static_cast<std::uint64_t>(raw.st_blocks) * kUnit >= size) whole_ = size;
  });
  if (offset < whole_) return offset;
  const off_t data = lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
  if (data >= 0) return static_cast<std::uint64_t>(data);
  return errno == ENXIO ? std::numeric_limits<std::uint64_t>::max() : offset;
}

Result<std::size_t> PosixFile::ReadAtUncached(std::uint64_t offset, MutableByteSpan to) {
  LZY_RETURN_IF_ERROR(CheckRange(offset, to.size()));
  if (to.empty()) return std::size_t{0};
  // Some file systems accept O_DIRECT at open and refuse only the read. Then use the other method, for good.
  if (int direct = DirectDescriptor(); direct >= 0) {
    Result<std::size_t> got = ReadDirect(direct, offset, to);
    if (got.ok() || got.status().code() != Code::kInvalidArgument) return got;
    direct_works_ = false;
  }
  return DropAndRead(offset, to);
}

int PosixFile::DirectDescriptor() {
  std::call_once(direct_once_, [this] {
    direct_ = OpenDirect();
    direct_works_ = direct_.valid();
  });
  return direct_works_ ? direct_.get() : -1;
}

// Opens a second descriptor, because O_DIRECT on the first one would need aligned writes. Through /proc it is the same
// file, even after a rename or removal. Without /proc it is opened by name; file system and inode then show whether it is the
// same.
Descriptor PosixFile::OpenDirect() const {
  constexpr int kFlags = O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  Descriptor direct(Retry([&] { return open(self.c_str(), kFlags); }));
  if (direct.valid()) return direct;
  const auto place = Whereabouts();
  if (!place) return Descriptor();
  const int flags = kFlags | (relative_ ? O_NOFOLLOW : 0);
  Descriptor by_name(Retry([&] { return openat(place->at(), place->name.c_str(), flags); }));
  struct stat ours {};
  struct stat theirs {};
  bool same = by_name.valid() && fstat(fd_.get(), &ours) == 0 && fstat(by_name.get(), &theirs) == 0 &&
              ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
  return same ? std::move(by_name) : Descriptor();
}

// O_DIRECT needs aligned offsets, lengths and buffers. So this reads in two phases: whole sectors straight into `to` if
// everything is aligned, then the rest through an aligned buffer that covers a little more than the range.
Result<std::size_t> PosixFile::ReadDirect(int fd, std::uint64_t offset, MutableByteSpan to) {
  std::size_t done = 0;
  if (offset % kDirectAlignment == 0 && reinterpret_cast<std::uintptr_t>(to.data()) % kDirectAlignment == 0) {
    // Phase 1: whole sectors, without a copy. It ends at the first read that stops within a sector.
    const std::size_t whole = to.size() / kDirectAlignment * kDirectAlignment;
    while (done < whole) {
      const ssize_t got = Retry([&] {
        return pread(fd, to.data() + done, std::min(whole - done, kMaxTransfer), static_cast<off_t>(offset + done));
      });
      if (got < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) return Status(Code::kInvalidArgument, "no O_DIRECT");
      if (got < 0) return ReadError(offset + done, whole - done, errno);
      done += static_cast<std::size_t>(got) / kDirectAlignment * kDirectAlignment;
      if (got == 0 || static_cast<std::size_t>(got) % kDirectAlignment != 0) break;
    }
    if (done == to.size()) return done;
  }
  // Phase 2: from the sector of the next byte on, through the buffer.
  const std::uint64_t end = offset + to.size();
  std::uint64_t at = (offset + done) / kDirectAlignment * kDirectAlignment;
  const std::uint64_t span = (end - at + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  const auto buffer_size = static_cast<std::size_t>(std::min<std::uint64_t>(span, kDirectBufferSize));
  std::unique_ptr<std::uint8_t, decltype(&std::free)> buffer(
      static_cast<std::uint8_t*>(std::aligned_alloc(kDirectAlignment, buffer_size)), &std::free);
  if (!buffer) return Error("read", ENOMEM);

  while (done < to.size()) {
    // Invariant: `at` is aligned and at most offset + done, which is less than at + kDirectAlignment.
    ssize_t got = Retry([&] { return pread(fd, buffer.get(), buffer_size, static_cast<off_t>(at)); });
    if (got < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) return Status(Code::kInvalidArgument, "no O_DIRECT");
    if (got < 0) return ReadError(at, buffer_size, errno);
    const std::uint64_t read_end = at + static_cast<std::uint64_t>(got);
    const std::uint64_t from = offset + done;
    if (read_end > from) {
      auto count = static_cast<std::size_t>(std::min(read_end, end) - from);
      std::copy_n(buffer.get() + (from - at), count, to.data() + done);
      done += count;
    }
    if (read_end <= from || static_cast<std::size_t>(got) % kDirectAlignment != 0) {
      // The read ended within a sector. Usually this is the end of the file. If not, the next sector is bad, or the file
      // system behaves in its own way. Then use the other method, for this read only.
      if (done == to.size()) break;
      LZY_ASSIGN_OR_RETURN(FileStat stat, Stat());
      if (read_end < stat.size) return DropAndRead(offset, to);
      break;
    }
    at = read_end;
  }
  return done;
}

Result<std::size_t> PosixFile::DropAndRead(std::uint64_t offset, MutableByteSpan to) {
  // Dirty pages cannot be dropped, so they are written back first. The kernel reports a write error to a descriptor only
  // once. So it is returned here, because a later Sync() would not see it.
  if (Retry([&] { return fdatasync(fd_.get()); }) != 0 && errno != EINVAL && errno != EROFS) {
    return Error("fdatasync", errno);
  }
  const std::uint64_t start = offset / kDirectAlignment * kDirectAlignment;
  // The kernel drops only whole pages, so the range is extended to whole pages.
  const std::uint64_t length = offset + to.size() - start + kDirectAlignment;
  posix_fadvise(fd_.get(), static_cast<off_t>(start), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  return ReadAt(offset, to);
}

Status PosixFile::WriteAt(std::uint64_t offset, ByteSpan from) {
  LZY_RETURN_IF_ERROR(CheckRange(offset, from.size()));
  if (from.empty()) return Status::Ok();
  if (ExceedsFileSizeLimit(offset + from.size())) return Error("write", EFBIG);
  std::size_t done = 0;
  while (done < from.size()) {
    std::size_t want = std::min(from.size() - done, kMaxTransfer);
    ssize_t put = Retry([&] { return pwrite(fd_.get(), from.data() + done, want, static_cast<off_t>(offset + done)); });
    // A write of 0 bytes without an error would loop forever.
    if (put <= 0) return Error(fmt::format("write at offset {}", offset + done), put < 0 ? errno : EIO);
    done += static_cast<std::size_t>(put);
  }
  return Status::Ok();
}

// If the system cannot do this, the data are written when they are synced. So errors do not matter here.
void PosixFile::StartWriting(std::uint64_t offset, std::uint64_t length) {
  (void)sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
}

Status PosixFile::Truncate(std::uint64_t size) {
  LZY_RETURN_IF_ERROR(CheckRange(size, 0));
  // Only growth raises SIGXFSZ. A file that is already longer than the limit may be cut.
  if (ExceedsFileSizeLimit(size)) {
    LZY_ASSIGN_OR_RETURN(FileStat stat, Stat());
    if (size > stat.size) return Error("truncate", EFBIG);
  }
  if (Retry([&] { return ftruncate(fd_.get(), static_cast<off_t>(size)); }) != 0) return Error("truncate", errno);
  return Status::Ok();
}

// fsync, not fdatasync: a commit compares the mtime, so the mtime must be as durable as the data.
Status PosixFile::Sync() {
  if (Retry([&] { return fsync(fd_.get()); }) != 0) return Error("fsync", errno);
  return Status::Ok();
}

namespace {

// Zeros mean: from offset 0 to the end, and l_pid 0, which OFD locks require.
struct flock WholeFile(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Status PosixFile::Lock() {
  // OFD locks belong to the open file description. POSIX locks would be lost as soon as any descriptor of the file is
  // closed anywhere in the process.
  struct flock lock = WholeFile(F_WRLCK);
  if (Retry([&] { return fcntl(fd_.get(), F_OFD_SETLK, &lock); }) == 0) {
    locked_ = true;
    return Status::Ok();
  }
  switch (int error = errno; error) {
    // POSIX allows both codes if another process holds the lock.
    case EAGAIN:
    case EACCES:
      return Status(Code::kBusy, path_ + ": locked by another process");
    case EBADF:
      return Status(Code::kInvalidArgument, path_ + ": lock: not open for writing");
    // Some file systems ask the server only now whether the file still exists.
    case ENOENT:
    case ESTALE:
      return Status(Code::kNotFound, path_ + ": lock: another node has just replaced or removed the file. Try again");
    case ENOLCK:
    case EOPNOTSUPP:
    case ENOSYS:
      return Error("lock: not supported by this file system", error);
    default:
      return Error("lock", error);
  }
}

void PosixFile::Unlock() {
  struct flock lock = WholeFile(F_UNLCK);
  (void)Retry([&] { return fcntl(fd_.get(), F_OFD_SETLK, &lock); });
}

// OFD locks of this machine have no process: l_pid is -1. A server may report the process of another node.
std::optional<LockHolder> PosixFile::FindLockHolder() {
  struct flock lock = WholeFile(F_WRLCK);
  const bool told = Retry([&] { return fcntl(fd_.get(), F_OFD_GETLK, &lock); }) == 0;
  if (!told || lock.l_type == F_UNLCK) return std::nullopt;
  return LockHolder{lock.l_pid > 0 ? lock.l_pid : 0};
}

Result<std::unique_ptr<File>> Open(const Place& place, OpenMode mode, bool follow, std::uint32_t create_mode) {
  const std::string& path = place.path;
  LZY_RETURN_IF_ERROR(CheckPath(path));
  // Opening a FIFO waits for the other end. O_NONBLOCK prevents this until the file is known to be regular.
  const int flags = kOpenFlags[static_cast<std::size_t>(mode)] | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
                    (follow ? 0 : O_NOFOLLOW);
  const auto open = [&] { return Retry([&] { return openat(place.at(), place.name.c_str(), flags, static_cast<mode_t>(create_mode)); }); };
  Descriptor fd(open());
  // Another node has just replaced the file, and this node still has the old one under its name. The system has retried
  // once; servers may need longer.
  for (int look = 0; !fd.valid() && errno == ESTALE && look < 3; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100) * (1 << look));
    fd = Descriptor(open());
  }
  if (!fd.valid()) {
    int error = errno;
    if (error == ELOOP && !follow) return Status(Code::kInvalidArgument, path + ": is a symbolic link");
    if (error == EISDIR || error == ENXIO || error == ENODEV) return NotRegular(path);
    return SystemError(path, "open", error);
  }
  LZY_ASSIGN_OR_RETURN(const FileStat stat, StatAt(fd.get(), "", AT_EMPTY_PATH, path));
  if (stat.type != FileStat::Type::kRegular) return NotRegular(path);
  // Of the flags above, only O_NONBLOCK can be changed.
  if (fcntl(fd.get(), F_SETFL, 0) != 0) return SystemError(path, "open", errno);
  return std::unique_ptr<File>(std::make_unique<PosixFile>(place, std::move(fd), stat));
}

}  // namespace lzy::posix
