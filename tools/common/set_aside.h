#pragma once
// Advice for sets that have files of two commits in one place: which files to move away, so that the others can be
// restored. The advice never loses a file or a sidecar.

#include <string>

#include "base/file.h"
#include "names/lookup.h"
#include "request/report.h"

namespace lzy {

/// Advice for `path`, a member of an older set at the place of a member of the present set. `peek`: its sidecar. Lines.
/// Local.
std::string OlderSetAdvice(FileSystem& fs, const std::string& path, const Peek& peek);

/// Advice for a set beyond repair, if most members are as an older commit left them, and parity can rebuild the others.
/// Lines, or nothing. Uses only the members that this process sees. Local.
std::string OlderCommitAdvice(FileSystem& fs, const DatasetReport& report);

}  // namespace lzy
