#include "messages.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "base/printable.h"

namespace lzy::hooks {

void Say(const std::string& text) noexcept {
  const int saved = errno;  // the host may look at its own
  try {
    const std::string line = "lzy: " + Printable(text) + "\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for a message
  }
  errno = saved;
}

void Say(const char* where, const char* what) noexcept {
  const int saved = errno;
  char line[512];
  const int length = std::snprintf(line, sizeof line - 1, "lzy: %s: %s", where, what);
  if (length > 0) {
    auto end = std::min(static_cast<std::size_t>(length), sizeof line - 2);
    line[end++] = '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line, end);
  }
  errno = saved;
}

void Say(const Options& options, Options::Log level, const std::string& text) noexcept {
  if (level <= options.log) Say(text);
}

void SayOnce(const Options& options, Options::Log level, const std::string& about, const char* kind,
             const std::string& text) noexcept {
  if (level > options.log) return;
  try {
    static std::mutex mutex;
    static auto& said = *new std::set<std::pair<std::string, std::string>>;  // never destroyed: files may close at exit
    const std::lock_guard lock(mutex);
    if (!said.emplace(about, kind).second) return;
  } catch (...) {  // then it may be said twice
  }
  Say(text);
}

}  // namespace lzy::hooks
