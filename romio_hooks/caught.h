#pragma once
// Where several ranks go on together, what one of them does alone must not end in an exception: it would leave the
// others waiting. So each such part is run by Caught, and the ranks Agree on what came of it.

#include <exception>
#include <new>
#include <type_traits>

#include "base/status.h"

namespace lzy::hooks {

/// Runs `work`, which returns a Status or nothing; whatever it throws becomes a Status. (Texts this short need no
/// memory.)
template <class Work>
Status Caught(Work work) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (const std::bad_alloc&) {
    return {Code::kNoMemory, "out of memory"};
  } catch (...) {
    return {Code::kInternal, "an exception"};
  }
}

}  // namespace lzy::hooks
