#include "base/shared_pages.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/file_posix.h"
#include "base/program_memory.h"

namespace lzy::posix {
namespace {

// With two writers, a page costs more than the wait for the other call (docs/performance/cores.md).
constexpr unsigned kLeastWriters = 3;
// Shorter files are written before the mapping pays.
constexpr std::uint64_t kLeastBytes = std::uint64_t{4} << 20;

std::uintptr_t PageSize() {
  static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

bool PagesBeatCalls(int fd, std::uint64_t size, unsigned writers) {
  const char* const given = secure_getenv("LZY_PARITY_WRITES");
  const std::string_view wish = given == nullptr ? "" : given;
  if (wish == "calls" || size < kLeastBytes || (wish != "pages" && writers < kLeastWriters)) return false;
  struct statfs about {};
  return Retry([&] { return fstatfs(fd, &about); }) == 0 && static_cast<std::uint32_t>(about.f_type) == TMPFS_MAGIC;
}

std::unique_ptr<SharedPages> SharedPages::Map(int fd, std::uint64_t size) {
  if (size == 0 || size > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedPages>(new SharedPages(fd, static_cast<std::uint8_t*>(at), size));
}

SharedPages::~SharedPages() {
  munmap(begin_, size_);
}

// The kernel gets all pages of the range at once, which takes the lock of the memory map once. After the copy they leave the
// page table, but not the file: all of them at the end would be the work of one thread.
//
// If somebody cuts the file within a page, this page takes bytes behind the end, and they are lost. So the size is asked
// after the copy. A cut that comes later is like a cut after a call.
bool SharedPages::Write(std::uint64_t offset, ByteSpan from) noexcept {
  if (offset > size_ || from.size() > size_ - offset) return false;
  std::uint8_t* const to = begin_ + offset;
  const bool copied = WriteProgramMemory(to, from);
  const auto begin = reinterpret_cast<std::uintptr_t>(to) / PageSize() * PageSize();
  (void)madvise(reinterpret_cast<void*>(begin), reinterpret_cast<std::uintptr_t>(to) + from.size() - begin, MADV_DONTNEED);
  struct stat about {};
  return copied && fstat(fd_, &about) == 0 && static_cast<std::uint64_t>(about.st_size) >= offset + from.size();
}

}  // namespace lzy::posix
