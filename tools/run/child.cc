#include "run/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace lzy {
namespace {

/// Signals that users, shells and schedulers send to end or notify a program.
constexpr std::array kPassedOn = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

volatile sig_atomic_t child = 0;

// The terminal sends a signal to the whole process group, so the command already has it. Launchers would treat a second
// signal as "end now".
void PassOn(int signal, siginfo_t* about, void*) {
  const int kept = errno;
  if (about->si_code <= 0 && child > 0) (void)kill(child, signal);
  errno = kept;
}

/// Passes signals on during its lifetime. Ignored signals stay ignored, and the command inherits this (nohup).
class Passing {
 public:
  Passing() {
    struct sigaction action {};
    action.sa_sigaction = PassOn;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      sigaction(kPassedOn[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kPassedOn[i], &action, nullptr);
    }
  }
  ~Passing() { Stop(); }
  void Stop() const {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &before_[i], nullptr);
  }
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;

 private:
  std::array<struct sigaction, kPassedOn.size()> before_{};
};

/// Runs in the new process. Returns only if exec failed; errno is then written to `failure`.
void BecomeCommand(std::vector<char*>& words, const std::function<void()>& prepare, pid_t parent, int failure) {
  // If lzy-run is killed (kill -9), the command is killed, too. The parent may have ended before this call.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (prepare) prepare();
  execvp(words[0], words.data());
  const int error = errno;
  (void)!write(failure, &error, sizeof(error));
  _exit(127);
}

ChildEnd WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ChildEnd end;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  else end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace

// The handlers are set before the command starts, and signals are blocked until its process ID is known. So no signal is
// lost, and none ends only this process.
ChildEnd RunChild(std::vector<std::string> words, const std::function<void()>& prepare) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> failure{};
  if (pipe2(failure.data(), O_CLOEXEC) != 0) return {.error = errno};
  (void)std::fflush(nullptr);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const Passing passing;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) {
    passing.Stop();
    sigprocmask(SIG_SETMASK, &before, nullptr);
    BecomeCommand(pointers, prepare, parent, failure[1]);
  }
  child = pid;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(failure[1]);
  ChildEnd end{.error = pid < 0 ? fork_error : 0};
  if (pid > 0) {
    int error = 0;
    ssize_t got = -1;
    do got = read(failure[0], &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    end = WaitFor(pid);
    child = 0;
    if (got == static_cast<ssize_t>(sizeof(error))) end.error = error;
  }
  close(failure[0]);
  return end;
}

void EndLike(const ChildEnd& end) {
  (void)std::fflush(nullptr);
  if (end.signal != 0) {
    // If the signal dumps core, the command has already done so.
    const rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    signal(end.signal, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, end.signal);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    raise(end.signal);
  }
  _exit(end.signal != 0 ? 128 + end.signal : end.exit_code);
}

}  // namespace lzy
