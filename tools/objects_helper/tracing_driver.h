#pragma once
// A driver of libhdf5 that reads one ObjectSource, and reports the reads.

#include <hdf5.h>

#include <functional>

#include "objects/object_source.h"

namespace lzy {

/// The file that the driver opens; there is one at a time.
struct TracedFile {
  const ObjectSource* source = nullptr;
  bool trust = false;     ///< read wrong bytes, too
  /// Do not read raw data. The library requests them only to report their places, and passes no buffer for them.
  bool only_place = false;
  /// Called with the place and the first bytes of metadata; without bytes if the read was refused. The library may read the
  /// rest in its next call.
  std::function<void(H5FD_mem_t type, std::uint64_t begin, std::uint64_t length, ByteSpan bytes)> on_metadata;
  /// Called for raw data that the library requests while only_place is true.
  std::function<void(std::uint64_t begin, std::uint64_t length)> on_raw;
  std::uint64_t refused = 0;  ///< reads that were refused or failed
};

/// File access properties for this driver. -1: libhdf5 does not accept the driver. `file` must live until all files are
/// closed.
hid_t TracingProperties(TracedFile& file);

}  // namespace lzy
