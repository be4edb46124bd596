#pragma once
// Random datatypes for tests, each with the list of the bytes that it stands for. That list is made element by element
// from what the standard says of each constructor, without looking at the datatype again and without the code under
// test.

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace lzy::hooks {

/// Bytes [at, at + size) of a typemap, in its order.
struct Piece {
  std::int64_t at;
  std::int64_t size;
};

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
/// From the first byte of any piece to the end of the last one; empty without pieces.
Span SpanOf(const std::vector<Piece>& pieces);

/// A datatype, freed with the last copy of this.
struct TestType {
  std::shared_ptr<MPI_Datatype> handle;
  std::vector<Piece> pieces;  ///< neighbours are not joined
  std::string text;           ///< how it was made
  std::int64_t size = 0;
  std::int64_t extent = 0;  ///< by MPI, which may add padding
  // What ROMIO writes to other places than the standard says, anywhere in the type:
  bool padded_pair = false;         ///< a predefined type whose size is not its extent
  bool fortran = false;             ///< one that MPI_Type_create_f90_* made
  bool moved_lower = false;         ///< a lower bound that was set, and not to 0
  bool empty_blocks = false;        ///< empty blocks of an element that is not just contiguous
  bool bounded_blocks = false;      ///< (h)indexed blocks of an element with bounds of its own
  bool low_arrays = false;          ///< arrays of elements whose lower bound is not 0
  bool overlapping_bounds = false;  ///< bounds that others lie within
  bool cut_blocks = false;          ///< a cyclic distribution whose last block is cut short
  // What those follow from:
  bool bounds = false;    ///< resized, a subarray or a darray
  bool composed = false;  ///< more than contiguous
  std::int64_t lower = 0;

  MPI_Datatype get() const { return *handle; }
  /// As the standard wants filetypes: displacements never go back, and no byte is there twice.
  bool IsLegal() const;
  std::int64_t lowest() const;  ///< of its bytes
  std::int64_t span() const;    ///< from its first byte to its last
};

/// False for what the MPI library's own list of pieces is shorter than it says beforehand: MPICH 5.0.2 ends any program
/// that reads or writes a file by such a type ("actual == num_iovs" in ROMIO's flatten.c).
bool IsListedWhole(MPI_Datatype type);

struct TypeOptions {
  bool legal = true;          ///< only what a filetype may be; otherwise strides may be negative, and parts overlap
  bool large_counts = false;  ///< some constructors with large counts, if this MPI has them
  bool odd_leaves = true;     ///< pairs with holes, and what MPI_Type_create_f90_* make
  std::int64_t most_pieces = 300;
  std::int64_t most_span = 6000;
};

class TypeMaker {
 public:
  TypeMaker(unsigned seed, TypeOptions options) : random_(seed), options_(options) {}

  TestType Named();
  /// `depth` constructors around `leaf`; around all sorts of predefined types without one.
  TestType Make(int depth, const TestType* leaf);
  /// A number of [least, most].
  std::int64_t Pick(std::int64_t least, std::int64_t most);
  bool Chance(int percent) { return Pick(1, 100) <= percent; }

  /// How often each constructor was used.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  struct Place {
    std::int64_t at;
    const TestType* type;
  };
  struct Draft {
    std::string text;
    std::vector<Place> places;  // of single elements
  };

  bool Try(TestType& made, const std::string& kind, int depth, const TestType* leaf);
  TestType Child(int depth, const TestType* leaf) { return Make(depth - 1, leaf); }
  static void Inherit(TestType& made, const TestType& child);
  bool Accept(TestType& made, const Draft& draft) const;
  void Finish(TestType& made, const std::string& kind, MPI_Datatype type);
  std::int64_t Gap() { return options_.legal || Chance(70) ? Pick(0, 3) : Pick(-4, 2); }

  bool Contiguous(TestType& made, const TestType& child);
  bool Vector(TestType& made, const TestType& child, bool bytes);
  bool Blocks(TestType& made, const TestType& child, bool same_length, bool bytes);
  bool Struct(TestType& made, int depth, const TestType* leaf);
  bool Subarray(TestType& made, const TestType& child);
  bool Darray(TestType& made, const TestType& child);
  bool Resized(TestType& made, const TestType& child);
  bool Dup(TestType& made, const TestType& child);
  bool UseLarge() { return options_.large_counts && Chance(50); }

  std::mt19937 random_;
  TypeOptions options_;
  std::map<std::string, int> counts_;
};

}  // namespace lzy::hooks
