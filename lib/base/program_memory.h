#pragma once
// Reads and writes memory of the program through the kernel. The program may pass any memory to MPI: a device may own it,
// or it may be unmapped already. MPI libraries can use such memory, and programs may rely on that, so lzy must not die from
// a signal there. A test before an access is not enough, because the program may unmap memory and map something else there
// at any time. Here the kernel tests each access.
//
// process_vm_readv and process_vm_writev do this. A process may always use them on itself, for any value of
// kernel.yama.ptrace_scope. A sandbox may forbid them (seccomp); then all calls here fail.
//
// A call costs about 0.3 us, and 0.05 us for each page. All functions are thread-safe, and work after a fork.

#include <sys/uio.h>

#include <span>

#include "base/bytes.h"

namespace lzy {

/// Copies to.size() bytes. False if some of them cannot be read; then the content of `to` is undefined.
bool ReadProgramMemory(const std::uint8_t* from, MutableByteSpan to) noexcept;
/// The same from several places, one after the other. Precondition: together they have to.size() bytes.
bool ReadProgramMemory(std::span<const iovec> from, MutableByteSpan to) noexcept;
/// Copies `from` to `to`. False if some bytes cannot be written; then a part may be written.
bool WriteProgramMemory(std::uint8_t* to, ByteSpan from) noexcept;

}  // namespace lzy
