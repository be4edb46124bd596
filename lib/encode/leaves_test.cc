#include "encode/leaves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "memory_files.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy {
namespace {

constexpr std::uint64_t kPagesInMemory = 4;

class LeavesTest : public ::testing::Test {
 protected:
  void SetUp() override { SetMostLeavesInMemory(kPagesInMemory * kPageFanout); }
  void TearDown() override { SetMostLeavesInMemory(kMostLeavesInMemory); }

  static Hash LeafOf(std::uint64_t block) { return HashBytes(HashTag::kDataLeaf, block, {}); }

  ScratchMaker Scratch() {
    return [this] {
      const std::string name = "scratch" + std::to_string(files_made_++);
      return files_.Open(name, OpenMode::kCreateNew).value();
    };
  }

  testing::MemoryFileSystem files_;
  std::atomic<int> files_made_ = 0;
};

TEST_F(LeavesTest, WhatIsSetIsThereInAnyOrder) {
  std::mt19937_64 random(1);
  for (const bool in_order : {true, false}) {
    Leaves leaves;
    leaves.Init(100'000, Scratch());
    std::map<std::uint64_t, Hash> expected;
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t block = in_order ? i : random() % leaves.blocks();
      expected[block] = LeafOf(random() % 3 + block);
      leaves.Set(block, expected[block]);
    }
    EXPECT_EQ(leaves.known(), expected.size());
    for (std::uint64_t block = 0; block < leaves.blocks(); ++block) {
      const auto at = expected.find(block);
      ASSERT_EQ(leaves.Get(block), at == expected.end() ? std::nullopt : std::optional(at->second)) << block;
    }
    std::uint64_t seen = 0;
    for (auto page = leaves.NextPage(0); page; page = leaves.NextPage(*page + 1)) seen += leaves.PageAt(*page).known.count();
    EXPECT_EQ(seen, expected.size());
  }
  EXPECT_EQ(files_made_, 2);
}

TEST_F(LeavesTest, FewNeedNoFile) {
  Leaves leaves;
  leaves.Init(1 << 30, Scratch());
  for (std::uint64_t page = 0; page < kPagesInMemory; ++page) leaves.Set(page << 20, LeafOf(page));
  EXPECT_EQ(files_made_, 0);
  EXPECT_EQ(leaves.NextPage(1), 1U << 12);
}

// With so much memory that it is divided among several locks, too.
TEST_F(LeavesTest, ThreadsSetAtTheSameTime) {
  for (const std::uint64_t pages : {kPagesInMemory, std::uint64_t{300}}) {
    SetMostLeavesInMemory(pages * kPageFanout);
    Leaves leaves;
    leaves.Init(3 * pages * kPageFanout + 77, Scratch());
    const int before = files_made_;
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t block = t; block < leaves.blocks(); block += 4) leaves.Set(block, LeafOf(block));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(files_made_, before + 1);
    EXPECT_EQ(leaves.known(), leaves.blocks());
    for (std::uint64_t block = 0; block < leaves.blocks(); ++block) ASSERT_EQ(leaves.Get(block), LeafOf(block));
    std::uint64_t page = 0;
    for (auto next = leaves.NextPage(0); next; next = leaves.NextPage(*next + 1)) ASSERT_EQ(*next, page++);
    EXPECT_EQ(page, 3 * pages + 1);
  }
}

TEST_F(LeavesTest, AFileThatCannotBeWrittenKeepsThemInMemory) {
  for (const ScratchMaker& scratch : {ScratchMaker(), ScratchMaker([] { return std::unique_ptr<File>(); }), Scratch()}) {
    files_.largest_file = 10'000;
    Leaves leaves;
    leaves.Init(10'000, scratch);
    for (std::uint64_t block = 0; block < leaves.blocks(); ++block) leaves.Set(block, LeafOf(block));
    for (std::uint64_t block = 0; block < leaves.blocks(); ++block) ASSERT_EQ(leaves.Get(block), LeafOf(block));
  }
}

TEST_F(LeavesTest, APageThatReadsBackWrongIsAnError) {
  Leaves leaves;
  leaves.Init(10'000, Scratch());
  for (std::uint64_t block = 0; block < leaves.blocks(); ++block) leaves.Set(block, LeafOf(block));
  files_.At("scratch0").bytes[100] ^= 1;
  EXPECT_CODE(NoThrow([&] { (void)leaves.Get(0); }), Code::kIo);
  Tree tree;
  const auto none = [](std::uint64_t) { return false; };
  EXPECT_CODE(NoThrow([&] { return MakeTree(TreeKind::kData, leaves, nullptr, 1, none, Scratch(), tree); }), Code::kIo);
}

// More than are sent at once, so that there are several rounds.
TEST_F(LeavesTest, GatherBringsAllToOneRank) {
  constexpr std::uint64_t kBlocks = 1'500'000;
  SetMostLeavesInMemory(kMostLeavesInMemory);
  testing::RunRanks(3, [&](Communicator& comm) {
    Leaves data, parity;
    data.Init(kBlocks, Scratch());
    parity.Init(1000, Scratch());
    const auto rank = static_cast<std::uint64_t>(comm.rank());
    for (std::uint64_t i = kBlocks * rank / 3; i < kBlocks * (rank + 1) / 3; ++i) data.Set(i, LeafOf(i));
    for (std::uint64_t i = rank; i < 1000; i += 3) parity.Set(i, LeafOf(kBlocks + i));
    EXPECT_OK(GatherLeaves(comm, 1, kBlocks + 1000, data, parity));
    if (comm.rank() != 1) return;
    EXPECT_EQ(data.known(), kBlocks);
    EXPECT_EQ(parity.known(), 1000U);
    for (std::uint64_t i = 0; i < kBlocks; i += 7) ASSERT_EQ(data.Get(i), LeafOf(i));
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(parity.Get(i), LeafOf(kBlocks + i));
  });
}

// ThreadCommunicator ends the process if ranks do not make the same calls.
TEST_F(LeavesTest, ARankThatFailsLeavesNobodyWaiting) {
  constexpr std::uint64_t kBlocks = 1'200'000;
  for (const int culprit : {0, 1, 2}) {
    testing::RunRanks(3, [&](Communicator& comm) {
      Leaves data, parity;
      const std::string name = "of rank " + std::to_string(comm.rank());
      data.Init(kBlocks, [&] { return files_.Open(name, OpenMode::kCreate).value(); });
      parity.Init(0, {});
      for (std::uint64_t i = static_cast<std::uint64_t>(comm.rank()); i < kBlocks; i += 3 * kPageFanout) data.Set(i, LeafOf(i));
      if (comm.rank() == culprit) files_.At(name).bytes[20] ^= 1;
      const Status gathered = Agree(comm, GatherLeaves(comm, 0, kBlocks, data, parity));
      EXPECT_CODE(gathered, Code::kIo);
    });
  }
}

TEST_F(LeavesTest, ATreeTakesWhatIsNotKnownFromTheOldOne) {
  std::vector<Hash> old;
  for (std::uint64_t i = 0; i < 3000; ++i) old.push_back(LeafOf(i));
  const Tree before = Tree::Build(TreeKind::kData, old, 5);
  Leaves leaves;
  leaves.Init(3500, Scratch());
  for (std::uint64_t i = 10; i < 3500; i += i < 2900 ? 100 : 1) leaves.Set(i, LeafOf(i + 1));
  std::vector<Hash> expected = old;
  expected.resize(3500);
  for (std::uint64_t i = 10; i < 3500; i += i < 2900 ? 100 : 1) expected[i] = LeafOf(i + 1);
  expected[0] = Hash{};
  const auto holes = [](std::uint64_t block) { return block == 0; };
  Tree tree;
  ASSERT_OK(MakeTree(TreeKind::kData, leaves, &before, 6, holes, Scratch(), tree));
  EXPECT_EQ(tree.NodesOf(0), expected);
  EXPECT_EQ(tree.Root(), Tree::Build(TreeKind::kData, expected, 6).Root());
  EXPECT_CODE(MakeTree(TreeKind::kData, leaves, nullptr, 6, holes, Scratch(), tree), Code::kInternal);
}

}  // namespace
}  // namespace lzy
