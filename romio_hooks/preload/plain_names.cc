#include "hooks/preload/plain_names.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace lzy::hooks {
namespace {

std::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// A glob for the last component of the set pattern `pattern`: %r and %0<width>r become '*', %% becomes '%'. Characters that
/// are special in a glob only stand for themselves in a set pattern.
std::string GlobOfSet(std::string_view pattern) {
  pattern.remove_prefix(pattern.rfind('/') + 1);  // npos + 1 is 0
  std::string glob;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '*') {
      glob += c;
    } else if (c != '%') {
      if (c == '?' || c == '[' || c == '\\') glob += '\\';
      glob += c;
    } else if (i + 1 < pattern.size() && pattern[i + 1] == '%') {
      glob += '%';
      ++i;
    } else {
      glob += '*';
      i = std::min(pattern.find('r', i), pattern.size() - 1);
    }
  }
  return glob;
}

template <class Each>
void ForEachPart(std::string_view list, const Each& each) {
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(':', at), list.size());
    if (end > at) each(list.substr(at, end - at));
    at = end + 1;
  }
}

/// Globs for the last components of paths. Never destroyed: files are opened at exit, too.
const std::vector<std::string>* ReadGlobs() {
  const std::string_view disabled = Variable("LZY_DISABLE");
  const std::string_view posix = Variable("LZY_POSIX");
  if ((!disabled.empty() && disabled != "0") || posix == "off") return nullptr;
  auto* const globs = new std::vector<std::string>;
  ForEachPart(Variable("LZY_SET"), [&](std::string_view pattern) { globs->push_back(GlobOfSet(pattern)); });
  if (posix == "on") {
    // A glob with a slash is compared with the whole path, where '*' stands for slashes, too.
    ForEachPart(Variable("LZY_INCLUDE"), [&](std::string_view glob) {
      globs->emplace_back(glob.find('/') == std::string_view::npos ? glob : std::string_view("*"));
    });
  }
  if (!globs->empty()) return globs;
  delete globs;
  return nullptr;
}

enum class State { kUnknown, kNone, kSome };
constinit std::atomic<State> state{State::kUnknown};
constinit std::atomic<const std::vector<std::string>*> known{nullptr};

// Two threads may read the environment at once. They find the same, and one vector is lost.
State Learn() {
  State found = state.load(std::memory_order_acquire);
  if (found != State::kUnknown) return found;
  const auto* const globs = ReadGlobs();
  known.store(globs);
  found = globs == nullptr ? State::kNone : State::kSome;
  state.store(found, std::memory_order_release);
  return found;
}

// The real call answers EFAULT to a pointer that leads nowhere. So does this one, which fails with EBADF in any other case: it copies the
// text of the link first, and looks nothing up.
bool IsReadable(const char* path) {
  const int saved = errno;
  const bool readable = symlinkat(path, -1, "none") == 0 || errno != EFAULT;
  errno = saved;
  return readable;
}

}  // namespace

bool AnyPlainNames() noexcept {
  try {
    return Learn() == State::kSome;
  } catch (...) {  // no memory
    return false;
  }
}

bool MayBePlainName(const char* path) noexcept {
  if (path == nullptr || !AnyPlainNames() || !IsReadable(path)) return false;
  const std::string_view whole(path);
  const char* const name = path + whole.rfind('/') + 1;
  if (std::string_view(name).starts_with(".LZY.")) return false;
  for (const std::string& glob : *known.load()) {
    if (fnmatch(glob.c_str(), name, 0) == 0) return true;
  }
  return false;
}

}  // namespace lzy::hooks
