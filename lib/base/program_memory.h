#pragma once
// Memory that a program passes to MPI, read and written by the kernel. lzy does not know what such memory is: a device
// may own it, or it may be no longer there. MPI libraries have their own ways to such memory, and programs that use them
// are right. So lzy must not be ended by a signal there. A test before an access is not enough, because the program may
// unmap memory and map something else there at any time. Here each access is its own test.
//
// process_vm_readv and process_vm_writev do this. A process may always use them on itself, whatever
// kernel.yama.ptrace_scope says. A sandbox may forbid them (seccomp); then all calls here fail.
//
// A call costs about 0.3 us, and 0.05 us for each page. All functions are thread-safe, and work after a fork.

#include <sys/uio.h>

#include <span>

#include "base/bytes.h"

namespace lzy {

/// Copies to.size() bytes. False if not all of them can be read; then `to` has anything.
bool ReadProgramMemory(const std::uint8_t* from, MutableByteSpan to) noexcept;
/// The same from several places, one after the other. Precondition: together they have to.size() bytes.
bool ReadProgramMemory(std::span<const iovec> from, MutableByteSpan to) noexcept;
/// Copies `from` to `to`. False if not all of it can be written; then a part may be written.
bool WriteProgramMemory(std::uint8_t* to, ByteSpan from) noexcept;

}  // namespace lzy
