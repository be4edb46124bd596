#include "hooks_types.h"

#include <dlfcn.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

namespace lzy::hooks {

Span SpanOf(const std::vector<Piece>& pieces) {
  if (pieces.empty()) return {};
  Span span{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  for (const Piece& piece : pieces) {
    span = {std::min(span.begin, piece.at), std::max(span.end, piece.at + piece.size)};
  }
  return span;
}

bool TestType::IsLegal() const {
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const Piece& piece : pieces) {
    if (piece.at < end) return false;
    end = piece.at + piece.size;
  }
  return true;
}

bool IsListedWhole(MPI_Datatype type) {
  using CountPieces = int (*)(MPI_Datatype, MPI_Count, MPI_Count*, MPI_Count*);
  using ListPieces = int (*)(MPI_Datatype, MPI_Count, iovec*, MPI_Count, MPI_Count*);
  static const auto count_pieces = reinterpret_cast<CountPieces>(dlsym(RTLD_DEFAULT, "MPIX_Type_iov_len"));
  static const auto list_pieces = reinterpret_cast<ListPieces>(dlsym(RTLD_DEFAULT, "MPIX_Type_iov"));
  if (count_pieces == nullptr || list_pieces == nullptr) return true;
  MPI_Count size = 0;
  MPI_Count pieces = 0;
  MPI_Count bytes = 0;
  MPI_Type_size_x(type, &size);
  if (count_pieces(type, size, &pieces, &bytes) != MPI_SUCCESS) return true;
  std::vector<iovec> list(static_cast<std::size_t>(pieces));
  MPI_Count listed = 0;
  return list_pieces(type, 0, list.data(), pieces, &listed) != MPI_SUCCESS || listed == pieces;
}

std::int64_t TestType::lowest() const {
  return SpanOf(pieces).begin;
}
std::int64_t TestType::span() const {
  return SpanOf(pieces).end - SpanOf(pieces).begin;
}

std::int64_t TypeMaker::Pick(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
}

TestType TypeMaker::Named() {
  struct Choice {
    const char* name;
    MPI_Datatype type;
    std::vector<Piece> pieces;
  };
  struct ShortInt {
    short value;
    int index;
  };
  struct LongDoubleInt {
    long double value;
    int index;
  };
  static const std::vector<Choice> choices = [] {
    MPI_Datatype real = MPI_DATATYPE_NULL;
    MPI_Datatype integer = MPI_DATATYPE_NULL;
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
    MPI_Type_create_f90_integer(9, &integer);
    std::vector<Choice> all = {
        {"BYTE", MPI_BYTE, {{0, 1}}},
        {"SHORT", MPI_SHORT, {{0, sizeof(short)}}},
        {"INT", MPI_INT, {{0, sizeof(int)}}},
        {"DOUBLE", MPI_DOUBLE, {{0, sizeof(double)}}},
        {"DOUBLE_INT", MPI_DOUBLE_INT, {{0, sizeof(double) + sizeof(int)}}},
        {"SHORT_INT", MPI_SHORT_INT, {{0, sizeof(short)}, {offsetof(ShortInt, index), sizeof(int)}}},
        {"LONG_DOUBLE_INT",
         MPI_LONG_DOUBLE_INT,
         {{0, sizeof(long double)}, {offsetof(LongDoubleInt, index), sizeof(int)}}}};
    // Without Fortran there are none.
    if (real != MPI_DATATYPE_NULL) all.push_back({"F90_REAL", real, {{0, sizeof(double)}}});
    if (integer != MPI_DATATYPE_NULL) all.push_back({"F90_INTEGER", integer, {{0, sizeof(int)}}});
    return all;
  }();
  const Choice& choice = choices[static_cast<std::size_t>(Pick(0, static_cast<std::int64_t>(choices.size()) - 1))];
  TestType made;
  made.handle = std::make_shared<MPI_Datatype>(choice.type);
  made.pieces = choice.pieces;
  made.text = choice.name;
  for (const Piece& piece : made.pieces) made.size += piece.size;
  MPI_Aint lower;
  MPI_Aint extent;
  MPI_Type_get_extent(choice.type, &lower, &extent);
  made.extent = extent;
  made.padded_pair = made.extent != made.size;
  made.fortran = made.text.starts_with("F90");
  if (!options_.odd_leaves && (made.padded_pair || made.fortran)) return Named();
  ++counts_[made.text];
  return made;
}

TestType TypeMaker::Make(int depth, const TestType* leaf) {
  if (depth == 0) return leaf != nullptr ? *leaf : Named();
  static const std::vector<std::string> kinds = {"contiguous", "vector",        "hvector",        "indexed",
                                                 "hindexed",   "indexed_block", "struct",         "subarray",
                                                 "darray",     "resized",       "hindexed_block", "dup"};
  for (int attempt = 0; attempt < 8; ++attempt) {
    TestType made;
    const std::string& kind = kinds[static_cast<std::size_t>(Pick(0, static_cast<std::int64_t>(kinds.size()) - 1))];
    if (Try(made, kind, depth, leaf)) return made;
  }
  return Make(depth - 1, leaf);
}

bool TypeMaker::Try(TestType& made, const std::string& kind, int depth, const TestType* leaf) {
  if (kind == "struct") return Struct(made, depth, leaf);
  const TestType child = Child(depth, leaf);
  Inherit(made, child);
  if (kind == "contiguous") return Contiguous(made, child);
  if (kind == "vector") return Vector(made, child, false);
  if (kind == "hvector") return Vector(made, child, true);
  if (kind == "indexed") return Blocks(made, child, false, false);
  if (kind == "hindexed") return Blocks(made, child, false, true);
  if (kind == "indexed_block") return Blocks(made, child, true, false);
  if (kind == "hindexed_block") return Blocks(made, child, true, true);
  if (kind == "subarray") return Subarray(made, child);
  if (kind == "darray") return Darray(made, child);
  if (kind == "resized") return Resized(made, child);
  return Dup(made, child);
}

void TypeMaker::Inherit(TestType& made, const TestType& child) {
  made.padded_pair |= child.padded_pair;
  made.fortran |= child.fortran;
  made.moved_lower |= child.moved_lower;
  made.empty_blocks |= child.empty_blocks;
  made.bounded_blocks |= child.bounded_blocks;
  made.bounds |= child.bounds;
  made.composed |= child.composed;
  made.low_arrays |= child.low_arrays;
  made.cut_blocks |= child.cut_blocks;
  made.overlapping_bounds |= child.overlapping_bounds;
}

/// Fills in the bytes, unless they are too many, none, or not what a filetype may have.
bool TypeMaker::Accept(TestType& made, const Draft& draft) const {
  made.text = draft.text;
  std::int64_t data_end = std::numeric_limits<std::int64_t>::min();
  std::int64_t bounds_end = data_end;
  for (const Place& place : draft.places) {
    const Span data = SpanOf(place.type->pieces);
    const std::int64_t bounds = place.at + place.type->lower;
    made.overlapping_bounds |= place.at + data.begin < bounds_end || (place.type->bounds && bounds < data_end);
    data_end = place.at + data.end;
    if (place.type->bounds) bounds_end = bounds + place.type->extent;
    for (const Piece& piece : place.type->pieces) {
      made.pieces.push_back({place.at + piece.at, piece.size});
      made.size += piece.size;
    }
    if (static_cast<std::int64_t>(made.pieces.size()) > options_.most_pieces) return false;
  }
  const Span span = SpanOf(made.pieces);
  return made.size > 0 && span.end - span.begin <= options_.most_span && (!options_.legal || made.IsLegal());
}

void TypeMaker::Finish(TestType& made, const std::string& kind, MPI_Datatype type) {
  MPI_Type_commit(&type);
  made.handle = std::shared_ptr<MPI_Datatype>(new MPI_Datatype(type), [](MPI_Datatype* old) {
    MPI_Type_free(old);
    delete old;
  });
  MPI_Aint lower;
  MPI_Aint extent;
  MPI_Type_get_extent(type, &lower, &extent);
  made.lower = lower;
  made.extent = extent;
  made.composed |= kind != "dup" && !kind.starts_with("contiguous");
  ++counts_[kind];
}

}  // namespace lzy::hooks
