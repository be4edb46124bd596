#include "base/rate_limit.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

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

TEST(RateLimit, BoundsTheRateOfAllThreadsTogether) {
  RateLimit limit(10 << 20);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 16; ++n) limit.Take(64 << 10);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(taken, 0.38);  // 4 MiB at 10 MiB a second
}

TEST(RateLimit, EndsAWaitWhenItIsToStop) {
  RateLimit limit(1);
  limit.Take(1 << 30, [] { return true; });
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
