#include "view.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace lzy::hooks {
namespace {

struct TypeShape {
  MPI_Count size = 0;
  MPI_Count lower = 0, extent = 0;
  MPI_Count true_lower = 0, true_extent = 0;

  bool Read(MPI_Datatype type) {
    return type != MPI_DATATYPE_NULL && MPI_Type_size_x(type, &size) == MPI_SUCCESS &&
           MPI_Type_get_extent_x(type, &lower, &extent) == MPI_SUCCESS &&
           MPI_Type_get_true_extent_x(type, &true_lower, &true_extent) == MPI_SUCCESS;
  }
  /// Something that offsets can be counted in; MPI_UNDEFINED (too large) is negative.
  bool Usable() const { return size > 0 && extent > 0 && true_lower >= 0 && true_extent > 0; }
  bool Dense() const { return lower == 0 && true_lower == 0 && size == extent && true_extent == extent; }
};

/// a * b + c, or nullopt past what a file can have.
std::optional<std::uint64_t> Linear(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t product = 0;
  std::uint64_t sum = 0;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(product, c, &sum)) return std::nullopt;
  if (sum > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return sum;
}

std::optional<std::uint64_t> ByteOffset(MPI_File fh, std::uint64_t etype) {
  MPI_Offset at = -1;
  if (PMPI_File_get_byte_offset(fh, static_cast<MPI_Offset>(etype), &at) != MPI_SUCCESS || at < 0) return std::nullopt;
  return static_cast<std::uint64_t>(at);
}

}  // namespace

void View::Set(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* representation) {
  *this = View();
  TypeShape element;
  TypeShape tile;
  followed_ = displacement >= 0 && element.Read(etype) && tile.Read(filetype) && element.Usable() && tile.Usable() &&
              tile.size % element.size == 0 && representation != nullptr && std::strcmp(representation, "native") == 0;
  if (!followed_) return;
  dense_ = tile.Dense();
  interleaved_ = tile.true_extent > tile.extent;
  plain_etype_ = element.lower == 0 && element.true_lower == 0;
  displacement_ = static_cast<std::uint64_t>(displacement);
  etype_size_ = static_cast<std::uint64_t>(element.size);
  etype_end_ = static_cast<std::uint64_t>(element.true_lower + element.true_extent);
  tile_size_ = static_cast<std::uint64_t>(tile.size);
  tile_extent_ = static_cast<std::uint64_t>(tile.extent);
  tile_begin_ = static_cast<std::uint64_t>(tile.true_lower);
  tile_end_ = static_cast<std::uint64_t>(tile.true_lower + tile.true_extent);
}

std::optional<Interval> View::RangeOf(MPI_File fh, MPI_Offset offset, std::uint64_t bytes) const {
  if (bytes == 0) return Interval{};
  if (!followed_ || offset < 0) return std::nullopt;
  const auto first = static_cast<std::uint64_t>(offset);
  if (dense_) return DenseRange(first, bytes);
  const std::uint64_t count = (bytes - 1) / etype_size_ + 1;
  const auto last = Linear(1, first, count - 1);
  if (!last) return std::nullopt;
  std::optional<Interval> range = TileRange(first, *last);
  // A range from the first to the last etype is narrower, and right where etypes lie in the order of the file.
  if (!range || interleaved_ || !plain_etype_) return range;
  const auto begin = ByteOffset(fh, first);
  const auto end = ByteOffset(fh, *last);
  if (begin && end && *begin <= *end) {
    range->begin = std::max(range->begin, *begin);
    range->end = std::min(range->end, *end + etype_end_);
  }
  return range;
}

std::optional<Interval> View::DenseRange(std::uint64_t offset, std::uint64_t bytes) const {
  const auto begin = Linear(offset, etype_size_, displacement_);
  if (!begin) return std::nullopt;
  const auto end = Linear(1, *begin, bytes);
  if (!end) return std::nullopt;
  return Interval{*begin, *end};
}

// All of the filetypes that the etypes are in.
std::optional<Interval> View::TileRange(std::uint64_t first, std::uint64_t last) const {
  const std::uint64_t etypes_in_tile = tile_size_ / etype_size_;
  const auto begin = Linear(first / etypes_in_tile, tile_extent_, displacement_ + tile_begin_);
  const auto end = Linear(last / etypes_in_tile, tile_extent_, displacement_ + tile_end_);
  if (!begin || !end) return std::nullopt;
  return Interval{*begin, *end};
}

std::optional<std::uint64_t> DataBytes(std::int64_t count, MPI_Datatype type) {
  MPI_Count size = 0;
  // A handle that is not a datatype at all would make MPI call the error handler of MPI_COMM_WORLD, here as in the real
  // call just after; MPI_DATATYPE_NULL is the one such that programs pass by mistake.
  if (count < 0 || type == MPI_DATATYPE_NULL || MPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) {
    return std::nullopt;
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(size), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace lzy::hooks
