#pragma once

#include <exception>

#include "hooks/contract/say.h"

namespace lzy::hooks {

/// Runs the layer's own work. No exception may reach the program: it becomes a message, and the result is false.
template <class Work>
bool Guarded(const char* call, Work work) noexcept {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    Say(call, error.what());
  } catch (...) {
    Say(call, "unknown failure");
  }
  return false;
}

}  // namespace lzy::hooks
