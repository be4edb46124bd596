#pragma once
// Tells whether a file is a member of a set (docs/reference/tools.md "Paths"). calls/open.cc asks for each pattern of
// option set, when a rank opens a file by itself.
//
// All ranks must come to the same name of a set, although each of them sees only its own member. So the answer depends
// only on the pattern, the rank, and the real path of the file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy::hooks {

/// A set, as messages between ranks and as messages to people name it.
struct SetName {
  /// The pattern as the user wrote it, '*' replaced by what it stands for: the same on all ranks, wherever each of them
  /// has its working directory, so it names the set in messages between ranks.
  std::string id;
  /// The same, absolute.
  std::string pattern;
  /// What the '*'s stand for.
  std::vector<std::string> values = {};
};

/// The set of which `path` (absolute) is the member of `rank`, if `pattern` makes it one. A relative pattern starts at
/// `directory`; '*' stands for any text within one component; directories are compared by their real path.
std::optional<SetName> MatchSet(FileSystem& fs, const std::string& pattern, const std::string& directory,
                                std::uint32_t rank, const std::string& path);

/// Where option drain copies the member `path` of `rank` to (absolute), if one of its pairs of patterns names it. '*' in
/// the second pattern stands for what it stands for in the first one.
std::optional<std::string> DrainTarget(FileSystem& fs, const std::vector<std::string>& pairs, const std::string& directory,
                                       std::uint32_t rank, const std::string& path);

}  // namespace lzy::hooks
