#pragma once
// The view of a file handle: from offsets in etypes to bytes of the file.

#include <mpi.h>

#include <cstdint>
#include <optional>

#include "interval_set.h"

namespace lzy::hooks {

/// Numbers only, no MPI handles: copied freely. The default is that of a file just opened: bytes from byte 0 on.
class View {
 public:
  /// Takes what MPI_File_set_view has just accepted. Cheap: PnetCDF sets views as often as it writes.
  void Set(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* representation);

  /// A range that holds all bytes which `bytes` bytes of data from etype number `offset` on go to; the exact one where
  /// the view has no holes. nullopt when that cannot be told: the whole file, then. Empty for no bytes.
  std::optional<Interval> RangeOf(MPI_File fh, MPI_Offset offset, std::uint64_t bytes) const;

  std::uint64_t etype_size() const { return etype_size_; }

 private:
  std::optional<Interval> DenseRange(std::uint64_t offset, std::uint64_t bytes) const;
  std::optional<Interval> TileRange(std::uint64_t first, std::uint64_t last) const;

  bool followed_ = true;      // false: types or a representation whose bytes are not worked out here
  bool dense_ = true;         // the filetype has no holes
  bool interleaved_ = false;  // neighbouring tiles of the filetype overlap in extent
  bool plain_etype_ = true;   // the etype begins at its own lower bound 0
  std::uint64_t displacement_ = 0;
  std::uint64_t etype_size_ = 1;
  std::uint64_t etype_end_ = 1;  // true upper bound of the etype
  std::uint64_t tile_size_ = 1;  // bytes of data in one filetype
  std::uint64_t tile_extent_ = 1;
  std::uint64_t tile_begin_ = 0;  // true lower and upper bound of the filetype
  std::uint64_t tile_end_ = 1;
};

/// Bytes of data of `count` elements of `type`; nullopt when the arguments make none (the real call will say so).
std::optional<std::uint64_t> DataBytes(std::int64_t count, MPI_Datatype type);

}  // namespace lzy::hooks
