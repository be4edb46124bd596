// MapOf: follows a datatype down to predefined types, and builds the layout on the way up (type_map.h).
//
// Decoder has one function for each kind of call that makes types. The comment before it lists the arguments of that call
// in the order of TypeContents. They are checked before use: a library may return nonsense, and then the type is a hull by
// its bounds.

#include "datatypes/type_map.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "datatypes/checked.h"

namespace lzy::datatypes {
namespace {

constexpr int kDeepest = 64;
// Bounds on work, for types that are hostile or made by a loop. Without a limit on parts, they do not apply.
constexpr std::size_t kMostTypes = std::size_t{1} << 18;  // that are looked at for one, however often it is made of the same
constexpr std::size_t kMostNumbers = std::size_t{1} << 20;  // that are read for one of them

using Numbers = std::span<const std::int64_t>;

bool NoneNegative(Numbers numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n >= 0; });
}

/// A hull by the bounds that MPI gives. Correct for any type, and all that is known if its contents are not.
DataLayout Bounds(MPI_Datatype type) {
  TypeShape shape;
  if (!shape.Read(type) || shape.size <= 0) return {};
  return DataLayout::Hull(shape.true_lower, CheckedSum(shape.true_lower, shape.true_extent),
                          static_cast<std::uint64_t>(shape.size));
}

/// A value and, at the end, an index; there may be a hole between them (MPI_SHORT_INT).
DataLayout Pair(const DataLayout& bounds, std::uint64_t index_size) {
  if (index_size > bounds.size) return bounds;
  LayoutList parts(2, 2);
  parts.Add(DataLayout::Run(bounds.begin, bounds.size - index_size));
  parts.Add(DataLayout::Run(bounds.end - static_cast<std::int64_t>(index_size), index_size));
  return parts.Take();
}

DataLayout Predefined(MPI_Datatype type) {
  const DataLayout bounds = Bounds(type);
  if (bounds.size == static_cast<std::uint64_t>(bounds.end - bounds.begin)) {
    return bounds.size == 0 ? DataLayout() : DataLayout::Run(bounds.begin, bounds.size);
  }
  for (const MPI_Datatype pair : {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT}) {
    if (type == pair) return Pair(bounds, sizeof(int));
  }
  return bounds;
}

/// Decodes types down to predefined ones. The functions for each kind of type return nullopt if its numbers make no sense.
/// One object decodes one type: budgets and findings (doubtful, regular) cover everything within it.
class Decoder {
 public:
  explicit Decoder(std::size_t limit)
      : most_types_(std::max(limit, kMostTypes)), most_numbers_(std::max(limit, kMostNumbers)), left_(limit) {}
  DataLayout Decode(MPI_Datatype type);
  bool doubtful() const { return doubtful_; }
  bool regular() const { return regular_ && !doubtful_; }
  bool known() const { return known_; }

 private:
  /// The calls that made a type, down to predefined ones. Faults of ROMIO depend on them.
  struct Features {
    bool composed = false;  ///< made by calls other than MPI_Type_contiguous
    bool bounded = false;   ///< of resized types or arrays: ROMIO keeps marks for their bounds
  };
  struct Element {
    DataLayout layout;
    std::int64_t lower, extent;
    Features features;
  };
  /// One dimension of MPI_Type_create_darray.
  struct Distribution {
    std::int64_t size, kind, argument, processes, place;
  };

  /// A predefined type, or one that counts as such.
  DataLayout Single(MPI_Datatype type, int combiner);
  std::optional<DataLayout> Follow(MPI_Datatype type, const TypeContents& contents);
  std::optional<DataLayout> Resized(Numbers numbers, MPI_Datatype type);
  std::optional<DataLayout> Vector(Numbers numbers, MPI_Datatype type, bool stride_in_bytes);
  std::optional<DataLayout> Blocks(Numbers numbers, MPI_Datatype type, bool same_length, bool offsets_in_bytes);
  std::optional<DataLayout> Struct(Numbers numbers, std::span<const MPI_Datatype> types);
  std::optional<DataLayout> Subarray(Numbers numbers, MPI_Datatype type);
  std::optional<DataLayout> Darray(Numbers numbers, MPI_Datatype type);
  std::optional<DataLayout> Distributed(const Distribution& how, std::int64_t stride, const DataLayout& layout);

  /// The layout and extent of a type that another one is made of. Only extents decide where the next one begins.
  Element ElementOf(MPI_Datatype type);
  /// Repeated, within the budget.
  DataLayout Again(std::int64_t count, std::int64_t stride, const DataLayout& layout);
  DataLayout InARow(LayoutList& parts) { return Counted(parts.Take()); }
  /// For a new list: one more is needed for the list itself.
  std::size_t ListLimit() const { return std::max<std::size_t>(left_, 2) - 1; }
  /// Takes the parts of a new node from the budget. If they are too many, a hull takes their place.
  DataLayout Counted(DataLayout made);

  const std::size_t most_types_, most_numbers_;
  std::size_t left_;  // of the limit on parts
  std::size_t types_ = 0;
  int depth_ = 0;
  bool doubtful_ = false;
  bool regular_ = true;
  bool known_ = true;  // all that is within was made by calls that are known here
  Features features_;  // of the element that is being decoded, as far as it was
};

DataLayout Decoder::Decode(MPI_Datatype type) {
  TypeContents contents;
  if (types_ < most_types_ && depth_ < kDeepest && contents.Read(type, most_numbers_)) {
    ++types_;
    if (contents.types.empty()) return Single(type, contents.combiner);
    ++depth_;
    auto followed = Follow(type, contents);
    --depth_;
    if (followed) return *std::move(followed);
  }
  doubtful_ = true;  // anything may be within
  known_ = false;
  return Bounds(type);
}

DataLayout Decoder::Single(MPI_Datatype type, int combiner) {
  TypeShape shape;
  // ROMIO takes the like of MPI_SHORT_INT and MPI_DOUBLE_INT for so many bytes in a row, and does not know the types
  // that MPI_Type_create_f90_* make.
  const bool readable = shape.Read(type);
  doubtful_ |= !readable || shape.size != shape.extent || combiner != MPI_COMBINER_NAMED;
  known_ &= readable && combiner == MPI_COMBINER_NAMED;
  return Predefined(type);
}

std::optional<DataLayout> Decoder::Follow(MPI_Datatype type, const TypeContents& contents) {
  const Numbers numbers = contents.numbers;
  const MPI_Datatype first = contents.types.front();
  if (contents.IsValueIndex()) {
    TypeShape index;
    if (!index.Read(contents.types.back()) || index.size < 0) return std::nullopt;
    doubtful_ = true;  // see Single
    return Pair(Bounds(type), static_cast<std::uint64_t>(index.size));
  }
  const int combiner = contents.combiner;
  features_.composed |= combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS;
  regular_ &= combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_CONTIGUOUS || combiner == MPI_COMBINER_VECTOR ||
              combiner == MPI_COMBINER_HVECTOR || combiner == MPI_COMBINER_SUBARRAY;
  switch (combiner) {
    case MPI_COMBINER_RESIZED:
      return Resized(numbers, first);
    case MPI_COMBINER_DUP:
      return Decode(first);
    case MPI_COMBINER_CONTIGUOUS: {
      if (numbers.empty() || numbers[0] < 0) return std::nullopt;
      const Element element = ElementOf(first);
      return Again(numbers[0], element.extent, element.layout);
    }
    case MPI_COMBINER_VECTOR:
      return Vector(numbers, first, false);
    case MPI_COMBINER_HVECTOR:
      return Vector(numbers, first, true);
    case MPI_COMBINER_INDEXED:
      return Blocks(numbers, first, false, false);
    case MPI_COMBINER_HINDEXED:
      return Blocks(numbers, first, false, true);
    case MPI_COMBINER_INDEXED_BLOCK:
      return Blocks(numbers, first, true, false);
    case MPI_COMBINER_HINDEXED_BLOCK:
      return Blocks(numbers, first, true, true);
    case MPI_COMBINER_STRUCT:
      return Struct(numbers, contents.types);
    case MPI_COMBINER_SUBARRAY:
      return Subarray(numbers, first);
    case MPI_COMBINER_DARRAY:
      return Darray(numbers, first);
    default:  // the *_INTEGER of MPI-1, which some headers do not define, and future combiners
      return std::nullopt;
  }
}

Decoder::Element Decoder::ElementOf(MPI_Datatype type) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  if (PMPI_Type_get_extent_x(type, &lower, &extent) != MPI_SUCCESS) ThrowTooFar();
  const Features outer = std::exchange(features_, {});
  Element element = {Decode(type), lower, extent, {}};
  element.features = features_;
  features_ = {features_.composed || outer.composed, features_.bounded || outer.bounded};
  doubtful_ |= element.layout.size == 0;  // as for empty blocks
  return element;
}

DataLayout Decoder::Again(std::int64_t count, std::int64_t stride, const DataLayout& layout) {
  return count == 1 ? layout : Counted(Repeated(static_cast<std::uint64_t>(count), stride, layout));
}

DataLayout Decoder::Counted(DataLayout made) {
  if (!made.inner) return made;
  const std::size_t parts = 1 + made.inner->elements.size();
  if (parts > left_) {
    DataLayout hull = DataLayout::Hull(made.begin, made.end, made.size);
    hull.ordered = made.InOrder();
    return hull;
  }
  left_ -= parts;
  return made;
}

// lower bound, extent
std::optional<DataLayout> Decoder::Resized(Numbers numbers, MPI_Datatype type) {
  if (numbers.size() != 2) return std::nullopt;
  DataLayout layout = Decode(type);
  // ROMIO moves types with a lower bound. Its marks for bounds must be in order with the data: it searches for the first
  // one that ends at or after the place where a write begins, and continues from there.
  doubtful_ |= numbers[0] != 0 || numbers[1] < layout.end;
  features_.bounded = true;
  return layout;
}

// count, block length, stride
std::optional<DataLayout> Decoder::Vector(Numbers numbers, MPI_Datatype type, bool stride_in_bytes) {
  if (numbers.size() != 3 || !NoneNegative(numbers.first(2))) return std::nullopt;
  const Element element = ElementOf(type);
  const std::int64_t stride = stride_in_bytes ? numbers[2] : CheckedProduct(numbers[2], element.extent);
  doubtful_ |= element.features.bounded && stride < CheckedProduct(numbers[1], element.extent);  // as in Resized
  return Again(numbers[0], stride, Again(numbers[1], element.extent, element.layout));
}

// count, lengths (or only one), displacements
std::optional<DataLayout> Decoder::Blocks(Numbers numbers, MPI_Datatype type, bool same_length, bool offsets_in_bytes) {
  if (numbers.empty() || numbers[0] < 0) return std::nullopt;
  const auto count = static_cast<std::size_t>(numbers[0]);
  const std::size_t lengths = same_length ? 1 : count;
  if (numbers.size() != 1 + lengths + count || !NoneNegative(numbers.subspan(1, lengths))) return std::nullopt;
  const Element element = ElementOf(type);
  // ROMIO leaves out all but the first of blocks of elements with bounds, and does not leave out empty blocks of
  // composed elements. (HDF5 makes single ones, to move a selection.)
  const Numbers all_lengths = numbers.subspan(1, lengths);
  const bool none_empty = std::find(all_lengths.begin(), all_lengths.end(), 0) == all_lengths.end();
  const bool single = count == 1 && numbers[1] == 1;
  doubtful_ |= (element.features.composed && !none_empty) || (element.features.bounded && !same_length && !single);
  LayoutList parts(ListLimit(), count);
  std::int64_t bounds_end = std::numeric_limits<std::int64_t>::min();
  std::int64_t length = 1;
  DataLayout block = element.layout;
  for (std::size_t i = 0; i < count; ++i) {
    if (const std::int64_t next = numbers[1 + i % lengths]; next != length) {
      length = next;
      block = Again(length, element.extent, element.layout);
    }
    const std::int64_t number = numbers[1 + lengths + i];
    const std::int64_t offset = offsets_in_bytes ? number : CheckedProduct(number, element.extent);
    parts.Add(Moved(block, offset));
    doubtful_ |= element.features.bounded && offset < bounds_end;  // as in Resized
    bounds_end = CheckedSum(offset, CheckedProduct(length, element.extent));
  }
  return InARow(parts);
}

// count, lengths, displacements
std::optional<DataLayout> Decoder::Struct(Numbers numbers, std::span<const MPI_Datatype> types) {
  const std::size_t count = types.size();
  if (numbers.size() != 1 + 2 * count || !NoneNegative(numbers.subspan(1, count))) return std::nullopt;
  LayoutList parts(ListLimit(), count);
  Element element = {};
  std::int64_t data_end = std::numeric_limits<std::int64_t>::min();
  std::int64_t bounds_end = data_end;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 || types[i] != types[i - 1]) element = ElementOf(types[i]);
    const std::int64_t length = numbers[1 + i];
    DataLayout part = Moved(Again(length, element.extent, element.layout), numbers[1 + count + i]);
    const std::int64_t bounds = CheckedSum(numbers[1 + count + i], element.lower);
    doubtful_ |= length == 0 && element.features.composed;  // as in Blocks
    // The same as in Resized.
    doubtful_ |= part.size > 0 && (part.begin < bounds_end || (element.features.bounded && bounds < data_end));
    if (part.size > 0) data_end = part.end;
    if (element.features.bounded) bounds_end = CheckedSum(bounds, CheckedProduct(length, element.extent));
    parts.Add(std::move(part));
  }
  return InARow(parts);
}

/// The dimension with number i if the one that varies fastest is number 0.
std::size_t Fastest(std::size_t i, std::size_t dimensions, std::int64_t order) {
  return order == MPI_ORDER_C ? dimensions - 1 - i : i;
}

// dimensions, sizes, sizes of the part, starts, order
std::optional<DataLayout> Decoder::Subarray(Numbers numbers, MPI_Datatype type) {
  if (numbers.empty() || !NoneNegative(numbers.first(numbers.size() - 1))) return std::nullopt;
  const auto dimensions = static_cast<std::size_t>(numbers[0]);
  if (numbers.size() != 2 + 3 * dimensions) return std::nullopt;
  Element element = ElementOf(type);
  features_.bounded = true;
  doubtful_ |= element.lower != 0;  // MPICH may take that for something without holes
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::size_t at = 1 + Fastest(i, dimensions, numbers.back());
    const std::int64_t size = numbers[at];
    const std::int64_t part = numbers[at + dimensions];
    const std::int64_t start = numbers[at + 2 * dimensions];
    element.layout = Moved(Again(part, element.extent, element.layout), CheckedProduct(start, element.extent));
    element.extent = CheckedProduct(size, element.extent);
  }
  return element.layout;
}

// processes, rank, dimensions, sizes, distributions, their arguments, processes in each dimension, order
std::optional<DataLayout> Decoder::Darray(Numbers numbers, MPI_Datatype type) {
  if (numbers.size() < 4 || !NoneNegative(numbers.first(3))) return std::nullopt;
  const auto dimensions = static_cast<std::size_t>(numbers[2]);
  if (numbers.size() != 4 + 4 * dimensions) return std::nullopt;
  const Numbers arrays = numbers.subspan(3, 4 * dimensions);
  std::vector<Distribution> how(dimensions);
  std::int64_t rank = numbers[1];  // in a grid whose last dimension varies fastest, whatever the order of the array
  for (std::size_t d = dimensions; d-- > 0;) {
    how[d] = {arrays[d], arrays[d + dimensions], arrays[d + 2 * dimensions], arrays[d + 3 * dimensions], 0};
    if (how[d].size < 0 || how[d].processes < 1) return std::nullopt;
    how[d].place = rank % how[d].processes;
    rank /= how[d].processes;
  }
  Element element = ElementOf(type);
  features_.bounded = true;
  doubtful_ |= element.lower != 0;  // MPICH may take that for something without holes
  for (std::size_t i = 0; i < dimensions; ++i) {
    const Distribution& dimension = how[Fastest(i, dimensions, numbers.back())];
    auto distributed = Distributed(dimension, element.extent, element.layout);
    if (!distributed) return std::nullopt;
    element.layout = *std::move(distributed);
    element.extent = CheckedProduct(dimension.size, element.extent);
  }
  return element.layout;
}

// The standard's definition: a block distribution is a cyclic one whose blocks suffice for one round.
std::optional<DataLayout> Decoder::Distributed(const Distribution& how, std::int64_t stride, const DataLayout& layout) {
  if (how.kind == MPI_DISTRIBUTE_NONE) return Again(how.size, stride, layout);
  std::int64_t block = how.argument;
  if (how.kind == MPI_DISTRIBUTE_BLOCK) {
    if (block == MPI_DISTRIBUTE_DFLT_DARG) block = (how.size - 1) / how.processes + 1;
  } else if (how.kind == MPI_DISTRIBUTE_CYCLIC) {
    if (block == MPI_DISTRIBUTE_DFLT_DARG) block = 1;
  } else {
    return std::nullopt;
  }
  if (block < 1) return std::nullopt;
  const std::int64_t start = CheckedProduct(how.place, block);
  const std::int64_t round = CheckedProduct(how.processes, block);
  if (start >= how.size) return DataLayout();
  // Blocks begin at start, start + round, ... Only the last one can be cut short by the end of the dimension.
  const std::int64_t blocks = (how.size - start - 1) / round + 1;
  const std::int64_t in_last = std::min(block, how.size - start - (blocks - 1) * round);
  const std::int64_t whole = in_last == block ? blocks : blocks - 1;
  doubtful_ |= how.kind == MPI_DISTRIBUTE_CYCLIC && whole < blocks;  // ROMIO 3.2, as it is in Open MPI 4.1
  LayoutList parts(ListLimit(), 2);
  const DataLayout full = Again(whole, CheckedProduct(round, stride), Again(block, stride, layout));
  parts.Add(Moved(full, CheckedProduct(start, stride)));
  if (whole < blocks) {
    parts.Add(Moved(Again(in_last, stride, layout), CheckedProduct(start + whole * round, stride)));
  }
  return InARow(parts);
}

}  // namespace

bool IsIntelMpi() {
  static const bool is_intel = [] {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    return PMPI_Get_library_version(text, &length) == MPI_SUCCESS && std::strncmp(text, "Intel", 5) == 0;
  }();
  return is_intel;
}

TypeMap MapOf(MPI_Datatype type, std::size_t limit) {
  Decoder decoder(limit);
  TypeMap map;
  map.layout = decoder.Decode(type);
  map.regular = decoder.regular();
  // Intel MPI 2021 writes some views of other types elsewhere, and not the same ones each time.
  map.doubtful = decoder.doubtful() || (!map.regular && IsIntelMpi());
  // Compares the result with MPI's values for the whole type. Only size and bounds can be compared, but an error in reading
  // contents rarely keeps them. MPICH's bounds of darrays include holes of the elements, so wider bounds are no
  // contradiction.
  const DataLayout bounds = Bounds(type);
  const DataLayout& layout = map.layout;
  map.defined = decoder.known() && layout.exact;
  if (layout.size != bounds.size || layout.begin < bounds.begin || layout.end > bounds.end) {
    map.defined = false;
    map.layout = DataLayout::Hull(std::min(layout.begin, bounds.begin), std::max(layout.end, bounds.end), bounds.size);
    map.doubtful = true;
  }
  return map;
}

}  // namespace lzy::datatypes
