#pragma once
// Shows the progress of the work in a line on the terminal. ToolRun has one, and the engine calls Update from its threads.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace lzy {

/// Writes to stderr, a few times a second, beginning one second after its construction. Thread-safe. Does nothing unless it
/// is enabled.
class Progress {
 public:
  explicit Progress(bool enabled) : enabled_(enabled), begin_(Clock::now()) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the state of the work. The rate is computed anew for a new phase, or if `done` decreases. With `note`, the line
  /// also has the rate of the last second, and ends with the note.
  void Update(const char* phase, std::uint64_t done, std::uint64_t total, const std::string* note = nullptr);
  /// Adds a file of `bytes` bytes. Now `files` of `total` files are done.
  void Count(std::uint64_t files, std::uint64_t total, std::uint64_t bytes);
  /// Removes the line from the terminal, so that other text can be printed. The next Update shows it again.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  /// True if it is time for another line.
  bool IsDue(Clock::time_point now);
  void Show(const std::string& line);
  double LastRate(Clock::time_point now, std::uint64_t done);

  const bool enabled_;
  const Clock::time_point begin_;
  std::mutex mutex_;
  std::string phase_;
  std::uint64_t last_done_ = 0;
  std::uint64_t file_bytes_ = 0;  // sum of all calls of Count
  Clock::time_point phase_begin_;
  Clock::time_point next_;
  /// The time from which the rate of the last second is computed.
  Clock::time_point mark_;
  std::uint64_t mark_done_ = 0;
  double last_rate_ = 0;
  /// Length of the line on the terminal; 0: there is no line.
  std::size_t shown_ = 0;
};

}  // namespace lzy
