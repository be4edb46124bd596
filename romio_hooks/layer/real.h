#pragma once
// Calls of the MPI library that the layer stands in front of, as both of its halves see them. Knows nothing of mpi.h.

#include <cstdint>
#include <type_traits>

namespace lzy::hooks {

/// An MPI handle as it travels in a register: an int with MPICH, a pointer with Open MPI. Passing the whole word on
/// is right for both, whichever of the two this library was built for.
using Word = std::intptr_t;

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
