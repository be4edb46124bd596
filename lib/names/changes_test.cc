#include "names/changes.h"

#include <sys/stat.h>

#include "resolve_fixture.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ChangesTest : public ResolveTest {
 protected:
  TreeLook Look(const std::vector<std::string>& directories = {"d"}) { return TreeLook(fs_, directories); }
  std::vector<std::string> Since(const TreeLook& look) {
    std::vector<Status> troubles;
    auto changed = look.ChangedSince(fs_, troubles);
    EXPECT_TRUE(troubles.empty());
    return changed;
  }
  /// Like a program that sets the old times again: only the ctime shows the change.
  static void WriteInPlace(const std::string& path, const std::string& content) {
    const auto time = stdfs::last_write_time(path);
    std::ofstream(path, std::ios::in) << content;
    stdfs::last_write_time(path, time);
  }
};

TEST_F(ChangesTest, WhatWasMadeOrChanged) {
  for (const char* path : {"d/same", "d/longer", "d/e/f/deep", "d/renamed", "d/gone"}) Write(path);
  const TreeLook look = Look();
  Write("d/made");
  Write("d/longer", "more data");
  Write("d/e/g/made");
  stdfs::rename("d/renamed", "d/name");
  stdfs::remove("d/gone");
  EXPECT_THAT(Since(look), ElementsAre("d/e/g/made", "d/longer", "d/made", "d/name"));
}

TEST_F(ChangesTest, AChangeThatKeepsSizeAndMtime) {
  Write("d/a");
  const TreeLook look = Look();
  while (CoarseNowNs() <= look.newest_ns()) {
  }
  EXPECT_THAT(Since(look), IsEmpty());
  WriteInPlace("d/a", "atad");
  EXPECT_THAT(Since(look), ElementsAre("d/a"));
}

TEST_F(ChangesTest, OnlyVisibleRegularFilesCount) {
  stdfs::create_directories("d");
  Write("elsewhere/a");
  const TreeLook look = Look();
  Write("d/.hidden");
  Write("d/.hidden-too/a");
  Write("d/.LZY.a");
  stdfs::create_symlink("../elsewhere/a", "d/link");
  stdfs::create_directory_symlink("../elsewhere", "d/links");
  ASSERT_EQ(mkfifo("d/pipe", 0600), 0);
  EXPECT_THAT(Since(look), IsEmpty());
}

TEST_F(ChangesTest, DirectoriesThatOverlapOrAreMissing) {
  stdfs::create_directories("d/e");
  const TreeLook look = Look({"d/e", "d", "later", "d"});
  EXPECT_TRUE(look.troubles().empty());
  Write("d/e/a");
  Write("later/b");
  Write("d-not/c");
  EXPECT_THAT(Since(look), ElementsAre("d/e/a", "later/b"));
}

TEST_F(ChangesTest, ALookWithALimit) {
  for (const char* path : {"d/a", "d/b", "d/e/c"}) Write(path);
  EXPECT_TRUE(TreeLook(fs_, {"d"}, 4).whole());
  EXPECT_FALSE(TreeLook(fs_, {"d"}, 3).whole());
}

/// A file system with one directory that cannot be listed.
class ForbiddingFileSystem final : public PassingFileSystem {
 public:
  ForbiddingFileSystem(FileSystem& fs, std::string forbidden) : PassingFileSystem(fs), forbidden_(std::move(forbidden)) {}
  Result<std::vector<DirectoryEntry>> ListEntries(const std::string& path) override {
    if (path == forbidden_) return {Code::kIo, path + ": Permission denied"};
    return fs_.ListEntries(path);
  }

 private:
  const std::string forbidden_;
};

TEST_F(ChangesTest, WhatCannotBeListedIsTroubleAndNoMore) {
  Write("d/e/a");
  ForbiddingFileSystem fs(fs_, "d/e");
  const TreeLook look(fs, {"d"});
  EXPECT_EQ(look.troubles().size(), 1u);
  Write("d/b");
  std::vector<Status> troubles;
  EXPECT_THAT(look.ChangedSince(fs, troubles), ElementsAre("d/b"));
  EXPECT_EQ(troubles.size(), 1u);
}

TEST_F(ChangesTest, AFileIsCommittedAsLongAsItIsAsItsSidecarSays) {
  for (const char* path : {"d/a", "d/b"}) Write(path);
  ProtectShared("d/a");
  EXPECT_TRUE(CommitsSeen(fs_).CommitOf("d/a"));
  EXPECT_FALSE(CommitsSeen(fs_).CommitOf("d/b"));
  EXPECT_FALSE(CommitsSeen(fs_).CommitOf("d/c"));
  Write("d/a", "longer than before");
  EXPECT_FALSE(CommitsSeen(fs_).CommitOf("d/a"));
  EXPECT_TRUE(CommitsSeen(fs_).SidecarOf("d/a"));
}

}  // namespace
}  // namespace lzy
