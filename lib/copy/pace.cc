#include "copy/pace.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace lzy {
namespace {

constexpr std::int64_t kCredit = 250'000'000;  // ns
constexpr std::int64_t kNap = 50'000'000;      // ns; an interrupt is noticed after one

std::int64_t SteadyNowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

// All threads share one clock. Each advances it by the time that its bytes need, and sleeps until the clock's time has
// come. Without the credit, time that a thread spends on reading and writing would be lost.
void Pace::Take(std::uint64_t bytes) {
  if (rate_ == 0) return;
  const auto duration = static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_));
  std::int64_t until = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t now = SteadyNowNs();
    next_ns_ = next_ns_ == 0 ? now : std::max(next_ns_, now - kCredit);
    until = next_ns_ += duration;
  }
  for (std::int64_t left; (left = until - SteadyNowNs()) > 0 && !(stop_ && stop_());) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left, kNap)));
  }
}

}  // namespace lzy
