#include "transport/packed_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "datatypes/data_layout.h"
#include "datatypes/type_map.h"
#include "transport/mpi_call.h"

namespace lzy::validated {
namespace {

using datatypes::DataLayout;
using datatypes::LayoutNode;

// The places of `count` elements of `type`, relative to the buffer.
Result<DataLayout> LayoutOf(MPI_Count count, MPI_Datatype type) {
  datatypes::TypeShape shape;
  if (!shape.Read(type)) return {Code::kInvalidArgument, "MPI does not tell the extent of the datatype"};
  try {
    const DataLayout element = datatypes::MapOf(type, datatypes::kAllTypeParts).layout;
    if (!element.exact) return {Code::kInvalidArgument, "MPI does not tell how the datatype was made"};
    return datatypes::Repeated(static_cast<std::uint64_t>(count), shape.extent, element);
  } catch (const std::overflow_error& error) {
    return {Code::kInvalidArgument, error.what()};
  }
}

// Calls visit(address, size) for the runs of bytes [from, to) of the layout's data, in order.
template <class Visit>
void Walk(const DataLayout& layout, std::uint8_t* origin, std::uint64_t from, std::uint64_t to, const Visit& visit) {
  if (layout.IsRun()) {
    visit(origin + layout.begin + from, to - from);
    return;
  }
  const LayoutNode& node = *layout.inner;
  origin += layout.begin - node.begin;
  if (node.count > 0) {
    const std::uint64_t each = node.child.size;
    const std::uint64_t index = from / each;
    origin += static_cast<std::int64_t>(index) * node.stride;
    from -= index * each;
    to -= index * each;
    if (node.child.IsRun()) {  // most data go through this loop
      origin += node.child.begin;
      for (; to > each; from = 0, to -= each, origin += node.stride) visit(origin + from, each - from);
      visit(origin + from, to - from);
      return;
    }
    for (; to > each; from = 0, to -= each, origin += node.stride) Walk(node.child, origin, from, each, visit);
    Walk(node.child, origin, from, to, visit);
    return;
  }
  auto part = std::upper_bound(node.elements.begin(), node.elements.end(), from,
                               [](std::uint64_t at, const LayoutNode::Element& p) { return at < p.data_before; });
  for (--part; part != node.elements.end() && part->data_before < to; ++part) {
    const std::uint64_t before = part->data_before;
    Walk(part->layout, origin, std::max(from, before) - before, std::min(to - before, part->layout.size), visit);
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
    LZY_ASSIGN_OR_RETURN(DataLayout layout, LayoutOf(count, type));
    if (layout.IsRun()) {
      payload.base_ += layout.begin;
    } else {
      payload.map_ = std::make_shared<const DataLayout>(std::move(layout));
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

template <class Visit>
void Payload::ForRuns(std::uint64_t offset, std::uint64_t size, const Visit& visit) const {
  if (size == 0) return;
  if (contiguous_ != nullptr) return visit(contiguous_ + offset, size);
  Walk(*map_, base_, offset, offset + size, visit);
}

void Payload::CopyOut(std::uint64_t offset, MutableByteSpan to) const {
  std::uint8_t* at = to.data();
  ForRuns(offset, to.size(), [&](const std::uint8_t* run, std::uint64_t size) {
    std::memcpy(at, run, size);
    at += size;
  });
}

void Payload::CopyIn(std::uint64_t offset, ByteSpan from) const {
  const std::uint8_t* at = from.data();
  ForRuns(offset, from.size(), [&](std::uint8_t* run, std::uint64_t size) {
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
