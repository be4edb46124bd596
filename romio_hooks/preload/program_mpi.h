#pragma once
// The MPI library of the program that liblzy_mpiio.so was preloaded into or linked with, and the layer for it.

#include <atomic>

#include "hooks/layer/layer.h"
#include "hooks/layer/real.h"

namespace lzy::hooks {

/// The function `name` ("PMPI_...") of the MPI that code at `caller` uses; nullptr when it has none. By a name of the
/// other kind ("MPI_..."), the one that comes next after this library's, which may be a tool's.
void* FindReal(const char* name, const void* caller) noexcept;
/// What a wrapper returns when there is no real function: no MPI_SUCCESS in any MPI.
inline constexpr int kNoRealFunction = 15;
/// "lzy: WHERE: WHAT" on stderr, if this is the first process of its job.
void SayInFirstProcess(const char* where, const char* what) noexcept;

/// One function of the program's MPI, looked up when first called.
template <class Function>
class Real;

template <class... Arguments>
class Real<int(Arguments...)> {
 public:
  explicit constexpr Real(const char* name) : name_(name) {}
  /// To be asked before calling it. False, and one line on stderr once, when there is no such function.
  bool Ready(const void* caller) {
    if (function_.load(std::memory_order_acquire) != nullptr) return true;
    const auto function = reinterpret_cast<Pointer>(FindReal(name_, caller));
    if (function != nullptr) {
      function_.store(function, std::memory_order_release);
      return true;
    }
    if (!told_.exchange(true)) SayInFirstProcess("the program's MPI lacks", name_);
    return false;
  }
  int operator()(Arguments... arguments) { return function_.load(std::memory_order_acquire)(arguments...); }

 private:
  using Pointer = int (*)(Arguments...);
  const char* name_;
  std::atomic<Pointer> function_{nullptr};
  std::atomic<bool> told_{false};
};

/// The layer once it is loaded, else nullptr.
inline std::atomic<const Layer*> loaded_layer{nullptr};

/// Loads the layer, by the first call of those that a program may begin with. nullptr when there is none for the
/// program's MPI, which is said on stderr once, or LZY_DISABLE is set.
const Layer* StartLayer(const void* caller) noexcept;
inline const Layer* LoadedLayer(const void*) noexcept {
  return loaded_layer.load(std::memory_order_acquire);
}

}  // namespace lzy::hooks
