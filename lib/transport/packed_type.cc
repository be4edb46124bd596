#include "transport/packed_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "transport/mpi_call.h"

namespace lzy::validated {

/// A run of `size` bytes at the origin, or parts one after the other.
struct TypeNode {
  /// `count` times `of`, `stride` bytes apart, from `at` on.
  struct Part {
    std::int64_t at = 0;
    std::uint64_t count = 0;
    std::int64_t stride = 0;
    std::shared_ptr<const TypeNode> of;
    std::uint64_t before = 0;  // bytes of the stream before this part
  };
  std::uint64_t size = 0;
  std::vector<Part> parts;  // none empty; no parts: a run
};

namespace {

using Node = std::shared_ptr<const TypeNode>;
constexpr int kDeepest = 64;

Node Run(std::uint64_t size) {
  auto node = std::make_shared<TypeNode>();
  node->size = size;
  return node;
}

bool IsRun(const TypeNode& node) {
  return node.parts.empty();
}

/// Collects parts, joining runs that touch.
class Builder {
 public:
  void Add(std::int64_t at, std::int64_t count, std::int64_t stride, const Node& of) {
    if (count <= 0 || of->size == 0) return;
    TypeNode::Part part{at, static_cast<std::uint64_t>(count), stride, of, size_};
    if (IsRun(*of) && (count == 1 || stride == static_cast<std::int64_t>(of->size))) {
      const std::uint64_t run = of->size * part.count;
      if (!parts_.empty() && EndOfRun(parts_.back()) == at) {
        TypeNode::Part& last = parts_.back();
        last.of = Run(last.of->size + run);
        size_ += run;
        return;
      }
      if (part.count > 1) part = {at, 1, 0, Run(run), size_};
    }
    size_ += part.of->size * part.count;
    parts_.push_back(std::move(part));
  }
  Node Done() {
    if (parts_.empty()) return Run(0);
    if (parts_.size() == 1 && parts_[0].count == 1 && parts_[0].at == 0) return parts_[0].of;
    auto node = std::make_shared<TypeNode>();
    node->size = size_;
    node->parts = std::move(parts_);
    return node;
  }

 private:
  static std::int64_t EndOfRun(const TypeNode::Part& part) {
    if (part.count != 1 || !IsRun(*part.of)) return std::numeric_limits<std::int64_t>::min();
    return part.at + static_cast<std::int64_t>(part.of->size);
  }
  std::uint64_t size_ = 0;
  std::vector<TypeNode::Part> parts_;
};

/// The call that made a type. Types it was made of are released with it.
struct Contents {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Datatype> types;

  Contents() = default;
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (MPI_Datatype& type : types) {
      int i = 0, a = 0, t = 0, combiner_of = MPI_COMBINER_NAMED;
      // Predefined types, and those with parameters that are made of no types, are not handed out as references.
      if (PMPI_Type_get_envelope(type, &i, &a, &t, &combiner_of) == MPI_SUCCESS && t > 0) PMPI_Type_free(&type);
    }
  }
  Status Read(MPI_Datatype type) {
    int i = 0, a = 0, t = 0;
    LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Type_get_envelope(type, &i, &a, &t, &combiner), "MPI_Type_get_envelope"));
    if (t == 0) return Status::Ok();
    integers.resize(static_cast<std::size_t>(i));
    addresses.resize(static_cast<std::size_t>(a));
    std::vector<MPI_Datatype> made_of(static_cast<std::size_t>(t), MPI_DATATYPE_NULL);
    LZY_RETURN_IF_ERROR(CheckMpi(
        PMPI_Type_get_contents(type, i, a, t, integers.data(), addresses.data(), made_of.data()), "MPI_Type_get_contents"));
    types = std::move(made_of);
    return Status::Ok();
  }
};

/// A type as its making tells: where its bytes lie, and how far elements are apart.
struct Element {
  Node node;
  std::int64_t extent = 0;
};

Result<Element> ElementOf(MPI_Datatype type, int depth);

Result<std::int64_t> ExtentOf(MPI_Datatype type) {
  MPI_Count lower = 0, extent = 0;
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Type_get_extent_x(type, &lower, &extent), "MPI_Type_get_extent_x"));
  return static_cast<std::int64_t>(extent);
}

// What has a gap within is a pair of a value and an int behind it (MPI_SHORT_INT).
Result<Node> Predefined(MPI_Datatype type) {
  MPI_Count size = 0, lower = 0, extent = 0;
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Type_size_x(type, &size), "MPI_Type_size_x"));
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Type_get_true_extent_x(type, &lower, &extent), "MPI_Type_get_true_extent_x"));
  if (size == 0) return Run(0);
  if (lower == 0 && size == extent) return Run(static_cast<std::uint64_t>(size));
  constexpr MPI_Count kInt = sizeof(int);
  if (lower != 0 || size <= kInt || extent < size) return {Code::kInvalidArgument, "a predefined datatype that is not known"};
  Builder builder;
  builder.Add(0, 1, 0, Run(static_cast<std::uint64_t>(size - kInt)));
  builder.Add(extent - kInt, 1, 0, Run(kInt));
  return builder.Done();
}

// Dimensions from the one that varies fastest: `run(d, emit)` calls emit(first index, count) for what dimension d has.
template <class Runs>
Element Grid(const std::vector<int>& sizes, bool c_order, Element inner, const Runs& runs) {
  const auto dimensions = sizes.size();
  for (std::size_t k = 0; k < dimensions; ++k) {
    const std::size_t d = c_order ? dimensions - 1 - k : k;
    Builder builder;
    runs(d, [&](std::int64_t first, std::int64_t count) {
      builder.Add(first * inner.extent, count, inner.extent, inner.node);
    });
    inner = {builder.Done(), inner.extent * sizes[d]};
  }
  return inner;
}

Element Subarray(const Contents& made, const Element& inner) {
  const auto dimensions = static_cast<std::size_t>(made.integers[0]);
  const auto at = made.integers.begin() + 1;
  const auto n = static_cast<std::ptrdiff_t>(dimensions);
  const std::vector<int> sizes(at, at + n), parts(at + n, at + 2 * n), starts(at + 2 * n, at + 3 * n);
  return Grid(sizes, made.integers.back() == MPI_ORDER_C, inner,
              [&](std::size_t d, const auto& emit) { emit(starts[d], parts[d]); });
}

Element Darray(const Contents& made, const Element& inner) {
  const std::vector<int>& in = made.integers;
  const int rank = in[1];
  const auto n = static_cast<std::size_t>(in[2]);
  const auto row = [&](std::size_t which) { return in.begin() + 3 + static_cast<std::ptrdiff_t>(which * n); };
  const std::vector<int> sizes(row(0), row(1)), distributions(row(1), row(2)), arguments(row(2), row(3)), processes(row(3), row(4));
  std::vector<std::int64_t> place(n);  // in the grid of processes, which is always in C's order
  std::int64_t left = rank;
  for (std::size_t d = n; d-- > 0;) {
    place[d] = left % processes[d];
    left /= processes[d];
  }
  return Grid(sizes, in.back() == MPI_ORDER_C, inner, [&](std::size_t d, const auto& emit) {
    std::int64_t block = arguments[d];
    if (distributions[d] == MPI_DISTRIBUTE_NONE) {
      emit(0, sizes[d]);
      return;
    }
    if (arguments[d] == MPI_DISTRIBUTE_DFLT_DARG) {
      block = distributions[d] == MPI_DISTRIBUTE_BLOCK ? (sizes[d] + processes[d] - 1) / processes[d] : 1;
    }
    for (std::int64_t at = place[d] * block; at < sizes[d]; at += block * processes[d]) {
      emit(at, std::min<std::int64_t>(block, sizes[d] - at));
      if (distributions[d] == MPI_DISTRIBUTE_BLOCK) break;
    }
  });
}

// Blocks of one type, by lengths and displacements; the numbers of the call, in order.
Node Blocks(const Contents& made, const Element& inner) {
  Builder builder;
  const std::vector<int>& in = made.integers;
  const auto count = static_cast<std::size_t>(in.empty() ? 0 : in[0]);
  for (std::size_t i = 0; i < count; ++i) {
    const bool same_length = made.combiner == MPI_COMBINER_INDEXED_BLOCK || made.combiner == MPI_COMBINER_HINDEXED_BLOCK;
    const int length = same_length ? in[1] : in[1 + i];
    std::int64_t at = 0;
    if (made.combiner == MPI_COMBINER_INDEXED) {
      at = in[1 + count + i] * inner.extent;
    } else if (made.combiner == MPI_COMBINER_INDEXED_BLOCK) {
      at = in[2 + i] * inner.extent;
    } else {
      at = made.addresses[i];
    }
    builder.Add(at, length, inner.extent, inner.node);
  }
  return builder.Done();
}

Result<Node> Structure(const Contents& made, int depth) {
  Builder builder;
  for (std::size_t i = 0; i < made.types.size(); ++i) {
    LZY_ASSIGN_OR_RETURN(const Element inner, ElementOf(made.types[i], depth + 1));
    builder.Add(made.addresses[i], made.integers[1 + i], inner.extent, inner.node);
  }
  return builder.Done();
}

Result<Node> Derived(const Contents& made, int depth) {
  if (made.combiner == MPI_COMBINER_STRUCT) return Structure(made, depth);
  LZY_ASSIGN_OR_RETURN(const Element inner, ElementOf(made.types[0], depth + 1));
  const std::vector<int>& in = made.integers;
  Builder builder;
  switch (made.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return inner.node;
    case MPI_COMBINER_CONTIGUOUS:
      builder.Add(0, in[0], inner.extent, inner.node);
      return builder.Done();
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR: {
      const std::int64_t stride = made.combiner == MPI_COMBINER_VECTOR ? in[2] * inner.extent : made.addresses[0];
      Builder block;
      block.Add(0, in[1], inner.extent, inner.node);
      builder.Add(0, in[0], stride, block.Done());
      return builder.Done();
    }
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_HINDEXED_BLOCK:
      return Blocks(made, inner);
    case MPI_COMBINER_SUBARRAY:
      return Subarray(made, inner).node;
    case MPI_COMBINER_DARRAY:
      return Darray(made, inner).node;
    default:
      return {Code::kInvalidArgument, fmt::format("a datatype of a making that is not known (combiner {})", made.combiner)};
  }
}

Result<Element> ElementOf(MPI_Datatype type, int depth) {
  if (depth > kDeepest) return {Code::kInvalidArgument, fmt::format("a datatype of more than {} types within each other", kDeepest)};
  LZY_ASSIGN_OR_RETURN(const std::int64_t extent, ExtentOf(type));
  Contents made;
  LZY_RETURN_IF_ERROR(made.Read(type));
  LZY_ASSIGN_OR_RETURN(Node node, made.types.empty() ? Predefined(type) : Derived(made, depth));
  return Element{std::move(node), extent};
}

// Calls visit(address, size) for the runs that bytes [from, to) of the node's stream lie in, in order.
template <class Visit>
void Walk(const TypeNode& node, std::uint8_t* base, std::uint64_t from, std::uint64_t to, const Visit& visit) {
  if (IsRun(node)) {
    visit(base + from, to - from);
    return;
  }
  auto part = std::upper_bound(node.parts.begin(), node.parts.end(), from,
                               [](std::uint64_t at, const TypeNode::Part& p) { return at < p.before; });
  for (--part; part != node.parts.end() && part->before < to; ++part) {
    const std::uint64_t each = part->of->size;
    std::uint64_t at = std::max(from, part->before) - part->before;
    const std::uint64_t end = std::min(to - part->before, each * part->count);
    const std::uint64_t index = at / each;
    std::uint8_t* element = base + part->at + static_cast<std::int64_t>(index) * part->stride;
    for (std::uint64_t within = at - index * each; at < end; within = 0, element += part->stride) {
      const std::uint64_t size = std::min(each - within, end - at);
      if (IsRun(*part->of)) {
        visit(element + within, size);
      } else {
        Walk(*part->of, element, within, within + size, visit);
      }
      at += size;
    }
  }
}

}  // namespace

Result<Payload> Payload::Of(const void* buffer, MPI_Count count, MPI_Datatype type) {
  if (count < 0) return {Code::kInvalidArgument, fmt::format("count {} is not accepted: 0 or more", static_cast<long long>(count))};
  if (type == MPI_DATATYPE_NULL) return {Code::kInvalidArgument, "MPI_DATATYPE_NULL is not accepted"};
  MPI_Count size = 0;
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Type_size_x(type, &size), "MPI_Type_size_x"));
  if (size < 0 || (size > 0 && count > std::numeric_limits<std::int64_t>::max() / size)) {
    return {Code::kInvalidArgument, fmt::format("count {} of {} bytes each: more than can be counted", static_cast<long long>(count),
                                                static_cast<long long>(size))};
  }
  Payload payload;
  payload.bytes_ = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
  if (payload.bytes_ == 0) return payload;
  payload.base_ = static_cast<std::uint8_t*>(const_cast<void*>(buffer));
  if (type != MPI_BYTE && type != MPI_CHAR && type != MPI_DOUBLE && type != MPI_INT) {
    LZY_ASSIGN_OR_RETURN(const Element element, ElementOf(type, 0));
    Builder builder;
    builder.Add(0, count, element.extent, element.node);
    payload.map_ = builder.Done();
    // A run that does not begin at the origin is moved there.
    if (const auto& parts = payload.map_->parts; parts.size() == 1 && parts[0].count == 1 && IsRun(*parts[0].of)) {
      payload.base_ += parts[0].at;
      payload.map_ = nullptr;
    } else if (parts.empty()) {
      payload.map_ = nullptr;
    }
  }
  if (payload.map_ == nullptr) payload.contiguous_ = payload.base_;
  return payload;
}

Payload Payload::Of(MutableByteSpan bytes) {
  Payload payload;
  payload.base_ = payload.contiguous_ = bytes.data();
  payload.bytes_ = bytes.size();
  return payload;
}

Payload Payload::Moved(std::ptrdiff_t bytes) const {
  Payload payload = *this;
  if (bytes_ == 0) return payload;
  payload.base_ += bytes;
  if (contiguous_ != nullptr) payload.contiguous_ = payload.base_;
  return payload;
}

void Payload::CopyOut(std::uint64_t offset, MutableByteSpan to) const {
  if (to.empty()) return;
  if (contiguous_ != nullptr) {
    std::memcpy(to.data(), contiguous_ + offset, to.size());
    return;
  }
  std::uint8_t* at = to.data();
  Walk(*map_, base_, offset, offset + to.size(), [&](const std::uint8_t* run, std::uint64_t size) {
    std::memcpy(at, run, size);
    at += size;
  });
}

void Payload::CopyIn(std::uint64_t offset, ByteSpan from) const {
  if (from.empty()) return;
  if (contiguous_ != nullptr) {
    std::memcpy(contiguous_ + offset, from.data(), from.size());
    return;
  }
  const std::uint8_t* at = from.data();
  Walk(*map_, base_, offset, offset + from.size(), [&](std::uint8_t* run, std::uint64_t size) {
    std::memcpy(run, at, size);
    at += size;
  });
}

ByteSpan Payload::View(std::uint64_t offset, std::uint64_t size, std::uint8_t* scratch) const {
  if (contiguous_ != nullptr) return {contiguous_ + offset, size};
  CopyOut(offset, {scratch, size});
  return {scratch, size};
}

}  // namespace lzy::validated
