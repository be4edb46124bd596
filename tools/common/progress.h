#pragma once
// A line on a terminal that says how far the work is.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace lzy {

/// "verify  43 %  1.2 GiB/s  1:05 to go"
std::string ProgressLine(const std::string& phase, std::uint64_t done, std::uint64_t total, double seconds);

/// Writes to stderr, from one second after its construction on, a few times a second. Thread-safe.
class Progress {
 public:
  explicit Progress(bool enabled) : enabled_(enabled), begin_(Clock::now()) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(const char* phase, std::uint64_t done, std::uint64_t total);
  /// Takes the line off the terminal, so that something else can be printed.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  const bool enabled_;
  const Clock::time_point begin_;
  std::mutex mutex_;
  std::string phase_;
  std::uint64_t last_done_ = 0;
  Clock::time_point phase_begin_;
  Clock::time_point next_;
  std::size_t shown_ = 0;  // length of the line on the terminal
};

}  // namespace lzy
