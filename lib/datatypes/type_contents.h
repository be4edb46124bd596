#pragma once
// MPI's description of a datatype: its extents, and the call that made it. type_map.cc follows these contents down to
// predefined types. This module hides the differences between MPI-3 and MPI-4, and between calls with and without large
// counts.
//
// Calls only PMPI_ names, so neither tools of the program nor the hooks see these calls.

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace lzy::datatypes {

/// Size and bounds of a type (bytes). The "true" bounds are those of the data; MPI_Type_create_resized sets the others.
struct TypeShape {
  MPI_Count size = 0;
  MPI_Count lower = 0, extent = 0;
  MPI_Count true_lower = 0, true_extent = 0;

  /// False for MPI_DATATYPE_NULL, and if MPI reports nothing.
  bool Read(MPI_Datatype type);
};

/// The call that made a type: its arguments, in the order of the call, whether or not it was one with large counts; and
/// the types that it was made of, which are released with this. If `types` is empty, the type is predefined.
class TypeContents {
 public:
  TypeContents() = default;
  TypeContents(const TypeContents&) = delete;
  TypeContents& operator=(const TypeContents&) = delete;
  ~TypeContents();

  /// False if MPI reports nothing, or if there are more than `most` numbers of one kind. They use about 30 bytes of memory
  /// each, only while the type is examined. Call it once.
  bool Read(MPI_Datatype type, std::uint64_t most);
  /// MPI_Type_get_value_index made it, of two predefined types.
  bool IsValueIndex() const;

  int combiner = MPI_COMBINER_NAMED;
  std::vector<std::int64_t> numbers;
  std::vector<MPI_Datatype> types;

 private:
  void Arrange(const std::vector<int>& integers, const std::vector<MPI_Aint>& addresses,
               const std::vector<MPI_Count>& counts);
};

}  // namespace lzy::datatypes
