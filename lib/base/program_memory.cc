#include "base/program_memory.h"

#include <unistd.h>

#include <algorithm>
#include <climits>

namespace lzy {
namespace {

using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// The kernel copies at most 2 GiB at once, and reports an unreachable page only if it is the first one.
bool CopyAll(Copy copy, std::uint8_t* theirs, std::uint8_t* own, std::size_t size) noexcept {
  while (size > 0) {
    const iovec here{own, size}, there{theirs, size};
    const ssize_t copied = copy(getpid(), &here, 1, &there, 1, 0);
    if (copied <= 0) return false;
    theirs += copied;
    own += copied;
    size -= static_cast<std::size_t>(copied);
  }
  return true;
}

}  // namespace

bool ReadProgramMemory(const std::uint8_t* from, MutableByteSpan to) noexcept {
  return CopyAll(process_vm_readv, const_cast<std::uint8_t*>(from), to.data(), to.size());
}

bool ReadProgramMemory(std::span<const iovec> from, MutableByteSpan to) noexcept {
  while (!from.empty()) {
    const auto batch = from.first(std::min<std::size_t>(from.size(), IOV_MAX));
    std::size_t size = 0;
    for (const iovec& one : batch) size += one.iov_len;
    const iovec here{to.data(), size};
    if (process_vm_readv(getpid(), &here, 1, batch.data(), batch.size(), 0) != static_cast<ssize_t>(size)) return false;
    to = to.subspan(size);
    from = from.subspan(batch.size());
  }
  return true;
}

bool WriteProgramMemory(std::uint8_t* to, ByteSpan from) noexcept {
  return CopyAll(process_vm_writev, to, const_cast<std::uint8_t*>(from.data()), from.size());
}

}  // namespace lzy
