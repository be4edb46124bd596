#pragma once
// Restricts a process that parses hostile files.

namespace lzy {

/// Limits memory and CPU time, forbids writing to files and new processes, and closes inherited descriptors above 3.
void LimitResources();

/// From now on, system calls fail (EPERM) unless they read, write to open descriptors, or allocate memory: no files,
/// processes or network. Does nothing on systems where lzy cannot do this, or with AddressSanitizer, which needs more.
void ForbidSystemCalls();

}  // namespace lzy
