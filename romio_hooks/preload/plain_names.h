#pragma once
// Which files that are written without MPI-IO may be protected, by their names alone (option posix).
//
// The exported calls (plain_exports.cc) ask this before they do anything else. In a process without patterns, the answer costs
// one look at an atomic. The layer decides exactly later. Local, thread-safe; nothing throws.

namespace lzy::hooks {

/// True if the environment has patterns that count: LZY_SET, and with LZY_POSIX=on also LZY_INCLUDE. False with LZY_POSIX=off or
/// LZY_DISABLE. The environment is read at the first call.
bool AnyPlainNames() noexcept;

/// Whether a file `path` may match a pattern. True for some files that do not match; never false for one that does. False
/// for lzy's own files.
bool MayBePlainName(const char* path) noexcept;

}  // namespace lzy::hooks
