#include "storage/parallel.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace lzy {

std::thread StartThread(std::function<void()> work) {
  // A new thread inherits the signal mask of its maker. So the mask is set here for a moment: the new thread then has
  // it from its first instruction on. Faults stay unblocked; a blocked fault would kill the process without its
  // handler.
  class NoSignals {
   public:
    NoSignals() {
      sigset_t process;
      sigfillset(&process);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&process, fault);
      pthread_sigmask(SIG_BLOCK, &process, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

   private:
    sigset_t before_;
  } no_signals;
  return std::thread(std::move(work));
}

// Threads take the next number from a shared counter, so pieces of unequal cost spread evenly.
void ParallelFor(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  auto loop = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;  // the others stop, too
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min<std::size_t>(threads, count);
  helpers.reserve(wanted);
  for (std::size_t t = 1; t < wanted; ++t) {
    try {
      helpers.push_back(StartThread(loop));
    } catch (...) {
      break;  // no more threads, or no memory for one: those that there are do the work
    }
  }
  loop();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

void ParallelParts(std::size_t count, unsigned threads,
                   const std::function<void(std::size_t first, std::size_t last)>& work) {
  const std::size_t parts = std::min<std::size_t>(threads, count);
  ParallelFor(parts, threads, [&](std::size_t part) { work(count * part / parts, count * (part + 1) / parts); });
}

}  // namespace lzy
