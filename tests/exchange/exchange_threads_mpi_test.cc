// Several threads of a process at once in lzy/exchange.h, with faults in their way: every thread gets what was meant
// for it, proven, whichever thread it was that moved it.
#include <lzy/exchange.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "exchange_fixture.h"

namespace lzy::validated {
namespace {

constexpr int kThreads = 2;
constexpr int kRounds = 100;

class ExchangeThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "this MPI has no MPI_THREAD_MULTIPLE";
    for (MPI_Comm& comm : comms_) {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      ASSERT_EQ(lzy_exchange_attach(comm), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
    }
  }
  void TearDown() override {
    for (MPI_Comm& comm : comms_) {
      if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    }
  }

  /// work(thread) in as many threads, at once.
  static void InThreads(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
    for (std::thread& thread : threads) thread.join();
  }

  static std::uint64_t SeedOf(int thread, int round, int rank) {
    return static_cast<std::uint64_t>(1'000'000 * thread + 1000 * round + rank);
  }
  /// Equal on all ranks, other in each thread; inline, of one chunk, of several.
  static std::size_t SizeOf(int thread, int round) {
    std::mt19937_64 random(SeedOf(thread, round, 777));
    return random() % (round % 3 == 0 ? 4000 : round % 3 == 1 ? 60'000 : 400'000);
  }

  /// To the next rank and from the one before.
  void Ring(int thread, int round, MPI_Comm comm, int tag) const {
    const std::size_t size = SizeOf(thread, round);
    const auto out = BytesOf(size, SeedOf(thread, round, rank_));
    std::vector<std::uint8_t> in(size);
    lzy_request requests[2];
    MPI_Status statuses[2];
    const auto count = static_cast<MPI_Count>(size);
    ASSERT_EQ(lzy_irecv(in.data(), count, MPI_BYTE, before_, tag, comm, &requests[0]), LZY_EXCHANGE_OK)
        << lzy_exchange_error_text();
    ASSERT_EQ(lzy_isend(out.data(), count, MPI_BYTE, next_, tag, comm, &requests[1]), LZY_EXCHANGE_OK)
        << lzy_exchange_error_text();
    ASSERT_EQ(lzy_waitall(2, requests, statuses), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
    EXPECT_TRUE(in == BytesOf(size, SeedOf(thread, round, before_))) << "thread " << thread << " round " << round;
    EXPECT_EQ(statuses[0].MPI_SOURCE, before_);
    EXPECT_EQ(statuses[0].MPI_TAG, tag);
  }

  void Broadcast(int thread, int round, MPI_Comm comm) const {
    const std::size_t size = SizeOf(thread, round);
    const int root = round % size_;
    const auto expected = BytesOf(size, SeedOf(thread, round, root));
    std::vector<std::uint8_t> bytes = rank_ == root ? expected : std::vector<std::uint8_t>(size);
    ASSERT_EQ(lzy_bcast(bytes.data(), static_cast<MPI_Count>(size), MPI_BYTE, root, comm), LZY_EXCHANGE_OK)
        << lzy_exchange_error_text();
    EXPECT_TRUE(bytes == expected) << "thread " << thread << " round " << round;
  }

  void Gather(int thread, int round, MPI_Comm comm) const {
    const std::size_t size = SizeOf(thread, round) / 4;
    const auto count = static_cast<MPI_Count>(size);
    const auto mine = BytesOf(size, SeedOf(thread, round, rank_));
    std::vector<std::uint8_t> all(size * static_cast<std::size_t>(size_));
    ASSERT_EQ(lzy_allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, comm), LZY_EXCHANGE_OK)
        << lzy_exchange_error_text();
    for (int rank = 0; rank < size_; ++rank) {
      const auto expected = BytesOf(size, SeedOf(thread, round, rank));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + static_cast<std::ptrdiff_t>(size) * rank))
          << "thread " << thread << " round " << round << " rank " << rank;
    }
  }

  MPI_Comm comms_[kThreads] = {MPI_COMM_NULL, MPI_COMM_NULL};
  const int rank_ = WorldRank();
  const int size_ = WorldSize();
  const int next_ = (rank_ + 1) % size_;
  const int before_ = (rank_ + size_ - 1) % size_;
};

// Eight attempts in which request or reply were struck would be an error, rightly so; few enough that there are none.
constexpr double kShare = 0.05;

TEST_F(ExchangeThreads, EachOnACommunicatorOfItsOwn) {
  Faults faults(1);
  faults.share = kShare;
  InThreads([this](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      Ring(thread, round, comms_[thread], 3);
      if (round % 2 == thread) Broadcast(thread, round, comms_[thread]);
      if (round % 3 == thread) Gather(thread, round, comms_[thread]);
    }
  });
  EXPECT_GT(faults.Print("threads"), 5u);
}

TEST_F(ExchangeThreads, OnOneCommunicatorWithTagsOfTheirOwn) {
  Faults faults(2);
  faults.share = kShare;
  InThreads([this](int thread) {
    for (int round = 0; round < kRounds; ++round) Ring(thread, round, comms_[0], thread);
  });
  EXPECT_GT(faults.Print("threads, one communicator"), 5u);
}

// One waits for a message that is sent only after the other is done with many of its own.
TEST_F(ExchangeThreads, AThreadThatWaitsBlocksNoOther) {
  Faults faults(3);
  faults.share = kShare;
  InThreads([this](int thread) {
    if (thread == 1) {
      for (int round = 0; round < kRounds; ++round) Ring(thread, round, comms_[1], 4);
      const int last = kRounds;
      ASSERT_EQ(lzy_send(&last, 1, MPI_INT, next_, 5, comms_[1]), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
    } else {
      int came = 0;
      ASSERT_EQ(lzy_recv(&came, 1, MPI_INT, MPI_ANY_SOURCE, 5, comms_[1], MPI_STATUS_IGNORE), LZY_EXCHANGE_OK)
          << lzy_exchange_error_text();
      EXPECT_EQ(came, kRounds);
    }
  });
}

}  // namespace
}  // namespace lzy::validated
