#include "names/orphans.h"

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>

#include "engine/engine.h"
#include "names/reach.h"
#include "passing_files.h"
#include "resolve_fixture.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ResolveOrphansTest : public ResolveTest {};

TEST_F(ResolveOrphansTest, OrphansAreSidecarsWithoutAFile) {
  for (const char* path : {"d/kept", "d/gone", "d/e/gone", "d/moved"}) {
    Write(path);
    ProtectShared(path);
  }
  stdfs::remove("d/gone");
  stdfs::remove("d/e/gone");
  stdfs::rename("d/moved", "d/new name");
  Write("d/.LZY.rubbish", "rubbish");
  Write("d/.LZY.empty", "");
  // In brackets: kept, since it may be somebody's own file.
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY.empty", "d/.LZY.gone", "(d/.LZY.rubbish)", "d/e/.LZY.gone"));
  EXPECT_CODE(FindOrphans(fs_, "absent"), Code::kNotFound);
}

TEST_F(ResolveOrphansTest, SetWithSurvivorsHasNoOrphans) {
  MakeSet("d/s.%r", 3);
  stdfs::remove("d/s.0");
  stdfs::remove("d/s.1");
  EXPECT_THAT(Orphans("d"), IsEmpty());
  stdfs::remove("d/s.2");
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY.s.0", "d/.LZY.s.1", "d/.LZY.s.2"));
  // The other members may be on other nodes.
  stdfs::remove("d/.LZY.s.1");
  EXPECT_THAT(Orphans("d"), IsEmpty());
}

TEST_F(ResolveOrphansTest, RemnantsOfAnOlderSetAreOrphansOnceTheirDataAreGone) {
  MakeSet("d/s.%r", 4);
  MakeSet("d/s.%r", 2);
  EXPECT_THAT(Orphans("d"), IsEmpty());
  stdfs::remove("d/s.2");
  stdfs::remove("d/s.3");
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY.s.2", "d/.LZY.s.3"));
}

TEST_F(ResolveOrphansTest, SidecarOfAReplacedFileIsAnOrphan) {
  for (const char* path : {"d/ck", "d/ck.new"}) {
    Write(path, path);
    ProtectShared(path);
  }
  stdfs::rename("d/ck.new", "d/ck");
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY.ck"));
}

// The sidecar may be all that is left of the file.
TEST_F(ResolveOrphansTest, SidecarOfAFileInWhosePlaceThereIsNoFileIsKept) {
  for (const char* path : {"d/a", "d/b", "d/c", "d/other"}) {
    Write(path, path);
    ProtectShared(path);
  }
  for (const char* path : {"d/a", "d/b", "d/c"}) stdfs::remove(path);
  stdfs::create_directory("d/a");
  ASSERT_EQ(mkfifo("d/b", 0600), 0);
  stdfs::create_symlink("other", "d/c");
  EXPECT_THAT(Orphans("d"), ElementsAre("(d/.LZY.a)", "(d/.LZY.b)", "(d/.LZY.c)"));
}

TEST_F(ResolveOrphansTest, SaysHowLongWhatMayBeInUseIsKept) {
  Write("d/f");
  ProtectShared("d/f");
  Write("d/.LZY-tmp.123.f", "half");
  const auto orphans = FindOrphans(fs_, "d");
  ASSERT_OK(orphans);
  ASSERT_EQ(orphans->size(), 1u);
  EXPECT_THAT(orphans->at(0).kept, ::testing::MatchesRegex("it may be in use, and is kept for (59|60) more minutes"));
}

TEST_F(ResolveOrphansTest, SidecarThatALaterCommitOfTheMemberReplacedIsAnOrphan) {
  MakeSet("d/s.%r", 3);
  // The set was renamed and one member changed, so nothing shows that it is the same file; then it was committed again.
  for (int rank = 0; rank < 3; ++rank) {
    stdfs::rename(fmt::format("d/s.{}", rank), fmt::format("d/t.{}", rank));
    if (rank != 1) stdfs::rename(fmt::format("d/.LZY.s.{}", rank), fmt::format("d/.LZY.t.{}", rank));
  }
  Write("d/t.1", "something else");
  EXPECT_THAT(Orphans("d"), IsEmpty());
  Superblock sb;
  sb.uuid = UuidOf(100 + sets_);
  sb.generation = 2;
  sb.kind = DatasetKind::kSet;
  sb.placement = ParityPlacement::kPerDevice;
  sb.members = 3;
  sb.rank = 1;
  Protect("d/t.1", sb, "t.%r");
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY.s.1"));
}

TEST_F(ResolveOrphansTest, DebrisIsFoundAndRemovedUnlessInUse) {
  Write("d/a");
  ProtectShared("d/a");
  for (const char* name : {"d/.LZY-data.a", "d/.LZY-new.a", "d/.LZY-tmp.7.a", "d/.LZY-new.lost"}) Write(name);
  // Two files are too young: one has a temporary name, the other has no sidecar beside it whose lock would show whether it
  // is being built.
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY-data.a", "d/.LZY-new.a", "(d/.LZY-new.lost)", "(d/.LZY-tmp.7.a)"));
  for (const char* young : {"d/.LZY-tmp.7.a", "d/.LZY-new.lost"}) {
    stdfs::last_write_time(young, stdfs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  auto orphans = FindOrphans(fs_, "d");
  ASSERT_OK(orphans);
  {
    auto restoring = fs_.Open("d/.LZY-data.a", OpenMode::kReadWrite);
    auto committing = fs_.Open("d/.LZY.a", OpenMode::kReadWrite);
    ASSERT_OK(restoring);
    ASSERT_OK(committing);
    ASSERT_OK((*restoring)->Lock());
    ASSERT_OK((*committing)->Lock());
    EXPECT_THAT(Orphans("d"), ElementsAre("(d/.LZY-data.a)", "(d/.LZY-new.a)", "d/.LZY-new.lost", "d/.LZY-tmp.7.a"));
    EXPECT_CODE(RemoveOrphan(fs_, orphans->front()), Code::kBusy);
    EXPECT_TRUE(stdfs::exists("d/.LZY-data.a"));
  }
  for (const Orphan& orphan : *orphans) EXPECT_OK(RemoveOrphan(fs_, orphan));
  for (const Orphan& orphan : *orphans) EXPECT_OK(RemoveOrphan(fs_, orphan));  // gone already
  EXPECT_THAT(Orphans("d"), IsEmpty());
  EXPECT_TRUE(stdfs::exists("d/.LZY.a"));
}

TEST_F(ResolveOrphansTest, AnIndexOfObjectsGoesWithTheSidecarOfItsName) {
  for (const char* path : {"d/kept", "d/gone", "d/moved", "d/bare"}) {
    Write(path);
    ProtectShared(path);
  }
  for (const char* name : {"kept", "gone", "moved", "bare", "never", "kept.12-345", "gone.12-345"}) Write(std::string("d/.LZY-index.") + name);
  stdfs::remove("d/gone");
  stdfs::rename("d/moved", "d/new name");
  stdfs::remove("d/.LZY.bare");
  // One may be an index that is being written.
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY-index.bare", "d/.LZY-index.gone", "(d/.LZY-index.gone.12-345)", "(d/.LZY-index.kept.12-345)",
                                        "d/.LZY-index.never", "d/.LZY.gone"));
  for (const char* old : {"d/.LZY-index.gone.12-345", "d/.LZY-index.kept.12-345"}) {
    stdfs::last_write_time(old, stdfs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  const auto orphans = FindOrphans(fs_, "d");
  ASSERT_OK(orphans);
  for (const Orphan& orphan : *orphans) EXPECT_OK(RemoveOrphan(fs_, orphan));
  EXPECT_THAT(Orphans("d"), IsEmpty());
  EXPECT_TRUE(stdfs::exists("d/.LZY-index.kept"));
  EXPECT_TRUE(stdfs::exists("d/.LZY-index.moved"));
  EXPECT_FALSE(stdfs::exists("d/.LZY-index.gone"));
}

TEST_F(ResolveOrphansTest, AnIndexOfAMemberWaitsForItsSidecar) {
  MakeSet("d/s.%r", 3);
  Write("d/.LZY-index.s.1");
  stdfs::remove("d/.LZY.s.1");
  EXPECT_THAT(Orphans("d"), IsEmpty());
}

// The file can be rebuilt from the sidecar, so the user decides about both.
TEST_F(ResolveOrphansTest, AnIndexStaysWithASidecarThatIsKept) {
  Write("d/f", std::string(5000, 'x'));
  Options options;
  ASSERT_OK(lzy::Protect({fs_, *comm_, options}, {DatasetKind::kShared, "d/f", {}}, {}).status);
  Write("d/.LZY-index.f");
  stdfs::remove("d/f");
  EXPECT_THAT(Orphans("d"), ElementsAre("(d/.LZY.f)"));
}

TEST_F(ResolveOrphansTest, FirstSidecarOfAFileIsDebrisAndThatOfAMemberIsNot) {
  Write("d/a");
  Superblock sb;
  sb.uuid = UuidOf(1);
  sb.state = SidecarState::kNeverCommitted;
  Protect("d/a", sb, "a");
  Write("d/.LZY-new.a", "half");
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY-new.a"));
  MakeSet("e/s.%r", 1);
  stdfs::rename("e/.LZY.s.0", "e/.LZY-new.s.0");
  sb.uuid = UuidOf(101);
  sb.kind = DatasetKind::kSet;
  sb.placement = ParityPlacement::kPerDevice;
  Protect("e/s.0", sb, "s.%r");
  EXPECT_THAT(Orphans("e"), IsEmpty());
}

TEST_F(ResolveOrphansTest, SidecarThatASetMayHaveCommittedIsNoDebris) {
  MakeSet("d/s.%r", 2);
  stdfs::copy("d/.LZY.s.0", "d/old");
  const Uuid uuid = UuidOf(100 + sets_);
  Superblock sb;
  sb.uuid = uuid;
  sb.generation = 2;
  sb.kind = DatasetKind::kSet;
  sb.placement = ParityPlacement::kPerDevice;
  sb.members = 2;
  Protect("d/s.0", sb, "s.%r");
  stdfs::rename("d/.LZY.s.0", "d/.LZY-new.s.0");
  stdfs::rename("d/old", "d/.LZY.s.0");
  EXPECT_THAT(Orphans("d"), IsEmpty());  // generation 2: the other member may have it
  stdfs::remove("d/.LZY.s.0");
  stdfs::copy("d/.LZY-new.s.0", "d/.LZY.s.0");
  EXPECT_THAT(Orphans("d"), ElementsAre("d/.LZY-new.s.0"));
}

TEST_F(ResolveOrphansTest, WhatARestoreIsBuildingIsInUse) {
  for (const char* path : {"d/s.0", "d/s.1", "d/s.2"}) Write(path, std::string(300000, path[4]));
  Options options;
  options.block_size = 4096;
  options.stripe = 4096;
  Context context{fs_, *comm_, options};
  auto whole = Find("d/s.%r", Resolve::kProtectable);
  ASSERT_OK(whole);
  ASSERT_OK(lzy::Protect(context, whole->front(), {}).status);
  stdfs::remove("d/s.1");
  stdfs::remove("d/.LZY.s.1");
  std::atomic<bool> seen{false};
  context.stop = [&] {
    for (const char* name : {"d/.LZY-data.s.1", "d/.LZY-new.s.1"}) {
      std::error_code not_yet;
      stdfs::last_write_time(name, stdfs::file_time_type::clock::now() - std::chrono::hours(2), not_yet);
    }
    const auto orphans = Orphans("d");
    for (const std::string& orphan : orphans) EXPECT_EQ(orphan.front(), '(') << orphan;
    if (orphans.size() == 2) seen = true;
    return false;
  };
  auto lacking = Find("d/s.%r");
  ASSERT_OK(lacking);
  EXPECT_EQ(Restore(context, lacking->front(), {}).state, DatasetState::kRestored);
  EXPECT_TRUE(seen);
  EXPECT_THAT(Orphans("d"), IsEmpty());
}

// A file that was moved to the directory next door, and damaged, still needs its sidecar. Too many names elsewhere must not end the
// search for it.
TEST_F(ResolveOrphansTest, AFileThatWasMovedNextDoorKeepsItsSidecar) {
  std::string content;
  for (int i = 0; i < 20'000; ++i) content += fmt::format("{} ", i);
  Options options;
  options.block_size = 4096;
  for (const char* const path : {"d/a/run1/f", "d/b/run2/f"}) {
    Write(path, content + path);
    ASSERT_OK(lzy::Protect({fs_, *comm_, options}, {DatasetKind::kShared, path, {}}, {}).status);
  }
  stdfs::remove("d/a/run1/f");
  stdfs::create_directories("d/b/other");
  stdfs::rename("d/b/run2/f", "d/b/other/g");
  const auto time = stdfs::last_write_time("d/b/other/g");
  std::fstream("d/b/other/g", std::ios::in | std::ios::out).put('x');
  stdfs::last_write_time("d/b/other/g", time);
  // What was seen is kept with the file system, so each search gets its own.
  const auto kept = [&] {
    CountingFileSystem fs(fs_);
    const auto orphans = FindOrphans(fs, "d");
    EXPECT_OK(orphans);
    std::vector<std::string> why;
    for (const Orphan& orphan : *orphans) why.push_back(orphan.kept);
    return why;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(kept(), ElementsAre("", HasSubstr("d/b/other/g")));
  for (std::size_t i = 0; i <= Surroundings::kMostBelow; ++i) Write(fmt::format("d/a/many/{}", i), "");
  EXPECT_THAT(kept(), ElementsAre(HasSubstr("d/a has too many files to look for it"), HasSubstr("d/b/other/g")));
}

// However many ask, each directory is looked at once.
TEST_F(ResolveOrphansTest, NeighboursAreListedOnce) {
  const auto lists_for = [&](int orphans) {
    stdfs::remove_all("d");
    for (int i = 0; i < 40; ++i) {
      Write(fmt::format("d/run{}/f", i));
      if (i < orphans) ProtectShared(fmt::format("d/run{}/f", i));
      if (i < orphans) stdfs::remove(fmt::format("d/run{}/f", i));
    }
    CountingFileSystem fs(fs_);
    const auto found = FindOrphans(fs, "d");
    EXPECT_OK(found);
    EXPECT_EQ(found->size(), static_cast<std::size_t>(orphans));
    return fs.lists();
  };
  const std::uint64_t one = lists_for(1);
  EXPECT_LT(lists_for(20), one + 20 * 10);
}

}  // namespace
}  // namespace lzy
