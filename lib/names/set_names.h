#pragma once
// Matches patterns of sets and globs with existing names. No I/O. sidecar/names.h has the grammar of patterns (%r, %04r, %%)
// and matches patterns without '*'.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lzy {

/// A pattern that matches only `text`: every % is doubled.
std::string EscapePercent(const std::string& text);

/// The whole pattern of a set, from the path of member `rank` and the tail that its sidecar records. nullopt if `path` does
/// not end in the name that `tail` gives this rank: the file was renamed, or moved out of its directory.
std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail, std::uint32_t rank);

/// The same for any rank: nullopt if `path` does not end in a name that `tail` gives to some rank.
std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail);

/// The pattern `tail` in the place of the last components of `path`.
std::string PatternBeside(const std::string& path, const std::string& tail);

/// Patterns that may give member `rank` the name `path`, by its base name. Each number in it that equals the rank gives one
/// pattern with %r (if it has no leading zeros) and one with %0Nr, N its width. The last number comes first.
std::vector<std::string> GuessPatterns(const std::string& path, std::uint32_t rank);

/// Files that may be a set, by their names alone.
struct GuessedSet {
  std::string pattern;
  std::vector<std::string> members;  ///< by rank
};
/// Finds sets among `paths`: files of one directory that differ in one number, which counts 0, 1, 2 and so on without a gap.
/// If names have several numbers, the last one that counts like this is the rank. A path is in at most one set. A pattern
/// that also matches one of `others` is not used.
std::vector<GuessedSet> GuessSets(const std::vector<std::string>& paths, const std::vector<std::string>& others = {});

/// How a name matches one component of a pattern.
struct ComponentMatch {
  std::string resolved;  ///< the component with every '*' replaced by the text that it matches
  std::optional<std::uint32_t> rank;
};
/// Matches one component with a name. '*' matches any text, the shortest possible. A placeholder matches the rank: `rank`,
/// if an earlier component has determined it. A hidden name matches only a pattern that begins with a dot. The time is
/// polynomial in the lengths for all texts, because names may be hostile.
std::optional<ComponentMatch> MatchComponent(const std::string& pattern, const std::string& name,
                                             std::optional<std::uint32_t> rank);

}  // namespace lzy
