// Finds sidecars of files that were renamed since their commit.

#include "names/lookup.h"

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "dataset/rehome.h"
#include "names/neighbours.h"
#include "resolve_fixture.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ResolveRenamedTest : public ResolveTest {};

TEST_F(ResolveRenamedTest, RenamedFileIsFoundUnderItsNewName) {
  Write("d/a.tmp");
  ProtectShared("d/a.tmp");
  stdfs::rename("d/a.tmp", "d/a");
  auto sidecar = FindSidecar(fs_, "d/a");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, "d/.LZY.a.tmp");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
}

TEST_F(ResolveRenamedTest, RenamedOntoAProtectedFileItsOwnSidecarCounts) {
  Write("d/a", "old");
  ProtectShared("d/a");
  Write("d/a.tmp", "newer");
  ProtectShared("d/a.tmp");
  stdfs::rename("d/a.tmp", "d/a");
  auto sidecar = FindSidecar(fs_, "d/a");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, "d/.LZY.a.tmp");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/a"));
}

TEST_F(ResolveRenamedTest, RenamedSetIsFoundUnderItsNewPattern) {
  MakeSet("d/tmp.%r", 12);
  for (int rank = 0; rank < 12; ++rank) {
    stdfs::rename(fmt::format("d/tmp.{}", rank), fmt::format("d/step7.{:03}.dat", rank));
  }
  EXPECT_THAT(Found("d"), ElementsAre("p:d/step7.%03r.dat[0,1,2,3,4,5,6,7,8,9,10,11]"));
  EXPECT_THAT(Found("d/step7.007.dat"), ElementsAre("p:d/step7.%03r.dat[0,1,2,3,4,5,6,7,8,9,10,11]"));
  EXPECT_THAT(Found("d/step7.%03r.dat"), ElementsAre("p:d/step7.%03r.dat[0,1,2,3,4,5,6,7,8,9,10,11]"));
}

TEST_F(ResolveRenamedTest, SidecarIsAdoptedWhileAnotherFileHasItsName) {
  for (const char* path : {"d/ck", "d/ck.new"}) {
    Write(path, path);
    ProtectShared(path);
  }
  stdfs::rename("d/ck", "d/ck.old");
  stdfs::rename("d/ck.new", "d/ck");
  EXPECT_EQ(SidecarName("d/ck.old"), ".LZY.ck");
  EXPECT_EQ(SidecarName("d/ck"), ".LZY.ck.new");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/ck", "s:d/ck.old"));
  EXPECT_THAT(Orphans("d"), IsEmpty());
  // A file that was made later and has no sidecar is not judged by the sidecar of another one.
  stdfs::rename("d/ck", "d/ck.new");
  Write("d/ck", "a third one");
  EXPECT_EQ(SidecarName("d/ck"), "");
  EXPECT_EQ(SidecarName("d/ck.old"), ".LZY.ck");
  EXPECT_EQ(SidecarName("d/ck.new"), ".LZY.ck.new");
}

TEST_F(ResolveRenamedTest, FilesSwappedAndRotatedKeepTheirSidecars) {
  for (const char* path : {"a", "b", "c"}) {
    Write(path, path);
    ProtectShared(path);
  }
  stdfs::rename("a", "t");
  stdfs::rename("b", "a");
  stdfs::rename("c", "b");
  stdfs::rename("t", "c");
  EXPECT_EQ(SidecarName("a"), ".LZY.b");
  EXPECT_EQ(SidecarName("b"), ".LZY.c");
  EXPECT_EQ(SidecarName("c"), ".LZY.a");
  EXPECT_THAT(Found("."), ElementsAre("s:a", "s:b", "s:c"));
  // As tools that write do.
  for (const char* path : {"a", "b", "c"}) ASSERT_OK(Rehome(fs_, path));
  for (const char* path : {"a", "b", "c"}) EXPECT_EQ(SidecarName(path), std::string(".LZY.") + path);
}

TEST_F(ResolveRenamedTest, FileThatIsGoneHasTheSidecarThatWasExchangedForThatOfItsName) {
  for (const char* path : {"a", "b", "c"}) {
    Write(path, path);
    ProtectShared(path);
  }
  stdfs::rename(".LZY.a", "t");
  stdfs::rename(".LZY.b", ".LZY.a");
  stdfs::rename(".LZY.c", ".LZY.b");
  stdfs::rename("t", ".LZY.c");
  EXPECT_THAT(Found("."), ElementsAre("s:a", "s:b", "s:c"));
  stdfs::remove("a");
  EXPECT_EQ(SidecarName("a"), ".LZY.c");
  EXPECT_EQ(SidecarName("b"), ".LZY.a");
  EXPECT_EQ(SidecarName("c"), ".LZY.b");
  EXPECT_THAT(Found("."), ElementsAre("s:a", "s:b", "s:c"));
  EXPECT_THAT(Found("a"), ElementsAre("s:a"));
  ASSERT_OK(Rehome(fs_, "a"));
  for (const char* path : {"a", "b", "c"}) EXPECT_EQ(SidecarName(path), std::string(".LZY.") + path);
}

TEST_F(ResolveRenamedTest, FileThatWasMovedOverAnotherOneIsNotMissing) {
  for (const char* path : {"a", "b"}) {
    Write(path, path);
    ProtectShared(path);
  }
  stdfs::rename("a", "b");
  EXPECT_THAT(Found("."), ElementsAre("s:b"));
  stdfs::rename(".LZY.a", ".LZY.b");
  EXPECT_THAT(Found("."), ElementsAre("s:b"));
}

TEST_F(ResolveRenamedTest, SidecarSetAsideByAnExchangeThatBrokeOffIsFound) {
  Write("a");
  ProtectShared("a");
  stdfs::rename(".LZY.a", ".LZY-tmp.12345.b");
  EXPECT_EQ(SidecarName("a"), ".LZY-tmp.12345.b");
  EXPECT_THAT(Found("."), ElementsAre("s:a"));
  EXPECT_THAT(Orphans("."), IsEmpty());
  ASSERT_OK(Rehome(fs_, "a"));
  EXPECT_EQ(SidecarName("a"), ".LZY.a");
}

TEST_F(ResolveRenamedTest, RotatedSetsAreFoundUnderTheirNewPatterns) {
  MakeSet("d/ck.%r", 3);
  MakeSet("d/ck.new.%r", 4);
  for (int rank = 0; rank < 3; ++rank) stdfs::rename(fmt::format("d/ck.{}", rank), fmt::format("d/ck.old.{}", rank));
  for (int rank = 0; rank < 4; ++rank) stdfs::rename(fmt::format("d/ck.new.{}", rank), fmt::format("d/ck.{}", rank));
  const auto old_set = "p:d/ck.old.%r[0,1,2]", new_set = "p:d/ck.%r[0,1,2,3]";
  EXPECT_THAT(Found("d"), ElementsAre(new_set, old_set));
  for (const char* path : {"d/ck.%r", "d/ck.2", "d/ck.3"}) EXPECT_THAT(Found(path), ElementsAre(new_set)) << path;
  for (const char* path : {"d/ck.old.%r", "d/ck.old.1"}) EXPECT_THAT(Found(path), ElementsAre(old_set)) << path;
  EXPECT_THAT(Orphans("d"), IsEmpty());
}

TEST_F(ResolveRenamedTest, MembersOfOneSetKeepTheirSidecarsByName) {
  MakeSet("d/w.%r", 3);
  stdfs::rename("d/w.0", "d/t");
  stdfs::rename("d/w.1", "d/w.0");
  stdfs::rename("d/t", "d/w.1");
  ASSERT_OK(Rehome(fs_, "d/w.0"));
  for (const char* name : {"w.0", "w.1", "w.2"}) {
    EXPECT_EQ(SidecarName(JoinPath("d", name)), std::string(".LZY.") + name);
  }
  auto found = Find("d");
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_THAT(found->front().notes, IsEmpty());
  EXPECT_THAT(found->front().hints, ElementsAre(HasSubstr("'d/w.0' is the file that was 'd/w.1'"),
                                                HasSubstr("'d/w.1' is the file that was 'd/w.0'")));
}

TEST_F(ResolveRenamedTest, NameFromBeforeARenameMeansTheRenamedFile) {
  Write("d/g");
  ProtectShared("d/g");
  stdfs::rename("d/g", "d/g2");
  auto found = Find("d/g");
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().path, "d/g2");
  EXPECT_THAT(found->front().notes, ElementsAre("'d/g' is gone: it was renamed to 'd/g2'"));

  MakeSet("d/s.%r", 3);
  for (int rank = 0; rank < 3; ++rank) stdfs::rename(fmt::format("d/s.{}", rank), fmt::format("d/t.{}", rank));
  for (const char* path : {"d/s.%r", "d/s.1"}) {
    EXPECT_THAT(Found(path), ElementsAre("p:d/t.%r[0,1,2]"));
    EXPECT_THAT(Find(path)->front().notes, ElementsAre(HasSubstr("renamed"))) << path;
  }
  // A member with another name counts as missing.
  stdfs::rename("d/t.1", "d/elsewhere");
  for (int rank : {0, 2}) stdfs::rename(fmt::format("d/t.{}", rank), fmt::format("d/s.{}", rank));
  EXPECT_THAT(Found("d/s.1"), ElementsAre("p:d/s.%r[0,1,2]"));
}

TEST_F(ResolveRenamedTest, FileChangedAndThenRenamedKeepsItsSidecar) {
  Write("d/a");
  ProtectShared("d/a");
  Write("d/a", "torn or edited");
  stdfs::rename("d/a", "d/b");
  EXPECT_EQ(SidecarName("d/b"), ".LZY.a");
  EXPECT_THAT(Found("d"), ElementsAre("s:d/b"));
  EXPECT_THAT(Orphans("d"), IsEmpty());
  auto found = Find("d/a");
  ASSERT_OK(found);
  EXPECT_EQ(found->front().path, "d/b");
  EXPECT_THAT(found->front().notes, ElementsAre("'d/a' is gone: it was renamed to 'd/b'"));
  // The old name is used again, by a file with a sidecar of its own or without one.
  Write("d/a", "another one");
  EXPECT_EQ(SidecarName("d/a"), "");
  EXPECT_EQ(SidecarName("d/b"), ".LZY.a");
  ASSERT_OK(Rehome(fs_, "d/a"));  // as tools and programs that write do
  EXPECT_EQ(SidecarName("d/b"), ".LZY.b");
  EXPECT_THAT(Orphans("d"), IsEmpty());
}

TEST_F(ResolveRenamedTest, FilesChangedAndThenSwappedKeepTheirSidecars) {
  for (const bool both : {false, true}) {
    SCOPED_TRACE(both);
    for (const char* path : {"a", "b"}) {
      Write(path, path);
      ProtectShared(path);
    }
    Write("a", "torn or edited");
    if (both) Write("b", "as well");
    stdfs::rename("a", "t");
    stdfs::rename("b", "a");
    stdfs::rename("t", "b");
    EXPECT_EQ(SidecarName("a"), ".LZY.b");
    EXPECT_EQ(SidecarName("b"), ".LZY.a");
    EXPECT_THAT(Found("."), ElementsAre("s:a", "s:b"));
    EXPECT_THAT(Orphans("."), IsEmpty());
    for (const char* path : {"a", "b"}) ASSERT_OK(Rehome(fs_, path));
    for (const char* path : {"a", "b"}) EXPECT_EQ(SidecarName(path), std::string(".LZY.") + path);
    for (const char* path : {"a", "b", ".LZY.a", ".LZY.b"}) stdfs::remove(path);
  }
}

TEST_F(ResolveRenamedTest, FilesChangedAndThenRotatedKeepTheirSidecars) {
  for (const char* path : {"ck", "ck.1"}) {
    Write(path, path);
    ProtectShared(path);
  }
  Write("ck", "torn");
  stdfs::rename("ck.1", "ck.2");
  stdfs::rename("ck", "ck.1");
  Write("ck", "new");
  EXPECT_EQ(SidecarName("ck"), "");
  EXPECT_EQ(SidecarName("ck.1"), ".LZY.ck");
  EXPECT_EQ(SidecarName("ck.2"), ".LZY.ck.1");
  EXPECT_THAT(Found("."), ElementsAre("s:ck.1", "s:ck.2"));
  ASSERT_OK(Rehome(fs_, "ck"));
  EXPECT_FALSE(stdfs::exists(".LZY.ck"));
  EXPECT_EQ(SidecarName("ck.1"), ".LZY.ck.1");
  EXPECT_EQ(SidecarName("ck.2"), ".LZY.ck.2");
  EXPECT_THAT(Orphans("."), IsEmpty());
}

TEST_F(ResolveRenamedTest, WhatWasNeverCommittedFollowsItsFileToo) {
  Write("ck", "old");
  ProtectShared("ck");
  Write("ck.new", "half");
  Superblock sb;
  sb.uuid = UuidOf(90);
  sb.state = SidecarState::kNeverCommitted;
  Protect("ck.new", sb, "ck.new");
  stdfs::rename("ck.new", "ck");
  EXPECT_EQ(SidecarName("ck"), ".LZY.ck.new");
  EXPECT_THAT(Found("."), ElementsAre("s:ck"));
  EXPECT_THAT(Orphans("."), ElementsAre(".LZY.ck"));
  // A repair leaves a sidecar that may be the only record of the replaced file. A program replaces it.
  auto left = Rehome(fs_, "ck");
  ASSERT_OK(left);
  EXPECT_EQ(BaseNameOf(*left), ".LZY.ck.new");
  EXPECT_TRUE(PeekSidecar(fs_, ".LZY.ck")->committed);
  ASSERT_OK(Rehome(fs_, "ck", {.occupants = Occupants::kGo}));
  EXPECT_EQ(SidecarName("ck"), ".LZY.ck");
  EXPECT_FALSE(PeekSidecar(fs_, ".LZY.ck")->committed);
  EXPECT_THAT(Orphans("."), IsEmpty());
}

TEST_F(ResolveRenamedTest, SetWhoseMembersWereChangedAndThenRenamedIsFound) {
  MakeSet("d/tmp.%r", 3);
  Write("d/tmp.1", "torn or edited");
  for (int rank = 0; rank < 3; ++rank) {
    stdfs::rename(fmt::format("d/tmp.{}", rank), fmt::format("d/step.{}", rank));
  }
  EXPECT_THAT(Found("d"), ElementsAre("p:d/step.%r[0,1,2]"));
  EXPECT_THAT(Orphans("d"), IsEmpty());
  for (int rank = 0; rank < 3; ++rank) ASSERT_OK(Rehome(fs_, fmt::format("d/step.{}", rank)));
  // Members that exchange their names do not take their sidecars along.
  Write("d/step.0", "torn or edited, too");
  stdfs::rename("d/step.0", "d/t");
  stdfs::rename("d/step.1", "d/step.0");
  stdfs::rename("d/t", "d/step.1");
  for (int rank = 0; rank < 3; ++rank) ASSERT_OK(Rehome(fs_, fmt::format("d/step.{}", rank)));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(PeekSidecar(fs_, fmt::format("d/.LZY.step.{}", rank))->rank, rank) << rank;
  }
}

TEST_F(ResolveRenamedTest, MemberWhosePlaceWasTakenLeavesItsSidecar) {
  MakeSet("d/s.%r", 3);
  Write("d/s.1", "torn");
  stdfs::rename("d/s.1", "d/s.1.torn");
  Write("d/s.1", "from a backup");
  EXPECT_EQ(SidecarName("d/s.1"), ".LZY.s.1");
  EXPECT_EQ(SidecarName("d/s.1.torn"), "");
  ASSERT_OK(Rehome(fs_, "d/s.1"));
  EXPECT_EQ(SidecarName("d/s.1"), ".LZY.s.1");
}

TEST_F(ResolveRenamedTest, SetThatWasTornAndThenRotatedTakesItsSidecarsAlong) {
  MakeSet("d/ck.%r", 3);
  for (int rank = 0; rank < 3; ++rank) {
    Write(fmt::format("d/ck.{}", rank), "torn");
    stdfs::rename(fmt::format("d/ck.{}", rank), fmt::format("d/old.{}", rank));
    Write(fmt::format("d/ck.{}", rank), "the next one");
  }
  EXPECT_THAT(Found("d"), ElementsAre("p:d/old.%r[0,1,2]"));
  for (int rank = 0; rank < 3; ++rank) ASSERT_OK(Rehome(fs_, fmt::format("d/ck.{}", rank)));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(SidecarName(fmt::format("d/old.{}", rank)), fmt::format(".LZY.old.{}", rank));
    EXPECT_EQ(SidecarName(fmt::format("d/ck.{}", rank)), "");
  }
  EXPECT_THAT(Orphans("d"), IsEmpty());
}

/// Each file has the inode number of another one, as after a mount of a file system that does not store them.
class Renumbered final : public PassingFileSystem {
 public:
  using PassingFileSystem::PassingFileSystem;
  std::map<std::uint64_t, std::uint64_t> now;
  Result<FileStat> Stat(const std::string& path, bool follow) override {
    auto stat = PassingFileSystem::Stat(path, follow);
    if (stat.ok() && now.contains(stat->inode)) stat->inode = now.at(stat->inode);
    return stat;
  }
};

/// Returns the time of birth that the test sets, or none.
class Births final : public PassingFileSystem {
 public:
  using PassingFileSystem::PassingFileSystem;
  std::int64_t birth_ns = 0;
  Result<FileStat> Stat(const std::string& path, bool follow) override {
    auto stat = PassingFileSystem::Stat(path, follow);
    if (stat.ok()) stat->birth_ns = birth_ns;
    return stat;
  }
};

TEST_F(ResolveRenamedTest, InodeThatWasGivenOutAgainIsAnotherFile) {
  Write("gone");
  ProtectShared("gone");
  const std::int64_t birth = PeekSidecar(fs_, ".LZY.gone")->stamp.birth_ns;
  stdfs::rename("gone", "new");  // stands for a new file, made with the inode of the one that was removed
  Write("new", "of another program");
  Births fs(fs_);
  fs.birth_ns = birth + 1;
  EXPECT_CODE(FindSidecar(fs, "new"), Code::kNotFound);
  fs.birth_ns = birth;
  EXPECT_OK(FindSidecar(fs, "new"));
  // Without births, it may be another file.
  fs.birth_ns = 0;
  EXPECT_CODE(FindSidecar(fs, "new"), Code::kNotFound);
}

TEST_F(ResolveRenamedTest, SidecarOfADeletedFileIsNotThatOfAnotherOnesInode) {
  Write("ck");
  ProtectShared("ck");
  Write("ck.new", "committed");
  ProtectShared("ck.new");
  Write("ck.new", "torn");
  // As if ck was deleted, and ck.new got its inode.
  Renumbered fs(fs_);
  fs.now[fs_.Stat("ck.new")->inode] = fs_.Stat("ck")->inode;
  const std::uint64_t old = fs_.Stat("ck")->inode;
  stdfs::remove("ck");
  auto sidecar = Sidecar::Load(fs_, ".LZY.ck.new", OpenMode::kReadWrite);
  ASSERT_OK(sidecar);
  SidecarContents contents = (*sidecar)->contents();
  contents.superblock.stamp.inode = old;
  ASSERT_OK((*sidecar)->WriteAll(contents));
  stdfs::rename("ck.new", "ck");
  auto found = FindSidecar(fs, "ck");
  ASSERT_OK(found);
  EXPECT_EQ(BaseNameOf(*found), ".LZY.ck.new");
  ASSERT_OK(Rehome(fs, "ck", {.occupants = Occupants::kGo}));
  EXPECT_EQ(PeekSidecar(fs_, ".LZY.ck")->name, "ck.new");
}

TEST_F(ResolveRenamedTest, FileRenamedAndEmptiedIsNoNewOne) {
  Write("a");
  ProtectShared("a");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stdfs::rename("a", "b");
  Write("b", "");
  EXPECT_EQ(SidecarName("b"), ".LZY.a");
  EXPECT_THAT(Orphans("."), IsEmpty());
}

TEST_F(ResolveRenamedTest, CopyRestoredWithItsTimesHasTheSidecar) {
  Write("a");
  ProtectShared("a");
  const auto time = stdfs::last_write_time("a");
  Write("a", "edited by mistake");
  stdfs::rename("a", "a.bad");
  Write("a");
  stdfs::last_write_time("a", time);
  EXPECT_EQ(SidecarName("a"), ".LZY.a");
  EXPECT_EQ(SidecarName("a.bad"), "");
  ASSERT_OK(Rehome(fs_, "a.bad"));
  EXPECT_EQ(SidecarName("a"), ".LZY.a");
}

TEST_F(ResolveRenamedTest, FilesOfUnstableInodesKeepTheSidecarsOfTheirNames) {
  std::vector<std::uint64_t> inodes;
  for (const char* path : {"a", "b", "c"}) {
    Write(path, path);
    ProtectShared(path);
    inodes.push_back(fs_.Stat(path)->inode);
  }
  Renumbered fs(fs_);
  for (std::size_t i = 0; i < inodes.size(); ++i) fs.now[inodes[i]] = inodes[(i + 1) % inodes.size()];
  Write("a", "edited");
  for (const char* path : {"a", "b", "c"}) {
    auto sidecar = FindSidecar(fs, path);
    ASSERT_OK(sidecar);
    EXPECT_EQ(BaseNameOf(*sidecar), std::string(".LZY.") + path);
  }
}

TEST_F(ResolveRenamedTest, NameTooLongForASidecarIsNotProtected) {
  const std::string name(250, 'n');
  Write(name);
  auto sidecar = FindSidecar(fs_, name);
  EXPECT_CODE(sidecar, Code::kUnprotected);
  EXPECT_THAT(sidecar.status().message(), HasSubstr("not protected"));
}

TEST_F(ResolveRenamedTest, EditedFileKeepsItsSidecar) {
  Write("a");
  ProtectShared("a");
  Write("a", "something else");
  auto sidecar = FindSidecar(fs_, "a");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, ".LZY.a");
  Write("b");
  EXPECT_CODE(FindSidecar(fs_, "b"), Code::kNotFound);
  EXPECT_CODE(FindSidecar(fs_, "absent"), Code::kNotFound);
}

TEST_F(ResolveRenamedTest, HardLinkDoesNotTakeTheSidecarAway) {
  Write("a");
  ProtectShared("a");
  stdfs::create_hard_link("a", "b");
  EXPECT_CODE(FindSidecar(fs_, "b"), Code::kNotFound);
}

/// After the first list, does something just before a file is examined.
class AtStat final : public PassingFileSystem {
 public:
  using PassingFileSystem::PassingFileSystem;
  std::string path;
  std::function<void()> act;
  Result<FileStat> Stat(const std::string& at, bool follow) override {
    if (listed_ && act && at == path) std::exchange(act, nullptr)();
    return PassingFileSystem::Stat(at, follow);
  }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    listed_ = true;
    return PassingFileSystem::List(directory);
  }

 private:
  bool listed_ = false;
};

// One list serves for files and sidecars, but not if the directory changes before the files were seen.
TEST_F(ResolveRenamedTest, FileProtectedAndRenamedDuringALookHasItsSidecar) {
  Write("d/a", "of another program");
  Write("d/b");
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  AtStat fs(fs_);
  fs.path = "d/a";
  fs.act = [&] {
    ProtectShared("d/b");
    stdfs::rename("d/b", "d/a");
  };
  (void)FindSidecar(fs, "d/a");
  EXPECT_FALSE(fs.act);
  const auto sidecar = FindSidecar(fs, "d/a");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, "d/.LZY.b");
}

// After a look, the sidecar was set aside, and another dataset has its name. Only a new look finds it. (If its own dataset
// was committed since, no new look is needed: CostsTest.)
TEST_F(ResolveRenamedTest, SidecarThatWasSetAsideSinceALookIsFound) {
  Write("d/a");
  ProtectShared("d/a");
  stdfs::rename("d/a", "d/b");
  CountingFileSystem fs(fs_);
  auto sidecar = FindSidecar(fs, "d/b");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, "d/.LZY.a");
  const std::string aside = TemporarySidecarPath("d/.LZY.a");
  stdfs::rename("d/.LZY.a", aside);
  Write("d/a", "another");
  Superblock later;
  later.uuid = UuidOf(77);
  later.generation = 2;
  Protect("d/a", later, "a");
  const std::uint64_t lists = fs.lists();
  sidecar = FindSidecar(fs, "d/b");
  ASSERT_OK(sidecar);
  EXPECT_EQ(*sidecar, aside);
  EXPECT_GT(fs.lists(), lists);
}

// A list of a directory gives the same inodes as stat.
TEST_F(ResolveRenamedTest, AListTellsTheInodesThatAStatTells) {
  Write("d/a");
  Write("d/b");
  stdfs::create_symlink("a", "d/link");
  const auto entries = fs_.ListEntries("d");
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 3u);
  for (const DirectoryEntry& entry : *entries) {
    const auto stat = fs_.Stat("d/" + entry.name, /*follow=*/false);
    ASSERT_OK(stat);
    if (entry.inode != 0) {
      EXPECT_EQ(entry.inode, stat->inode) << entry.name;
    }
    if (entry.regular) {
      EXPECT_EQ(stat->type, FileStat::Type::kRegular) << entry.name;
    }
  }
  EXPECT_CODE(fs_.OpenListed("d/link"), Code::kInvalidArgument);
}

// A file with a second name in another directory. If it gets one here, it may be protected by that name.
TEST_F(ResolveTest, ALookAnswersForAFileUntilItGetsASecondNameHere) {
  Write("d/a");
  Write("e/other");
  stdfs::create_hard_link("d/a", "e/a");
  const auto is_new = [&] { return Neighbours::For(fs_, "d", "a", *fs_.Stat("d/a")).is_new; };
  EXPECT_TRUE(is_new());
  EXPECT_TRUE(is_new()) << "it changed just now, so a name may be missing";
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_TRUE(is_new());
  EXPECT_FALSE(is_new());
  stdfs::create_hard_link("d/a", "d/b");
  EXPECT_TRUE(is_new());
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_TRUE(is_new());
  EXPECT_TRUE(is_new()) << "two names here";
}

}  // namespace
}  // namespace lzy
