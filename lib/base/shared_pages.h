#pragma once
// Writing one file with several threads at the same time. Only for use within lib/base; others call ExpectWriters (base/many_writers.h).
//
// A kernel lets one call of write at a time into a file. Mapped pages have no such lock, so several cores can write them.
// docs/performance/cores.md has measurements, docs/design/overview.md §3, "Many writers of one file", what can go wrong.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace lzy::posix {

/// Decides between calls and mapped pages, for a file of `size` bytes and so many writers at the same time. True if pages
/// are faster: from three writers on, on a tmpfs, in a file of some MiB. On a tmpfs a call costs as much processor time as
/// the copy, and there is no device behind the pages that would be the bound. LZY_PARITY_WRITES=calls or =pages overrides
/// the number of writers, for measurements (docs/performance/cores.md).
bool PagesBeatCalls(int fd, std::uint64_t size, unsigned writers);

/// The beginning of a file, mapped. Only the kernel touches the pages (process_vm_writev), so a file that is cut meanwhile,
/// or a full file system, is an error and no SIGBUS. Thread-safe.
class SharedPages {
 public:
  /// Maps `size` bytes of a file that is open for reading and writing. Null if the system cannot do this.
  static std::unique_ptr<SharedPages> Map(int fd, std::uint64_t size);
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  /// Copies `from` into the file at `offset`. False: the file system is full, the range is not in the mapping or not in the
  /// file, or the system forbids it. Then some of the bytes may have been written; write all of them again by a call, which
  /// reports the reason. The file never becomes longer.
  bool Write(std::uint64_t offset, ByteSpan from) noexcept;

  std::uint64_t size() const { return size_; }

 private:
  SharedPages(int fd, std::uint8_t* begin, std::uint64_t size) : fd_(fd), begin_(begin), size_(size) {}

  const int fd_;
  std::uint8_t* const begin_;
  const std::uint64_t size_;
};

}  // namespace lzy::posix
