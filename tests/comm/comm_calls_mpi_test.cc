// Calls from rank to rank over MPI: every answer is that of its call, whatever happens to messages.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "mpi/mpi_communicator.h"
#include "exchange_fixture.h"
#include "status_matchers.h"

namespace lzy::validated {
namespace {

constexpr std::size_t kMostAnswer = 300'000;

class CommCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = MpiCommunicator(MPI_COMM_WORLD);
    ASSERT_OK(made);
    comm_ = std::move(*made);
  }

  // An answer follows from who calls, who answers, and the number in the call.
  static std::size_t SizeOf(std::uint64_t number) { return BytesOf(8, number)[0] % 4 == 0 ? number * 977 % kMostAnswer : number % 50; }
  CallHandler Handler(unsigned threads = 2) {
    return {[this](int from, ByteSpan call, MutableByteSpan answer) {
              ++answered_;
              EXPECT_GE(call.size(), 8u);
              const auto number = LoadLe<std::uint64_t>(call.data());
              const auto bytes = BytesOf(SizeOf(number), number + static_cast<std::uint64_t>(100 * from + comm_->rank()));
              std::copy(bytes.begin(), bytes.end(), answer.begin());
              return bytes.size();
            },
            threads, kMostAnswer};
  }

  /// Calls of this rank to all, many at once. Counts those that fail; a wrong answer fails the test.
  void Ask(Caller& caller, std::uint64_t calls, std::size_t longest) {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t under_way = 0;
    for (std::uint64_t i = 0; i < calls; ++i) {
      const int to = static_cast<int>(i) % comm_->size();
      auto call = BytesOf(8 + i * 131 % (longest - 7), i);
      StoreLe(call.data(), i);
      auto room = std::make_shared<std::vector<std::uint8_t>>(kMostAnswer);
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return under_way < 20; });
      ++under_way;
      lock.unlock();
      caller.Begin(to, std::move(call), MutableByteSpan(*room), [&, i, to, room](const Result<std::size_t>& length) {
        if (length.ok()) {
          room->resize(*length);
          EXPECT_EQ(*room, BytesOf(SizeOf(i), i + static_cast<std::uint64_t>(100 * comm_->rank() + to))) << i;
        } else {
          EXPECT_CODE(length.status(), Code::kCorrupt);
          ++failed_;
        }
        const std::lock_guard done(mutex);
        --under_way;
        changed.notify_all();
      });
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return under_way == 0; });
  }

  std::uint64_t Everywhere(std::uint64_t mine) {
    const auto all = comm_->AllReduceSum(mine);
    EXPECT_OK(all);
    return all.ok() ? *all : 0;
  }

  std::unique_ptr<Communicator> comm_;
  std::atomic<std::uint64_t> answered_{0}, failed_{0};
};

TEST_F(CommCallsTest, AnswersAreThoseOfTheirCalls) {
  EXPECT_OK(comm_->RunWithCalls(Handler(), [&](Caller& caller) { Ask(caller, 300, 200); }));
  EXPECT_EQ(failed_, 0u);
  EXPECT_EQ(Everywhere(answered_), 300u * static_cast<std::uint64_t>(comm_->size()));
}

TEST_F(CommCallsTest, TakesCallsOfTheLargestSize) {
  EXPECT_OK(comm_->RunWithCalls(Handler(), [&](Caller& caller) { Ask(caller, 40, Caller::kMostCall); }));
  EXPECT_EQ(failed_, 0u);
  EXPECT_OK(comm_->RunWithCalls(Handler(), [&](Caller& caller) {
    std::vector<std::uint8_t> room(kMostAnswer);
    EXPECT_CODE(caller.Call(comm_->size(), BytesOf(8, 1), MutableByteSpan(room)).status(), Code::kInternal);
  }));
}

// Ranks that have nothing to ask answer as long as others ask; one that fails does, too.
TEST_F(CommCallsTest, AnswersUntilAllHaveEnded) {
  const bool asks = comm_->rank() == comm_->size() - 1;
  const Status done = comm_->RunWithCalls(Handler(), [&](Caller& caller) {
    if (comm_->rank() == 0 && !asks) throw std::bad_alloc();
    if (asks) Ask(caller, 100, 100);
  });
  if (comm_->rank() == 0 && !asks) {
    EXPECT_CODE(done, Code::kNoMemory);
  } else {
    EXPECT_OK(done);
  }
  EXPECT_EQ(failed_, 0u);
}

TEST_F(CommCallsTest, AnswersWithoutThreadsOfItsOwn) {
  EXPECT_OK(comm_->RunWithCalls(Handler(0), [&](Caller& caller) { Ask(caller, 50, 100); }));
  EXPECT_EQ(failed_, 0u);
}

TEST_F(CommCallsTest, WhatArrivesIsRightOrAnError) {
  if (comm_->size() < 2) GTEST_SKIP() << "nothing is sent";
  Faults faults(7);
  faults.share = 0.02;
  EXPECT_OK(comm_->RunWithCalls(Handler(), [&](Caller& caller) { Ask(caller, 400, 2000); }));
  EXPECT_GT(faults.Print("calls"), 20u);
  const std::uint64_t failed = Everywhere(failed_);
  EXPECT_LT(failed, 40u * static_cast<std::uint64_t>(comm_->size())) << "most faults can be corrected";
  // Nothing of it is left over.
  faults.share = 0;
  failed_ = 0;
  EXPECT_OK(comm_->RunWithCalls(Handler(), [&](Caller& caller) { Ask(caller, 50, 100); }));
  EXPECT_EQ(Everywhere(failed_), 0u);
}

}  // namespace
}  // namespace lzy::validated
