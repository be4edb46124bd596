#pragma once
// Sidecars whose file was renamed follow it (docs/design.md "Epochs").
//
// BeginEpoch, Protect and repairs call it before they lock anything: a lock on a sidecar under a wrong name would be a
// lock on another file's.
//
// Programs write a temporary file and rename it, and rotate files by renaming them. Then names of sidecars are wrong
// until somebody writes. Readers find the right sidecar wherever it is (names/lookup); writers call Rehome first, so
// that from then on the name is right. No sidecar that belongs to a file is ever overwritten. Local.

#include <cstdint>
#include <string>

#include "base/file.h"
#include "base/status.h"

namespace lzy {

/// Makes sure that the name of `data_path`'s sidecar means its sidecar: a sidecar under that name that belongs to a
/// file renamed away follows that file, and one that belongs to `data_path` under its earlier name comes here. Returns
/// the sidecar's path, whether or not there is one now. Any number of processes may do this at once, for the same files
/// or for such as were swapped; kBusy if another one keeps a sidecar in the way locked for `timeout_seconds`.
Result<std::string> Rehome(FileSystem& fs, const std::string& data_path, std::uint32_t timeout_seconds = 60);

}  // namespace lzy
