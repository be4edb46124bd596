#pragma once
// Converts MPI datatypes to layouts, from the results of MPI_Type_get_envelope and MPI_Type_get_contents.
//
// The hooks call MapOf at MPI_File_set_view and for buffers; Payload (transport/packed_type) for messages. Contents
// describe the meaning in the standard. MPI libraries differ from it in known cases (ROMIO, Intel MPI); then the map is
// `doubtful`, and a caller that must not miss a byte takes the whole file.

#include <mpi.h>

#include <cstddef>
#include <limits>

#include "datatypes/data_layout.h"
#include "datatypes/type_contents.h"

namespace lzy::datatypes {

/// True under Intel MPI, which is trusted less (see MapOf in type_map.cc). Asks MPI once.
bool IsIntelMpi();

/// Limit of parts for a map that only gives the places of data. Some megabytes of memory at most; beyond that, hulls.
constexpr std::size_t kMostTypeParts = std::size_t{1} << 16;
/// No limit: for data that must be moved, so every run counts.
constexpr std::size_t kAllTypeParts = std::numeric_limits<std::size_t>::max();

struct TypeMap {
  /// The places of the data of one element, relative to its origin, as the standard defines them.
  DataLayout layout;
  /// The type is of a form with which an MPI library is known to write elsewhere, or is not known well enough to say.
  bool doubtful = false;
  /// The layout is exactly that of the standard, even if MPI libraries treat the type otherwise.
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
