// The public functions of lzy/exchange.h, as a program calls them.
#include <lzy/exchange.h>

#include <cstring>
#include <numeric>

#include "exchange_fixture.h"

namespace lzy::validated {
namespace {

class ExchangeApi : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  void TearDown() override { MPI_Comm_free(&comm_); }

  std::vector<int> Numbers(int count, int first) const {
    std::vector<int> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  const int rank_ = WorldRank();
  const int size_ = WorldSize();
  const int next_ = (rank_ + 1) % size_;
  const int before_ = (rank_ + size_ - 1) % size_;
};

bool Says(const char* part) {
  return std::strstr(lzy_exchange_error_text(), part) != nullptr;
}

TEST_F(ExchangeApi, SendAndReceive) {
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK) << "again";
  if (size_ == 1) return;
  for (const int count : {0, 10, 100'000}) {
    std::vector<int> in(static_cast<std::size_t>(count) + 5, -1);
    MPI_Status status;
    if (rank_ == 0) {
      const auto out = Numbers(count, 7);
      ASSERT_EQ(lzy_send(out.data(), count, MPI_INT, 1, 3, comm_), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
    } else if (rank_ == 1) {
      ASSERT_EQ(lzy_recv(in.data(), count + 5, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &status), LZY_EXCHANGE_OK);
      int came = -1;
      MPI_Get_count(&status, MPI_INT, &came);
      EXPECT_EQ(came, count);
      EXPECT_EQ(status.MPI_SOURCE, 0);
      EXPECT_EQ(status.MPI_TAG, 3);
      EXPECT_EQ(in.back(), -1);
      in.resize(static_cast<std::size_t>(count));
      EXPECT_EQ(in, Numbers(count, 7));
    }
  }
}

TEST_F(ExchangeApi, NonblockingMessages) {
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK);
  const auto out = Numbers(50'000, rank_);
  std::vector<int> in(50'000), small(1);
  lzy_request requests[5] = {};
  MPI_Status statuses[5];
  ASSERT_EQ(lzy_irecv(in.data(), 50'000, MPI_INT, before_, 1, comm_, &requests[0]), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_irecv(small.data(), 1, MPI_INT, before_, 2, comm_, &requests[1]), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_isend(out.data(), 1, MPI_INT, next_, 2, comm_, &requests[2]), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_isend(out.data(), 50'000, MPI_INT, next_, 1, comm_, &requests[3]), LZY_EXCHANGE_OK);
  requests[4] = LZY_REQUEST_NULL;
  ASSERT_EQ(lzy_wait(&requests[1], MPI_STATUS_IGNORE), LZY_EXCHANGE_OK);
  EXPECT_EQ(requests[1], LZY_REQUEST_NULL);
  EXPECT_EQ(small[0], before_);
  ASSERT_EQ(lzy_waitall(5, requests, statuses), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
  EXPECT_EQ(in, Numbers(50'000, before_));
  int came = 0;
  MPI_Get_count(&statuses[0], MPI_INT, &came);
  EXPECT_EQ(came, 50'000);
  EXPECT_EQ(statuses[4].MPI_SOURCE, MPI_ANY_SOURCE) << "an empty status";

  int flag = 0;
  lzy_request request = LZY_REQUEST_NULL, sending = LZY_REQUEST_NULL;
  ASSERT_EQ(lzy_irecv(small.data(), 1, MPI_INT, before_, 4, comm_, &request), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_test(&request, &flag, MPI_STATUS_IGNORE), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_isend(out.data(), 1, MPI_INT, next_, 4, comm_, &sending), LZY_EXCHANGE_OK);
  while (!flag) ASSERT_EQ(lzy_test(&request, &flag, MPI_STATUS_IGNORE), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_wait(&sending, MPI_STATUS_IGNORE), LZY_EXCHANGE_OK);
}

TEST_F(ExchangeApi, CollectivesOfTypesWithGaps) {
  MPI_Datatype column = MPI_DATATYPE_NULL, spaced = MPI_DATATYPE_NULL;
  MPI_Type_vector(1000, 1, 3, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, sizeof(int), &spaced);
  MPI_Type_commit(&spaced);
  std::vector<int> matrix(3000, -1);
  if (rank_ == 0) matrix = Numbers(3000, 0);
  ASSERT_EQ(lzy_bcast(matrix.data() + 1, 1, spaced, 0, comm_), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(matrix[static_cast<std::size_t>(i)], rank_ == 0 || i % 3 == 1 ? i : -1) << i;

  const auto mine = Numbers(1000, 1000 * rank_);
  std::vector<int> all(1000 * static_cast<std::size_t>(size_) + 3000, -1);
  // Blocks of one element each begin one int after each other: rank r's are the ints r, r + size, ...
  MPI_Datatype every = MPI_DATATYPE_NULL, dealt = MPI_DATATYPE_NULL;
  MPI_Type_vector(1000, 1, size_, MPI_INT, &every);
  MPI_Type_create_resized(every, 0, sizeof(int), &dealt);
  MPI_Type_commit(&dealt);
  ASSERT_EQ(lzy_allgather(mine.data(), 1000, MPI_INT, all.data(), 1, dealt, comm_), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
  for (int i = 0; i < 1000 * size_; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], 1000 * (i % size_) + i / size_) << i;
  all[static_cast<std::size_t>(rank_ == 0 ? size_ - 1 : 0)] ^= 1;  // not this rank's own, unless it is alone
  ASSERT_EQ(lzy_validate_allgather(mine.data(), 1000, MPI_INT, all.data(), 1, dealt, comm_), LZY_EXCHANGE_OK);
  for (int i = 0; i < 1000 * size_; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], 1000 * (i % size_) + i / size_) << i;
  for (MPI_Datatype* type : {&column, &spaced, &every, &dealt}) MPI_Type_free(type);
}

TEST_F(ExchangeApi, GatherInPlaceAndValidation) {
  std::vector<int> all(static_cast<std::size_t>(size_) * 2000, -1);
  std::iota(all.begin() + rank_ * 2000, all.begin() + (rank_ + 1) * 2000, rank_ * 2000);
  ASSERT_EQ(lzy_allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), 2000, MPI_INT, comm_), LZY_EXCHANGE_OK) << lzy_exchange_error_text();
  EXPECT_EQ(all, Numbers(2000 * size_, 0));
  if (size_ > 1) all[static_cast<std::size_t>(next_) * 2000 + 17] = 0x7fffffff;
  ASSERT_EQ(lzy_validate_allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), 2000, MPI_INT, comm_), LZY_EXCHANGE_OK);
  EXPECT_EQ(all, Numbers(2000 * size_, 0));
  if (rank_ != 0) all[100] = -5;
  ASSERT_EQ(lzy_validate_bcast(all.data(), 2000, MPI_INT, 0, comm_), LZY_EXCHANGE_OK);
  EXPECT_EQ(all, Numbers(2000 * size_, 0));
  if (size_ == 1) return;
  if (rank_ == 0) {
    ASSERT_EQ(lzy_validate_send(all.data(), 2000, MPI_INT, 1, 9, comm_), LZY_EXCHANGE_OK);
  } else if (rank_ == 1) {
    all[1999] = 3;
    ASSERT_EQ(lzy_validate_recv(all.data(), 2000, MPI_INT, 0, 9, comm_, MPI_STATUS_IGNORE), LZY_EXCHANGE_OK);
    EXPECT_EQ(all[1999], 1999);
  }
}

// A receive of the program's own that takes anything is not given what is lzy's, nor the other way.
TEST_F(ExchangeApi, MessagesOfTheProgramAreLeftAlone) {
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK);
  int theirs = -1, sent = 4711 + rank_;
  MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
  MPI_Irecv(&theirs, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &receive);
  const auto out = Numbers(30'000, rank_);
  std::vector<int> in(30'000);
  lzy_request requests[2];
  ASSERT_EQ(lzy_irecv(in.data(), 30'000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &requests[0]), LZY_EXCHANGE_OK);
  MPI_Isend(&sent, 1, MPI_INT, next_, 0, comm_, &send);
  ASSERT_EQ(lzy_isend(out.data(), 30'000, MPI_INT, next_, 0, comm_, &requests[1]), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_waitall(2, requests, MPI_STATUSES_IGNORE), LZY_EXCHANGE_OK);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  EXPECT_EQ(theirs, 4711 + before_);
  EXPECT_EQ(in, Numbers(30'000, before_));
}

TEST_F(ExchangeApi, ErrorsSayWhatIsWrong) {
  int number = 0;
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, 0, 0, comm_), LZY_EXCHANGE_NOT_ATTACHED);
  EXPECT_TRUE(Says("lzy_exchange_attach"));
  EXPECT_EQ(lzy_exchange_detach(comm_), LZY_EXCHANGE_NOT_ATTACHED);
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK);
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, size_, 0, comm_), LZY_EXCHANGE_ARGUMENT);
  EXPECT_TRUE(Says(("rank " + std::to_string(size_)).c_str()));
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, 0, -1, comm_), LZY_EXCHANGE_ARGUMENT);
  EXPECT_TRUE(Says("tag -1"));
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, 0, 0x7fffffff, comm_), LZY_EXCHANGE_ARGUMENT);
  EXPECT_EQ(lzy_send(&number, -1, MPI_INT, 0, 0, comm_), LZY_EXCHANGE_ARGUMENT);
  EXPECT_TRUE(Says("count -1"));
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm_), LZY_EXCHANGE_ARGUMENT);
  EXPECT_EQ(lzy_send(&number, 1, MPI_DATATYPE_NULL, 0, 0, comm_), LZY_EXCHANGE_ARGUMENT);
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, 0, 0, MPI_COMM_NULL), LZY_EXCHANGE_ARGUMENT);
  EXPECT_EQ(lzy_bcast(&number, 1, MPI_INT, size_, comm_), LZY_EXCHANGE_ARGUMENT);
  EXPECT_EQ(lzy_wait(nullptr, MPI_STATUS_IGNORE), LZY_EXCHANGE_ARGUMENT);
  lzy_request request = reinterpret_cast<lzy_request>(&number);
  EXPECT_EQ(lzy_isend(&number, -1, MPI_INT, 0, 0, comm_, &request), LZY_EXCHANGE_ARGUMENT);
  EXPECT_EQ(request, LZY_REQUEST_NULL);
  MPI_Status status;
  EXPECT_EQ(lzy_recv(&number, 1, MPI_INT, MPI_PROC_NULL, 0, comm_, &status), LZY_EXCHANGE_OK);
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, MPI_PROC_NULL, 0, comm_), LZY_EXCHANGE_OK);
}

TEST_F(ExchangeApi, TruncationIsAMismatchOnBothSides) {
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK);
  for (const int count : {5, 50'000}) {
    const auto out = Numbers(count, 0);
    std::vector<int> in(static_cast<std::size_t>(count));
    lzy_request requests[2];
    MPI_Status statuses[2];
    ASSERT_EQ(lzy_irecv(in.data(), count - 1, MPI_INT, before_, 0, comm_, &requests[0]), LZY_EXCHANGE_OK);
    ASSERT_EQ(lzy_isend(out.data(), count, MPI_INT, next_, 0, comm_, &requests[1]), LZY_EXCHANGE_OK);
    EXPECT_EQ(lzy_waitall(2, requests, statuses), LZY_EXCHANGE_MISMATCH);
    EXPECT_TRUE(Says("has no room in a buffer of")) << lzy_exchange_error_text();
    EXPECT_EQ(statuses[0].MPI_ERROR, LZY_EXCHANGE_MISMATCH);
    EXPECT_EQ(statuses[1].MPI_ERROR, LZY_EXCHANGE_MISMATCH);
  }
}

TEST_F(ExchangeApi, WhatCannotBeProvenIsAnErrorOnBothSides) {
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK);
  const auto out = Numbers(50'000, 0);
  std::vector<int> in(50'000);
  SetFaultHook([](const Arrival& arrival, MutableByteSpan content) {
    if (arrival.part == MessagePart::kChunk || arrival.part == MessagePart::kLeaves) content[content.size() - 1] ^= 1;
  });
  lzy_request requests[2];
  MPI_Status statuses[2];
  ASSERT_EQ(lzy_irecv(in.data(), 50'000, MPI_INT, before_, 0, comm_, &requests[0]), LZY_EXCHANGE_OK);
  ASSERT_EQ(lzy_isend(out.data(), 50'000, MPI_INT, next_, 0, comm_, &requests[1]), LZY_EXCHANGE_OK);
  EXPECT_EQ(lzy_waitall(2, requests, statuses), LZY_EXCHANGE_UNPROVEN);
  SetFaultHook(nullptr);
  EXPECT_EQ(statuses[1].MPI_ERROR, LZY_EXCHANGE_UNPROVEN);
  EXPECT_TRUE(Says(("of the message from rank " + std::to_string(before_)).c_str())) << lzy_exchange_error_text();
  EXPECT_TRUE(Says("199999 of")) << lzy_exchange_error_text();
}

TEST_F(ExchangeApi, ACopyOfACommunicatorIsNotAttached) {
  ASSERT_EQ(lzy_exchange_attach(comm_), LZY_EXCHANGE_OK);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm_, &copy);
  int number = 0;
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, 0, 0, copy), LZY_EXCHANGE_NOT_ATTACHED);
  MPI_Comm_free(&copy);
  EXPECT_EQ(lzy_exchange_detach(comm_), LZY_EXCHANGE_OK);
  EXPECT_EQ(lzy_send(&number, 1, MPI_INT, 0, 0, comm_), LZY_EXCHANGE_NOT_ATTACHED);
}

// More communicators than MPI has contexts, one after the other: they are freed with those that they belong to.
TEST_F(ExchangeApi, CommunicatorsGoWithThoseTheyBelongTo) {
  for (int i = 0; i < 1500; ++i) {
    MPI_Comm copy = MPI_COMM_NULL;
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_SELF, &copy), MPI_SUCCESS);
    ASSERT_EQ(lzy_exchange_attach(copy), LZY_EXCHANGE_OK) << i << ": " << lzy_exchange_error_text();
    MPI_Comm_free(&copy);
  }
}

// At MPI_Finalize the attributes of MPI_COMM_WORLD are deleted, too.
TEST(ExchangeWorld, CanBeAttached) {
  int number = WorldRank() == 0 ? 5 : 0;
  ASSERT_EQ(lzy_bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD), LZY_EXCHANGE_OK);
  EXPECT_EQ(number, 5);
}

}  // namespace
}  // namespace lzy::validated
