#include "names/protect_paths.h"

#include "resolve_fixture.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;

class ProtectPathsTest : public ResolveTest {
 protected:
  /// Creates missing files. Paths in the result are relative again.
  std::vector<std::string> Paths(const std::vector<std::string>& files, const std::vector<std::string>& sets = {}) {
    std::vector<std::string> whole;
    for (const std::string& file : files) {
      if (!stdfs::exists(file)) Write(file);
      whole.push_back((scratch_ / file).string());
    }
    const ProtectPaths plan = PathsToProtect(fs_, whole, sets);
    EXPECT_EQ(plan.path_of.size(), files.size());
    std::vector<std::string> out;
    for (const std::string& path : plan.paths) {
      out.push_back(path.starts_with(scratch_.string() + "/") ? path.substr(scratch_.string().size() + 1) : path);
    }
    return out;
  }
};

TEST_F(ProtectPathsTest, FilesThatAreNumberedAreASet) {
  EXPECT_THAT(Paths({"d/s.0", "d/s.1", "d/log", "e/s.0"}), ElementsAre("d/log", "d/s.%r", "e/s.0"));
}

TEST_F(ProtectPathsTest, FilesThatWereThereBeforeAreNotMadeMembers) {
  Write("d/s.2");
  EXPECT_THAT(Paths({"d/s.0", "d/s.1"}), ElementsAre("d/s.0", "d/s.1"));
}

TEST_F(ProtectPathsTest, AFileWithASidecarStaysWhatItIs) {
  Write("d/s.0");
  ProtectShared("d/s.0");
  EXPECT_THAT(Paths({"d/s.0", "d/s.1"}), ElementsAre("d/s.0", "d/s.1"));
  MakeSet("e/t%r", 3);
  EXPECT_THAT(Paths({"e/t1", "e/t2", "e/u0"}), ElementsAre("e/t%r", "e/u0"));
}

TEST_F(ProtectPathsTest, DeclaredPatternsComeFirst) {
  const std::vector<std::string> files = {"n0/s.0", "n1/s.0", "n0/s.1", "n1/s.1"};
  EXPECT_THAT(Paths(files, {"n%r/s.*", "absent.%r"}), ElementsAre("n%r/s.0", "n%r/s.1"));
  EXPECT_THAT(Paths(files), ElementsAre("n0/s.%r", "n1/s.%r"));
}

TEST_F(ProtectPathsTest, NamesThatLookLikePatternsStandForThemselves) {
  EXPECT_THAT(Paths({"d/a%r", "d/b*", "d/b1"}), ElementsAre("d/a%r", "d/b*", "d/b1"));
}

}  // namespace
}  // namespace lzy
