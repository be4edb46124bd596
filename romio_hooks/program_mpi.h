#pragma once
// The MPI library of the program that liblzy_mpiio.so was preloaded into or linked with, and the layer for it.

#include <atomic>

#include "layer.h"
#include "real.h"

namespace lzy::hooks {

/// The function `name` ("PMPI_...") of the program's MPI; nullptr, with one line on stderr, when it has none.
void* FindReal(const char* name) noexcept;
/// What a wrapper returns when there is no real function: no MPI_SUCCESS in any MPI.
inline constexpr int kNoRealFunction = 15;

/// One function of the program's MPI, looked up when first called.
template <class Function>
class Real;

template <class... Arguments>
class Real<int(Arguments...)> {
 public:
  explicit constexpr Real(const char* name) : name_(name) {}
  int operator()(Arguments... arguments) {
    Pointer function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Pointer>(FindReal(name_));
      if (function == nullptr) return kNoRealFunction;
      function_.store(function, std::memory_order_release);
    }
    return function(arguments...);
  }

 private:
  using Pointer = int (*)(Arguments...);
  const char* name_;
  std::atomic<Pointer> function_{nullptr};
};

/// The layer once it is loaded, else nullptr.
inline std::atomic<const Layer*> loaded_layer{nullptr};

/// Loads the layer, by the first call of those that a program may begin with. nullptr when there is none for the
/// program's MPI, which is said on stderr once, or LZY_DISABLE is set.
const Layer* StartLayer() noexcept;
inline const Layer* LoadedLayer() noexcept {
  return loaded_layer.load(std::memory_order_acquire);
}

}  // namespace lzy::hooks
