#include "common/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/streams.h"
#include "request/options.h"

namespace lzy {
namespace {

using namespace std::chrono_literals;
// docs/reference/tools.md: from one second of work on.
constexpr auto kSilence = 1s;
constexpr auto kInterval = 200ms;

// "1:05", or "2:01:05" from an hour on.
std::string Duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// The line: "verify  43 %  1.2 GiB/s  1:05 to go". `done` and `total` in bytes, `seconds` since the phase began. If
/// `total` is 0, there is neither a percentage nor a remaining time.
std::string ProgressLine(const std::string& phase, std::uint64_t done, std::uint64_t total, double seconds) {
  // Never more than 100 %.
  done = total == 0 ? done : std::min(done, total);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string line = phase;
  if (total > 0) line += fmt::format("  {:.0f} %", 100.0 * static_cast<double>(done) / static_cast<double>(total));
  line += fmt::format("  {}/s", FormatSize(static_cast<std::uint64_t>(rate)));
  if (total > 0 && rate > 0) line += fmt::format("  {} to go", Duration(static_cast<double>(total - done) / rate));
  return line;
}

/// The line for many small files: "1234 of 10000 files  12 %  4.1 MiB/s  0:07 to go". `bytes`: of the files that are
/// done.
std::string ProgressLine(std::uint64_t files, std::uint64_t total, std::uint64_t bytes, double seconds) {
  std::string line = fmt::format("{} of {} files  {:.0f} %", files, total, 100.0 * static_cast<double>(files) / static_cast<double>(total));
  if (seconds <= 0 || files == 0) return line;
  line += fmt::format("  {}/s", FormatSize(static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds)));
  return line + fmt::format("  {} to go", Duration(static_cast<double>(total - files) * seconds / static_cast<double>(files)));
}

}  // namespace

// Short work shows nothing, and a terminal is not flooded.
bool Progress::IsDue(Clock::time_point now) {
  if (now - begin_ < kSilence || now < next_) return false;
  next_ = now + kInterval;
  return true;
}

void Progress::Show(const std::string& line) {
  // Overwrites the rest of a longer line with spaces.
  const std::size_t padding = shown_ > line.size() ? shown_ - line.size() : 0;
  Put(stderr, fmt::format("\r{}{:{}}", line, "", padding));
  std::fflush(stderr);
  shown_ = line.size();
}

// Bytes per second, of a second or a little more.
double Progress::LastRate(Clock::time_point now, std::uint64_t done) {
  const double seconds = std::chrono::duration<double>(now - mark_).count();
  if (done < mark_done_ || seconds > 60) {
    mark_ = now;
    mark_done_ = done;
  } else if (seconds >= 1) {
    last_rate_ = static_cast<double>(done - mark_done_) / seconds;
    mark_ = now;
    mark_done_ = done;
  }
  return last_rate_;
}

void Progress::Update(const char* phase, std::uint64_t done, std::uint64_t total, const std::string* note) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  // The rate is that of this phase, and so is the remaining time.
  if (phase_ != phase || done < last_done_) {
    phase_ = phase;
    phase_begin_ = now;
  }
  last_done_ = done;
  if (note != nullptr) LastRate(now, done);
  if (!IsDue(now)) return;
  std::string line = ProgressLine(phase_, done, total, std::chrono::duration<double>(now - phase_begin_).count());
  if (note != nullptr) line += fmt::format("  now {}/s{}", FormatSize(static_cast<std::uint64_t>(last_rate_)), *note);
  Show(line);
}

void Progress::Count(std::uint64_t files, std::uint64_t total, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  file_bytes_ += bytes;
  const auto now = Clock::now();
  if (enabled_ && IsDue(now)) {
    Show(ProgressLine(files, total, file_bytes_, std::chrono::duration<double>(now - begin_).count()));
  }
}

void Progress::Clear() {
  const std::lock_guard lock(mutex_);
  if (shown_ == 0) return;
  Put(stderr, fmt::format("\r{:{}}\r", "", shown_));
  std::fflush(stderr);
  shown_ = 0;
  // The line comes back with the next Update.
  next_ = {};
}

}  // namespace lzy
