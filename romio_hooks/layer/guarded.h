#pragma once

#include <exception>

#include "hooks/layer/say.h"

namespace lzy::hooks {

/// Runs the layer's own work: whatever goes wrong in it must not reach the program. False when it was left unfinished.
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
