// The ways of ReduceScatterXor, each by itself and as a Communicator chooses, on as many ranks as the program is
// started with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "mpi/mpi_communicator.h"
#include "transport/pairwise_exchange.h"
#include "transport/ring_exchange.h"
#include "transport/shared_exchange.h"
#include "status_matchers.h"
#include "xor_exchange_cases.h"

namespace lzy {
namespace {

using ::lzy::testing::CheckXorExchange;
using ::lzy::testing::Words;
using ::lzy::testing::XorCounts;
using ::testing::HasSubstr;

constexpr std::uint64_t kMostTransfer = std::uint64_t{1} << 30;

class XorExchangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    ranks_ = static_cast<std::size_t>(size_);
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &plain_), MPI_SUCCESS);
    ASSERT_EQ(MPI_Comm_set_errhandler(plain_, MPI_ERRORS_RETURN), MPI_SUCCESS);
    auto made = MpiCommunicator(MPI_COMM_WORLD);
    ASSERT_OK(made);
    comm_ = std::move(*made);
  }
  void TearDown() override { MPI_Comm_free(&plain_); }

  template <class Way>
  Status Exchange(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts,
                  std::uint64_t max_transfer) {
    const Way exchange(plain_, rank_, counts, max_transfer);
    Words staging(exchange.StagingWords());
    return exchange.Run(send, receive, staging.data());
  }
  template <class Way>
  void Check(const Words& counts, std::uint64_t max_transfer) {
    CheckXorExchange(rank_, counts, [&](const std::uint64_t* send, std::uint64_t* receive, auto all) {
      EXPECT_OK(Exchange<Way>(send, receive, all, max_transfer));
    });
  }
  void CheckPairwise(const Words& counts, std::uint64_t max_transfer) { Check<PairwiseExchange>(counts, max_transfer); }
  void CheckRing(const Words& counts, std::uint64_t max_transfer) { Check<RingExchange>(counts, max_transfer); }
  void CheckAsChosen(const Words& counts) {
    CheckXorExchange(rank_, counts, [&](const std::uint64_t* send, std::uint64_t* receive, auto all) {
      EXPECT_OK(comm_->ReduceScatterXor(send, receive, all));
    });
  }

  int rank_ = 0;
  int size_ = 0;
  std::size_t ranks_ = 0;
  MPI_Comm plain_ = MPI_COMM_NULL;
  std::unique_ptr<Communicator> comm_;
};

TEST_F(XorExchangeTest, InPairs) {
  if (size_ == 1) GTEST_SKIP() << "no pair";
  for (const std::uint64_t max_transfer : {std::uint64_t{80}, std::uint64_t{4096}, kMostTransfer}) {
    for (const Words& counts : XorCounts(ranks_, 700)) CheckPairwise(counts, max_transfer);
  }
}

TEST_F(XorExchangeTest, InPairsOfManyPieces) {
  if (size_ == 1) GTEST_SKIP() << "no pair";
  Words counts(ranks_, 1'500'000);  // three messages each
  CheckPairwise(counts, kMostTransfer);
  counts.back() = 4'000'000;  // more of them than travel at once
  CheckPairwise(counts, kMostTransfer);
}

TEST_F(XorExchangeTest, InARing) {
  if (size_ == 1) GTEST_SKIP() << "no ring";
  for (const std::uint64_t max_transfer : {std::uint64_t{80}, std::uint64_t{4096}, kMostTransfer}) {
    for (const Words& counts : XorCounts(ranks_, 700)) CheckRing(counts, max_transfer);
  }
}

// More pieces than there are slots for, of one rank's part, of some ranks' and of all.
TEST_F(XorExchangeTest, InARingOfManyPieces) {
  if (size_ == 1) GTEST_SKIP() << "no ring";
  Words counts(ranks_, 0);
  for (std::size_t r = 0; r < ranks_; ++r) {
    counts[r] = 1'000'000;
    CheckRing(counts, kMostTransfer);
  }
  CheckRing(Words(ranks_, 5000), 64);
}

TEST_F(XorExchangeTest, InSharedMemory) {
  if (size_ == 1) GTEST_SKIP() << "nobody to share with";
  for (const std::uint64_t memory : {std::uint64_t{4096}, SharedExchange::kMemory}) {
    auto shared = SharedExchange::Make(
        *comm_, [] {}, memory);
    ASSERT_OK(shared);
    ASSERT_NE(*shared, nullptr) << "processes of one node";
    for (const Words& counts : XorCounts(ranks_, 20'000)) {
      CheckXorExchange(rank_, counts, [&](auto... arguments) { (*shared)->ReduceScatterXor(arguments...); });
    }
  }
}

TEST_F(XorExchangeTest, ByTheMethodThatIsChosen) {
  for (const Words& counts : XorCounts(ranks_, 5000)) CheckAsChosen(counts);
  CheckAsChosen(Words(ranks_, 1'000'000));
}

// One rank alone cannot have shared memory: none uses it, and the exchange takes place.
TEST_F(XorExchangeTest, WithoutSharedMemory) {
  if (size_ == 1) GTEST_SKIP() << "nobody to share with";
  CheckPairwise(Words(ranks_, 5000), kMostTransfer);  // what MPI itself needs descriptors for, it has now
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit limit{rank_ == size_ - 1 ? 0 : before.rlim_cur, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  auto shared = SharedExchange::Make(*comm_, [] {});
  for (const Words& counts : XorCounts(ranks_, 5000)) CheckAsChosen(counts);
  Words one(ranks_, 0);
  one[0] = 2'000'000;  // in a ring, unless there are two
  CheckAsChosen(one);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_OK(shared);
  EXPECT_EQ(*shared, nullptr);
}

// The last rank comes to the exchange only when rank 0, which is there already, has taken its message.
TEST_F(XorExchangeTest, ARankThatWaitsStillReceives) {
  if (size_ == 1) GTEST_SKIP() << "no message";
  std::vector<char> message(16 << 20, static_cast<char>(rank_));
  const auto length = static_cast<int>(message.size());
  CheckAsChosen(Words(ranks_, 1));  // it finds its way before
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank_ == 0) MPI_Irecv(message.data(), length, MPI_CHAR, size_ - 1, 0, plain_, &request);
  if (rank_ == size_ - 1) MPI_Ssend(message.data(), length, MPI_CHAR, 0, 0, plain_);
  CheckAsChosen(Words(ranks_, 100));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(message, std::vector<char>(message.size(), static_cast<char>(rank_ == 0 ? size_ - 1 : rank_)));
}

class ErrorsReturned {
 public:
  explicit ErrorsReturned(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_get_errhandler(comm, &before_);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  ~ErrorsReturned() {
    MPI_Comm_set_errhandler(comm_, before_);
    MPI_Errhandler_free(&before_);
  }
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;

 private:
  const MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

// Rank 0 takes its part for shorter than the others do, so what they send it does not fit. Everybody gets away.
TEST_F(XorExchangeTest, AnErrorOfMpiLeavesNobodyWaiting) {
  if (size_ == 1) GTEST_SKIP() << "no message";
  // MPICH 4.0 has forgotten what communicator a request was of by the time that MPI_Wait reports its error.
  const ErrorsReturned world(MPI_COMM_WORLD);
  const ErrorsReturned self(MPI_COMM_SELF);
  Words counts(ranks_, 64);
  if (rank_ == 0) counts[0] = 32;
  const Words send(64 * ranks_, 1);
  Words receive(64);
  const Status status = Exchange<PairwiseExchange>(send.data(), receive.data(), counts, kMostTransfer);
  if (rank_ == 0) {
    EXPECT_CODE(status, Code::kMpi);
    EXPECT_THAT(status.message(), HasSubstr("MPI_Irecv: "));
  } else {
    EXPECT_OK(status);
  }
  EXPECT_EQ(MPI_Barrier(plain_), MPI_SUCCESS);
  CheckPairwise(Words(ranks_, 64), kMostTransfer);
}

}  // namespace
}  // namespace lzy
