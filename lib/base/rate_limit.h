#pragma once
// Limits work to a number of bytes per second, for lzy-scrub and lzy-copy, which must leave the storage usable for others.

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace lzy {

/// Several threads may share one: each waits until the bytes of all threads are due. Time that was not used in a pause
/// cannot be used later.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;
  /// The clock and the sleep. Tests replace them.
  struct Time {
    std::function<Clock::time_point()> now = [] { return Clock::now(); };
    std::function<void(std::chrono::nanoseconds)> sleep;  ///< empty: sleeps
  };

  /// 0: no limit.
  explicit RateLimit(double bytes_per_second) : RateLimit(bytes_per_second, Time()) {}
  RateLimit(double bytes_per_second, Time time) : rate_(bytes_per_second), time_(std::move(time)) {}

  /// Counts `bytes`, and returns when they are due. Call it before each read, or after each read. `stop` is called several
  /// times a second; if it returns true, this thread stops waiting. May be empty.
  void Take(std::uint64_t bytes, const std::function<bool()>& stop = {});

 private:
  const double rate_;
  const Time time_;
  std::mutex mutex_;
  /// Time at which the bytes so far are due. The epoch of the clock: nothing was taken yet.
  Clock::time_point due_;
};

}  // namespace lzy
