// Meetings of three ranks, some of which come late or not at all. Other ranks are awaited with barriers only.
#include <gmock/gmock.h>
#include <mpi.h>

#include <memory>
#include <new>

#include "hooks/sets/rendezvous.h"
#include "status_matchers.h"

namespace lzy::hooks {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Bytes = Rendezvous::Bytes;
using Own = Rendezvous::Outcome::Own;

constexpr double kLong = 60;
constexpr double kShort = 1;  ///< those who come start from a barrier; a busy machine must bring them together in this

class Meetings : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    rendezvous_ = std::make_unique<Rendezvous>(comm_);
  }
  void TearDown() override {
    MPI_Barrier(MPI_COMM_WORLD);
    rendezvous_.reset();
    MPI_Comm_free(&comm_);
  }
  /// Everyone brings its rank and gets the sum.
  Rendezvous::Outcome Meet(const std::string& name, double timeout) {
    const Bytes mine{static_cast<std::uint8_t>(rank_)};
    return rendezvous_->Meet(name, mine, timeout, [](const std::vector<Bytes>& all) -> Result<Bytes> {
      Bytes sum{0};
      for (const Bytes& one : all) sum[0] = static_cast<std::uint8_t>(sum[0] + one.at(0));
      return sum;
    });
  }
  Bytes Sum() const { return {static_cast<std::uint8_t>(size_ * (size_ - 1) / 2)}; }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  std::unique_ptr<Rendezvous> rendezvous_;
};

TEST_F(Meetings, AllGetWhatRankZeroDecides) {
  for (int i = 0; i < 20; ++i) {
    const auto outcome = Meet(i % 2 == 0 ? "a" : "b", kLong);
    ASSERT_OK(outcome.status);
    ASSERT_EQ(outcome.decision, Sum());
  }
}

TEST_F(Meetings, RankZeroMayCallItOff) {
  const auto outcome = rendezvous_->Meet(
      "a", {}, kLong, [](const std::vector<Bytes>&) -> Result<Bytes> { return Status(Code::kIo, "no disk"); });
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.status.message(), "no disk");
  EXPECT_EQ(outcome.own, Own::kNothing);
  EXPECT_OK(Meet("a", kLong).status);
}

TEST_F(Meetings, NoRankWaitsForRankZeroWithoutMemory) {
  const auto outcome =
      rendezvous_->Meet("a", {}, kLong, [](const std::vector<Bytes>&) -> Result<Bytes> { throw std::bad_alloc(); });
  EXPECT_CODE(outcome.status, rank_ == 0 ? Code::kNoMemory : Code::kTimeout);
  EXPECT_THAT(outcome.status.message(), HasSubstr("out of memory"));
  EXPECT_OK(Meet("a", kLong).status);
}

TEST_F(Meetings, AMissingRankIsNamedAndIsToldWhenItComes) {
  const int absent = size_ - 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ != absent) {
    // Only rank 0's patience counts, once it is there.
    const auto outcome = Meet("a", rank_ == 0 ? kShort : kLong);
    EXPECT_CODE(outcome.status, Code::kTimeout);
    EXPECT_THAT(outcome.status.message(), HasSubstr("for rank 2"));
    EXPECT_EQ(outcome.own, Own::kNothing);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == absent) {
    const auto outcome = Meet("a", kLong);
    EXPECT_CODE(outcome.status, Code::kTimeout);
    EXPECT_EQ(outcome.own, Own::kCameLate);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto next = Meet("a", kLong);
  EXPECT_OK(next.status);
  EXPECT_EQ(next.decision, Sum());
}

TEST_F(Meetings, WithoutRankZeroTheOthersGiveUp) {
  if (rank_ != 0) {
    const auto outcome = Meet("a", kShort);
    EXPECT_CODE(outcome.status, Code::kTimeout);
    EXPECT_THAT(outcome.status.message(), HasSubstr("for rank 0"));
    EXPECT_EQ(outcome.own, Own::kNobodyHere);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) {
    const auto outcome = Meet("a", kLong);  // does not wait: they have said that they left
    EXPECT_CODE(outcome.status, Code::kTimeout);
    // MPI does not promise that a probe finds at once what was sent before the barrier; one word is enough.
    EXPECT_THAT(outcome.status.message(), MatchesRegex("came late on rank 0: (rank [12]|ranks 1, 2) had given up"));
  }
  EXPECT_OK(Meet("a", kLong).status);
}

TEST_F(Meetings, MeetingsOfOtherNamesDoNotMix) {
  const auto outcome = Meet(rank_ == 0 ? "a" : "b", kShort);
  EXPECT_CODE(outcome.status, Code::kTimeout);
  MPI_Barrier(MPI_COMM_WORLD);
  // Each comes late to the other's, and then they are together again.
  const auto other = Meet(rank_ == 0 ? "b" : "a", kLong);
  EXPECT_CODE(other.status, Code::kTimeout);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_OK(Meet("a", kLong).status);
  EXPECT_OK(Meet("b", kLong).status);
}

TEST(RankList, NamesTheFirstTwenty) {
  EXPECT_EQ(RankList({4}), "rank 4");
  EXPECT_EQ(RankList({5, 2}), "ranks 2, 5");
  std::set<int> many;
  for (int i = 0; i < 30; ++i) many.insert(i);
  EXPECT_THAT(RankList(many), HasSubstr("18, 19 and 10 more"));
}

}  // namespace
}  // namespace lzy::hooks
