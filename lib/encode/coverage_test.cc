// Which rows are read, which were captured, and who reads what is missing of the latter.
#include "encode/coverage.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dataset/view.h"
#include "encode/encode.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

constexpr std::uint32_t kBlock = 512;
constexpr std::uint64_t kBlocks = 800, kMemory = 64u << 20;

class CoverageTest : public ::testing::Test {
 protected:
  void SetUp() override { MakeRows(4); }
  /// Rows with so many data blocks.
  void MakeRows(std::uint32_t blocks) {
    Options options;
    options.block_size = kBlock;
    options.stripe = kBlock;
    options.group = blocks + 1;
    options.parity = 1;
    auto layout = Layout::Create(SharedGeometry(options, kBlocks * kBlock), {kBlocks * kBlock});
    ASSERT_OK(layout);
    layout_.emplace(std::move(*layout));
    plans_.emplace(*layout_);
    auto rows = RowsToEncode(*layout_, *plans_, {}, true);
    ASSERT_OK(rows);
    rows_ = std::move(*rows);
  }

  /// Block number `which` of each row.
  std::vector<std::uint64_t> Column(std::uint32_t which) const {
    std::vector<std::uint64_t> blocks;
    for (const RowRun& run : rows_) {
      const Rotation rotation = layout_->rotation(run.group);
      const std::uint32_t device = layout_->group(run.group)[rotation.DeviceAt(rotation.m + which, run.unit_row)];
      for (std::uint32_t s = 0; s < run.slices; ++s) {
        const BlockPlace place = layout_->DataBlock(device, run.unit_row, run.first_slice + s);
        if (place.length > 0) blocks.push_back(place.index);
      }
    }
    return blocks;
  }
  /// Column `i` is of rank captors[i].
  Coverage Captured(const std::vector<int>& captors) const {
    Coverage coverage;
    for (std::uint32_t i = 0; i < captors.size(); ++i) {
      if (captors[i] == Captors::kNobody) continue;
      for (const std::uint64_t block : Column(i)) coverage.pieces.push_back({{block, block + 1}, captors[i]});
    }
    std::sort(coverage.pieces.begin(), coverage.pieces.end(),
              [](const auto& a, const auto& b) { return a.blocks.begin < b.blocks.begin; });
    return coverage;
  }
  std::vector<SortedRows> Sort(const Coverage& coverage, int ranks) const {
    std::vector<SortedRows> sorted(static_cast<std::size_t>(ranks));
    RunRanks(ranks, [&](Communicator& comm) {
      sorted[static_cast<std::size_t>(comm.rank())] = SortRows(*layout_, rows_, coverage, comm, kMemory);
    });
    return sorted;
  }
  static std::uint64_t Count(std::span<const RowRun> runs) {
    std::uint64_t rows = 0;
    for (const RowRun& run : runs) rows += run.slices;
    return rows;
  }

  std::optional<Layout> layout_;
  std::optional<PlanCache> plans_;
  std::vector<RowRun> rows_;
};

TEST_F(CoverageTest, TheCaptorReadsTheRestOfAHalfCapturedRow) {
  const auto sorted = Sort(Captured({0, 0, 0, Captors::kNobody}), 2);
  EXPECT_EQ(Count(sorted[0].own), Count(rows_));
  EXPECT_EQ(Count(sorted[1].own), 0u);
  EXPECT_EQ(Count(sorted[0].reread), 0u);
  std::vector<std::uint64_t> gaps;
  for (const BlockPlace& place : sorted[0].gaps) gaps.push_back(place.index);
  std::sort(gaps.begin(), gaps.end());
  auto expected = Column(3);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(gaps, expected);
  EXPECT_TRUE(sorted[1].gaps.empty());
}

TEST_F(CoverageTest, OneOfSeveralCaptorsReadsTheRestOfARow) {
  const auto sorted = Sort(Captured({0, 1, 1, Captors::kNobody}), 2);
  for (const SortedRows& one : sorted) {
    EXPECT_EQ(Count(one.combined), Count(rows_));
    EXPECT_EQ(Count(one.own) + Count(one.reread), 0u);
  }
  EXPECT_EQ(sorted[0].gaps.size() + sorted[1].gaps.size(), Column(3).size());
}

TEST_F(CoverageTest, NothingIsAddedToASumThatAlreadyHasTheBlock) {
  Coverage coverage = Captured({0, 0, 0, Captors::kNobody});
  const std::uint64_t disputed = Column(3)[7];
  coverage.disputed.push_back({disputed, disputed + 1});
  const auto sorted = Sort(coverage, 2);
  EXPECT_EQ(Count(sorted[0].reread), 1u);
  EXPECT_EQ(Count(sorted[0].own), Count(rows_) - 1);
  EXPECT_EQ(sorted[0].gaps.size(), Column(3).size() - 1);
}

TEST_F(CoverageTest, AnIncompleteCaptureIsReadBackWhole) {
  Coverage coverage = Captured({0, 0, 0, Captors::kNobody});
  coverage.complete = false;
  const auto sorted = Sort(coverage, 2);
  EXPECT_EQ(Count(sorted[0].reread), Count(rows_));
  EXPECT_TRUE(sorted[0].gaps.empty());
}

TEST_F(CoverageTest, OfRowsOfOneRankOnlyTheRestIsReadHoweverLong) {
  const auto sorted = Sort(Captured({0, Captors::kNobody, Captors::kNobody, Captors::kNobody}), 1);
  EXPECT_GT(Count(sorted[0].own), 0u);
  EXPECT_GT(sorted[0].gaps.size(), Count(sorted[0].own));
}

TEST_F(CoverageTest, OfRowsOfSeveralRanksAllIsReadIfTheyHaveLessThanHalf) {
  MakeRows(6);
  constexpr int kNobody = Captors::kNobody;
  for (const SortedRows& one : Sort(Captured({0, 1, kNobody, kNobody, kNobody, kNobody}), 2)) {
    EXPECT_GE(Count(one.reread), Count(rows_) - 1) << "the last row is short, and may be captured as a whole";
    EXPECT_TRUE(one.gaps.empty());
  }
}

// What one of many ranks wrote half of must not be left to it to read.
TEST_F(CoverageTest, NoRankReadsMoreThanItsPart) {
  const auto sorted = Sort(Captured({0, 0, Captors::kNobody, Captors::kNobody}), 4);
  EXPECT_GT(sorted[0].gaps.size(), 0u);
  EXPECT_LE(sorted[0].gaps.size(), kBlocks / 4);
  EXPECT_EQ(2 * Count(sorted[0].own), sorted[0].gaps.size());
  EXPECT_EQ(Count(sorted[0].own) + Count(sorted[0].reread), Count(rows_));
  for (const SortedRows& one : sorted) EXPECT_EQ(Count(one.reread), Count(sorted[0].reread));
}

// What ranks know of blocks that the commit reads.
class SharedParts : public CoverageTest {
 protected:
  static constexpr int kRanks = 2;
  SharedParts() {
    for (auto& capture : captures_) {
      auto made = lzy::Capture::Create({.parameters = layout().parameters(), .memory = kMemory});
      EXPECT_OK(made);
      capture = std::move(*made);
    }
  }
  const Layout& layout() {
    if (!layout_) MakeRows(4);
    return *layout_;
  }
  void Write(int rank, Interval bytes, std::uint8_t value = 1) {
    const std::vector<std::uint8_t> data(bytes.end - bytes.begin, value);
    captures_[static_cast<std::size_t>(rank)]->Take(bytes.begin, data, ++turn_);
  }
  /// The byte ranges of the parts.
  std::vector<Interval> Parts() {
    std::vector<Interval> parts[kRanks];
    RunRanks(kRanks, [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      EXPECT_TRUE(captures_[rank]->Finish(layout()));
      const auto coverage = ShareCoverage(comm, *captures_[rank]);
      ASSERT_OK(coverage);
      const auto shared = ShareParts(comm, layout(), nullptr, *captures_[rank], *coverage);
      ASSERT_OK(shared);
      EXPECT_TRUE(coverage->has_parts || shared->empty());
      for (const WrittenPart& part : *shared) {
        parts[rank].push_back(part.bytes);
        const std::vector<std::uint8_t> data(part.bytes.end - part.bytes.begin, 1);
        EXPECT_EQ(part.hash, WrittenPart::HashOf(nullptr, part.bytes, data));
      }
    });
    EXPECT_EQ(parts[0], parts[1]);
    return parts[0];
  }

  std::unique_ptr<lzy::Capture> captures_[kRanks];
  std::uint64_t turn_ = 0;
};

TEST_F(SharedParts, OfIncompleteBlocksAreKnown) {
  Write(0, {kBlock + 10, kBlock + 20});
  Write(1, {kBlock + 30, 3 * kBlock});
  EXPECT_EQ(Parts(), (std::vector<Interval>{{kBlock + 10, kBlock + 20}, {kBlock + 30, 2 * kBlock}})) << "block 2 is captured";
}

TEST_F(SharedParts, AreLeftOutIfTwoRanksWroteAByte) {
  Write(0, {10, 20});
  Write(0, {30, 40});
  Write(1, {39, 50});
  EXPECT_EQ(Parts(), (std::vector<Interval>{{10, 20}}));
}

TEST_F(SharedParts, AreLeftOutIfAnotherRankCapturedTheBlock) {
  Write(0, {5 * kBlock, 8 * kBlock});
  Write(1, {6 * kBlock + 1, 6 * kBlock + 2});
  EXPECT_TRUE(Parts().empty());
}

TEST_F(SharedParts, AreLeftOutIfAnotherRankMissedWhatItWrote) {
  Write(0, {10, 20});
  Write(0, {kBlock + 10, kBlock + 20});
  captures_[1]->Miss({100, 200});
  EXPECT_EQ(Parts(), (std::vector<Interval>{{kBlock + 10, kBlock + 20}}));
}

TEST_F(SharedParts, AreLeftOutOfABlockThatWasCut) {
  Write(0, {10, 200});
  captures_[0]->Cut(100);
  EXPECT_TRUE(Parts().empty());
}

TEST_F(SharedParts, ThatTheFileDoesNotHaveAreLeftOut) {
  Write(1, {kBlocks * kBlock + 1, kBlocks * kBlock + 5});
  Write(1, {10, 20});
  EXPECT_EQ(Parts(), (std::vector<Interval>{{10, 20}}));
}

}  // namespace
}  // namespace lzy::testing
