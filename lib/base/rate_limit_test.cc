#include "base/rate_limit.h"

#include <gtest/gtest.h>

namespace lzy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A clock that only sleeping moves.
struct VirtualTime {
  RateLimit::Clock::time_point now{std::chrono::hours(1)};
  RateLimit::Time Time() {
    return {.now = [this] { return now; }, .sleep = [this](std::chrono::nanoseconds time) { now += time; }};
  }
};

double SecondsSince(const VirtualTime& time, RateLimit::Clock::time_point then) {
  return std::chrono::duration<double>(time.now - then).count();
}

TEST(RateLimit, HoldsTheRateWithinFivePercentWhateverThePieces) {
  for (const std::uint64_t piece : {1000u, 65536u, 4u << 20}) {
    VirtualTime time;
    RateLimit limit(1e6, time.Time());
    const auto begin = time.now;
    const std::uint64_t pieces = 20'000'000 / piece + 1;
    for (std::uint64_t i = 0; i < pieces; ++i) limit.Take(piece);
    const double wanted = static_cast<double>(pieces * piece) / 1e6;
    EXPECT_NEAR(SecondsSince(time, begin), wanted, 0.05 * wanted) << piece;
  }
}

TEST(RateLimit, DoesNotMakeUpForAPause) {
  VirtualTime time;
  RateLimit limit(1e6, time.Time());
  limit.Take(1'000'000);
  time.now += seconds(100);
  const auto begin = time.now;
  limit.Take(2'000'000);
  EXPECT_GE(SecondsSince(time, begin), 1.9);
}

TEST(RateLimit, WaitsNoLongerWhenItIsStopped) {
  VirtualTime time;
  const auto begin = time.now;
  RateLimit limit(1, time.Time());
  limit.Take(1'000'000, [&] { return time.now - begin > milliseconds(500); });
  EXPECT_LT(SecondsSince(time, begin), 0.7);
}

TEST(RateLimit, ZeroIsNoLimit) {
  VirtualTime time;
  const auto begin = time.now;
  RateLimit limit(0, time.Time());
  limit.Take(1ull << 40);
  EXPECT_EQ(time.now, begin);
}

}  // namespace
}  // namespace lzy
