// Streams of blocks on files that fail in the ways files do.
#include "storage/block_stream.h"

#include <gtest/gtest.h>

#include "memory_files.h"
#include "status_matchers.h"

namespace lzy {
namespace {

using testing::MemoryFileSystem;

constexpr std::uint64_t kBlock = 512;

class BlockStreamTest : public ::testing::Test {
 protected:
  /// A file of `size` bytes behind `base` others, and the tree over its blocks. `hole`: a block of length zero.
  void Make(std::uint64_t size, std::uint64_t base = 0, std::uint64_t hole = UINT64_MAX) {
    std::vector<std::uint8_t> bytes(base + size);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / kBlock * 13);
    fs_.Put("f", bytes);
    file_ = fs_.Open("f", OpenMode::kReadWrite).value();
    blocks_ = (size + kBlock - 1) / kBlock;
    stream_.file = file_.get();
    stream_.base = base;
    stream_.place = [size, hole](std::uint64_t i) {
      const std::uint64_t offset = i * kBlock;
      const std::uint64_t length = i == hole ? 0 : std::min(kBlock, size - offset);
      return BlockPlace{offset, static_cast<std::uint32_t>(length), i};
    };
    std::vector<Hash> leaves;
    for (std::uint64_t i = 0; i < blocks_; ++i) {
      const BlockPlace at = stream_.place(i);
      leaves.push_back(at.length == 0
                           ? Hash{}
                           : HashBytes(HashTag::kDataLeaf, i, ByteSpan(bytes).subspan(base + at.offset, at.length)));
    }
    tree_ = Tree::Build(TreeKind::kData, leaves, size);
    stream_.expected = &tree_;
  }

  Result<CheckResult> Check() { return CheckBlocks(stream_, 0, blocks_, settings_); }

  static std::string Text(const CheckResult& result) {
    std::string out;
    for (const BadBlocks& bad : result.bad) {
      const char* faults[] = {"?", "hash", "unreadable", "missing"};
      out += std::to_string(bad.first) + "+" + std::to_string(bad.count) + " " + faults[static_cast<int>(bad.fault)] +
             (bad.transient ? " transient; " : "; ");
    }
    return out;
  }

  MemoryFileSystem fs_;
  std::unique_ptr<File> file_;
  Tree tree_{TreeKind::kData};
  BlockStream stream_;
  CheckSettings settings_;
  std::uint64_t blocks_ = 0;
};

TEST_F(BlockStreamTest, GoodBlocksAreGood) {
  for (std::uint64_t size : {0u, 1u, 511u, 512u, 513u, 10000u}) {
    Make(size, 100);
    for (unsigned threads : {1u, 3u}) {
      for (std::uint64_t buffer : {std::uint64_t{1}, std::uint64_t{1500}, std::uint64_t{1} << 20}) {
        settings_.threads = threads;
        settings_.buffer_bytes = buffer;
        auto result = Check();
        ASSERT_OK(result);
        EXPECT_EQ(Text(*result), "") << size;
        EXPECT_EQ(result->bytes_read, size);
        for (std::uint64_t i = 0; i < blocks_; ++i) EXPECT_EQ(result->leaves[i], tree_.leaf(i));
      }
    }
  }
  EXPECT_EQ(fs_.uncached_reads, 0u);
}

TEST_F(BlockStreamTest, OneBadSectorCostsOneBlock) {
  Make(10 * kBlock + 7, 64);
  for (std::uint64_t bad = 0; bad < blocks_; ++bad) {
    fs_.At("f").unreadable = {{64 + bad * kBlock, 1}};
    auto result = Check();
    ASSERT_OK(result);
    EXPECT_EQ(Text(*result), std::to_string(bad) + "+1 unreadable; ");
    EXPECT_TRUE(result->leaves[bad].IsZero());
    for (std::uint64_t i = 0; i < blocks_; ++i) {
      if (i != bad) {
        EXPECT_EQ(result->leaves[i], tree_.leaf(i)) << "a neighbour of the bad block " << bad;
      }
    }
  }
}

TEST_F(BlockStreamTest, WrongOnceIsTransient) {
  Make(6 * kBlock);
  fs_.At("f").flaky = {{2 * kBlock + 5, 1}, {3 * kBlock, 1}};
  auto result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "2+2 hash transient; ");
  EXPECT_EQ(result->leaves[2], tree_.leaf(2)) << "the leaf is that of the good reading";
  settings_.uncached = true;
  result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "") << "past the cache there is nothing wrong";
}

TEST_F(BlockStreamTest, WrongTwiceIsDamaged) {
  Make(6 * kBlock);
  fs_.At("f").bytes[4 * kBlock + 511] ^= 1;
  auto result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "4+1 hash; ");
}

TEST_F(BlockStreamTest, ShortFilesMissTheirTail) {
  const std::uint64_t size = 6 * kBlock + 100;
  for (std::uint64_t left = 0; left <= size; ++left) {
    Make(size, 32);
    fs_.At("f").bytes.resize(32 + left);
    auto result = Check();
    ASSERT_OK(result);
    const std::uint64_t first = left == size ? blocks_ : left / kBlock;
    EXPECT_EQ(Text(*result),
              first == blocks_ ? "" : std::to_string(first) + "+" + std::to_string(blocks_ - first) + " missing; ")
        << left;
  }
}

TEST_F(BlockStreamTest, NoFileMissesEverything) {
  Make(3 * kBlock);
  stream_.file = nullptr;
  auto result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "0+3 missing; ");
}

TEST_F(BlockStreamTest, HolesHaveZeroLeavesAndAreNotRead) {
  Make(6 * kBlock, 0, 3);
  auto result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "");
  EXPECT_EQ(result->bytes_read, 5 * kBlock);
  fs_.At("f").bytes[3 * kBlock] ^= 1;
  result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "") << "what lies in a hole is nobody's business";
}

TEST_F(BlockStreamTest, HolesInFrontDoNotMakeReadsLonger) {
  Make(400 * kBlock, 0, 0);
  std::uint64_t largest = 0;
  fs_.fault = [&](MemoryFileSystem::Op op, const std::string&, std::uint64_t, std::uint64_t length) {
    if (op == MemoryFileSystem::Op::kRead) largest = std::max(largest, length);
    return Status::Ok();
  };
  settings_.buffer_bytes = 4 * kBlock;
  const auto result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "");
  EXPECT_EQ(largest, 4 * kBlock);
}

TEST_F(BlockStreamTest, WithoutLeavesOnlyWhatCannotBeReadIsBad) {
  Make(5 * kBlock);
  fs_.At("f").bytes[0] ^= 1;
  fs_.At("f").unreadable = {{3 * kBlock, 1}};
  stream_.expected = nullptr;
  auto result = Check();
  ASSERT_OK(result);
  EXPECT_EQ(Text(*result), "3+1 unreadable; ");
  EXPECT_NE(result->leaves[0], tree_.leaf(0));
}

TEST_F(BlockStreamTest, TroubleThatIsNotTheBlocksIsAFailure) {
  Make(5 * kBlock);
  fs_.fault = [](auto, const auto& path, auto, auto) { return Status(Code::kIo, path + ": read: Permission denied"); };
  EXPECT_CODE(Check(), Code::kIo);
  fs_.fault = nullptr;
  settings_.stop = [] { return true; };
  EXPECT_CODE(Check(), Code::kInterrupted);
}

TEST_F(BlockStreamTest, AnyStretchMayBeChecked) {
  Make(7 * kBlock + 3);
  fs_.At("f").bytes[5 * kBlock] ^= 1;
  for (std::uint64_t first = 0; first <= blocks_; ++first) {
    for (std::uint64_t count = 0; first + count <= blocks_; ++count) {
      auto result = CheckBlocks(stream_, first, count, settings_);
      ASSERT_OK(result);
      const bool hit = first <= 5 && 5 < first + count;
      EXPECT_EQ(Text(*result), hit ? "5+1 hash; " : "");
      ASSERT_EQ(result->leaves.size(), count);
    }
  }
}

}  // namespace
}  // namespace lzy
