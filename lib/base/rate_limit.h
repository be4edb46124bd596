#pragma once
// Holds work to so many bytes a second: lzy-scrub and lzy-copy, which must leave the storage to others.

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace lzy {

/// Several threads may share one: each waits until the bytes of all are due. What was not used in a pause is not made
/// up for later.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;
  /// How time passes. Tests replace it.
  struct Time {
    std::function<Clock::time_point()> now = [] { return Clock::now(); };
    std::function<void(std::chrono::nanoseconds)> sleep;  ///< empty: sleeps
  };

  /// 0: no limit.
  explicit RateLimit(double bytes_per_second) : RateLimit(bytes_per_second, Time()) {}
  RateLimit(double bytes_per_second, Time time) : rate_(bytes_per_second), time_(std::move(time)) {}

  /// Counts so many bytes, and returns when they are due. Call it before or after they are read, each time alike. `stop` is asked several times a second;
  /// if it returns true, this thread waits no longer. May be empty.
  void Take(std::uint64_t bytes, const std::function<bool()>& stop = {});

 private:
  const double rate_;
  const Time time_;
  std::mutex mutex_;
  /// When the bytes so far are due; the epoch of the clock: nothing was taken yet.
  Clock::time_point due_;
};

}  // namespace lzy
