// Where a file has holes, and that a file without holes is not asked for them again and again.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <limits>

#include "file_fixture.h"

namespace {
std::atomic<int> questions{0};

template <class Call>
off_t Count(const char* name, Call, int fd, off_t offset, int whence) {
  if (whence == SEEK_DATA) ++questions;
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name))(fd, offset, whence);
}
}  // namespace

extern "C" {
off_t lseek(int fd, off_t offset, int whence) {
  return Count("lseek", &lseek, fd, offset, whence);
}
off64_t lseek64(int fd, off64_t offset, int whence) {
  return Count("lseek64", &lseek64, fd, offset, whence);
}
}

namespace lzy::testing {
namespace {

constexpr std::uint64_t kMiB = 1u << 20, kNone = std::numeric_limits<std::uint64_t>::max();

// In memory: other file systems may store less than they were given.
TEST_F(FileTest, AFileWithoutHolesIsNotAsked) {
  const TempDir directory("/dev/shm");
  auto file = Make(directory / "f", Pattern(kMiB));
  questions = 0;
  for (std::uint64_t at = 0; at < kMiB; at += 65536) EXPECT_EQ(file->NextData(at), at);
  EXPECT_EQ(questions, 0);
  EXPECT_EQ(file->NextData(kMiB), kNone);
  // What is added is looked at.
  ASSERT_OK(file->WriteAt(4 * kMiB, Pattern(kMiB)));
  EXPECT_EQ(file->NextData(kMiB), 4 * kMiB);
  EXPECT_EQ(file->NextData(0), 0u);
}

TEST_F(FileTest, HolesAreFound) {
  const TempDir directory("/dev/shm");
  auto file = Make(directory / "f");
  ASSERT_OK(file->Truncate(8 * kMiB));
  EXPECT_EQ(file->NextData(0), kNone);
  ASSERT_OK(file->WriteAt(4 * kMiB, Pattern(kMiB)));
  EXPECT_EQ(file->NextData(0), 4 * kMiB);
  EXPECT_EQ(file->NextData(4 * kMiB + 5), 4 * kMiB + 5);
  EXPECT_EQ(file->NextData(5 * kMiB), kNone);
}

}  // namespace
}  // namespace lzy::testing
