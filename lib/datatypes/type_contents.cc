// Questions to MPI about a datatype (type_contents.h).

#include "datatypes/type_contents.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lzy::datatypes {
namespace {

#if MPI_VERSION >= 4
using Number = MPI_Count;
#else
using Number = int;
#endif

// How many arguments of each kind the call had. MPI-3 has no calls with large counts, so `counts` stays 0 there.
struct Envelope {
  Number integers = 0, addresses = 0, counts = 0, types = 0;
  int combiner = MPI_COMBINER_NAMED;

  bool Read(MPI_Datatype type) {
#if MPI_VERSION >= 4
    // The older call fails on types made with large counts.
    return PMPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner) == MPI_SUCCESS;
#else
    return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS;
#endif
  }
  bool HasAtMost(std::uint64_t most) const {
    const auto numbers = {integers, addresses, counts, types};
    return std::all_of(numbers.begin(), numbers.end(), [=](Number n) { return n >= 0 && static_cast<std::uint64_t>(n) <= most; });
  }
};

bool MadeOfValueAndIndex([[maybe_unused]] int combiner) {
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  return combiner == MPI_COMBINER_VALUE_INDEX;
#else
  return false;
#endif
}

// Derived types are handed out as new references. Predefined ones must not be freed, those with parameters neither:
// MPI_Type_create_f90_*, which are made of no types, and MPI_Type_get_value_index.
void Release(MPI_Datatype& type) {
  Envelope envelope;
  if (type == MPI_DATATYPE_NULL || !envelope.Read(type)) return;
  if (envelope.types > 0 && !MadeOfValueAndIndex(envelope.combiner)) PMPI_Type_free(&type);
}

}  // namespace

bool TypeShape::Read(MPI_Datatype type) {
  return type != MPI_DATATYPE_NULL && PMPI_Type_size_x(type, &size) == MPI_SUCCESS &&
         PMPI_Type_get_extent_x(type, &lower, &extent) == MPI_SUCCESS &&
         PMPI_Type_get_true_extent_x(type, &true_lower, &true_extent) == MPI_SUCCESS;
}

TypeContents::~TypeContents() {
  for (MPI_Datatype& type : types) Release(type);
}

bool TypeContents::IsValueIndex() const {
  return MadeOfValueAndIndex(combiner);
}

bool TypeContents::Read(MPI_Datatype type, std::uint64_t most) {
  Envelope envelope;
  if (!envelope.Read(type)) return false;
  combiner = envelope.combiner;
  if (envelope.types == 0) return true;  // there are no contents to be had
  if (!envelope.HasAtMost(most)) return false;
  std::vector<int> integers(static_cast<std::size_t>(envelope.integers));
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(envelope.addresses));
  std::vector<MPI_Count> counts(static_cast<std::size_t>(envelope.counts));
  numbers.reserve(integers.size() + addresses.size() + counts.size());
  std::vector<MPI_Datatype> made_of(static_cast<std::size_t>(envelope.types), MPI_DATATYPE_NULL);
#if MPI_VERSION >= 4
  const int code =
      PMPI_Type_get_contents_c(type, envelope.integers, envelope.addresses, envelope.counts, envelope.types,
                               integers.data(), addresses.data(), counts.data(), made_of.data());
#else
  const int code = PMPI_Type_get_contents(type, envelope.integers, envelope.addresses, envelope.types, integers.data(),
                                          addresses.data(), made_of.data());
#endif
  if (code != MPI_SUCCESS) return false;
  types = std::move(made_of);
  Arrange(integers, addresses, counts);
  return true;
}

// MPI returns large counts in an array of their own. They go back to their place in the call: behind the numbers that
// stay ints even there (for arrays, the number of dimensions; for a distributed one, also processes and rank).
void TypeContents::Arrange(const std::vector<int>& integers, const std::vector<MPI_Aint>& addresses,
                           const std::vector<MPI_Count>& counts) {
  numbers.assign(integers.begin(), integers.end());
  std::size_t at = numbers.size();
  if (combiner == MPI_COMBINER_SUBARRAY) at = std::min<std::size_t>(at, 1);
  if (combiner == MPI_COMBINER_DARRAY) at = std::min<std::size_t>(at, 3);
  numbers.insert(numbers.begin() + static_cast<std::ptrdiff_t>(at), counts.begin(), counts.end());
  numbers.insert(numbers.end(), addresses.begin(), addresses.end());
}

}  // namespace lzy::datatypes
