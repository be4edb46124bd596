#include "names/resolve.h"

#include <sys/stat.h>

#include "resolve_fixture.h"

namespace lzy {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST_F(ResolveTest, FileStandsForItselfAsWritten) {
  Write("d/a");
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a"));
  EXPECT_THAT(Found("./d/a"), ElementsAre("s:./d/a"));
  EXPECT_THAT(Found((scratch_ / "d/a").string(), Resolve::kProtectable),
              ElementsAre("s:" + (scratch_ / "d/a").string()));
}

TEST_F(ResolveTest, NothingIsAnErrorThatNamesThePath) {
  for (const char* path : {"absent", "absent/file", "absent*", "absent.%r", "absent/%r/x", "d%r"}) {
    for (Resolve what : {Resolve::kProtected, Resolve::kProtectable}) {
      auto found = Find(path, what);
      EXPECT_CODE(found, Code::kInvalidArgument);
      EXPECT_THAT(found.status().message(), HasSubstr(path));
    }
  }
  EXPECT_CODE(Find(""), Code::kInvalidArgument);
  EXPECT_CODE(Find("a.%d.%r"), Code::kInvalidArgument);
  Write("file");
  EXPECT_CODE(Find("file/below"), Code::kInvalidArgument);
}

TEST_F(ResolveTest, DirectoryWithNothingInIt) {
  stdfs::create_directory("empty");
  EXPECT_CODE(Find("empty"), Code::kUnprotected);
  EXPECT_CODE(Find("empty", Resolve::kProtectable), Code::kInvalidArgument);
}

TEST_F(ResolveTest, MissingDataWithSidecarIsADataset) {
  Write("d/a");
  ProtectShared("d/a");
  stdfs::remove("d/a");
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a"));
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
}

TEST_F(ResolveTest, SidecarsNameStandsForItsFile) {
  Write("a");
  ProtectShared("a");
  EXPECT_THAT(Found(".LZY.a"), ElementsAre("s:a"));
  EXPECT_CODE(Find(".LZY.a", Resolve::kProtectable), Code::kInvalidArgument);
}

TEST_F(ResolveTest, DirectoryMeansEverySidecarBelow) {
  for (const char* path : {"d/a", "d/e/b", "d/.hidden/c", "d/unprotected"}) Write(path);
  for (const char* path : {"d/a", "d/e/b", "d/.hidden/c"}) ProtectShared(path);
  EXPECT_THAT(Found("d"), ElementsAre("s:d/.hidden/c", "s:d/a", "s:d/e/b"));
  EXPECT_THAT(Found("d/"), ElementsAre("s:d/.hidden/c", "s:d/a", "s:d/e/b"));
  stdfs::current_path("d");
  EXPECT_THAT(Found("."), ElementsAre("s:.hidden/c", "s:a", "s:e/b"));
}

TEST_F(ResolveTest, DirectoryToProtectMeansEveryRegularFileThatIsNotHidden) {
  for (const char* path : {"d/a", "d/e/b", "d/.hidden/c", "d/.h", "x/y"}) Write(path);
  ProtectShared("d/a");
  stdfs::create_symlink("a", "d/link");
  stdfs::create_directory_symlink("../x", "d/linked");
  stdfs::create_directory_symlink("..", "d/e/up");
  EXPECT_THAT(Found("d", Resolve::kProtectable), ElementsAre("s:d/a", "s:d/e/b"));
}

/// Does not list a directory named "locked", so that root is refused something, too.
class Locked final : public PassingFileSystem {
 public:
  using PassingFileSystem::PassingFileSystem;
  Result<std::vector<std::string>> List(const std::string& path) override {
    if (BaseNameOf(path) == "locked") return Status(Code::kIo, path + ": list: Permission denied");
    return PassingFileSystem::List(path);
  }
};

TEST_F(ResolveTest, UnreadableDirectoryIsToldAndTheRestFound) {
  Locked fs(fs_);
  Write("d/a");
  Write("d/locked/b");
  std::vector<Status> troubles;
  auto found = ResolvePath(fs, *comm_, "d", Resolve::kProtectable, &troubles);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), 1u);
  ASSERT_EQ(troubles.size(), 1u);
  EXPECT_CODE(troubles[0], Code::kIo);
  EXPECT_CODE(ResolvePath(fs, *comm_, "d", Resolve::kProtectable), Code::kIo);
  EXPECT_CODE(ResolvePath(fs, *comm_, "d/locked", Resolve::kProtectable, &troubles), Code::kIo);
  EXPECT_CODE(ResolvePath(fs, *comm_, "d/locked/*", Resolve::kProtectable, &troubles), Code::kIo);
}

TEST_F(ResolveTest, LinkToAFileIsTheFileBesideItsTarget) {
  Write("d/a");
  ProtectShared("d/a");
  stdfs::create_symlink("d/a", "link");
  EXPECT_THAT(Found("link"), ElementsAre("s:link"));
  auto sidecar = FindSidecar(fs_, "link");
  ASSERT_OK(sidecar);
  EXPECT_EQ(stdfs::canonical(*sidecar), stdfs::canonical("d/.LZY.a"));
  EXPECT_EQ(DatasetKey(fs_, {DatasetKind::kShared, "link", {}}), DatasetKey(fs_, {DatasetKind::kShared, "d/a", {}}));
  stdfs::remove("d/a");
  EXPECT_THAT(Found("link"), ElementsAre("s:link"));
}

TEST_F(ResolveTest, FileAndItsLinkInOneGlobAreOneDataset) {
  Write("a1");
  stdfs::create_symlink("a1", "a2");
  EXPECT_THAT(Found("a*", Resolve::kProtectable), ElementsAre("s:a1"));
}

TEST_F(ResolveTest, GlobMatchesWithinOneComponent) {
  for (const char* path : {"run1/x.h5", "run2/x.h5", "run2/.x.h5", "run2/deep/x.h5", "run2/x.nc", "50%/x.h5"})
    Write(path);
  Write("run3/x.h5");
  ProtectShared("run3/x.h5");
  stdfs::remove("run3/x.h5");
  EXPECT_THAT(Found("run*/*.h5"), ElementsAre("s:run1/x.h5", "s:run2/x.h5", "s:run3/x.h5"));
  EXPECT_THAT(Found("run2/.*", Resolve::kProtectable), ElementsAre("s:run2/.x.h5"));
  EXPECT_THAT(Found("50%/*", Resolve::kProtectable), ElementsAre("s:50%/x.h5"));
  EXPECT_THAT(Found((scratch_ / "run*/x.nc").string(), Resolve::kProtectable), ElementsAre("s:" + (scratch_ / "run2/x.nc").string()));
  EXPECT_CODE(Find("50%/*"), Code::kUnprotected);  // all that it matches
}

TEST_F(ResolveTest, NameWithAStarInItIsTakenAsItIs) {
  Write("a*");
  Write("ab");
  EXPECT_THAT(Found("a*"), ElementsAre("s:a*"));
}

TEST_F(ResolveTest, PatternFindsDataAndSidecars) {
  MakeSet("d/state.%r", 4);
  stdfs::remove("d/state.2");
  stdfs::remove("d/.LZY.state.3");
  EXPECT_THAT(Found("d/state.%r"), ElementsAre("p:d/state.%r[0,1,2,3]"));
  auto found = Find("d/state.%r");
  ASSERT_OK(found);
  EXPECT_THAT(found->front().members,
              ElementsAre(Pair(0, "d/state.0"), Pair(1, "d/state.1"), Pair(2, "d/state.2"), Pair(3, "d/state.3")));
}

TEST_F(ResolveTest, PatternOfPlainFilesIsASetToBe) {
  for (const char* path : {"s.0", "s.1", "s.10", "s.x", "s.01"}) Write(path);
  EXPECT_THAT(Found("s.%r", Resolve::kProtectable), ElementsAre("p:s.%r[0,1,10]"));
  EXPECT_THAT(Found("s.%02r", Resolve::kProtectable), ElementsAre("p:s.%02r[1,10]"));
}

TEST_F(ResolveTest, RankInTheDirectoryPart) {
  MakeSet("l/%r/ckpt/state", 3);
  EXPECT_THAT(Found("l/%r/ckpt/state"), ElementsAre("p:l/%r/ckpt/state[0,1,2]"));
  EXPECT_THAT(Found("l"), ElementsAre("p:l/%r/ckpt/state[0,1,2]"));
  EXPECT_THAT(Found("l/1/ckpt/state"), ElementsAre("p:l/%r/ckpt/state[0,1,2]"));
  stdfs::current_path("l/2/ckpt");
  EXPECT_THAT(Found("state"),
              ElementsAre(fmt::format("p:{}/l/%r/ckpt/state[0,1,2]", stdfs::canonical(scratch_).string())));
}

// On the disk of a node, only its own member is seen. If the others are seen under their old names, only one file was
// renamed.
TEST_F(ResolveTest, MembersInDirectoriesOfTheirOwnThatWereRenamed) {
  for (const bool own_only : {true, false}) {
    SCOPED_TRACE(own_only);
    const std::string top = own_only ? "own" : "all";
    MakeSet(top + "/n%r/state", 3);
    if (own_only) {
      for (const char* other : {"/n1", "/n2"}) stdfs::remove_all(top + other);
    }
    stdfs::rename(top + "/n0/state", top + "/n0/old");
    stdfs::rename(top + "/n0/.LZY.state", top + "/n0/.LZY.old");
    const std::string found = own_only ? "p:own/n%r/old[0]" : "s:all/n0/old";
    EXPECT_THAT(Found(top + "/n0/old"), ElementsAre(found));
    if (!own_only) continue;
    stdfs::rename("own/n0/old", "own/n0/state");
    stdfs::rename("own/n0/.LZY.old", "own/n0/.LZY.state");
    stdfs::rename("own/n0", "own/m0");
    EXPECT_THAT(Found("own"), ElementsAre("p:own/m%r/state[0]"));
  }
}

TEST_F(ResolveTest, AMemberThatWasMovedAloneIsNoSet) {
  MakeSet("d/s.%r", 4);
  stdfs::create_directory("d/x");
  for (const char* name : {"s.1", ".LZY.s.1"}) stdfs::rename(std::string("d/") + name, std::string("d/x/") + name);
  for (const char* path : {"d", "d/x", "d/x/s.1"}) {
    SCOPED_TRACE(path);
    // Resolving the whole tree makes the directories known.
    std::vector<Status> troubles;
    const auto found = ResolvePath(PosixFileSystem(), *SelfCommunicator(), path, Resolve::kProtected, &troubles);
    ASSERT_OK(found);
    EXPECT_EQ(found->size(), path == std::string("d") ? 1u : 0u);
    ASSERT_EQ(troubles.size(), 1u);
    EXPECT_CODE(troubles[0], Code::kUnprotected);
    EXPECT_THAT(troubles[0].message(), HasSubstr("mv -n d/x/s.1 "));
    EXPECT_THAT(troubles[0].message(), HasSubstr(" && mv -n d/x/.LZY.s.1 "));
  }
  EXPECT_THAT(Found("d/x/s.%r"), ElementsAre("p:d/x/s.%r[1]"));  // the user means this one and names it
  // A copy of most of the set is a set that can be restored.
  stdfs::copy("d/s.2", "d/x/s.2");
  for (const char* name : {"s.0", ".LZY.s.0", ".LZY.s.2"}) stdfs::copy(std::string("d/") + name, std::string("d/x/") + name);
  EXPECT_THAT(Found("d"), ElementsAre("p:d/s.%r[0,2,3]", "p:d/x/s.%r[0,1,2]"));
}

TEST_F(ResolveTest, ARenamedSetIsOneBesideACopiedSidecar) {
  for (const char* stray : {"d/.LZY.vv.2", "d/.LZY.vv.3", "d/.LZY.vv.4"}) {
    SCOPED_TRACE(stray);
    MakeSet("d/v.%r", 4);
    for (int rank = 0; rank < 4; ++rank) {
      for (const char* prefix : {"d/", "d/.LZY."}) stdfs::rename(fmt::format("{}v.{}", prefix, rank), fmt::format("{}vv.{}", prefix, rank));
    }
    stdfs::copy("d/.LZY.vv.0", stray, stdfs::copy_options::overwrite_existing);
    const char* const set = stray == std::string("d/.LZY.vv.4") ? "p:d/vv.%r[0,1,2,3,4]" : "p:d/vv.%r[0,1,2,3]";
    EXPECT_THAT(Found("d"), ElementsAre(set));
    EXPECT_THAT(Found("d/vv.%r"), ElementsAre(set));  // as the tools advise
    stdfs::remove_all("d");
  }
}

TEST_F(ResolveTest, ASidecarUnderANameWithItsRankMakesNoSet) {
  MakeSet("d/t.%r", 4);
  for (const char* name : {"d/t0.2", "d/t1.2", "d/t2.2"}) Write(name);
  for (const char* name : {".LZY.t1.2", ".LZY.t2.2"}) {
    SCOPED_TRACE(name);
    stdfs::create_directory("x");
    stdfs::copy("d/.LZY.t." + std::string(name).substr(6, 1), std::string("x/") + name);
    stdfs::copy("d/" + std::string(name).substr(5), "x/" + std::string(name).substr(5));
    for (const std::string& found : Found("x")) EXPECT_THAT(found, ::testing::StartsWith("s:"));
    stdfs::remove("x/" + std::string(name).substr(5));
    for (const std::string& found : Found("x")) EXPECT_THAT(found, ::testing::Not(HasSubstr("2.%r")));
    stdfs::remove_all("x");
  }
}

TEST_F(ResolveTest, APatternAcrossSetsWhoseMembersChangedPlacesIsRefused) {
  for (const char* set : {"ck.0.", "ck.1."}) {
    MakeSet(std::string(set) + "%r", 2);
    for (const char* prefix : {"", ".LZY."}) {
      const std::string one = std::string(prefix) + set + "0", other = std::string(prefix) + set + "1";
      stdfs::rename(one, "between");
      stdfs::rename(other, one);
      stdfs::rename("between", other);
    }
  }
  for (const Resolve what : {Resolve::kProtected, Resolve::kProtectable}) {
    const auto found = Find("ck.%r.0", what);
    EXPECT_CODE(found, Code::kInvalidArgument);
    EXPECT_THAT(found.status().message(), AllOf(HasSubstr("ck.0.%r"), HasSubstr("ck.1.%r")));
  }
}

TEST_F(ResolveTest, RankTwiceMustBeTheSame) {
  for (const char* path : {"n0/s.0", "n0/s.1", "n1/s.1"}) Write(path);
  EXPECT_THAT(Found("n%r/s.%r"), ElementsAre("p:n%r/s.%r[0,1]"));
}

TEST_F(ResolveTest, StarInAPatternMakesADatasetOfEachStep) {
  for (const char* path : {"c/ckpt.10.0", "c/ckpt.10.1", "c/ckpt.20.0", "c/ckpt.x.y"}) Write(path);
  EXPECT_THAT(Found("c/ckpt.*.%r"), ElementsAre("p:c/ckpt.10.%r[0,1]", "p:c/ckpt.20.%r[0]"));
  Write("r1%/0/s");
  EXPECT_THAT(Found("r*/%r/s"), ElementsAre("p:r1%%/%r/s[0]"));
}

TEST_F(ResolveTest, MemberStandsForItsSet) {
  MakeSet("d/state.%r", 3);
  EXPECT_THAT(Found("d/state.1"), ElementsAre("p:d/state.%r[0,1,2]"));
  EXPECT_THAT(Found("d/state.1", Resolve::kProtectable), ElementsAre("p:d/state.%r[0,1,2]"));
  stdfs::remove("d/state.1");
  EXPECT_THAT(Found("d/state.1"), ElementsAre("p:d/state.%r[0,1,2]"));
  stdfs::remove("d/.LZY.state.1");
  EXPECT_THAT(Found("d/state.1"), ElementsAre("p:d/state.%r[0,2]"));
  EXPECT_CODE(Find("d/state.3"), Code::kInvalidArgument);
}

TEST_F(ResolveTest, DirectoryHasEachSetOnce) {
  MakeSet("d/state.%r", 3);
  Write("d/other");
  ProtectShared("d/other");
  Write("d/free");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/other", "p:d/state.%r[0,1,2]"));
  EXPECT_THAT(Found("d", Resolve::kProtectable), ElementsAre("s:d/free", "s:d/other", "p:d/state.%r[0,1,2]"));
  // A member that lost its sidecar still belongs.
  stdfs::remove("d/.LZY.state.0");
  EXPECT_THAT(Found("d", Resolve::kProtectable), ElementsAre("s:d/free", "s:d/other", "p:d/state.%r[0,1,2]"));
}

TEST_F(ResolveTest, PercentInTheDirectoryIsEscapedInThePattern) {
  MakeSet("50%%/s.%r", 2);
  EXPECT_THAT(Found("50%"), ElementsAre("p:50%%/s.%r[0,1]"));
}

TEST_F(ResolveTest, DestroyedSidecarOfAMemberIsStillOfTheSet) {
  MakeSet("d/state.%r", 3);
  Write("d/.LZY.state.1", std::string(30000, 'x'));
  EXPECT_THAT(Found("d"), ElementsAre("p:d/state.%r[0,1,2]"));
}

TEST_F(ResolveTest, FileInWhosePlaceSomethingElseIsIsADataset) {
  for (const char* path : {"d/a", "d/b", "d/a.inner"}) {
    Write(path);
    ProtectShared(path);
  }
  stdfs::remove("d/a");
  stdfs::create_directory("d/a");
  stdfs::remove("d/b");
  ASSERT_EQ(mkfifo("d/b", 0600), 0);
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a"));
  EXPECT_THAT(Found("d/b"), ElementsAre("s:d/b"));
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a", "s:d/a.inner", "s:d/b"));
  stdfs::rename("d/a.inner", "d/a/inner");
  stdfs::rename("d/.LZY.a.inner", "d/a/.LZY.inner");
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a", "s:d/a/inner"));
}

TEST_F(ResolveTest, DestroyedSidecarOfAFileIsADataset) {
  Write("d/a");
  Write("d/.LZY.a", "rubbish");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
  EXPECT_THAT(Found("d/a"), ElementsAre("s:d/a"));
}

TEST_F(ResolveTest, MembersOfAnOlderSetAreNotMixedIn) {
  MakeSet("d/state.%r", 6);
  MakeSet("d/state.%r", 4);
  EXPECT_THAT(Found("d/state.%r"), ElementsAre("p:d/state.%r[0,1,2,3]"));
  EXPECT_THAT(Found("d"), ElementsAre("p:d/state.%r[0,1,2,3]", "s:d/state.4", "s:d/state.5"));
  EXPECT_THAT(Found("d/state.%r", Resolve::kProtectable), ElementsAre("p:d/state.%r[0,1,2,3]"));
  // A new file may become a member, so it is examined, and the user learns that it is not one yet.
  Write("d/state.6");
  EXPECT_THAT(Found("d/state.%r", Resolve::kProtectable), ElementsAre("p:d/state.%r[0,1,2,3,6]"));
  EXPECT_THAT(Found("d/state.%r"), ElementsAre("p:d/state.%r[0,1,2,3,6]"));
  EXPECT_THAT(Found("d/state.6"), ElementsAre("s:d/state.6"));
}

TEST_F(ResolveTest, LeftoverOfALargerSetIsNotedAndUnprotectedWhenNamedAlone) {
  MakeSet("d/s.%r", 4);
  MakeSet("d/s.%r", 3);
  EXPECT_THAT(Found("d"), ElementsAre("p:d/s.%r[0,1,2]", "s:d/s.3"));
  for (const char* path : {"d/s.%r", "d/s.1"}) {
    auto found = Find(path);
    ASSERT_OK(found);
    ASSERT_EQ(found->size(), 1u) << path;
    EXPECT_THAT(found->front().notes, ElementsAre(AllOf(HasSubstr("'d/s.3'"), HasSubstr("older set of 4"),
                                                        HasSubstr("'d/s.%r' has 3"), HasSubstr("d/.LZY.s.3"))));
  }
  std::vector<Status> told;
  const auto to_protect = ResolvePath(fs_, *comm_, "d", Resolve::kProtectable, &told);
  ASSERT_OK(to_protect);
  EXPECT_EQ(to_protect->size(), 1u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0].message(), AllOf(HasSubstr("'d/s.3'"), HasSubstr("nothing protects it")));
  for (const char* gone : {"no", "yes"}) {
    if (std::string(gone) == "yes") stdfs::remove("d/s.3");
    for (Resolve what : {Resolve::kProtected, Resolve::kProtectable}) {
      if (std::string(gone) == "yes" && what == Resolve::kProtectable) continue;
      std::vector<Status> troubles;
      auto found = ResolvePath(fs_, *comm_, "d/s.3", what, &troubles);
      ASSERT_OK(found);
      EXPECT_THAT(*found, IsEmpty());
      ASSERT_EQ(troubles.size(), 1u);
      EXPECT_CODE(troubles[0], Code::kUnprotected);
      EXPECT_THAT(troubles[0].message(), HasSubstr("older set of 4 files"));
      EXPECT_CODE(ResolvePath(fs_, *comm_, "d/s.3", what), Code::kUnprotected);
    }
  }
  // The leftover is not mentioned with the set, but for itself: only its sidecar is left.
  std::vector<Status> lost;
  const auto there = ResolvePath(fs_, *comm_, "d", Resolve::kProtected, &lost);
  ASSERT_OK(there);
  ASSERT_EQ(there->size(), 1u);
  EXPECT_THAT(there->front().notes, IsEmpty());
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_CODE(lost[0], Code::kUnprotected);
  EXPECT_THAT(lost[0].message(), HasSubstr("'d/s.3' no longer exists"));
}

TEST_F(ResolveTest, MemberThatWasNeverCommittedIsNoLargerSet) {
  MakeSet("d/s.%r", 3);
  Write("d/s.3");
  Superblock sb;
  sb.uuid = UuidOf(99);
  sb.kind = DatasetKind::kSet;
  sb.placement = ParityPlacement::kPerDevice;
  sb.state = SidecarState::kNeverCommitted;
  sb.members = 1;
  sb.rank = 3;
  Protect("d/s.3", sb, "s.%r");
  EXPECT_THAT(Found("d/s.%r"), ElementsAre("p:d/s.%r[0,1,2]"));
  EXPECT_CODE(Find("d/s.3"), Code::kUnprotected);
  EXPECT_THAT(Found("d/s.%r", Resolve::kProtectable), ElementsAre("p:d/s.%r[0,1,2,3]"));
}

}  // namespace
}  // namespace lzy
