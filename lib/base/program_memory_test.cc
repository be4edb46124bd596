#include "base/program_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

namespace lzy {
namespace {

/// Three pages of a program; the test may do to them what programs do.
class ProgramMemory : public ::testing::Test {
 protected:
  ProgramMemory() {
    pages_ = static_cast<std::uint8_t*>(mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t i = 0; i < 3 * page_; ++i) pages_[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
  }
  ~ProgramMemory() override { munmap(pages_, 3 * page_); }
  bool Read(std::size_t from, std::size_t size) {
    copy_.assign(size, 0);
    return ReadProgramMemory(pages_ + from, copy_);
  }

  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::uint8_t* pages_ = nullptr;
  std::vector<std::uint8_t> copy_;
};

TEST_F(ProgramMemory, IsCopied) {
  ASSERT_TRUE(Read(5, 2 * page_));
  EXPECT_TRUE(std::equal(copy_.begin(), copy_.end(), pages_ + 5));
  const std::vector<std::uint8_t> other(page_, 9);
  ASSERT_TRUE(WriteProgramMemory(pages_ + 3, other));
  EXPECT_TRUE(std::equal(other.begin(), other.end(), pages_ + 3));
  EXPECT_TRUE(Read(0, 0));
}

TEST_F(ProgramMemory, IsNotCopiedIfAPageInTheMiddleCannotBeRead) {
  ASSERT_EQ(mprotect(pages_ + page_, page_, PROT_NONE), 0);
  EXPECT_TRUE(Read(0, page_));
  EXPECT_FALSE(Read(0, 3 * page_));
  EXPECT_TRUE(Read(2 * page_, page_));
  ASSERT_EQ(mprotect(pages_ + page_, page_, PROT_READ), 0);
  EXPECT_TRUE(Read(0, 3 * page_));
  EXPECT_FALSE(WriteProgramMemory(pages_, std::vector<std::uint8_t>(2 * page_))) << "that page may not be written";
  ASSERT_EQ(munmap(pages_ + page_, page_), 0);
  EXPECT_FALSE(Read(0, 3 * page_));
}

TEST_F(ProgramMemory, OfManyPiecesIsCopied) {
  std::vector<iovec> pieces;
  std::vector<std::uint8_t> expected;
  for (std::size_t i = 0; i < 2 * IOV_MAX + 3; ++i) {
    pieces.push_back({pages_ + i * 5, 2});
    expected.insert(expected.end(), pages_ + i * 5, pages_ + i * 5 + 2);
  }
  copy_.resize(expected.size());
  ASSERT_TRUE(ReadProgramMemory(pieces, copy_));
  EXPECT_EQ(copy_, expected);
  ASSERT_EQ(mprotect(pages_, page_, PROT_NONE), 0);
  EXPECT_FALSE(ReadProgramMemory(pieces, copy_));
  EXPECT_TRUE(ReadProgramMemory({}, {}));
}

TEST_F(ProgramMemory, OfAForkedChildIsItsOwn) {
  const std::uint8_t before = pages_[0];
  const pid_t child = fork();
  if (child == 0) {
    pages_[0] = static_cast<std::uint8_t>(before + 1);
    _exit(Read(0, 1) && copy_[0] == pages_[0] ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(Read(0, 1));
  EXPECT_EQ(copy_[0], before);
}

}  // namespace
}  // namespace lzy
