#pragma once
// Patterns of sets and globs against the names that are there.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lzy {

/// `text` as a pattern that means nothing but itself.
std::string EscapePercent(const std::string& text);

/// The pattern of which `path` is the expansion for `rank`, if `path` ends in that of `tail`.
std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail, std::uint32_t rank);

/// Patterns that `path` may come from as member `rank`, going by its name: each number in it that equals the rank, last
/// one first.
std::vector<std::string> GuessPatterns(const std::string& path, std::uint32_t rank);

std::vector<std::string> Components(const std::string& path);

/// A way to match one component of a pattern with a name.
struct ComponentMatch {
  std::string resolved;  ///< the component with every '*' replaced by what it stands for
  std::optional<std::uint32_t> rank;
};
/// '*' is any text, the shortest that will do, and a placeholder the rank: `rank`, if an earlier component says what that is. Takes
/// time polynomial in the lengths, whatever the texts.
std::optional<ComponentMatch> MatchComponent(const std::string& pattern, const std::string& name,
                                             std::optional<std::uint32_t> rank);

}  // namespace lzy
