#include "base/exchange_way.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace lzy {
namespace {

// Indexed by ExchangeWay.
constexpr std::array<const char*, kExchangeWays> kNames = {"auto", "mpi", "pairwise", "ring", "shared"};

}  // namespace

const char* ExchangeWayName(ExchangeWay way) {
  const auto number = static_cast<std::size_t>(way);
  return kNames[number < kNames.size() ? number : 0];
}

std::optional<ExchangeWay> ParseExchangeWay(const std::string& text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ExchangeWay>(found - kNames.begin());
}

}  // namespace lzy
