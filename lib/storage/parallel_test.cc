#include "storage/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace lzy {
namespace {

TEST(ParallelFor, CallsEachOnceOnAnyNumberOfThreads) {
  for (const unsigned threads : {1u, 2u, 5u}) {
    for (const std::size_t count : {0u, 1u, 3u, 1000u}) {
      std::vector<std::atomic<int>> calls(count);
      ParallelFor(count, threads, [&](std::size_t i) { ++calls[i]; });
      for (const auto& one : calls) EXPECT_EQ(one, 1);
    }
  }
}

TEST(ParallelFor, ThrowsWhatWasThrown) {
  std::atomic<int> calls{0};
  EXPECT_THROW(ParallelFor(1000, 2,
                           [&](std::size_t) {
                             ++calls;
                             throw std::runtime_error("no");
                           }),
               std::runtime_error);
  EXPECT_LE(calls, 2);
}

TEST(ParallelParts, CoverEachItemOnce) {
  for (const unsigned threads : {1u, 2u, 5u}) {
    for (const std::size_t count : {0u, 1u, 3u, 1000u}) {
      std::vector<std::atomic<int>> calls(count);
      std::atomic<unsigned> parts{0};
      ParallelParts(count, threads, [&](std::size_t first, std::size_t last) {
        ++parts;
        for (std::size_t i = first; i < last; ++i) ++calls[i];
      });
      for (const auto& one : calls) EXPECT_EQ(one, 1);
      EXPECT_LE(parts, threads);
    }
  }
}

bool IsBlocked(const sigset_t& mask, int signal) {
  return sigismember(&mask, signal) == 1;
}

TEST(StartThread, TakesNoSignalsOfTheProcessAndLeavesTheMakersMask) {
  sigset_t before, inside, after;
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &usual, &before);
  StartThread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).join();
  pthread_sigmask(SIG_SETMASK, &before, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGCHLD}) EXPECT_TRUE(IsBlocked(inside, signal)) << signal;
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE}) EXPECT_FALSE(IsBlocked(inside, fault)) << fault;
  EXPECT_TRUE(IsBlocked(after, SIGUSR2));
  EXPECT_FALSE(IsBlocked(after, SIGINT));
}

}  // namespace
}  // namespace lzy
