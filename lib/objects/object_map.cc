#include "objects/object_map.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/numbers.h"

namespace lzy {
namespace {

using Indices = std::vector<std::uint64_t>;

constexpr std::size_t kMostDimensions = 32;
// Shorter gaps between objects are padding.
constexpr std::uint64_t kLeastUnused = 512;
// Pieces of one extent that IsUnusedIn looks at one by one.
constexpr std::uint64_t kMostPieces = 1000;

// The indices of an element, from its number in row-major order. Nothing if there is no such element.
std::optional<Indices> Unravel(std::uint64_t number, const Indices& shape) {
  Indices out(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) return std::nullopt;
    out[d] = number % shape[d];
    number /= shape[d];
  }
  if (number != 0) return std::nullopt;
  return out;
}

// Chunks at the edges reach beyond the shape. The first element from `at` on that lies within `limits`.
bool MoveUpInside(Indices& at, const Indices& limits) {
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (at[d] < limits[d]) continue;
    std::fill(at.begin() + static_cast<std::ptrdiff_t>(d), at.end(), 0);
    // Goes to the next index of the previous dimension, which may then exceed its limit.
    while (d > 0 && ++at[d - 1] >= limits[d - 1]) at[--d] = 0;
    return d > 0;
  }
  return true;
}

// The last one up to `at`.
void MoveDownInside(Indices& at, const Indices& limits) {
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (at[d] < limits[d]) continue;
    for (; d < at.size(); ++d) at[d] = limits[d] - 1;
  }
}

}  // namespace

/// A range and an extent that meet.
struct ObjectMap::Hit {
  const ObjectExtent* extent = nullptr;
  // Bytes of the extent: from `from` in piece `first_piece` to before `to` in piece `last_piece`.
  std::uint64_t first_piece = 0, last_piece = 0;
  std::uint64_t from = 0, to = 0;
};

bool IsSound(const ObjectExtent& extent) {
  constexpr std::uint64_t kEnd = kEverythingBehind;
  if (extent.length == 0 || extent.count == 0 || extent.begin > kEnd || extent.length > kEnd - extent.begin) return false;
  if (extent.count == 1) return true;
  return extent.stride >= extent.length && SaturatedProduct(extent.stride, extent.count) <= kEnd - extent.begin;
}

bool IsSound(const RawLayout& layout) {
  if (layout.shape.size() > kMostDimensions) return false;
  if (layout.chunk.empty()) return true;
  return layout.chunk.size() == layout.shape.size() && std::ranges::find(layout.chunk, 0u) == layout.chunk.end();
}

std::uint32_t ObjectMap::AddObject(const std::string& name) {
  objects_.push_back({name, {}});
  return static_cast<std::uint32_t>(objects_.size() - 1);
}

void ObjectMap::SetLayout(std::uint32_t object, const RawLayout& layout) {
  if (object < objects_.size() && IsSound(layout)) objects_[object].layout = layout;
}

void ObjectMap::AddExtent(const ObjectExtent& extent, bool) {
  if (extent.object >= objects_.size() || !IsSound(extent)) return;
  (extent.count == 1 ? extents_ : repeated_).push_back(extent);
}

void ObjectMap::Seal(bool complete) {
  complete_ = complete;
  std::ranges::stable_sort(extents_, {}, &ObjectExtent::begin);
  ends_.clear();
  for (const ObjectExtent& extent : extents_) {
    ends_.push_back(std::max(ends_.empty() ? 0 : ends_.back(), extent.begin + extent.length));
  }
}

std::vector<ObjectMap::Hit> ObjectMap::HitsOf(Interval range) const {
  std::vector<Hit> hits;
  // Extents may overlap, if the file is hostile: from the first before which all end too early.
  auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, range.begin) - ends_.begin());
  for (; at < extents_.size() && extents_[at].begin < range.end; ++at) {
    const ObjectExtent& extent = extents_[at];
    const std::uint64_t from = std::max(range.begin, extent.begin), to = std::min(range.end, extent.begin + extent.length);
    if (from < to) hits.push_back({&extent, 0, 0, from - extent.begin, to - extent.begin});
  }
  for (const ObjectExtent& extent : repeated_) {
    // The first piece that ends behind the begin of the range, and the last that begins before its end.
    if (range.end <= extent.begin) continue;
    const std::uint64_t begin = range.begin > extent.begin ? range.begin - extent.begin : 0;
    const std::uint64_t end = range.end - extent.begin;
    Hit hit{&extent, begin / extent.stride, std::min((end - 1) / extent.stride, extent.count - 1), begin % extent.stride, 0};
    if (hit.from >= extent.length) ++hit.first_piece, hit.from = 0;
    if (hit.first_piece > hit.last_piece || hit.first_piece >= extent.count) continue;
    hit.to = std::min(end - hit.last_piece * extent.stride, extent.length);
    hits.push_back(hit);
  }
  return hits;
}

bool ObjectMap::IsUnusedIn(Interval range, const std::vector<Hit>& hits) const {
  if (!complete_) return false;
  if (hits.empty()) return true;
  std::vector<Interval> used;
  for (const Hit& hit : hits) {
    const std::uint64_t begin = hit.extent->begin, stride = hit.extent->stride;
    if (hit.last_piece - hit.first_piece > kMostPieces) {
      used.push_back({begin + hit.first_piece * stride + hit.from, begin + hit.last_piece * stride + hit.to});
      continue;
    }
    for (std::uint64_t i = hit.first_piece; i <= hit.last_piece; ++i) {
      const std::uint64_t from = i == hit.first_piece ? hit.from : 0, to = i == hit.last_piece ? hit.to : hit.extent->length;
      used.push_back({begin + i * stride + from, begin + i * stride + to});
    }
  }
  SortAndJoin(used);
  std::uint64_t at = range.begin;
  for (const Interval& interval : used) {
    if (interval.begin >= at + kLeastUnused) return true;
    at = interval.end;
  }
  return range.end >= at + kLeastUnused;
}

DamagedObject ObjectMap::Describe(const Hit& hit) const {
  const Object& object = objects_[hit.extent->object];
  const RawLayout& layout = object.layout;
  DamagedObject out{.format = format_, .name = object.name, .kind = hit.extent->raw ? "raw" : "metadata"};
  if (!hit.extent->raw || layout.element_size == 0) return out;
  const std::uint64_t size = layout.element_size;
  const std::uint64_t begin = hit.from / size, last = (hit.to - 1) / size;
  if (layout.chunk.empty()) {
    const std::uint64_t in_piece = hit.extent->length / size;
    const auto first = Unravel(SaturatedSum(hit.extent->first, SaturatedSum(SaturatedProduct(hit.first_piece, in_piece), begin)), layout.shape);
    const auto end = Unravel(SaturatedSum(hit.extent->first, SaturatedSum(SaturatedProduct(hit.last_piece, in_piece), last)), layout.shape);
    if (first && end) out.elements = {*first, *end};
    return out;
  }
  Indices grid(layout.shape.size());
  for (std::size_t d = 0; d < grid.size(); ++d) grid[d] = CeilDiv(layout.shape[d], layout.chunk[d]);
  out.chunk = Unravel(hit.extent->first, grid);
  out.filtered = layout.filtered;
  out.chunks = 1;
  if (!out.chunk) return out;
  // Within the chunk, then within the shape. A chunk of the grid begins within the shape, so no limit is 0.
  Indices limits(grid.size()), origin(grid.size());
  for (std::size_t d = 0; d < grid.size(); ++d) {
    origin[d] = (*out.chunk)[d] * layout.chunk[d];
    limits[d] = std::min(layout.chunk[d], layout.shape[d] - origin[d]);
  }
  auto from = layout.filtered ? Indices(grid.size(), 0) : Unravel(begin, layout.chunk);
  auto to = layout.filtered ? layout.chunk : Unravel(last, layout.chunk);
  if (!from || !to || !MoveUpInside(*from, limits)) return out;
  MoveDownInside(*to, limits);
  if (*from > *to) return out;
  for (std::size_t d = 0; d < grid.size(); ++d) {
    (*from)[d] += origin[d];
    (*to)[d] += origin[d];
  }
  out.elements = {*from, *to};
  return out;
}

FoundObjects ObjectMap::Find(Interval range) const {
  FoundObjects out;
  if (range.begin >= range.end) return out;
  const std::vector<Hit> hits = HitsOf(range);
  std::map<std::uint32_t, std::uint64_t> chunks;
  for (const Hit& hit : hits) {
    if (hit.extent->raw && !objects_[hit.extent->object].layout.chunk.empty()) ++chunks[hit.extent->object];
  }
  // Compact data are a part of the object's metadata: of a range that lies in them, only they are named.
  const auto lies_in_raw_data = [&](const Hit& metadata) {
    return std::ranges::any_of(hits, [&](const Hit& hit) {
      return hit.extent->raw && hit.extent->object == metadata.extent->object && hit.extent->count == 1 &&
             hit.extent->begin + hit.from <= metadata.extent->begin + metadata.from &&
             hit.extent->begin + hit.to >= metadata.extent->begin + metadata.to;
    });
  };
  // Objects of metadata, and objects with many chunks, are named once.
  std::map<std::pair<std::uint32_t, bool>, bool> named;
  std::vector<DamagedObject> all;
  for (const Hit& hit : hits) {
    const auto chunk = hit.extent->raw ? chunks.find(hit.extent->object) : chunks.end();
    const bool many = chunk != chunks.end() && chunk->second > kMostChunks;
    if ((many || !hit.extent->raw) && !named.emplace(std::pair(hit.extent->object, hit.extent->raw), true).second) continue;
    if (!hit.extent->raw && hits.size() < kMostObjects && lies_in_raw_data(hit)) continue;
    if (all.size() >= kMostObjects) {
      ++out.left_off;
      continue;
    }
    DamagedObject& one = all.emplace_back(Describe(hit));
    if (!many) continue;
    one.chunk.reset();
    one.elements.reset();
    one.chunks = chunk->second;
  }
  if (IsUnusedIn(range, hits)) all.push_back({.format = format_, .kind = "unused"});
  out.objects = std::move(all);
  return out;
}

}  // namespace lzy
