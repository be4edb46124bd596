#pragma once
// Plans what lzy-scrub reads next: the datasets that were read longest ago, up to the requested amount. No files, no clock.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lzy {

/// A dataset that may be read.
struct ScrubCandidate {
  std::uint64_t bytes = 0;
  /// Nanoseconds since 1970; 0: never. Times after `now` count as never: a clock was set back.
  std::int64_t last_verified = 0;
  /// How far an earlier pass has read, in unit rows. rows = 0: there was none.
  std::uint64_t pass_rows = 0, rows = 0;
};

struct ScrubLimits {
  std::int64_t now = 0;
  double share = 1;             ///< share of the bytes of all candidates, 0 to 1
  std::int64_t older_than = 0;  ///< only datasets that were last read at least this many nanoseconds ago
  /// The run begins after this share (0 to 1) of the bytes of all candidates. For runs that do not know what earlier runs have
  /// read (TurnOfDay).
  double begin = 0;
};

/// One dataset to read: its index, its first unit row, and how many bytes at least. `most_bytes` 0: to its end.
struct ScrubStep {
  std::size_t candidate = 0;
  std::uint64_t first_row = 0;
  std::uint64_t most_bytes = 0;
};

/// Sorts datasets by their last verification; those of equal age in the given order, from `begin` on. The last one may be
/// read in part. If `share` is more than 0, something is read.
std::vector<ScrubStep> PlanScrub(std::span<const ScrubCandidate> candidates, const ScrubLimits& limits);

/// The candidate in which this share of all bytes ends, and the share of its own bytes before that place. {0, 0} if there
/// are no candidates.
std::pair<std::size_t, double> PlaceOfShare(std::span<const ScrubCandidate> candidates, double share);
/// The beginning (ScrubLimits::begin) of a run on this day, if it knows no other runs. Each day begins `share` later than the day
/// before, so daily runs read everything in 1 / `share` days.
double TurnOfDay(std::int64_t now, double share);

/// Parses "12%", "12" or "0.5%" to a share from 0 to 1. nullopt if it is not a number from 0 to 100.
std::optional<double> ParseShare(const std::string& text);
/// Parses "90s", "15m", "36h", "30d", "2w", "1y" (365.25 days), or seconds, to nanoseconds.
std::optional<std::int64_t> ParseDuration(const std::string& text);

}  // namespace lzy
