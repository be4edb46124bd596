#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::HasSubstr;

struct Split {
  const char* path;
  const char* directory;
  const char* name;
};

TEST(Path, SplitsAndJoins) {
  constexpr Split kCases[] = {
      {"dir/name", "dir", "name"},
      {"name", ".", "name"},
      {"/name", "/", "name"},
      {"/a/b/c", "/a/b", "c"},
      {"a//b", "a", "b"},
      {"a/b/", "a", "b"},
      {"a///", ".", "a"},
      {"/", "/", ""},
      {"", ".", ""},
      {"./name", ".", "name"},
      {"../name", "..", "name"},
      {"a/..", "a", ".."},
  };
  for (const Split& c : kCases) {
    EXPECT_EQ(DirectoryOf(c.path), c.directory) << c.path;
    EXPECT_EQ(BaseNameOf(c.path), c.name) << c.path;
  }
  for (std::string path : {"dir/name", "name", "/name", "/a/b/c", "/"}) {
    EXPECT_EQ(JoinPath(DirectoryOf(path), BaseNameOf(path)), path);
  }
  EXPECT_EQ(JoinPath("", "x"), "x");
  EXPECT_EQ(JoinPath(".", "x"), "x");
  EXPECT_EQ(JoinPath("d", "x"), "d/x");
  EXPECT_EQ(JoinPath("d/", "x"), "d/x");
  EXPECT_EQ(JoinPath("/", "x"), "/x");
}

/// Holds `content`; everything but reading fails.
class ContentFile : public ReadOnlyFile {
 public:
  explicit ContentFile(std::vector<std::uint8_t> content) : ReadOnlyFile("dir/content"), content_(std::move(content)) {}
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override {
    if (offset >= content_.size()) return std::size_t{0};
    std::size_t count = std::min<std::size_t>(to.size(), content_.size() - offset);
    std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(offset), count, to.begin());
    return count;
  }

 private:
  std::vector<std::uint8_t> content_;
};

TEST(ReadExactly, AllOrCorrupt) {
  ContentFile file({1, 2, 3, 4});
  std::vector<std::uint8_t> to(3);
  ASSERT_OK(ReadExactly(file, 1, to));
  EXPECT_EQ(to, (std::vector<std::uint8_t>{2, 3, 4}));
  Status early = ReadExactly(file, 2, to);
  EXPECT_CODE(early, Code::kCorrupt);
  EXPECT_THAT(early.message(), HasSubstr("dir/content: ends early"));
  EXPECT_CODE(ReadExactly(file, 100, to), Code::kCorrupt);
  EXPECT_OK(ReadExactly(file, 100, {}));
}

TEST(Clock, IsTheTimeOfDayAndCoarse) {
  const std::int64_t granularity = CoarseGranularityNs();
  EXPECT_GE(granularity, 1'000'000);
  EXPECT_LE(granularity, 100'000'000);
  auto precise = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const std::int64_t before = precise();
  const std::int64_t coarse = CoarseNowNs();
  const std::int64_t after = precise();
  EXPECT_GE(coarse, before - 1'000'000'000);  // a tick can be late on a busy virtual machine
  EXPECT_LE(coarse, after);
  EXPECT_GE(CoarseNowNs(), coarse);
}

}  // namespace
}  // namespace lzy
