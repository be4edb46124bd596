#include "hooks/ranges/mpi_view.h"

#include <cstring>
#include <utility>

#include "datatypes/checked.h"
#include "datatypes/type_map.h"

namespace lzy::hooks {

using datatypes::CheckedProduct, datatypes::CheckedSum, datatypes::TypeMap, datatypes::TypeShape;

void MpiView::Set(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                  const char* representation) noexcept {
  *this = MpiView();
  followed_ = defined_ = false;
  bool doubtful = false;
  TypeShape element;
  TypeShape tile;
  if (displacement < 0 || representation == nullptr || std::strcmp(representation, "native") != 0) return;
  if (!element.Read(etype) || !tile.Read(filetype) || element.size <= 0) return;
  if (tile.size <= 0 || tile.extent <= 0 || tile.true_lower < 0 || tile.size % element.size != 0) return;
  try {
    TypeMap map = datatypes::MapOf(filetype);
    if (map.doubtful && !map.defined) return;
    doubtful = map.doubtful;
    tile_ = std::move(map.layout);
  } catch (...) {  // bounds beyond the range of an offset, or out of memory
    return;
  }
  displacement_ = static_cast<std::uint64_t>(displacement);
  etype_size_ = static_cast<std::uint64_t>(element.size);
  extent_ = tile.extent;
  // The offsets of a filetype must ascend. MPI libraries accept some filetypes that do not, and some that overlap when they
  // are repeated, and write to other places then.
  defined_ = tile_.begin >= 0 && tile_.InOrder() && extent_ >= tile_.end - tile_.begin;
  followed_ = defined_ && !doubtful;
}

std::optional<std::vector<Interval>> MpiView::Ranges(MPI_Offset offset, std::uint64_t bytes,
                                                     std::size_t limit) const noexcept {
  try {
    if (bytes == 0) return std::vector<Interval>();
    if (!followed_ || offset < 0) return std::nullopt;
    const std::uint64_t first = CheckedProduct(static_cast<std::uint64_t>(offset), etype_size_);
    const std::uint64_t last = CheckedSum(first, bytes);
    const std::uint64_t tiles = (last - 1) / tile_.size + 1;
    // No byte may lie beyond the range of an offset; BytesOf relies on that.
    CheckedSum(CheckedSum(CheckedProduct(tiles - 1, extent_), tile_.end), static_cast<std::int64_t>(displacement_));
    return datatypes::BytesOf(tile_, tiles, extent_, displacement_, first, last, limit);
  } catch (...) {
    return std::nullopt;
  }
}

std::optional<std::uint64_t> DataBytes(std::int64_t count, MPI_Datatype type) {
  MPI_Count size = 0;
  // For a handle that is no datatype, MPI would call the error handler of MPI_COMM_WORLD, as in the real call right after
  // this. MPI_DATATYPE_NULL is the only such handle that programs pass by mistake.
  if (count < 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) {
    return std::nullopt;
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(size), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace lzy::hooks
