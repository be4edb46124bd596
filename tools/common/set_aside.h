#pragma once
// Advice for sets that have files of two commits in one place: which files to move away, so that the others can be
// restored. The advice never loses a file or a sidecar.

#include <string>

#include "base/file.h"
#include "names/lookup.h"
#include "request/report.h"

namespace lzy {

/// For `path`, a member of an older set that has the name of its place in it, and the sidecar that says `peek`. Lines. Local.
std::string OlderSetAdvice(FileSystem& fs, const std::string& path, const Peek& peek);

/// For a set beyond repair: if most of it is as an older commit left it, and parity suffices for the rest. Lines, or nothing.
/// Sees the members that this process sees. Local.
std::string OlderCommitAdvice(FileSystem& fs, const DatasetReport& report);

}  // namespace lzy
