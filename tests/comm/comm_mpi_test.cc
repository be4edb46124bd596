// MpiCommunicator, on as many ranks as the program is started with. All of it runs twice: with payloads that fit one
// MPI call, and with a limit so low that everything goes in pieces, as it does past 1 GiB.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/records.h"
#include "mpi/mpi_communicator.h"
#include "status_matchers.h"
#include "xor_exchange_cases.h"

namespace lzy {
namespace {

using ::testing::StartsWith;
using Bytes = Communicator::Bytes;

/// What rank `rank` brings: a few bytes, none, or some hundreds.
Bytes BytesOf(int rank) {
  const std::size_t sizes[] = {3, 0, 400, 17};
  Bytes bytes(sizes[rank % 4]);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(rank) * 31 + i * 7);
  }
  return bytes;
}

class MpiTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    auto made = MpiCommunicator(MPI_COMM_WORLD, GetParam());
    ASSERT_OK(made);
    comm_ = std::move(*made);
    rank_ = comm_->rank();
    size_ = comm_->size();
  }
  void CheckReduceScatterXor(const std::vector<std::uint64_t>& counts);

  std::unique_ptr<Communicator> comm_;
  int rank_ = 0;
  int size_ = 0;
};

TEST_P(MpiTest, KnowsItsPlace) {
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(rank_, rank);
  EXPECT_EQ(size_, size);
  EXPECT_FALSE(comm_->ProcessorName().empty());
  EXPECT_OK(comm_->Barrier());
}

TEST_P(MpiTest, BroadcastReplacesWhateverWasThere) {
  const int roots[] = {0, size_ - 1};
  for (int root : roots) {
    for (const Bytes& sent : {Bytes(300, 5), Bytes{}}) {
      Bytes bytes = rank_ == root ? sent : Bytes(static_cast<std::size_t>(rank_), 9);
      ASSERT_OK(comm_->Broadcast(bytes, root));
      EXPECT_EQ(bytes, sent) << "root " << root;
    }
  }
  Bytes bytes;
  EXPECT_CODE(comm_->Broadcast(bytes, size_), Code::kInternal);
  EXPECT_CODE(comm_->Broadcast(bytes, -1), Code::kInternal);
}

TEST_P(MpiTest, AllGatherGivesAllToAll) {
  auto all = comm_->AllGather(BytesOf(rank_));
  ASSERT_OK(all);
  ASSERT_EQ(all->size(), static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) EXPECT_EQ((*all)[static_cast<std::size_t>(r)], BytesOf(r)) << r;
  auto nothing = comm_->AllGather({});
  ASSERT_OK(nothing);
  EXPECT_EQ(*nothing, std::vector<Bytes>(static_cast<std::size_t>(size_)));
}

TEST_P(MpiTest, RecordsOfAllReachAll) {
  using Pairs = std::vector<std::pair<std::uint32_t, std::string>>;
  const Pairs mine(static_cast<std::size_t>(rank_), {7, std::string(static_cast<std::size_t>(rank_), 'x')});
  const auto all = AllGatherRecords(*comm_, mine);
  ASSERT_OK(all);
  ASSERT_EQ(all->size(), static_cast<std::size_t>(size_));
  const auto united = UniteRecords(*comm_, mine);
  ASSERT_OK(united);
  Pairs expected;
  for (int r = 0; r < size_; ++r) {
    const Pairs theirs(static_cast<std::size_t>(r), {7, std::string(static_cast<std::size_t>(r), 'x')});
    EXPECT_EQ((*all)[static_cast<std::size_t>(r)], theirs) << r;
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  EXPECT_EQ(*united, expected);
  std::string name = "of rank " + std::to_string(rank_);
  std::uint64_t number = static_cast<std::uint64_t>(rank_) + 5;
  auto both = std::tie(name, number);
  ASSERT_OK(BroadcastRecord(*comm_, both, size_ - 1));
  EXPECT_EQ(name, "of rank " + std::to_string(size_ - 1));
  EXPECT_EQ(number, static_cast<std::uint64_t>(size_) + 4);
}

TEST_P(MpiTest, GatherGivesAllToTheRoot) {
  const int root = size_ - 1;
  auto all = comm_->Gather(BytesOf(rank_), root);
  ASSERT_OK(all);
  if (rank_ != root) {
    EXPECT_TRUE(all->empty());
  } else {
    ASSERT_EQ(all->size(), static_cast<std::size_t>(size_));
    for (int r = 0; r < size_; ++r) EXPECT_EQ((*all)[static_cast<std::size_t>(r)], BytesOf(r)) << r;
  }
  auto nothing = comm_->Gather({}, 0);
  ASSERT_OK(nothing);
  EXPECT_EQ(nothing->size(), rank_ == 0 ? static_cast<std::size_t>(size_) : 0);
}

TEST_P(MpiTest, Reductions) {
  auto max = comm_->AllReduceMax((std::uint64_t{1} << 63) + static_cast<std::uint64_t>(rank_));
  ASSERT_OK(max);
  EXPECT_EQ(*max, (std::uint64_t{1} << 63) + static_cast<std::uint64_t>(size_ - 1)) << "compared without sign";
  auto sum = comm_->AllReduceSum(std::uint64_t{1} << 40);
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, static_cast<std::uint64_t>(size_) << 40);
}

void MpiTest::CheckReduceScatterXor(const std::vector<std::uint64_t>& counts) {
  testing::CheckXorExchange(rank_, counts, [&](const std::uint64_t* send, std::uint64_t* receive, auto all) {
    EXPECT_OK(comm_->ReduceScatterXor(send, receive, all));
  });
}

TEST_P(MpiTest, ReduceScatterXorOfEqualParts) {
  CheckReduceScatterXor(std::vector<std::uint64_t>(static_cast<std::size_t>(size_), 100));
  CheckReduceScatterXor(std::vector<std::uint64_t>(static_cast<std::size_t>(size_), 0));
}

TEST_P(MpiTest, ReduceScatterXorOfUnequalParts) {
  std::vector<std::uint64_t> counts;
  for (int r = 0; r < size_; ++r) counts.push_back(r % 3 == 1 ? 0 : 10 + 35 * static_cast<std::uint64_t>(r));
  CheckReduceScatterXor(counts);
  counts.push_back(1);
  EXPECT_CODE(comm_->ReduceScatterXor(nullptr, nullptr, counts), Code::kInternal);
}

TEST_P(MpiTest, SplitMakesParts) {
  // Ranks 0 and 2 are together, and so are 1 and 3.
  auto part = comm_->Split(rank_ % 2);
  ASSERT_OK(part);
  ASSERT_NE(*part, nullptr);
  EXPECT_EQ((*part)->rank(), rank_ / 2);
  EXPECT_EQ((*part)->size(), (size_ + 1 - rank_ % 2) / 2);
  auto all = (*part)->AllGather(BytesOf(rank_));
  ASSERT_OK(all);
  for (int r = 0; r < (*part)->size(); ++r) {
    EXPECT_EQ((*all)[static_cast<std::size_t>(r)], BytesOf(2 * r + rank_ % 2)) << r;
  }
  // The last rank stays out.
  auto without_last = comm_->Split(rank_ == size_ - 1 ? -1 : 0);
  ASSERT_OK(without_last);
  if (rank_ == size_ - 1) {
    EXPECT_EQ(*without_last, nullptr);
  } else {
    EXPECT_EQ((*without_last)->size(), size_ - 1);
  }
}

// Neighbours, each rank in two parts; everybody; nobody.
TEST_P(MpiTest, SplitIntoPartsThatOverlap) {
  std::vector<std::set<int>> parts;
  for (int rank = 0; rank < size_; ++rank) parts.push_back({rank, (rank + 1) % size_});
  for (int rank = 0; rank < size_; ++rank) parts.back().insert(rank);
  parts.emplace_back();
  auto made = SplitIntoParts(*comm_, parts);
  ASSERT_OK(made);
  ASSERT_EQ(made->size(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Communicator* const part = (*made)[i].get();
    ASSERT_EQ(part != nullptr, parts[i].contains(rank_)) << i;
    if (part == nullptr) continue;
    EXPECT_EQ(part->size(), static_cast<int>(parts[i].size()));
    EXPECT_EQ(part->rank(), std::distance(parts[i].begin(), parts[i].find(rank_)));
    auto sum = part->AllReduceSum(static_cast<std::uint64_t>(rank_));
    ASSERT_OK(sum);
    EXPECT_EQ(*sum, std::accumulate(parts[i].begin(), parts[i].end(), std::uint64_t{0}));
  }
}

TEST_P(MpiTest, AgreeOnSuccess) {
  EXPECT_OK(Agree(*comm_, Status::Ok()));
}

TEST_P(MpiTest, AgreeOnTheGravest) {
  // Rank 0 has the lesser trouble, the last rank the graver; with one rank they are the same.
  Status mine = Status::Ok();
  if (rank_ == 0) mine = Status(Code::kUnprotected, "no sidecar");
  if (rank_ == size_ - 1) mine = Status(Code::kIo, "f: write: No space left on device");
  Status agreed = Agree(*comm_, mine);
  EXPECT_CODE(agreed, Code::kIo);
  const std::string text = "f: write: No space left on device";
  EXPECT_EQ(agreed.message(), size_ == 1 ? text : "rank " + std::to_string(size_ - 1) + ": " + text);
}

TEST_P(MpiTest, AgreeOnTheLowestRankAmongEquals) {
  Status agreed = Agree(*comm_, Status(Code::kCorrupt, "member " + std::to_string(rank_)));
  EXPECT_CODE(agreed, Code::kCorrupt);
  EXPECT_EQ(agreed.message(), size_ == 1 ? "member 0" : "rank 0: member 0");
}

TEST_P(MpiTest, AgreeNamesNobodyWhenAllSayTheSame) {
  Status agreed = Agree(*comm_, Status(Code::kBeyondRepair, "row 7"));
  EXPECT_CODE(agreed, Code::kBeyondRepair);
  EXPECT_EQ(agreed.message(), "row 7");
}

INSTANTIATE_TEST_SUITE_P(Transfers, MpiTest, ::testing::Values(std::uint64_t{1} << 30, std::uint64_t{40}),
                         [](const auto& test) { return test.param > 1000 ? "Whole" : "Pieces"; });

TEST(MpiCommunicator, LeavesTheCallersErrorHandlerAlone) {
  MPI_Comm theirs = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_dup(MPI_COMM_SELF, &theirs), MPI_SUCCESS);
  ASSERT_EQ(MPI_Comm_set_errhandler(theirs, MPI_ERRORS_ARE_FATAL), MPI_SUCCESS);
  {
    auto ours = MpiCommunicator(theirs);
    ASSERT_OK(ours);
  }
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_EQ(MPI_Comm_get_errhandler(theirs, &handler), MPI_SUCCESS);
  EXPECT_EQ(handler, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&theirs);
}

TEST(MpiCommunicator, RefusesWhatItCannotUse) {
  EXPECT_CODE(MpiCommunicator(MPI_COMM_NULL), Code::kInvalidArgument);
  EXPECT_CODE(MpiCommunicator(MPI_COMM_SELF, 0), Code::kInvalidArgument);
  auto too_much = MpiCommunicator(MPI_COMM_SELF, std::uint64_t{1} << 31);
  EXPECT_CODE(too_much, Code::kInvalidArgument);
  EXPECT_THAT(too_much.status().message(), StartsWith("MpiCommunicator: "));
}

}  // namespace
}  // namespace lzy
