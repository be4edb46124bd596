#pragma once
// Types for real MPI calls that both halves of the layer use. Does not need mpi.h.

#include <cstdint>
#include <type_traits>

namespace lzy::hooks {

/// An MPI handle as a machine word: an int with MPICH, a pointer with Open MPI. Passing the whole word is right for both,
/// whichever MPI this library was built for.
using Word = std::intptr_t;

/// A real function with its arguments bound. Refers to the callable, which must outlive it.
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
