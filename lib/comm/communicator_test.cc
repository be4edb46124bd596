#include "comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using Bytes = Communicator::Bytes;

TEST(SelfCommunicator, HasOneRank) {
  auto comm = SelfCommunicator();
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->size(), 1);
  EXPECT_FALSE(comm->ProcessorName().empty());
  EXPECT_OK(comm->Barrier());
}

TEST(SelfCommunicator, GivesBackWhatItIsGiven) {
  auto comm = SelfCommunicator();
  const Bytes mine = {1, 2, 3};
  Bytes bytes = mine;
  ASSERT_OK(comm->Broadcast(bytes, 0));
  EXPECT_EQ(bytes, mine);
  auto all = comm->AllGather(mine);
  ASSERT_OK(all);
  EXPECT_THAT(*all, ElementsAre(mine));
  auto gathered = comm->Gather({}, 0);
  ASSERT_OK(gathered);
  EXPECT_THAT(*gathered, ElementsAre(Bytes{}));
  auto max = comm->AllReduceMax(7);
  ASSERT_OK(max);
  EXPECT_EQ(*max, 7u);
  auto sum = comm->AllReduceSum(~std::uint64_t{0});
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, ~std::uint64_t{0});
}

TEST(SelfCommunicator, ReduceScatterXorCopies) {
  auto comm = SelfCommunicator();
  const std::vector<std::uint64_t> send = {1, ~std::uint64_t{0}, 3};
  std::vector<std::uint64_t> receive(4, 99);
  const std::uint64_t counts[] = {3};
  ASSERT_OK(comm->ReduceScatterXor(send.data(), receive.data(), counts));
  EXPECT_THAT(receive, ElementsAre(1, ~std::uint64_t{0}, 3, 99));
  const std::uint64_t none[] = {0};
  EXPECT_OK(comm->ReduceScatterXor(nullptr, nullptr, none));
  const std::uint64_t two[] = {1, 1};
  EXPECT_CODE(comm->ReduceScatterXor(send.data(), receive.data(), two), Code::kInternal);
}

TEST(SelfCommunicator, SplitsIntoItselfOrNothing) {
  auto comm = SelfCommunicator();
  auto part = comm->Split(5);
  ASSERT_OK(part);
  ASSERT_NE(*part, nullptr);
  EXPECT_EQ((*part)->size(), 1);
  auto nothing = comm->Split(-1);
  ASSERT_OK(nothing);
  EXPECT_EQ(*nothing, nullptr);
}

TEST(SelfCommunicator, RefusesRootsItDoesNotHave) {
  auto comm = SelfCommunicator();
  Bytes bytes;
  EXPECT_CODE(comm->Broadcast(bytes, 1), Code::kInternal);
  EXPECT_CODE(comm->Gather(bytes, -1), Code::kInternal);
}

TEST(Agree, OfOneIsItsOwnStatus) {
  auto comm = SelfCommunicator();
  EXPECT_OK(Agree(*comm, Status::Ok()));
  Status agreed = Agree(*comm, Status(Code::kCorrupt, "f: block 3"));
  EXPECT_CODE(agreed, Code::kCorrupt);
  EXPECT_EQ(agreed.message(), "f: block 3");
}

/// Stands for one of two ranks, the other of which has nothing to report; anything but AllReduceMax fails.
class WithAnother : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string ProcessorName() const override { return "here"; }
  Status Barrier() override { return No(); }
  Status Broadcast(Bytes&, int) override { return No(); }
  Result<std::vector<Bytes>> AllGather(ByteSpan) override { return No(); }
  Result<std::vector<Bytes>> Gather(ByteSpan, int) override { return No(); }
  Result<std::uint64_t> AllReduceMax(std::uint64_t value) override {
    ++reductions;
    return value;
  }
  Result<std::uint64_t> AllReduceSum(std::uint64_t) override { return No(); }
  Status ReduceScatterXor(const std::uint64_t*, std::uint64_t*, std::span<const std::uint64_t>) override {
    return No();
  }
  Result<std::unique_ptr<Communicator>> Split(int) override { return No(); }
  Status RunWithCalls(const CallHandler&, const std::function<void(Caller&)>&) override { return No(); }

  int reductions = 0;

 private:
  static Status No() { return Status(Code::kMpi, "no such call expected"); }
};

TEST(Agree, CostsOneReductionWhileAllIsWell) {
  WithAnother comm;
  EXPECT_OK(Agree(comm, Status::Ok()));
  EXPECT_EQ(comm.reductions, 1);
}

TEST(Agree, ReportsThatItCouldNotAgree) {
  WithAnother comm;
  EXPECT_CODE(Agree(comm, Status(Code::kIo, "f: write")), Code::kMpi);
}

/// One of many ranks; counts the splits, and is alone in each part.
class OneOfMany : public WithAnother {
 public:
  explicit OneOfMany(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return 100; }
  Result<std::unique_ptr<Communicator>> Split(int color) override {
    colors.push_back(color);
    return color < 0 ? std::unique_ptr<Communicator>() : SelfCommunicator();
  }
  std::vector<int> colors;

 private:
  const int rank_;
};

TEST(SplitIntoParts, TakesOneSplitForAllPartsWithoutACommonRank) {
  std::vector<std::set<int>> parts(25);
  for (int rank = 0; rank < 100; ++rank) parts[static_cast<std::size_t>(rank % 25)].insert(rank);
  OneOfMany comm(27);
  auto made = SplitIntoParts(comm, parts);
  ASSERT_OK(made);
  EXPECT_EQ(comm.colors, std::vector<int>{2});
  for (std::size_t i = 0; i < 25; ++i) EXPECT_EQ((*made)[i] != nullptr, i == 2) << i;
}

TEST(SplitIntoParts, TakesAnotherWhereTheyOverlap) {
  const std::vector<std::set<int>> parts = {{0, 1}, {1, 2}, {2, 3}, {1, 4}, {5}};
  OneOfMany comm(1), outside(9);
  auto made = SplitIntoParts(comm, parts);
  ASSERT_OK(made);
  EXPECT_EQ(comm.colors, (std::vector<int>{0, 1, 3}));
  for (const std::size_t i : {0, 1, 3}) EXPECT_NE((*made)[i], nullptr) << i;
  for (const std::size_t i : {2, 4}) EXPECT_EQ((*made)[i], nullptr) << i;
  ASSERT_OK(SplitIntoParts(outside, parts));
  EXPECT_EQ(outside.colors, (std::vector<int>{-1, -1, -1}));
}

TEST(SplitIntoParts, OfNothingIsNothing) {
  OneOfMany comm(0);
  auto made = SplitIntoParts(comm, {});
  ASSERT_OK(made);
  EXPECT_TRUE(made->empty());
}

}  // namespace
}  // namespace lzy
