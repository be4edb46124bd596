#pragma once
// Option summary: the cost of the layer in this process, for each dataset.
//
// OpenFile::usage points to the Usage of its dataset. Hooks of the file add their time to it (UsageTimer), and commits
// their results. MPI_Finalize writes one line for each Usage. Only the rank that reports for a dataset has its Usage, so
// the times are those of one rank. All functions are local and thread-safe.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "hooks/contract/real.h"
#include "request/report.h"

namespace lzy::hooks {

/// The sums of one dataset.
class Usage {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the clock for the run time of the program at the first call (in MPI_Init, or the first open).
  static void StartClock();
  /// The Usage of the dataset `name` (a path, or the pattern of a set). All opens get the same one until PrintAll.
  static std::shared_ptr<Usage> Of(const std::string& name);
  /// Adds a successful commit. Sizes are those of the last commit, not sums.
  /// `differing`: bytes that differ from what was written (Doubts).
  void NoteCommit(const DatasetReport& report, std::uint64_t differing = 0);
  /// Counts bytes that verify-writes could not compare.
  void NoteUncompared(std::uint64_t bytes) { uncompared_ += bytes; }
  /// Writes one line on stderr for each dataset since the last call, and forgets them.
  static void PrintAll();

  /// Adds time that a commit took in the background.
  void AddBackground(Clock::duration time) { background_nanoseconds_ += std::chrono::nanoseconds(time).count(); }
  void AddTime(Clock::duration time) { nanoseconds_ += std::chrono::nanoseconds(time).count(); }

 private:
  std::string Line(const std::string& name, double run_seconds) const;

  std::atomic<std::int64_t> nanoseconds_{0};
  std::atomic<std::int64_t> background_nanoseconds_{0};
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> bytes_{0};  // of the data, at the last commit; the next field likewise
  std::atomic<std::uint64_t> sidecar_bytes_{0};
  std::atomic<std::uint64_t> uncompared_{0};
  std::atomic<std::uint64_t> differing_{0};  // bytes at the last commit
};

/// Adds the time of its life to a Usage, without the time of real MPI calls made by Call. Does nothing if `usage` is null.
/// The Usage must outlive the timer.
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

  /// Makes the real call and subtracts its time. Returns its code.
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
