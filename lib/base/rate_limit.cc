#include "base/rate_limit.h"

#include <algorithm>
#include <thread>

namespace lzy {

// The mutex is held while a thread waits, because the next thread must wait at least as long.
void RateLimit::Take(std::uint64_t bytes, const std::function<bool()>& stop) {
  if (rate_ <= 0) return;
  // The most unused time that may be used later: too little to matter.
  constexpr auto kForgiven = std::chrono::milliseconds(100);
  constexpr auto kBetweenQuestions = std::chrono::nanoseconds(std::chrono::milliseconds(50));
  const std::lock_guard lock(mutex_);
  const Clock::time_point first = time_.now();
  due_ = due_ == Clock::time_point() ? first : std::max(due_, first - kForgiven);
  due_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(static_cast<double>(bytes) / rate_));
  for (Clock::time_point now = first; now < due_; now = time_.now()) {
    if (stop && stop()) return;
    const auto wait = std::min(kBetweenQuestions, std::chrono::nanoseconds(due_ - now));
    if (time_.sleep) {
      time_.sleep(wait);
    } else {
      std::this_thread::sleep_for(wait);
    }
  }
}

}  // namespace lzy
