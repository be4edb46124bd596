#pragma once
// Patterns of sets and globs against the names that are there.

#include <cstdint>
#include <functional>
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

/// Matches one component of a pattern against a name: '*' is any text, a placeholder the rank. `visit` gets each way to
/// do it, with the component as it is with every '*' replaced, shortest text for '*' first, until it returns true.
class ComponentMatcher {
 public:
  using Visit = std::function<bool(const std::string& resolved, std::optional<std::uint32_t> rank)>;
  ComponentMatcher(const std::string& pattern, const std::string& name, Visit visit)
      : pattern_(pattern), name_(name), visit_(std::move(visit)) {}

  /// `rank`: what an earlier component says that it is. True when `visit` returned true.
  bool Match(std::optional<std::uint32_t> rank);

 private:
  bool From(std::size_t p, std::size_t n, const std::string& resolved, std::optional<std::uint32_t> rank);
  bool Star(std::size_t p, std::size_t n, const std::string& resolved, std::optional<std::uint32_t> rank);
  bool Rank(std::size_t p, std::size_t n, const std::string& resolved, std::optional<std::uint32_t> rank);

  const std::string& pattern_;
  const std::string& name_;
  const Visit visit_;
};

}  // namespace lzy
