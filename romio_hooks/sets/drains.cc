// Starting a drain. The program may have threads, signal handlers and pinned memory, so fork() is not possible: the parent
// shares its memory with the child until the child has become a shell, as with vfork. The first child makes a second child
// and ends at once, so the shell is no child of the program. The first child has no exit signal: the program gets no
// SIGCHLD, and its wait() finds no such child.
//
// Order of drains: each shell reads the output of the shell before it, up to its end, and passes it on. So it begins when
// the one before has ended, and this process holds one descriptor, whatever the number of drains.

#include "hooks/sets/drains.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/node.h"
#include "base/printable.h"
#include "base/status.h"
#include "hooks/reports/messages.h"

namespace lzy::hooks {
namespace {

// $1 number of the drain, $2 lzy-copy, $3 directory of the copy, $4 and $5 source and copy. The line with the number ends
// the output of a drain.
constexpr const char* kScript =
    "cat\n"
    "{ mkdir -p -- \"$3\" && \"$2\" --resume --quiet --no-progress -- \"$4\" \"$5\"; } 2>&1 >/dev/null\n"
    "echo \"lzy-drain $1 $?\"";  // format for Understand
// The most drains that wait. With more, checkpoints come faster than they can be copied.
constexpr std::size_t kMostWaiting = 64;

// A null-terminated array as for exec(3).
struct Words {
  std::vector<std::string> texts;
  std::vector<char*> pointers;
  char** c_array() {
    pointers.clear();
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers.data();
  }
};

/// The environment without variables that make a process a rank of this job, or that would protect its files.
Words EnvironmentOfDrain() {
  constexpr std::string_view kLeftOut[] = {"LD_PRELOAD=", "LZY_DRAIN=", "LZY_REPORT=", "LZY_SUMMARY="};
  Words words;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view one(*entry);
    const auto begins = [&](std::string_view prefix) { return one.starts_with(prefix); };
    if (!IsOfMpiLauncher(one) && std::ranges::none_of(kLeftOut, begins)) words.texts.emplace_back(one);
  }
  return words;
}

/// lzy-copy of the same build or installation as this library. Empty if there is none.
std::string FindCopy() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&FindCopy), &own) == 0 || own.dli_fname == nullptr) return "";
  std::string directory = DirectoryOf(own.dli_fname);
  // lib, lib/lzy or lib/ARCH/lzy, beside bin.
  for (int up = 0; up < 3; ++up) {
    directory = JoinPath(directory, "..");
    const std::string path = JoinPath(directory, "bin/lzy-copy");
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

/// Data for both children, prepared before they start, because they must not allocate memory.
struct Start {
  char** words;
  char** environment;
  int input, output;
  int last_descriptor;
  char* stack;  // upper end of the second child's stack
  int error = 0;
};

void CloseFrom(int first, int last) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
#endif
  for (int fd = first; fd <= last; ++fd) close(fd);
}

// Becomes the shell. All signals are blocked; the handlers are still those of the program.
int BecomeShell(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  constexpr int kIdlePriority = 19, kIoWhoProcess = 1, kIoClassIdle = 3 << 13;
  setsid();
  (void)setpriority(PRIO_PROCESS, 0, kIdlePriority);
  (void)syscall(SYS_ioprio_set, kIoWhoProcess, 0, kIoClassIdle);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  if (dup2(start.input, 0) < 0 || dup2(start.output, 1) < 0 || dup2(start.output, 2) < 0) {
    start.error = errno;
    _exit(1);
  }
  CloseFrom(3, start.last_descriptor);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve("/bin/sh", start.words, start.environment);
  start.error = errno;
  _exit(1);
}

int StartShell(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  if (clone(BecomeShell, start.stack, CLONE_VM | CLONE_VFORK, argument) < 0) start.error = errno;
  _exit(0);
}

// Returns errno, or 0.
int Spawn(Words& words, Words& environment, int input, int output) {
  constexpr std::size_t kStack = 64u << 10;
  std::vector<char> stacks(2 * kStack + 64);
  const auto align = [](char* end) { return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(end) / 16 * 16); };
  Start start{words.c_array(), environment.c_array(), input, output,
              static_cast<int>(std::min<long>(sysconf(_SC_OPEN_MAX), 65536)), align(stacks.data() + 2 * kStack)};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t first = clone(StartShell, align(stacks.data() + kStack), CLONE_VM | CLONE_VFORK, &start);
  if (first < 0) start.error = errno;
  while (first > 0 && waitpid(first, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return start.error;
}

}  // namespace

void Drains::Begin(const Options& options, const std::string& from, const std::string& to) {
  const auto refuse = [&](const std::string& why) {
    Say(options, Options::Log::kWarn, fmt::format("drain of {} to {}: not begun: {}", from, to, why));
  };
  if (program_.empty() && (program_ = FindCopy()).empty()) return refuse("lzy-copy is not beside this library");
  (void)Take();
  const auto waits = [](const Drain& drain) { return drain.exit_code == kNone; };
  if (static_cast<std::size_t>(std::ranges::count_if(drains_, waits)) >= kMostWaiting) {
    return refuse(fmt::format("{} earlier ones have not ended", kMostWaiting));
  }
  // Move descriptors above 2, which the shell needs: the program may have closed some of these.
  const auto above = [](int fd) { return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 3)); };
  Descriptor input = std::move(output_);
  // The output of earlier drains is still read here.
  const auto give_up = [&](int error) {
    output_ = std::move(input);
    refuse(std::strerror(error));
  };
  if (!input.valid()) input = above(Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)).get());
  std::array<int, 2> ends{-1, -1};
  if (!input.valid() || pipe2(ends.data(), O_CLOEXEC) != 0) return give_up(errno);
  const Descriptor first(ends[0]), second(ends[1]);
  Descriptor next = above(ends[0]);
  const Descriptor output = above(ends[1]);
  if (!next.valid() || !output.valid()) return give_up(errno);
  (void)fcntl(input.get(), F_SETFL, 0);  // so that cat waits
  Words words{{"sh", "-c", kScript, "lzy-drain", std::to_string(drains_.size()), program_, DirectoryOf(to), from, to}, {}};
  Words environment = EnvironmentOfDrain();
  if (const int error = Spawn(words, environment, input.get(), output.get()); error != 0) {
    (void)fcntl(input.get(), F_SETFL, O_NONBLOCK);
    return give_up(error);
  }
  output_ = std::move(next);
  (void)fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  drains_.push_back({from, to, kNone, ""});
}

bool Drains::Take() {
  for (std::array<char, 4096> piece; output_.valid();) {
    const ssize_t got = read(output_.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      Understand();
      return got < 0 && errno == EAGAIN;
    }
    text_.append(piece.data(), static_cast<std::size_t>(got));
  }
  return false;
}

// All lines before the line that ends a drain are its output.
void Drains::Understand() {
  std::string told;
  std::size_t done = 0, end = 0;
  for (std::size_t at = 0; (end = text_.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text_.substr(at, end - at);
    std::size_t number = 0;
    int code = 0;
    if (std::sscanf(line.c_str(), "lzy-drain %zu %d", &number, &code) != 2 || number >= drains_.size()) {
      told += (told.empty() ? "" : "; ") + line;
      continue;
    }
    drains_[number].exit_code = code;
    drains_[number].told = std::exchange(told, "");
    done = end + 1;
  }
  text_.erase(0, done);
}

std::string Drains::Resume(const Drain& drain) const {
  return fmt::format("lzy-copy --resume {} {}", ShellQuote(drain.from), ShellQuote(drain.to));
}

void Drains::Finish(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  bool open = false;
  while ((open = Take()) && Clock::now() < end) {
    pollfd ready{output_.get(), POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    (void)poll(&ready, 1, static_cast<int>(std::clamp<long>(left, 0, 1000)));
  }
  for (auto drain = drains_.begin(); drain != drains_.end(); ++drain) {
    // A later copy of the same member replaces this one.
    const bool again = std::any_of(drain + 1, drains_.end(), [&](const Drain& later) { return later.to == drain->to; });
    if (drain->exit_code == 0 || again) continue;
    std::string what = fmt::format("failed: {}; to go on", drain->told);
    if (drain->exit_code == kNone) {
      what = open ? fmt::format("has not ended after {} s and goes on in the background; if it is ended, type", options.timeout_seconds)
                  : "was ended; to go on";
    }
    Say(options, Options::Log::kWarn, fmt::format("drain of {} to {}: {}: {}", drain->from, drain->to, what, Resume(*drain)));
  }
  drains_.clear();
  output_ = Descriptor();
}

}  // namespace lzy::hooks
