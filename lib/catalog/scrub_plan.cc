#include "catalog/scrub_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/numbers.h"

namespace lzy {

std::pair<std::size_t, double> PlaceOfShare(std::span<const ScrubCandidate> candidates, double share) {
  double left = 0;
  for (const ScrubCandidate& candidate : candidates) left += static_cast<double>(candidate.bytes) * share;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto bytes = static_cast<double>(candidates[i].bytes);
    if (left < bytes) return {i, left / bytes};
    left -= bytes;
  }
  return {0, 0};
}

double TurnOfDay(std::int64_t now, double share) {
  constexpr std::int64_t kDay = 86'400'000'000'000;
  const double turns = static_cast<double>(now / kDay) * share;
  return turns - std::floor(turns);
}

std::vector<ScrubStep> PlanScrub(std::span<const ScrubCandidate> candidates, const ScrubLimits& limits) {
  const auto age = [&](std::size_t i) {
    const std::int64_t then = candidates[i].last_verified;
    return then > limits.now ? 0 : then;
  };
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::rotate(order, order.begin() + static_cast<std::ptrdiff_t>(PlaceOfShare(candidates, limits.begin).first));
  std::ranges::stable_sort(order, {}, age);
  double left = 0;
  for (const ScrubCandidate& candidate : candidates) left += static_cast<double>(candidate.bytes) * limits.share;
  std::vector<ScrubStep> steps;
  for (const std::size_t i : order) {
    if (age(i) != 0 && limits.now - age(i) < limits.older_than) break;
    if (left <= 0 && limits.share < 1) break;
    const ScrubCandidate& candidate = candidates[i];
    const bool goes_on = candidate.pass_rows < candidate.rows;
    const double done = goes_on ? static_cast<double>(candidate.pass_rows) / static_cast<double>(candidate.rows) : 0;
    const double rest = static_cast<double>(candidate.bytes) * (1 - done);
    const bool in_part = limits.share < 1 && rest > left;
    steps.push_back({i, goes_on ? candidate.pass_rows : 0, in_part ? std::max<std::uint64_t>(1, static_cast<std::uint64_t>(left)) : 0});
    left -= rest;
  }
  return steps;
}

std::optional<double> ParseShare(const std::string& text) {
  const auto number = NumberAndRest(text, std::chars_format::fixed);
  if (!number || (number->second != "%" && !number->second.empty()) || number->first > 100) return std::nullopt;
  return number->first / 100;
}

std::optional<std::int64_t> ParseDuration(const std::string& text) {
  const auto number = NumberAndRest(text, std::chars_format::fixed);
  const auto seconds = number ? SecondsOfUnit(number->second.empty() ? "s" : number->second) : std::nullopt;
  if (!seconds || number->first * *seconds > 9e9) return std::nullopt;
  return static_cast<std::int64_t>(number->first * *seconds * 1e9);
}

}  // namespace lzy
