// Directories: listing, renaming, removing, making them; real paths.
#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "file_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(FileTest, ListIsSorted) {
  for (const char* name : {"b", "a", ".hidden", "B", "a10", "a9"}) Make(dir_ / name);
  auto names = files_.List(dir_.path());
  ASSERT_OK(names);
  EXPECT_THAT(*names, ElementsAre(".hidden", "B", "a", "a10", "a9", "b"));
  auto missing = files_.List(dir_ / "none");
  EXPECT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr(dir_ / "none"));
  EXPECT_CODE(files_.List(dir_ / "a"), Code::kIo);
}

TEST_F(FileTest, RenameIfAbsentNeverReplaces) {
  ASSERT_OK(files_.Open(dir_ / "old", OpenMode::kCreateNew));
  auto old_stat = files_.Stat(dir_ / "old");
  auto renamed = files_.RenameIfAbsent(dir_ / "old", dir_ / "new");
  ASSERT_OK(renamed);
  EXPECT_TRUE(*renamed);
  EXPECT_CODE(files_.Stat(dir_ / "old"), Code::kNotFound);
  ASSERT_OK(files_.Open(dir_ / "other", OpenMode::kCreateNew));
  renamed = files_.RenameIfAbsent(dir_ / "other", dir_ / "new");
  ASSERT_OK(renamed);
  EXPECT_FALSE(*renamed);
  EXPECT_OK(files_.Stat(dir_ / "other"));
  EXPECT_EQ(files_.Stat(dir_ / "new")->inode, old_stat->inode);
  EXPECT_CODE(files_.RenameIfAbsent(dir_ / "old", dir_ / "newer"), Code::kNotFound);
}

TEST_F(FileTest, RenameReplacesAndRemoveRemoves) {
  Make(dir_ / "old", {1});
  Make(dir_ / "new", {2});
  ASSERT_OK(files_.Rename(dir_ / "old", dir_ / "new"));
  ASSERT_OK(files_.SyncDirectory(dir_.path()));
  EXPECT_THAT(files_.List(dir_.path()).value(), ElementsAre("new"));
  auto file = files_.Open(dir_ / "new", OpenMode::kRead);
  ASSERT_OK(file);
  Bytes back(1);
  ASSERT_OK(ReadExactly(**file, 0, back));
  EXPECT_EQ(back[0], 1);
  Status missing = files_.Rename(dir_ / "old", dir_ / "newer");
  EXPECT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr(dir_ / "old"));
  EXPECT_THAT(missing.message(), HasSubstr(dir_ / "newer"));
  ASSERT_OK(files_.Remove(dir_ / "new"));
  Status gone = files_.Remove(dir_ / "new");
  EXPECT_CODE(gone, Code::kNotFound);
  EXPECT_THAT(gone.message(), StartsWith(dir_ / "new"));
}

TEST_F(FileTest, SyncDirectoryRefusesAFile) {
  Make(dir_ / "f");
  EXPECT_CODE(files_.SyncDirectory(dir_ / "f"), Code::kIo);
  EXPECT_CODE(files_.SyncDirectory(dir_ / "none"), Code::kNotFound);
}

TEST_F(FileTest, MakesDirectoriesWithTheirParents) {
  ASSERT_OK(files_.MakeDirectories(dir_ / "a/b/c"));
  ASSERT_OK(files_.MakeDirectories(dir_ / "a/b/c"));
  ASSERT_OK(files_.MakeDirectories(dir_ / "a//d/"));
  EXPECT_THAT(files_.List(dir_ / "a").value(), ElementsAre("b", "d"));
  EXPECT_OK(files_.MakeDirectories("/"));
  ASSERT_EQ(symlink("a", (dir_ / "link").c_str()), 0);
  EXPECT_OK(files_.MakeDirectories(dir_ / "link"));
  Make(dir_ / "f");
  for (const char* name : {"f", "f/below"}) {
    Status refused = files_.MakeDirectories(dir_ / name);
    EXPECT_CODE(refused, Code::kIo);
    EXPECT_THAT(refused.message(), StartsWith(dir_ / name));
  }
  EXPECT_FALSE(files_.MakeDirectories("").ok());
}

TEST_F(FileTest, RealPathResolvesAllButAMissingName) {
  auto base = files_.RealPath(dir_.path());
  ASSERT_OK(base);
  Make(dir_ / "f");
  ASSERT_EQ(mkdir((dir_ / "d").c_str(), 0700), 0);
  ASSERT_EQ(symlink("d", (dir_ / "to_d").c_str()), 0);
  ASSERT_EQ(symlink("../f", (dir_ / "d/to_f").c_str()), 0);
  ASSERT_EQ(symlink("d/nothing", (dir_ / "dangling").c_str()), 0);
  ASSERT_EQ(symlink("loop", (dir_ / "loop").c_str()), 0);
  const std::pair<std::string, std::string> kCases[] = {
      {"f", "/f"},
      {"d/../f", "/f"},
      {"to_d/to_f", "/f"},
      {"to_d/new", "/d/new"},
      {"missing", "/missing"},
      {"to_d/../new", "/new"},
      {"dangling", "/d/nothing"},
  };
  for (const auto& [path, expected] : kCases) {
    auto real = files_.RealPath(dir_ / path);
    ASSERT_OK(real);
    EXPECT_EQ(*real, *base + expected) << path;
  }
  auto missing = files_.RealPath(dir_ / "none/f");
  EXPECT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.status().message(), StartsWith(dir_ / "none/f"));
  EXPECT_CODE(files_.RealPath(dir_ / "loop"), Code::kIo);
  auto relative = files_.RealPath("lzy_file_test_no_such_file");
  ASSERT_OK(relative);
  EXPECT_EQ(*relative, JoinPath(std::filesystem::current_path(), "lzy_file_test_no_such_file"));
}

}  // namespace
}  // namespace lzy::testing
