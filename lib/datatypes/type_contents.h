#pragma once
// What MPI tells of a datatype.

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace lzy::datatypes {

/// In numbers.
struct TypeShape {
  MPI_Count size = 0;
  MPI_Count lower = 0, extent = 0;
  MPI_Count true_lower = 0, true_extent = 0;

  /// False when there is no such type.
  bool Read(MPI_Datatype type);
};

/// The call that made a type: its arguments, in the order of the call whether it was one with large counts or not, and
/// the types it was made of, which are released with this. No `types`: a predefined type.
class TypeContents {
 public:
  TypeContents() = default;
  TypeContents(const TypeContents&) = delete;
  TypeContents& operator=(const TypeContents&) = delete;
  ~TypeContents();

  /// False when MPI does not tell, or when it has more than `most` numbers of one kind to tell. They are in memory only
  /// while the type is looked at, some 30 bytes for each.
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
