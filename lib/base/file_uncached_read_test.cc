// Reading past the page cache, on a file system with O_DIRECT and on one that may be without.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "file_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class UncachedReadTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (dir_.path().empty()) GTEST_SKIP() << GetParam() << " is not writable here";
  }
  TempDir dir_{GetParam()};
};

TEST_P(UncachedReadTest, EqualsPlainReadAtAnyOffsetAndLength) {
  constexpr std::size_t kSize =
      5 * (std::size_t{1} << 20) + 1234;  // more than one bounce buffer, and ends in mid-sector
  const Bytes content = Pattern(kSize);
  auto file = PosixFileSystem().Open(dir_ / "f", OpenMode::kCreateNew);
  ASSERT_OK(file);
  ASSERT_OK((*file)->WriteAt(0, content));  // not synced: the storage must still be read as written
  for (std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{4096}, std::size_t{4097},
                             (std::size_t{4} << 20) - 1, kSize - 4096, kSize - 1, kSize, kSize + 1, kSize + 10000}) {
    for (std::size_t length :
         {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{8193}, kSize, (std::size_t{4} << 20)}) {
      Bytes plain(length, 0xaa);
      auto plain_count = (*file)->ReadAt(offset, plain);
      ASSERT_OK(plain_count);
      // Where the destination is aligned it is read to directly; what is behind the end of the file may then be anything.
      const std::unique_ptr<std::uint8_t, decltype(&std::free)> memory(
          static_cast<std::uint8_t*>(std::aligned_alloc(4096, length / 4096 * 4096 + 8192)), &std::free);
      for (const std::size_t shift : {std::size_t{0}, std::size_t{16}}) {
        const MutableByteSpan device(memory.get() + shift, length);
        auto device_count = (*file)->ReadAtUncached(offset, device);
        ASSERT_OK(device_count);
        ASSERT_EQ(*plain_count, *device_count) << offset << " " << length;
        ASSERT_EQ(*device_count, offset >= kSize ? 0 : std::min(length, kSize - offset));
        ASSERT_TRUE(std::equal(device.begin(), device.begin() + static_cast<std::ptrdiff_t>(*device_count), plain.begin()))
            << offset << " " << length << " " << shift;
      }
    }
  }
}

TEST_P(UncachedReadTest, SeesLaterWritesAndWorksOnARemovedFileOpenedForReading) {
  auto writer = PosixFileSystem().Open(dir_ / "f", OpenMode::kCreateNew);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->WriteAt(0, Pattern(10000)));
  auto reader = PosixFileSystem().Open(dir_ / "f", OpenMode::kRead);
  ASSERT_OK(reader);
  ASSERT_OK(PosixFileSystem().Remove(dir_ / "f"));
  for (unsigned seed : {1u, 2u, 3u}) {
    const Bytes content = Pattern(10000, seed);
    ASSERT_OK((*writer)->WriteAt(0, content));
    Bytes back(10000);
    auto count = (*reader)->ReadAtUncached(0, back);
    ASSERT_OK(count);
    EXPECT_EQ(*count, 10000u);
    EXPECT_TRUE(back == content) << seed;
  }
}

TEST_P(UncachedReadTest, FallsBackWithoutDirectAccess) {
  const Bytes content = Pattern(10000);
  auto file = PosixFileSystem().Open(dir_ / "f", OpenMode::kCreateNew);
  ASSERT_OK(file);
  ASSERT_OK((*file)->WriteAt(0, content));
  // No second descriptor is to be had, as if the file system refused O_DIRECT.
  rlimit limits{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limits), 0);
  const rlimit none{0, limits.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Bytes back(5000, 0xaa);
  auto whole = (*file)->ReadAtUncached(4099, back);
  const Bytes expected(content.begin() + 4099, content.begin() + 9099);
  Bytes end(5000);
  auto at_end = (*file)->ReadAtUncached(9999, end);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limits), 0);
  ASSERT_OK(whole);
  EXPECT_EQ(*whole, 5000u);
  EXPECT_TRUE(back == expected);
  ASSERT_OK(at_end);
  EXPECT_EQ(*at_end, 1u);
  EXPECT_EQ(end[0], content[9999]);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, UncachedReadTest, ::testing::Values("/tmp", "/dev/shm"),
                         [](const auto& test) { return std::string(test.param) == "/tmp" ? "tmp" : "shm"; });

}  // namespace
}  // namespace lzy::testing
