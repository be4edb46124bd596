#pragma once
// The functions of the MPI library that the layer stands in front of. Knows nothing of mpi.h: the program's MPI may be
// another than the one this library was built for, and then everything must pass through untouched.

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace lzy::hooks {

/// An MPI handle as it travels in a register: an int with MPICH, a pointer with Open MPI. Passing the whole word on
/// is right for both, whichever of the two this library was built for.
using Word = std::intptr_t;

/// True when this library may look at handles: the program's MPI is of the family it was built for, and LZY_DISABLE is
/// not set. Says on stderr, once, when it is another MPI. Decided at the first call of Init or Open.
bool Active() noexcept;

/// The function `name` ("PMPI_...") of the program's MPI; nullptr, with one line on stderr, when it has none.
void* FindReal(const char* name) noexcept;
/// What a wrapper returns when there is no real function: MPI_ERR_OTHER.
int NoRealFunction() noexcept;

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
      if (function == nullptr) return NoRealFunction();
      function_.store(function, std::memory_order_release);
    }
    return function(arguments...);
  }

 private:
  using Pointer = int (*)(Arguments...);
  const char* name_;
  std::atomic<Pointer> function_{nullptr};
};

/// A call of a real function with its arguments in place; refers to the callable it is made from.
class RealCall {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, RealCall>)
      RealCall(Callable&& callable)  // NOLINT: implicit on purpose
      : object_(&callable),
        invoke_([](void* object) { return (*static_cast<std::remove_reference_t<Callable>*>(object))(); }) {}
  int operator()() const { return invoke_(object_); }

 private:
  void* object_;
  int (*invoke_)(void*);
};

}  // namespace lzy::hooks
