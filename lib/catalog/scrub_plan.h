#pragma once
// What lzy-scrub reads next: what was read back longest ago, as much of it as was asked for. Pure: no files, no clock.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lzy {

/// A dataset that could be read.
struct ScrubCandidate {
  std::uint64_t bytes = 0;
  /// Nanoseconds since 1970; 0: never. Times after `now` count as never: a clock was set back.
  std::int64_t last_verified = 0;
  /// How far an earlier pass came, in unit rows. rows = 0: there is none.
  std::uint64_t pass_rows = 0, rows = 0;
};

struct ScrubLimits {
  std::int64_t now = 0;
  double share = 1;             ///< of all bytes of all candidates, 0 to 1
  std::int64_t older_than = 0;  ///< only what was last read this many nanoseconds ago or earlier
  /// Where to begin among all candidates: this share of their bytes, 0 to 1, goes before. For runs that do not know what
  /// earlier ones have read (TurnOfDay).
  double begin = 0;
};

/// One dataset to read: which, from which unit row on, and how many bytes at least. `most_bytes` 0: to its end.
struct ScrubStep {
  std::size_t candidate = 0;
  std::uint64_t first_row = 0;
  std::uint64_t most_bytes = 0;
};

/// Datasets in the order of their last verification; those of equal age in the order given, from `begin` on. The last one
/// may be read in part only. A share of more than nothing reads something.
std::vector<ScrubStep> PlanScrub(std::span<const ScrubCandidate> candidates, const ScrubLimits& limits);

/// The candidate in which this share of all bytes ends, and what share of its own bytes goes before that place. Of no
/// candidates: {0, 0}.
std::pair<std::size_t, double> PlaceOfShare(std::span<const ScrubCandidate> candidates, double share);
/// Where a run on this day begins that knows of no other: `share` of everything behind the place of the day before, so that
/// a run each day comes round in 1 / `share` days.
double TurnOfDay(std::int64_t now, double share);

/// "12%", "12", "0.5%": a share from 0 to 1. nullopt: it is none, or not within 0 and 100.
std::optional<double> ParseShare(const std::string& text);
/// "90s", "15m", "36h", "30d", "2w", "1y" (365.25 days), or seconds: nanoseconds.
std::optional<std::int64_t> ParseDuration(const std::string& text);

}  // namespace lzy
