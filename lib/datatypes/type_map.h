#pragma once
// From MPI datatypes to layouts: what MPI_Type_get_envelope and MPI_Type_get_contents tell, put together.
//
// The hooks call MapOf at MPI_File_set_view and for buffers; Payload (transport/packed_type) for messages. Contents say
// what the standard demands. MPI libraries differ from it in known cases (ROMIO, Intel MPI), for which a map is
// `doubtful`. A caller that must not miss a byte then takes the whole file.

#include <mpi.h>

#include <cstddef>
#include <limits>

#include "datatypes/layout.h"
#include "datatypes/type_contents.h"

namespace lzy::datatypes {

/// True under Intel MPI, of which less is believed (see MapOf in type_map.cc). Asks MPI once.
bool IsIntelMpi();

/// Parts of a map that only tells where data lie. Some megabytes of memory at most; beyond that, hulls.
constexpr std::size_t kMostTypeParts = std::size_t{1} << 16;
/// No limit: for data that must be moved, so every run counts.
constexpr std::size_t kAllTypeParts = std::numeric_limits<std::size_t>::max();

struct TypeMap {
  /// Where the data of one element lie, from its origin on, as the standard says.
  Layout layout;
  /// The type is of a form with which an MPI library is known to write elsewhere, or is not known well enough to say.
  bool doubtful = false;
  /// The layout is exactly what the standard says of the type, whatever MPI libraries make of it.
  bool defined = false;
  /// Made of contiguous types, vectors and subarrays only, and not doubtful. All MPI libraries get these right in
  /// memory, too.
  bool regular = true;
};

/// The result holds no handles, so `type` may be freed. It is exact if all types within need at most `limit` (>= 1)
/// parts together; beyond that, neighbours are joined to hulls. A type that nests too deeply, takes too long, or is
/// made by a call that is not known here becomes a hull by the bounds that MPI gives, and is doubtful. With
/// kAllTypeParts, nothing takes too long. Local. Throws std::overflow_error if a byte lies beyond what an offset can
/// say.
TypeMap MapOf(MPI_Datatype type, std::size_t limit = kMostTypeParts);

}  // namespace lzy::datatypes
