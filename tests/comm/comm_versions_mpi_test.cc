// Ranks that say that they are of other versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mpi/versions.h"
#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::HasSubstr;

struct World {
  int rank = 0, size = 1;
  World() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  bool is_last() const { return rank == size - 1; }
};

TEST(Versions, OfOneJobAreTheSame) {
  std::string mixed;
  EXPECT_OK(CompareVersions(MPI_COMM_WORLD, OwnVersion(), mixed));
  EXPECT_EQ(mixed, "");
  EXPECT_THAT(OwnVersion().text, ::testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
}

TEST(Versions, AreVotedOn) {
  const LzyVersion own{"1.2.3", 7};
  const auto with = [&](const LzyVersion& other) {
    VersionVote least = VoteOf(own);
    const VersionVote theirs = VoteOf(other);
    for (std::size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], theirs[i]);
    return JudgeVotes(least);
  };
  EXPECT_EQ(with(own), Mixture::kSame);
  for (const char* other : {"1.2.4", "1.3.3", "2.2.3", "0.2.3", "1.2", ""}) EXPECT_EQ(with({other, 7}), Mixture::kMixed) << other;
  for (const std::uint32_t messages : {0u, 6u, 8u}) EXPECT_EQ(with({"1.2.3", messages}), Mixture::kApart) << messages;
}

TEST(Versions, ThatDifferAreToldOnRank0) {
  const World world;
  std::string mixed;
  ASSERT_OK(CompareVersions(MPI_COMM_WORLD, {world.is_last() ? "1.0.1" : "1.0.0", 1}, mixed));
  if (world.size == 1 || world.rank != 0) {
    EXPECT_EQ(mixed, "");
    return;
  }
  EXPECT_THAT(mixed, HasSubstr(world.size == 2 ? "1.0.0 on rank 0 (" : "1.0.0 on ranks 0, 1 ("));
  EXPECT_THAT(mixed, HasSubstr("; 1.0.1 on rank " + std::to_string(world.size - 1) + " ("));
}

TEST(Versions, WithOtherMessagesAreAFailureOnAllRanks) {
  const World world;
  std::string mixed;
  const Status status = CompareVersions(MPI_COMM_WORLD, {"1.0.0", world.is_last() ? 2u : 1u}, mixed);
  EXPECT_EQ(status.code(), world.size == 1 ? Code::kOk : Code::kIo);
  if (world.size == 1) return;
  if (world.rank == 0) {
    EXPECT_THAT(status.message(), HasSubstr("1.0.0 (messages of form 1) on rank"));
    EXPECT_THAT(status.message(), HasSubstr("1.0.0 (messages of form 2) on rank " + std::to_string(world.size - 1)));
  }
}

// Whatever a version calls itself, others must get along with it.
TEST(Versions, HaveNamesOfAnyLength) {
  const World world;
  std::string mixed;
  ASSERT_OK(CompareVersions(MPI_COMM_WORLD, {world.is_last() ? std::string(1000, '9') : "1.0.0", 1}, mixed));
  if (world.size > 1 && world.rank == 0) {
    EXPECT_THAT(mixed, HasSubstr(std::string(55, '9') + " on rank"));
  }
}

}  // namespace
}  // namespace lzy
