// Each constructor of datatypes, with the places that the standard gives its elements.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "hooks_types.h"

namespace lzy::hooks {
namespace {

using Many = std::vector<std::int64_t>;

template <class Number>
std::vector<Number> As(const Many& numbers) {
  return std::vector<Number>(numbers.begin(), numbers.end());
}

std::string Text(const Many& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

int Int(std::int64_t number) {
  return static_cast<int>(number);
}

/// The numbers of the elements of an array, in the order that they have in memory. Only those for which `chosen(d, at)` is
/// true in each dimension d, where `at` is the index in d.
Many ChosenElements(const Many& sizes, int order, const std::function<bool(std::size_t, std::int64_t)>& chosen) {
  Many elements;
  Many index(sizes.size(), 0);
  const std::size_t n = sizes.size();
  for (std::int64_t element = 0;; ++element) {
    bool all = true;
    for (std::size_t d = 0; d < n; ++d) all &= chosen(d, index[d]);
    if (all) elements.push_back(element);
    std::size_t i = 0;
    for (; i < n; ++i) {
      const std::size_t d = order == MPI_ORDER_C ? n - 1 - i : i;
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
    if (i == n) return elements;
  }
}

}  // namespace

bool TypeMaker::Contiguous(TestType& made, const TestType& child) {
  const std::int64_t count = Pick(1, 4);
  Draft draft{fmt::format("contiguous({}, {})", count, child.text), {}};
  for (std::int64_t i = 0; i < count; ++i) draft.places.push_back({i * child.extent, &child});
  if (!Accept(made, draft)) return false;
  MPI_Datatype type;
#if MPI_VERSION >= 4
  if (UseLarge()) {
    MPI_Type_contiguous_c(count, child.get(), &type);
    Finish(made, "contiguous_c", type);
    return true;
  }
#endif
  MPI_Type_contiguous(Int(count), child.get(), &type);
  Finish(made, "contiguous", type);
  return true;
}

bool TypeMaker::Vector(TestType& made, const TestType& child, bool bytes) {
  const std::int64_t count = Pick(1, 5);
  const std::int64_t length = Pick(1, 3);
  std::int64_t stride = length + Gap();
  if (bytes) stride = stride * child.extent + Pick(0, 5);
  if (!options_.legal && Chance(30)) stride = -stride;
  const std::string kind = bytes ? "hvector" : "vector";
  Draft draft{fmt::format("{}({}, {}, {}, {})", kind, count, length, stride, child.text), {}};
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = 0; k < length; ++k) {
      draft.places.push_back({i * stride * (bytes ? 1 : child.extent) + k * child.extent, &child});
    }
  }
  if (!Accept(made, draft)) return false;
  MPI_Datatype type;
#if MPI_VERSION >= 4
  if (UseLarge()) {
    (bytes ? MPI_Type_create_hvector_c : MPI_Type_vector_c)(count, length, stride, child.get(), &type);
    Finish(made, kind + "_c", type);
    return true;
  }
#endif
  if (bytes) {
    MPI_Type_create_hvector(Int(count), Int(length), stride, child.get(), &type);
  } else {
    MPI_Type_vector(Int(count), Int(length), Int(stride), child.get(), &type);
  }
  Finish(made, kind, type);
  return true;
}

bool TypeMaker::Blocks(TestType& made, const TestType& child, bool same_length, bool bytes) {
  const std::int64_t count = Pick(1, 5);
  const std::int64_t unit = bytes ? 1 : child.extent;
  Many lengths;
  Many at;
  std::int64_t next = Pick(0, 3);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool first = lengths.empty();
    lengths.push_back(same_length ? (first ? Pick(1, 3) : lengths[0]) : (Chance(15) ? 0 : Pick(1, 3)));
    made.empty_blocks |= lengths.back() == 0 && child.composed;
    at.push_back(next);
    next += lengths.back() * (bytes ? child.extent : 1) + Gap();
  }
  made.bounded_blocks |= !same_length && child.bounds && !(count == 1 && lengths[0] == 1);
  const std::string kind = std::string(bytes ? "hindexed" : "indexed") + (same_length ? "_block" : "");
  Draft draft{fmt::format("{}({}{}, {})", kind, Text(lengths), Text(at), child.text), {}};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::int64_t k = 0; k < lengths[i]; ++k) {
      draft.places.push_back({at[i] * unit + k * child.extent, &child});
    }
  }
  if (!Accept(made, draft)) return false;
  MPI_Datatype type;
  const int n = Int(count);
#if MPI_VERSION >= 4
  if (UseLarge()) {
    const auto many_lengths = As<MPI_Count>(lengths);
    const auto many_at = As<MPI_Count>(at);
    if (same_length) {
      (bytes ? MPI_Type_create_hindexed_block_c : MPI_Type_create_indexed_block_c)(n, lengths[0], many_at.data(),
                                                                                   child.get(), &type);
    } else {
      (bytes ? MPI_Type_create_hindexed_c : MPI_Type_indexed_c)(n, many_lengths.data(), many_at.data(), child.get(),
                                                                &type);
    }
    Finish(made, kind + "_c", type);
    return true;
  }
#endif
  const auto int_lengths = As<int>(lengths);
  const auto int_at = As<int>(at);
  const auto addresses = As<MPI_Aint>(at);
  if (same_length && bytes) {
    MPI_Type_create_hindexed_block(n, Int(lengths[0]), addresses.data(), child.get(), &type);
  } else if (same_length) {
    MPI_Type_create_indexed_block(n, Int(lengths[0]), int_at.data(), child.get(), &type);
  } else if (bytes) {
    MPI_Type_create_hindexed(n, int_lengths.data(), addresses.data(), child.get(), &type);
  } else {
    MPI_Type_indexed(n, int_lengths.data(), int_at.data(), child.get(), &type);
  }
  Finish(made, kind, type);
  return true;
}

bool TypeMaker::Struct(TestType& made, int depth, const TestType* leaf) {
  const std::int64_t count = Pick(1, 4);
  std::vector<TestType> children;
  Many lengths;
  Many at;
  std::int64_t next = Pick(0, 8);
  Draft draft{"struct(", {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const bool again = i > 0 && Chance(30);
    children.push_back(again ? children.back() : Make(static_cast<int>(Pick(0, depth - 1)), leaf));
    const TestType& child = children.back();
    lengths.push_back(Chance(15) ? 0 : Pick(1, 2));
    const Span span = SpanOf(child.pieces);
    made.empty_blocks |= lengths.back() == 0 && child.composed;
    at.push_back(next - span.begin);
    if (lengths.back() > 0) next += (lengths.back() - 1) * child.extent + span.end - span.begin + Gap();
    draft.text += fmt::format("{} at {} {}; ", lengths.back(), at.back(), child.text);
    Inherit(made, child);
  }
  draft.text += ")";
  std::vector<MPI_Datatype> types;
  for (std::size_t i = 0; i < children.size(); ++i) {
    types.push_back(children[i].get());
    for (std::int64_t k = 0; k < lengths[i]; ++k) {
      draft.places.push_back({at[i] + k * children[i].extent, &children[i]});
    }
  }
  if (!Accept(made, draft)) return false;
  MPI_Datatype type;
#if MPI_VERSION >= 4
  if (UseLarge()) {
    MPI_Type_create_struct_c(count, As<MPI_Count>(lengths).data(), As<MPI_Count>(at).data(), types.data(), &type);
    Finish(made, "struct_c", type);
    return true;
  }
#endif
  MPI_Type_create_struct(Int(count), As<int>(lengths).data(), As<MPI_Aint>(at).data(), types.data(), &type);
  Finish(made, "struct", type);
  return true;
}

bool TypeMaker::Subarray(TestType& made, const TestType& child) {
  made.bounds = true;
  made.low_arrays |= child.lower != 0;
  const auto n = static_cast<std::size_t>(Pick(1, 3));
  Many sizes;
  Many parts;
  Many starts;
  for (std::size_t d = 0; d < n; ++d) {
    sizes.push_back(Pick(1, 5));
    parts.push_back(Pick(1, sizes[d]));
    starts.push_back(Pick(0, sizes[d] - parts[d]));
  }
  const int order = Chance(50) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
  const char* order_name = order == MPI_ORDER_C ? "C" : "Fortran";
  Draft draft{fmt::format("subarray({}{}{} {}, {})", Text(sizes), Text(parts), Text(starts), order_name, child.text),
              {}};
  const auto within = [&](std::size_t d, std::int64_t at) { return at >= starts[d] && at < starts[d] + parts[d]; };
  for (const std::int64_t element : ChosenElements(sizes, order, within)) {
    draft.places.push_back({element * child.extent, &child});
  }
  if (!Accept(made, draft)) return false;
  MPI_Datatype type;
#if MPI_VERSION >= 4
  if (UseLarge()) {
    MPI_Type_create_subarray_c(Int(static_cast<std::int64_t>(n)), As<MPI_Count>(sizes).data(),
                               As<MPI_Count>(parts).data(), As<MPI_Count>(starts).data(), order, child.get(), &type);
    Finish(made, "subarray_c", type);
    return true;
  }
#endif
  MPI_Type_create_subarray(Int(static_cast<std::int64_t>(n)), As<int>(sizes).data(), As<int>(parts).data(),
                           As<int>(starts).data(), order, child.get(), &type);
  Finish(made, "subarray", type);
  return true;
}

bool TypeMaker::Darray(TestType& made, const TestType& child) {
  made.bounds = true;
  made.low_arrays |= child.lower != 0;
  const auto n = static_cast<std::size_t>(Pick(1, 3));
  Many sizes;
  Many kinds;
  Many arguments;
  Many grid;
  Many blocks;
  std::int64_t processes = 1;
  for (std::size_t d = 0; d < n; ++d) {
    sizes.push_back(Pick(1, 7));
    const std::int64_t how = Pick(0, 2);
    kinds.push_back(how == 0 ? MPI_DISTRIBUTE_NONE : how == 1 ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC);
    grid.push_back(how == 0 ? 1 : Pick(1, 3));
    const std::int64_t least = how == 1 ? (sizes[d] + grid[d] - 1) / grid[d] : 1;
    arguments.push_back(how == 0 || Chance(40) ? int{MPI_DISTRIBUTE_DFLT_DARG} : Pick(least, least + 2));
    blocks.push_back(how == 0 ? sizes[d] : arguments[d] == MPI_DISTRIBUTE_DFLT_DARG ? least : arguments[d]);
    processes *= grid[d];
  }
  const std::int64_t rank = Pick(0, processes - 1);
  Many place(n);
  for (std::size_t d = n, rest = static_cast<std::size_t>(rank); d-- > 0;) {
    place[d] = static_cast<std::int64_t>(rest) % grid[d];
    rest /= static_cast<std::size_t>(grid[d]);
  }
  for (std::size_t d = 0; d < n; ++d) {
    const std::int64_t last = sizes[d] - sizes[d] % blocks[d];  // where a block that is cut short begins
    made.cut_blocks |= kinds[d] == MPI_DISTRIBUTE_CYCLIC && last < sizes[d] && last / blocks[d] % grid[d] == place[d];
  }
  const int order = Chance(50) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
  const char* order_name = order == MPI_ORDER_C ? "C" : "Fortran";
  Draft draft{fmt::format("darray({} of {}{}{}{} {}, {})", rank, Text(grid), Text(sizes), Text(kinds), Text(arguments),
                          order_name, child.text),
              {}};
  const auto mine = [&](std::size_t d, std::int64_t at) { return at / blocks[d] % grid[d] == place[d]; };
  for (const std::int64_t element : ChosenElements(sizes, order, mine)) {
    draft.places.push_back({element * child.extent, &child});
  }
  if (!Accept(made, draft)) return false;
  MPI_Datatype type;
  const int dims = Int(static_cast<std::int64_t>(n));
#if MPI_VERSION >= 4
  if (UseLarge()) {
    MPI_Type_create_darray_c(Int(processes), Int(rank), dims, As<MPI_Count>(sizes).data(), As<int>(kinds).data(),
                             As<int>(arguments).data(), As<int>(grid).data(), order, child.get(), &type);
    Finish(made, "darray_c", type);
    return true;
  }
#endif
  MPI_Type_create_darray(Int(processes), Int(rank), dims, As<int>(sizes).data(), As<int>(kinds).data(),
                         As<int>(arguments).data(), As<int>(grid).data(), order, child.get(), &type);
  Finish(made, "darray", type);
  return true;
}

bool TypeMaker::Resized(TestType& made, const TestType& child) {
  const Span span = SpanOf(child.pieces);
  const std::int64_t lower = Chance(60) ? 0 : Pick(-8, 8);
  const std::int64_t extent =
      Chance(80) ? std::max(span.end, std::int64_t{0}) + Pick(0, 16) : Pick(1, span.end - span.begin + 4);
  Draft draft{fmt::format("resized({}, {}, {})", lower, extent, child.text), {{0, &child}}};
  if (!Accept(made, draft) || extent <= 0) return false;
  made.moved_lower |= lower != 0;
  made.bounds = true;
  made.overlapping_bounds |= extent < span.end;
  MPI_Datatype type;
#if MPI_VERSION >= 4
  if (UseLarge()) {
    MPI_Type_create_resized_c(child.get(), lower, extent, &type);
    Finish(made, "resized_c", type);
    return true;
  }
#endif
  MPI_Type_create_resized(child.get(), lower, extent, &type);
  Finish(made, "resized", type);
  return true;
}

bool TypeMaker::Dup(TestType& made, const TestType& child) {
  if (!Accept(made, {fmt::format("dup({})", child.text), {{0, &child}}})) return false;
  MPI_Datatype type;
  MPI_Type_dup(child.get(), &type);
  Finish(made, "dup", type);
  return true;
}

}  // namespace lzy::hooks
