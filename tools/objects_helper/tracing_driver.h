#pragma once
// A driver of libhdf5 that reads one ObjectSource, and reports the reads.

#include <hdf5.h>

#include <functional>

#include "objects/source.h"

namespace lzy {

/// The file that the driver opens; there is one at a time.
struct TracedFile {
  const ObjectSource* source = nullptr;
  bool trust = false;     ///< wrong bytes are read like others
  /// Raw data are not read: the library is asked for them only to learn where they are, and has no buffer for them.
  bool only_place = false;
  /// Called for metadata with their place and their first bytes; no bytes if they were refused. The library may read the
  /// rest with the next call.
  std::function<void(H5FD_mem_t type, std::uint64_t begin, std::uint64_t length, ByteSpan bytes)> on_metadata;
  /// Raw data that were asked for while only_place.
  std::function<void(std::uint64_t begin, std::uint64_t length)> on_raw;
  std::uint64_t refused = 0;  ///< reads that were refused or failed
};

/// File access properties for it. -1: libhdf5 does not take the driver. `file` is used as long as files are open.
hid_t TracingProperties(TracedFile& file);

}  // namespace lzy
