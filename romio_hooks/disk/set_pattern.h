#pragma once
// Finds out whether a file is a member of a set (docs/reference/tools.md "Paths"). calls/open.cc asks for each pattern of
// option set, when a rank opens a file by itself.
//
// All ranks must derive the same name of a set, although each sees only its own member. So the result depends only on the
// pattern, the rank, and the real path of the file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy::hooks {

/// The name of a set, for messages between ranks and for messages to the user.
struct SetName {
  /// The pattern as the user wrote it, with the text that each '*' stands for. It is the same on all ranks, even if their
  /// working directories differ, so it identifies the set in messages between ranks.
  std::string id;
  /// The same, absolute.
  std::string pattern;
  /// The text that each '*' stands for.
  std::vector<std::string> values = {};
};

/// Returns the set that has `path` (absolute) as the member of `rank` by `pattern`; nullopt if there is none. A relative
/// pattern starts at `directory`. '*' stands for any text within one component. Directories are compared by their real
/// paths.
std::optional<SetName> MatchSet(FileSystem& fs, const std::string& pattern, const std::string& directory,
                                std::uint32_t rank, const std::string& path);

/// Returns the path (absolute) to which option drain copies the member `path` of `rank`; nullopt if no pair of patterns
/// names the member. '*' in the second pattern stands for the same text as in the first.
std::optional<std::string> DrainTarget(FileSystem& fs, const std::vector<std::string>& pairs, const std::string& directory,
                                       std::uint32_t rank, const std::string& path);

}  // namespace lzy::hooks
