// What is said of a read that was not right: damaged, read wrongly, or repaired by another process meanwhile.
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine.h"
#include "hooks/disk/read_check.h"
#include "memory_files.h"
#include "status_matchers.h"

namespace lzy::hooks {
namespace {

class ReadCheckTest : public ::testing::Test {
 protected:
  ReadCheckTest() {
    options_.block_size = 512;
    options_.stripe = 512;
    options_.threads = 1;
    for (std::size_t i = 0; i < good_.size(); ++i) good_[i] = static_cast<std::uint8_t>(i * 31 + i / 512);
    fs_.Put("d/f", good_, 1'600'000'000'000'000'000);
    EXPECT_OK(Protect({fs_, *self_, options_}, {DatasetKind::kShared, "d/f", {}}, {}).status);
  }
  std::unique_ptr<ReadCheck> Open() {
    return std::make_unique<ReadCheck>(fs_, options_, "d/f", fs_.Stat("d/f")->inode);
  }
  ReadVerdict Check(ReadCheck& check, std::vector<std::uint8_t>& buffer) {
    const ReadPiece piece{0, buffer.size(), buffer.data()};
    return check.Check({&piece, 1});
  }

  std::vector<std::uint8_t> good_ = std::vector<std::uint8_t>(20000);
  testing::MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
};

TEST_F(ReadCheckTest, OfDamageThatAnotherProcessRepairedIsNotSaidThatItWasReadWrongly) {
  const auto one = Open(), other = Open();
  fs_.At("d/f").bytes[700] ^= 1;
  std::vector<std::uint8_t> ours = fs_.At("d/f").bytes, theirs = ours;
  EXPECT_GT(Check(*one, ours).repaired, 0u);
  const ReadVerdict verdict = Check(*other, theirs);
  EXPECT_EQ(theirs, good_);
  EXPECT_GT(verdict.reread, 0u);
  EXPECT_TRUE(verdict.repaired_elsewhere);
}

TEST_F(ReadCheckTest, WhatWasReadWronglyIsSaidToBe) {
  const auto check = Open();
  for (int i = 0; i < 2; ++i) {
    std::vector<std::uint8_t> buffer = good_;
    buffer[700] ^= 1;
    const ReadVerdict verdict = Check(*check, buffer);
    EXPECT_EQ(buffer, good_);
    EXPECT_GT(verdict.reread, 0u);
    EXPECT_FALSE(verdict.repaired_elsewhere);
  }
}

TEST_F(ReadCheckTest, OwnRepairsAreNoOtherProcess) {
  const auto check = Open();
  fs_.At("d/f").bytes[700] ^= 1;
  std::vector<std::uint8_t> buffer = fs_.At("d/f").bytes;
  EXPECT_GT(Check(*check, buffer).repaired, 0u);
  buffer = good_;
  buffer[5000] ^= 1;
  const ReadVerdict verdict = Check(*check, buffer);
  EXPECT_GT(verdict.reread, 0u);
  EXPECT_FALSE(verdict.repaired_elsewhere);
}

}  // namespace
}  // namespace lzy::hooks
