#pragma once
// From MPI datatypes to layouts: what MPI_Type_get_envelope and MPI_Type_get_contents tell, put together.

#include <mpi.h>

#include <cstddef>

#include "layout.h"

namespace lzy::hooks {

constexpr std::size_t kMostTypeParts = std::size_t{1} << 16;

struct TypeMap {
  /// Where the data of one element lie, from its origin on, as the standard says.
  Layout layout;
  /// The type is of a form with which an MPI library is known to write elsewhere.
  bool doubtful = false;
};

/// Holds no handles: `type` may be freed. Exact as long as all types within need no more than `limit` (>= 1) parts
/// altogether; what goes beyond that, nests too deeply or is built in a way that is not known here becomes hulls, by
/// what MPI says of bounds. Throws std::overflow_error when a byte lies beyond what an offset can say.
TypeMap MapOf(MPI_Datatype type, std::size_t limit = kMostTypeParts);

}  // namespace lzy::hooks
