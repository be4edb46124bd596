#pragma once
// The view of a file handle: from offsets in etypes to bytes of the file.
//
// Each OpenFile has one. The hook of MPI_File_set_view replaces it; hooks of writes and reads copy it and ask for the
// ranges of their data. Invariant: the ranges that are returned contain every byte that MPI may write there. If that is
// not sure, nothing is returned, and the caller takes the whole file.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/interval_set.h"
#include "datatypes/layout.h"

namespace lzy::hooks {

/// No MPI handles: copied freely. The default is that of a file just opened: bytes from byte 0 on.
class View {
 public:
  /// Takes what MPI_File_set_view has just accepted, and holds no handles: the types may be freed. Cheap: PnetCDF sets
  /// views as often as it writes.
  void Set(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* representation) noexcept;

  /// A view of which nothing is known, so that Ranges tells nothing.
  static View Unknown() {
    View view;
    view.followed_ = view.defined_ = false;
    return view;
  }

  /// The bytes that `bytes` bytes of data from etype number `offset` on go to: sorted, disjoint, with gaps between
  /// them, at most `limit` (>= 1); none for no bytes. Exact if there are no more than `limit` runs, else a superset,
  /// found in a time that depends on `limit` only. nullopt if they are not known, or if MPI libraries are known to
  /// write elsewhere than the standard says: then it may be the whole file.
  std::optional<std::vector<Interval>> Ranges(MPI_Offset offset, std::uint64_t bytes, std::size_t limit) const noexcept;

  /// The view as the standard defines it, also where MPI libraries are known to write elsewhere. For comparing what they
  /// wrote with what they should have. Unknown if the standard's meaning is not known.
  View AsDefined() const {
    View view = *this;
    view.followed_ = defined_;
    return view;
  }

  std::uint64_t etype_size() const { return etype_size_; }
  /// Data go to consecutive bytes.
  bool IsContiguous() const {
    return followed_ && tile_.IsRun() && tile_.size == static_cast<std::uint64_t>(extent_);
  }

 private:
  bool followed_ = true;  // false: types or a representation whose bytes are not worked out here
  bool defined_ = true;   // followed_, if MPI libraries did what the standard says
  std::uint64_t displacement_ = 0;
  std::uint64_t etype_size_ = 1;
  std::int64_t extent_ = 1;  // of the filetype
  datatypes::Layout tile_ = {0, 1, 1, true, {}};
};

/// Bytes of data of `count` elements of `type`; nullopt when the arguments make none (the real call will say so).
std::optional<std::uint64_t> DataBytes(std::int64_t count, MPI_Datatype type);

}  // namespace lzy::hooks
