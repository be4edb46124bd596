#pragma once
// Replaces functions that a loaded library imports from other libraries, for this library alone. The dynamic linker keeps
// their addresses in a table of the library (the global offset table); this class changes the table. No symbol is exported.
// So other code of the process still calls the original functions, and programs, sanitizers and tools may have functions of
// the same names.
//
// For x86-64 and AArch64. Elsewhere, no function is found.

#include <link.h>

namespace lzy {

/// One function that one library imports.
class ImportedFunction {
 public:
  /// `library`: from dladdr1. `name`: name of the function, without a version.
  ImportedFunction(const link_map& library, const char* name) noexcept;
  /// False if the library imports no such function.
  bool found() const { return slot_ != nullptr; }
  /// Makes the library call `function` instead. It must have the same type, and may find the original by dlsym. False if
  /// the system forbids the change; then nothing is changed. Precondition: found(). Not during calls of the library.
  bool Replace(void* function) const noexcept;

 private:
  void** slot_ = nullptr;
  bool read_only_ = false;  ///< the linker write-protected the table after filling it (RELRO)
};

}  // namespace lzy
