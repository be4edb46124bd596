#pragma once
// The view of a file handle: converts offsets in etypes to bytes of the file.
//
// Each OpenFile has one. The hook of MPI_File_set_view replaces it. Hooks of writes and reads copy it and ask for the
// ranges of their data. Invariant: the returned ranges contain every byte that MPI may write. If that is not sure, nothing
// is returned, and the caller takes the whole file.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/interval_set.h"
#include "datatypes/data_layout.h"

namespace lzy::hooks {

/// Keeps no MPI handles, so it may be copied freely. The default is the view of a newly opened file: bytes from byte 0 on.
class MpiView {
 public:
  /// Takes the arguments that MPI_File_set_view has just accepted. Keeps no handles, so the types may be freed. Cheap:
  /// PnetCDF sets views as often as it writes.
  void Set(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* representation) noexcept;

  /// A view about which nothing is known: Ranges returns nullopt.
  static MpiView Unknown() {
    MpiView view;
    view.followed_ = view.defined_ = false;
    return view;
  }

  /// Byte ranges of the file for `bytes` bytes of data from etype number `offset` on: sorted, disjoint, with gaps between
  /// them, at most `limit` (>= 1); none for no bytes. Exact if there are at most `limit` runs, else a superset. The time
  /// depends only on `limit`. Returns nullopt if the ranges are not known, or if some MPI libraries write to other places
  /// than the standard says: then the data may be anywhere in the file.
  std::optional<std::vector<Interval>> Ranges(MPI_Offset offset, std::uint64_t bytes, std::size_t limit) const noexcept;

  /// The view as the standard defines it, even if some MPI libraries write to other places. For comparing what they wrote
  /// with what they should have written. Unknown if the standard does not define the view, or lzy cannot compute it.
  MpiView AsDefined() const {
    MpiView view = *this;
    view.followed_ = defined_;
    return view;
  }

  std::uint64_t etype_size() const { return etype_size_; }
  /// Data go to consecutive bytes.
  bool IsContiguous() const {
    return followed_ && tile_.IsRun() && tile_.size == static_cast<std::uint64_t>(extent_);
  }

 private:
  bool followed_ = true;  // false: a datatype or representation that lzy cannot compute
  bool defined_ = true;   // lzy can compute what the standard says; MPI libraries may do otherwise
  std::uint64_t displacement_ = 0;
  std::uint64_t etype_size_ = 1;
  std::int64_t extent_ = 1;  // of the filetype
  datatypes::DataLayout tile_ = {0, 1, 1, true, {}};
};

/// Number of data bytes in `count` elements of `type`. nullopt for invalid arguments, which the real call will refuse.
std::optional<std::uint64_t> DataBytes(std::int64_t count, MPI_Datatype type);

}  // namespace lzy::hooks
