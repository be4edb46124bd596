#include "hooks/reports/messages.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "base/printable.h"

namespace lzy::hooks {

void Say(const std::string& text) noexcept {
  // The program may read errno after its MPI call.
  const int saved = errno;
  try {
    const std::string line = "lzy: " + Printable(text) + "\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for a message
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
  } catch (...) {  // without memory to remember it, it may be said twice
  }
  Say(text);
}

}  // namespace lzy::hooks
