#include "names/set_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// The value of `digits`; nullopt if it is too large for a rank.
std::optional<std::uint32_t> NumberIn(const std::string& digits) {
  std::uint32_t value = 0;
  const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec;
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string EscapePercent(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '%' ? "%%" : std::string(1, c);
  return out;
}

std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail, std::uint32_t rank) {
  const std::string end = ExpandPattern(tail, rank);
  if (path == end) return tail;
  if (!path.ends_with("/" + end)) return std::nullopt;
  return EscapePercent(path.substr(0, path.size() - end.size())) + tail;
}

namespace {

// The offset in `path` of its last components, as many as `tail` has.
std::size_t TailBegin(const std::string& path, const std::string& tail) {
  std::size_t begin = path.size();
  for (auto levels = std::ranges::count(tail, '/') + 1; levels > 0 && begin != std::string::npos; --levels) {
    begin = begin == 0 ? std::string::npos : path.rfind('/', begin - 1);
  }
  return begin == std::string::npos ? 0 : begin + 1;
}

}  // namespace

std::optional<std::string> PatternFromTail(const std::string& path, const std::string& tail) {
  const auto rank = MatchPattern(tail, path.substr(TailBegin(path, tail)));
  return rank ? PatternFromTail(path, tail, *rank) : std::nullopt;
}

std::string PatternBeside(const std::string& path, const std::string& tail) {
  return EscapePercent(path.substr(0, TailBegin(path, tail))) + tail;
}

namespace {

/// A pattern that may give a path its name.
struct Guess {
  std::string pattern;
  std::uint32_t rank = 0;
  int numbers_behind = 0;  // numbers behind this one in the name
};

/// For each number in the base name that may be a rank: one guess with %r (if it has no leading zeros) and one with %0Nr, N
/// its width. The last number comes first.
std::vector<Guess> Guesses(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  const std::string name = path.substr(directory.size());
  std::vector<Guess> out;
  int numbers_behind = 0;
  // `end` is the end of a run of digits, from the last run to the first.
  for (std::size_t end = name.size(); end > 0; --end) {
    const auto digit = [&](std::size_t at) { return name[at] >= '0' && name[at] <= '9'; };
    if (!digit(end - 1) || (end < name.size() && digit(end))) continue;
    std::size_t begin = end;
    while (begin > 0 && digit(begin - 1)) --begin;
    const std::size_t width = end - begin;
    const auto rank = NumberIn(name.substr(begin, width));
    for (const std::string& placeholder : {std::string("%r"), fmt::format("%0{}r", width)}) {
      if (!rank || ExpandPattern(placeholder, *rank) != name.substr(begin, width)) continue;
      out.push_back({EscapePercent(directory + name.substr(0, begin)) + placeholder + EscapePercent(name.substr(end)), *rank,
                     numbers_behind});
    }
    ++numbers_behind;
  }
  return out;
}

}  // namespace

std::vector<std::string> GuessPatterns(const std::string& path, std::uint32_t rank) {
  std::vector<std::string> out;
  for (Guess& guess : Guesses(path)) {
    if (guess.rank == rank) out.push_back(std::move(guess.pattern));
  }
  return out;
}

std::vector<GuessedSet> GuessSets(const std::vector<std::string>& paths, const std::vector<std::string>& others) {
  struct Candidate {
    int numbers_behind = 0;
    std::map<std::uint32_t, std::string> members;
  };
  std::map<std::string, Candidate> candidates;
  for (const std::string& path : paths) {
    for (const Guess& guess : Guesses(path)) {
      Candidate& candidate = candidates[guess.pattern];
      candidate.numbers_behind = guess.numbers_behind;
      candidate.members[guess.rank] = path;
    }
  }
  for (const std::string& path : others) {
    for (const Guess& guess : Guesses(path)) candidates.erase(guess.pattern);
  }
  // "%r" and "%01r" may be equivalent. The shorter one comes first.
  std::vector<std::pair<const std::string*, const Candidate*>> order;
  for (const auto& [pattern, candidate] : candidates) {
    const bool without_gap = candidate.members.size() > 1 && candidate.members.rbegin()->first == candidate.members.size() - 1;
    if (without_gap) order.emplace_back(&pattern, &candidate);
  }
  std::ranges::stable_sort(order, {}, [](const auto& one) {
    return std::pair(one.second->numbers_behind, one.first->size());
  });
  std::vector<GuessedSet> out;
  std::set<std::string> taken;
  for (const auto& [pattern, candidate] : order) {
    GuessedSet set{*pattern, {}};
    for (const auto& [rank, path] : candidate->members) set.members.push_back(path);
    if (std::ranges::any_of(set.members, [&](const std::string& path) { return taken.contains(path); })) continue;
    taken.insert(set.members.begin(), set.members.end());
    out.push_back(std::move(set));
  }
  return out;
}

namespace {

// Matches by backtracking, and remembers positions (in pattern and name) from which nothing matches. Otherwise a pattern of
// many stars would take exponential time. Whether a position can match depends on the rank, so there is one table for no
// rank and one for the rank that is being tried.
class ComponentMatcher {
 public:
  ComponentMatcher(const std::string& pattern, const std::string& name) : pattern_(pattern), name_(name) {
    for (auto& hopeless : hopeless_) hopeless.resize((pattern.size() + 1) * (name.size() + 1));
  }

  // True if the pattern from `p` on matches the name from `n` on. Then match() has the whole match.
  bool From(std::size_t p, std::size_t n, std::optional<std::uint32_t> rank) {
    std::vector<bool>& hopeless = hopeless_[rank ? 1 : 0];
    const std::size_t place = p * (name_.size() + 1) + n;
    if (hopeless[place]) return false;
    if (Try(p, n, rank)) return true;
    hopeless[place] = true;
    return false;
  }
  ComponentMatch match() && { return std::move(match_); }

 private:
  // Appends `text` for the last match, and continues. Removes it if the rest does not match.
  bool Then(const std::string& text, std::size_t p, std::size_t n, std::optional<std::uint32_t> rank) {
    const std::size_t before = match_.resolved.size();
    match_.resolved += text;
    if (From(p, n, rank)) return true;
    match_.resolved.resize(before);
    return false;
  }

  // One step: the end, a star, a placeholder, or one character.
  bool Try(std::size_t p, std::size_t n, std::optional<std::uint32_t> rank) {
    if (p == pattern_.size()) {
      match_.rank = rank;
      return n == name_.size();
    }
    if (pattern_[p] == '*') {
      return From(p + 1, n, rank) || (n < name_.size() && Then(EscapePercent(name_.substr(n, 1)), p, n + 1, rank));
    }
    const bool escape = pattern_[p] == '%' && p + 1 < pattern_.size() && pattern_[p + 1] == '%';
    if (pattern_[p] == '%' && !escape) return Rank(p, n, rank);
    if (n == name_.size() || pattern_[p] != name_[n]) return false;
    const std::size_t length = escape ? 2 : 1;
    return Then(pattern_.substr(p, length), p + length, n + 1, rank);
  }

  // Matches a placeholder. If the rank is not known, tries every number here that the placeholder could have printed, the
  // longest first.
  bool Rank(std::size_t p, std::size_t n, std::optional<std::uint32_t> rank) {
    const std::size_t length = pattern_.find('r', p) + 1 - p;
    const std::string placeholder = pattern_.substr(p, length);
    const auto try_rank = [&](std::uint32_t value) {
      const std::string text = ExpandPattern(placeholder, value);
      return name_.compare(n, text.size(), text) == 0 && Then(placeholder, p + length, n + text.size(), value);
    };
    if (rank) return try_rank(*rank);
    std::size_t end = n;
    while (end < name_.size() && name_[end] >= '0' && name_[end] <= '9') ++end;
    for (; end > n; --end) {
      const auto value = NumberIn(name_.substr(n, end - n));
      if (!value || ExpandPattern(placeholder, *value).size() != end - n) continue;
      // With another rank, positions that failed before may match.
      hopeless_[1].assign(hopeless_[1].size(), false);
      if (try_rank(*value)) return true;
    }
    return false;
  }

  const std::string& pattern_;
  const std::string& name_;
  std::array<std::vector<bool>, 2> hopeless_;  // without a rank, and with the one that is being tried
  ComponentMatch match_;
};

}  // namespace

std::optional<ComponentMatch> MatchComponent(const std::string& pattern, const std::string& name,
                                             std::optional<std::uint32_t> rank) {
  // As in a shell, hidden files match only if the pattern begins with a dot.
  if (name.starts_with('.') && !pattern.starts_with('.')) return std::nullopt;
  ComponentMatcher matcher(pattern, name);
  if (!matcher.From(0, 0, rank)) return std::nullopt;
  return std::move(matcher).match();
}

}  // namespace lzy
