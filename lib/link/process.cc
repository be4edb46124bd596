#include "link/process.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/file.h"

namespace lzy {
namespace {

constexpr int kSignalled = 128;
constexpr int kBufferBytes = 1 << 20;
constexpr double kPatienceSeconds = 5;

// The ends to read from and to write to. A pair of sockets, not a pipe: only a socket can be shut down while a thread uses it.
Result<std::array<Descriptor, 2>> MakePair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status(Code::kIo, fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
  (void)setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);  // only for speed
  return std::array<Descriptor, 2>{Descriptor(ends[0]), Descriptor(ends[1])};
}

// In the new process: becomes the command. Only calls that are safe after fork() in a process with threads.
[[noreturn]] void Become(char* const* words, int input, int output, int failure, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  // Ctrl-C ends the parent while it waits for a password, say, and this process ignores it.
  if (parent > 0 && (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)) _exit(127);
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0) execvp(words[0], words);
  const int error = errno;
  (void)!write(failure, &error, sizeof error);
  _exit(127);
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::vector<std::string>& words, WhenThisEnds then) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  LZY_ASSIGN_OR_RETURN(auto to, MakePair());
  LZY_ASSIGN_OR_RETURN(auto from, MakePair());
  LZY_ASSIGN_OR_RETURN(auto failure, MakePair());
  auto child = std::unique_ptr<ChildProcess>(new ChildProcess());
  child->name_ = BaseNameOf(words[0]);
  const pid_t parent = then == WhenThisEnds::kEnd ? getpid() : 0;
  child->pid_ = fork();
  if (child->pid_ < 0) return Status(Code::kIo, fmt::format("{}: cannot be started: {}", words[0], std::strerror(errno)));
  if (child->pid_ == 0) Become(argv.data(), to[0].get(), from[1].get(), failure[1].get(), parent);
  failure[1] = Descriptor();
  int error = 0;
  if (read(failure[0].get(), &error, sizeof error) == sizeof error) {
    (void)child->Wait(kPatienceSeconds);
    return Status(error == ENOENT ? Code::kNotFound : Code::kIo, fmt::format("{}: cannot be started: {}", words[0], std::strerror(error)));
  }
  child->output = std::move(from[0]);
  child->input = std::move(to[1]);
  return child;
}

ChildProcess::~ChildProcess() {
  input = Descriptor();
  output = Descriptor();
  if (Wait(kPatienceSeconds) < 0) Stop();
}

void ChildProcess::Disconnect() {
  for (const Descriptor* one : {&input, &output}) {
    if (one->valid()) (void)shutdown(one->get(), SHUT_RDWR);
  }
}

void ChildProcess::EndInput() {
  if (input.valid()) (void)shutdown(input.get(), SHUT_WR);
}

void ChildProcess::Stop() {
  if (pid_ <= 0 || Wait(0) >= 0) return;
  kill(pid_, SIGTERM);
  if (Wait(1) >= 0) return;
  kill(pid_, SIGKILL);
  (void)Wait(kPatienceSeconds);
}

int ChildProcess::Wait(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      int status = 0;
      const pid_t ended = code_ < 0 && pid_ > 0 ? waitpid(pid_, &status, WNOHANG) : 0;
      if (ended == pid_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
      if (ended < 0 && errno != EINTR) code_ = 0;  // somebody else has waited for it
      if (code_ >= 0 || pid_ <= 0 || std::chrono::steady_clock::now() >= end) return code_;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string ChildProcess::HowItEnded() {
  const int code = Wait(1);
  if (code < 0) return "";
  if (code > kSignalled && code <= kSignalled + 64) return fmt::format("{} was ended by signal {}", name_, code - kSignalled);
  return fmt::format("{} ended with exit code {}", name_, code);
}

}  // namespace lzy
