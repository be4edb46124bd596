// Which names are protected, and which are members of sets.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "hooks/disk/selection.h"
#include "hooks/disk/set_pattern.h"
#include "request/options.h"

namespace lzy::hooks {
namespace {

namespace fs = std::filesystem;

/// A directory of its own, by its real path.
class Names : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lzy-names-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = fs::canonical(name).string();
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string Make(const std::string& name) {
    std::string path = root_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "x";
    return path;
  }
  std::optional<SetName> Match(const std::string& pattern, std::uint32_t rank, const std::string& path) {
    return MatchSet(PosixFileSystem(), pattern, root_, rank, path);
  }
  std::string root_;
};

TEST_F(Names, PrefixesAreTakenOff) {
  const std::string file = Make("file");
  FileSystem& disk = PosixFileSystem();
  EXPECT_EQ(PathOfName(disk, file), file);
  EXPECT_EQ(PathOfName(disk, "ufs:" + file), file);
  EXPECT_EQ(PathOfName(disk, "ufs:not-there-yet"), "not-there-yet");
  EXPECT_EQ(PathOfName(disk, "c:name"), "c:name");        // ROMIO leaves one letter alone
  EXPECT_EQ(PathOfName(disk, "/a/b:name"), "/a/b:name");  // no prefix
}

TEST_F(Names, APrefixThatIsPartOfAFilesNameStays) {
  Make("ufs:odd");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  EXPECT_EQ(PathOfName(PosixFileSystem(), "ufs:odd"), "ufs:odd");
  fs::current_path(before);
}

TEST(NeverProtected, NamesOfLzyAndRomioFiles) {
  for (const char* name : {"/d/.LZY.x", "/d/.LZY-new.x", "/d/.LZY-data.x", "/d/.LZY-copy.x", "/d/.LZY-journal.x", "/d/.x.shfp.123", "/d/.commonfstest.0",
                           "/proc/self/mem", "/sys/x", "/dev/sda", "/dev/null"}) {
    EXPECT_TRUE(IsNeverProtected(name)) << name;
  }
  for (const char* name : {"/d/x", "/d/x.shfp.1", "/d/.x.shfp.", "/d/.x.shfp.1a", "/dev/shm/x", "/process/x",
                           "/developer/x", "/d/.hidden", "/d/LZY.x"}) {
    EXPECT_FALSE(IsNeverProtected(name)) << name;
  }
}

TEST(Selected, IncludeAndExclude) {
  Options options;
  EXPECT_TRUE(IsSelected(options, "/a/b/c.h5"));
  options.include = {"*.h5", "/scratch/*"};
  EXPECT_TRUE(IsSelected(options, "/a/b/c.h5"));
  EXPECT_TRUE(IsSelected(options, "/scratch/deep/below/x"));
  EXPECT_FALSE(IsSelected(options, "/a/b/c.nc"));
  options.exclude = {"tmp*"};
  EXPECT_FALSE(IsSelected(options, "/a/tmp1.h5"));
  EXPECT_TRUE(IsSelected(options, "/tmp/c.h5"));
}

TEST_F(Names, MembersBesideEachOther) {
  const std::string path = Make("state.3");
  const auto set = Match("state.%r", 3, path);
  ASSERT_TRUE(set);
  EXPECT_EQ(set->id, "state.%r");
  EXPECT_EQ(set->pattern, root_ + "/state.%r");
  EXPECT_FALSE(Match("state.%r", 2, path));
  EXPECT_FALSE(Match("state.%04r", 3, path));
  EXPECT_FALSE(Match("other.%r", 3, path));
  EXPECT_FALSE(Match("deeper/state.%r", 3, path));
  EXPECT_TRUE(Match(root_ + "/state.%r", 3, path));
}

TEST_F(Names, RankInADirectory) {
  const std::string path = Make("node/0012/state");
  const auto set = Match("node/%04r/state", 12, path);
  ASSERT_TRUE(set);
  EXPECT_EQ(set->pattern, root_ + "/node/%04r/state");
  EXPECT_FALSE(Match("node/%r/state", 12, path));
}

TEST_F(Names, AStarStandsForAStep) {
  const std::string path = Make("run/step-40/ckpt.7.0001");
  const auto set = Match("run/step-*/ckpt.%r.*", 7, path);
  ASSERT_TRUE(set);
  EXPECT_EQ(set->id, "run/step-40/ckpt.%r.0001");
  EXPECT_EQ(set->pattern, root_ + "/run/step-40/ckpt.%r.0001");
  EXPECT_FALSE(Match("run/*/*/ckpt.%r.*", 7, path));
  EXPECT_FALSE(Match("*/ckpt.%r.*", 7, path));
  EXPECT_FALSE(Match("run/step-*/ckpt.%r.*", 8, path));
}

TEST_F(Names, PercentSignsInWhatAStarStandsFor) {
  const std::string path = Make("a%rb.5");
  const auto set = Match("*.%r", 5, path);
  ASSERT_TRUE(set);
  EXPECT_EQ(set->id, "a%%rb.%r");
}

TEST_F(Names, DirectoriesAreComparedByTheirRealPath) {
  const std::string path = Make("real/state.1");
  fs::create_directory_symlink(root_ + "/real", root_ + "/link");
  const auto set = Match("link/state.%r", 1, path);
  ASSERT_TRUE(set);
  EXPECT_EQ(set->id, "link/state.%r");
  EXPECT_EQ(set->pattern, root_ + "/real/state.%r");
  EXPECT_TRUE(Match("real/../link/state.%r", 1, root_ + "/link/state.1"));
}

}  // namespace
}  // namespace lzy::hooks
