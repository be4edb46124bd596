#pragma once
// A bound on bytes per second, for any number of threads and files together.

#include <cstdint>
#include <functional>
#include <mutex>

namespace lzy {

/// Thread-safe.
class Pace {
 public:
  /// 0: no bound. `stop` (may be empty) ends waits early.
  explicit Pace(std::uint64_t bytes_per_second, std::function<bool()> stop = {})
      : rate_(bytes_per_second), stop_(std::move(stop)) {}
  /// Waits until these bytes may pass. What was not used in the last quarter of a second may be caught up with.
  void Take(std::uint64_t bytes);

 private:
  const std::uint64_t rate_;
  const std::function<bool()> stop_;
  std::mutex mutex_;
  std::int64_t next_ns_ = 0;  // when the next bytes may pass
};

}  // namespace lzy
