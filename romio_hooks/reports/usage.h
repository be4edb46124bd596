#pragma once
// What the layer cost this process, dataset by dataset: for option summary.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "hooks/layer/real.h"
#include "request/report.h"

namespace lzy::hooks {

class Usage {
 public:
  using Clock = std::chrono::steady_clock;

  /// Run time counts from the first call of this.
  static void StartClock();
  /// That of the dataset `name` (a file, or the pattern of a set), the same for all its opens.
  static std::shared_ptr<Usage> Of(const std::string& name);
  void NoteCommit(const DatasetReport& report);
  /// One line on stderr for each dataset there was since the last call.
  static void TellAll();

  void AddTime(Clock::duration time) { nanoseconds_ += std::chrono::nanoseconds(time).count(); }

 private:
  std::string Line(const std::string& name, double run_seconds) const;

  std::atomic<std::int64_t> nanoseconds_{0};
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> bytes_{0};  // at the last commit, as the next
  std::atomic<std::uint64_t> sidecar_bytes_{0};
};

/// Counts its life as the layer's time, but for what the real calls in it take. Without a Usage it does nothing.
class UsageTimer {
 public:
  explicit UsageTimer(Usage* usage) : usage_(usage) {
    if (usage_ != nullptr) start_ = Usage::Clock::now();
  }
  ~UsageTimer() {
    if (usage_ != nullptr) usage_->AddTime(Usage::Clock::now() - start_ - real_);
  }
  UsageTimer(const UsageTimer&) = delete;
  UsageTimer& operator=(const UsageTimer&) = delete;

  int Call(RealCall real) {
    if (usage_ == nullptr) return real();
    const auto start = Usage::Clock::now();
    const int code = real();
    real_ += Usage::Clock::now() - start;
    return code;
  }

 private:
  Usage* usage_;
  Usage::Clock::time_point start_;
  Usage::Clock::duration real_{};
};

}  // namespace lzy::hooks
