#pragma once
// Patterns of sets and globs, matched with names that are there. Pure text, used by the other modules of this room.
// sidecar/names.h has the grammar of patterns (%r, %04r, %%) and matches them without '*'.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lzy {

/// A pattern that matches only `text`: every % is doubled.
std::string EscapePercent(const std::string& text);

/// The whole pattern of a set, from the path of member `rank` and the tail that its sidecar records. nullopt if `path`
/// does not end in the expansion of `tail`: the file was renamed, or moved out of its directory.
std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail, std::uint32_t rank);

/// The same from a path of any member: nullopt if `path` does not end in an expansion of `tail`.
std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail);

/// Patterns that `path` may come from as member `rank`, going by its base name. Each number in it that is the rank
/// gives one with %r (if it has no leading zeros) and one with %0Nr, N its width. The last number comes first.
std::vector<std::string> GuessPatterns(const std::string& path, std::uint32_t rank);

/// Files that may be a set, going by their names alone.
struct GuessedSet {
  std::string pattern;
  std::vector<std::string> members;  ///< by rank
};
/// Sets among `paths`: files of one directory that differ in one number, which is 0, 1, 2 and so on without a gap. If names
/// have several numbers, the last one for which this holds is the rank. A path is in one set at most. A pattern that also
/// matches one of `others` is none.
std::vector<GuessedSet> GuessSets(const std::vector<std::string>& paths, const std::vector<std::string>& others = {});

/// How a name matches one component of a pattern.
struct ComponentMatch {
  std::string resolved;  ///< the component with every '*' replaced by what it stands for
  std::optional<std::uint32_t> rank;
};
/// Matches one component with a name. '*' stands for any text, the shortest that will do. A placeholder stands for the
/// rank: for `rank`, if an earlier component has determined it. A hidden name matches only if the pattern begins with
/// a dot. Takes time polynomial in the lengths, whatever the texts: names may be hostile.
std::optional<ComponentMatch> MatchComponent(const std::string& pattern, const std::string& name,
                                             std::optional<std::uint32_t> rank);

}  // namespace lzy
