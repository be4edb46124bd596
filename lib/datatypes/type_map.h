#pragma once
// From MPI datatypes to layouts: what MPI_Type_get_envelope and MPI_Type_get_contents tell, put together.

#include <mpi.h>

#include <cstddef>
#include <limits>

#include "datatypes/layout.h"
#include "datatypes/type_contents.h"

namespace lzy::datatypes {

/// Intel MPI, of which less is believed.
bool IsIntelMpi();

constexpr std::size_t kMostTypeParts = std::size_t{1} << 16;
/// As a limit: whatever it takes. For data that must be moved, not only told.
constexpr std::size_t kAllTypeParts = std::numeric_limits<std::size_t>::max();

struct TypeMap {
  /// Where the data of one element lie, from its origin on, as the standard says.
  Layout layout;
  /// The type is of a form with which an MPI library is known to write elsewhere, or is not known well enough to say.
  bool doubtful = false;
  /// Made of vectors and subarrays only, and not doubtful: what all MPI libraries get right in memory, too.
  bool regular = true;
};

/// Holds no handles: `type` may be freed. Exact as long as all types within need no more than `limit` (>= 1) parts
/// altogether; neighbours are joined to hulls beyond that. What nests too deeply, takes too long or is built in a way
/// that is not known here is a hull, too, by what MPI says of its bounds, and doubtful. No work is too long with
/// kAllTypeParts.
/// Throws std::overflow_error when a byte lies beyond what an offset can say.
TypeMap MapOf(MPI_Datatype type, std::size_t limit = kMostTypeParts);

}  // namespace lzy::datatypes
