#include "hooks/contract/say.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace lzy::hooks {

void Say(const char* where, const char* what) noexcept {
  const int saved = errno;  // the program may read errno
  char line[1024];
  const int length = std::snprintf(line, sizeof line - 1, "lzy: %s: %s", where, what);
  if (length > 0) {
    auto end = std::min(static_cast<std::size_t>(length), sizeof line - 2);
    line[end++] = '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line, end);
  }
  errno = saved;
}

}  // namespace lzy::hooks
