#pragma once
// Functions that a loaded library calls in other libraries, replaced for this library alone. The dynamic linker keeps their
// addresses in a table of the library (the global offset table), and this is where they are exchanged. So no symbol is
// exported: all other code of the process calls what it has always called, and programs, sanitizers and tools that have
// functions of the same names keep them.
//
// For x86-64 and AArch64. Elsewhere, no function is found.

#include <link.h>

namespace lzy {

/// One function that one library imports.
class ImportedFunction {
 public:
  /// `library`: as dladdr1 gives it. `name`: of the function, without a version.
  ImportedFunction(const link_map& library, const char* name) noexcept;
  /// False if the library imports no such function.
  bool found() const { return slot_ != nullptr; }
  /// Makes the library call `function` instead, which must have the same type, and may find the other one by dlsym. False if
  /// the system forbids it; then nothing is changed. Precondition: found(). Not at the same time as calls of the library.
  bool Replace(void* function) const noexcept;

 private:
  void** slot_ = nullptr;
  bool read_only_ = false;  ///< the linker has write-protected the table after it filled it (RELRO)
};

}  // namespace lzy
