#include "common/streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lzy {

// As in GNU coreutils: opened in the opposite direction of the stream, so that using it fails. A command that the tool
// becomes or starts finds the descriptors closed, as they were.
void KeepStandardDescriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest number that is free is this one.
    if (open("/dev/null", (descriptor == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC) != descriptor) return;
  }
}

void Put(std::FILE* to, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), to);
}

int EndStreams(std::string_view tool, int exit_code) {
  constexpr int kExitInputOutput = 6;
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0) {
    Put(stderr, fmt::format("{}: standard output: {}\n", tool, flushed ? "not all of it could be written" : std::strerror(errno)));
    if (exit_code == 0) exit_code = kExitInputOutput;
  }
  return exit_code == 0 && std::ferror(stderr) != 0 ? kExitInputOutput : exit_code;
}

}  // namespace lzy
