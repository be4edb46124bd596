#include "hooks/reports/usage.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "hooks/reports/messages.h"
#include "request/options.h"

namespace lzy::hooks {
namespace {

struct Usages {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Usage>> by_name;
};

Usages& Everything() {
  static auto& all = *new Usages;  // never destroyed: files may be closed at exit
  return all;
}

Usage::Clock::time_point Beginning() {
  static const auto beginning = Usage::Clock::now();
  return beginning;
}

}  // namespace

void Usage::StartClock() {
  (void)Beginning();
}

std::shared_ptr<Usage> Usage::Of(const std::string& name) {
  Usages& all = Everything();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Usage>& usage = all.by_name[name];
  if (!usage) usage = std::make_shared<Usage>();
  return usage;
}

void Usage::NoteCommit(const DatasetReport& report, std::uint64_t differing) {
  ++commits_;
  bytes_ = report.bytes;
  sidecar_bytes_ = report.sidecar_bytes;
  differing_ = differing;
}

// The share is of the run time of the program, not of the time that the dataset was open.
std::string Usage::Line(const std::string& name, double run_seconds) const {
  const double seconds = static_cast<double>(nanoseconds_.load()) * 1e-9;
  const double share = run_seconds > 0 ? 100 * seconds / run_seconds : 0;
  const std::uint64_t commits = commits_;
  const std::string what = commits == 0 ? "nothing committed"
                                        : fmt::format("{} in {} commit{}, parity and hashes {}", FormatSize(bytes_),
                                                      commits, commits == 1 ? "" : "s", FormatSize(sidecar_bytes_));
  const std::string differing = differing_ == 0 ? "" : fmt::format("; {} differ from what was written", FormatSize(differing_));
  const std::string uncompared = uncompared_ == 0 ? "" : fmt::format("; {} not compared by verify-writes", FormatSize(uncompared_));
  const double beside = static_cast<double>(background_nanoseconds_.load()) * 1e-9;
  const std::string background = beside > 0 ? fmt::format("; {:.3f} s in the background", beside) : "";
  return fmt::format("{}: {}, {:.3f} s added, {:.1f} % of {:.3f} s{}{}{}", name, what, seconds, share, run_seconds, background, differing,
                     uncompared);
}

void Usage::PrintAll() {
  // Taken out under the lock and written without the lock: a blocked stderr must not block opens of other threads.
  decltype(Usages::by_name) finished;
  {
    Usages& all = Everything();
    const std::lock_guard lock(all.mutex);
    finished.swap(all.by_name);
  }
  const double run_seconds = std::chrono::duration<double>(Clock::now() - Beginning()).count();
  for (const auto& [name, usage] : finished) Say(usage->Line(name, run_seconds));
}

}  // namespace lzy::hooks
