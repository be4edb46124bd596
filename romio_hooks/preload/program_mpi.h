#pragma once
// Finds the MPI library of the program that liblzy_mpiio.so was preloaded into or linked with, and loads the layer that
// was built for it (docs/design/hooks.md "Two halves").
//
// exports.cc calls this from every wrapped function. `caller` is the return address of that function, so it lies in the
// code that called MPI. Everything here is local, thread-safe and usable before MPI_Init. Nothing throws. After any failure
// the program runs as without lzy. This half is linked to no MPI and uses only the room `contract`.

#include <atomic>

#include "hooks/contract/layer.h"

namespace lzy::hooks {

/// The function `name` of the MPI that the code at `caller` uses; nullptr if there is none. Never a function of this
/// library. For "PMPI_X" it is MPI's own function. For "MPI_X" it is the function of the next library in the order of the
/// dynamic linker, which may be a tool's.
void* FindReal(const char* name, const void* caller) noexcept;
/// Returned by a wrapper if there is no real function. It differs from MPI_SUCCESS in all MPI libraries.
inline constexpr int kNoRealFunction = 15;
/// Writes "lzy: WHERE: WHAT" to stderr, unless the launcher's variables say that this is not the first process of its job.
void SayInFirstProcess(const char* where, const char* what) noexcept;

/// One function of the program's MPI, looked up at its first call. A constinit static of each wrapper, so it needs no
/// guard. Two threads may look it up at once and find the same.
template <class Function>
class Real;

template <class... Arguments>
class Real<int(Arguments...)> {
 public:
  explicit constexpr Real(const char* name) : name_(name) {}
  /// Call this before the operator. False if there is no such function; the first time, a line on stderr says so.
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

/// The layer, or nullptr as long as it is not loaded. It is never unloaded.
inline std::atomic<const Layer*> loaded_layer{nullptr};

/// Loads the layer at the first call. Only calls that a program may begin with call this. Later calls return the same
/// result. nullptr if LZY_DISABLE is set, or if there is no layer for the program's MPI; in the second case one message
/// says so.
const Layer* StartLayer(const void* caller) noexcept;
/// For all other wrapped calls: loads nothing.
inline const Layer* LoadedLayer(const void*) noexcept {
  return loaded_layer.load(std::memory_order_acquire);
}

}  // namespace lzy::hooks
