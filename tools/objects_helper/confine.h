#pragma once
// What a process that parses hostile files cannot do.

namespace lzy {

/// Limits of memory and time, no files but those that are open, nothing that is inherited beyond descriptor 3.
void LimitResources();

/// From now on, system calls fail (EPERM) unless they read, write what is open, or get memory: no files, processes or
/// network. Does nothing where it is not known how, or with AddressSanitizer, which needs more.
void ForbidSystemCalls();

}  // namespace lzy
