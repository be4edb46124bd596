// Sidecars to which several names lead (hard links, such as a snapshot by cp -al).
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

constexpr char kSnapshot[] = "snapshot/.LZY.f";

class OwnFileTest : public SidecarTest {
 protected:
  using Change = std::function<Status(Sidecar&)>;
  struct Case {
    const char* name;
    Change change;
  };
  OwnFileTest() { fs_.hard_links = true; }

  // A sidecar with this content and two names.
  void Link(const SidecarContents& contents) {
    Create(contents);
    ASSERT_OK(fs_.MakeHardLink(kPath, kSnapshot));
    before_ = fs_.At(kSnapshot).bytes;
  }
  std::vector<Case> AllThatWrites() const {
    return {
        {"intent", [](Sidecar& sidecar) { return sidecar.SetIntent(NewIntent(kIntentWholeFile)); }},
        {"no intent", [](Sidecar& sidecar) { return sidecar.ClearIntent(); }},
        {"the same again", [](Sidecar& sidecar) {
           SidecarContents contents = sidecar.contents();
           contents.superblock.stamp.mtime_ns += 5;
           return sidecar.WriteAll(std::move(contents));
         }},
        {"a commit", [this](Sidecar& sidecar) { return sidecar.WriteAll(next_); }},
        {"a commit in two phases", [this](Sidecar& sidecar) -> Status {
           LZY_RETURN_IF_ERROR(sidecar.Prepare(next_));
           return sidecar.FinishPrepared();
         }},
    };
  }
  void ExpectSnapshotIsAsItWas() {
    EXPECT_TRUE(fs_.At(kSnapshot).bytes == before_);
    EXPECT_TRUE(fs_.At(kSnapshot).durable == before_);
  }

  const SidecarContents first_ = MakeContents(1, 300, 100, 1, DatasetKind::kSet);
  const SidecarContents next_ = MakeContents(2, 280, 110, 1, DatasetKind::kSet, 2);
  Bytes before_;
};

TEST_F(OwnFileTest, WhateverWritesLeavesOtherNamesAsTheyWere) {
  for (const Case& one : AllThatWrites()) {
    SCOPED_TRACE(one.name);
    Link(first_);
    auto sidecar = Load(OpenMode::kReadWrite);
    ASSERT_OK(sidecar);
    ASSERT_OK((*sidecar)->file().Lock());
    ASSERT_OK(one.change(**sidecar));
    ExpectSnapshotIsAsItWas();
    EXPECT_EQ((*sidecar)->path(), kPath);
    const auto named = fs_.Stat(kPath);
    ASSERT_OK(named);
    EXPECT_EQ(named->inode, (*sidecar)->file().Stat()->inode);
    EXPECT_EQ(named->links, 1u);
    // The lock goes along.
    auto another = fs_.Open(kPath, OpenMode::kReadWrite);
    EXPECT_CODE((*another)->Lock(), Code::kBusy);
    sidecar->reset();
    EXPECT_OK((*another)->Lock());
    EXPECT_FALSE(fs_.Has("d/.LZY-new.f"));
  }
}

TEST_F(OwnFileTest, ReadingAndLockingMakeNoCopy) {
  Link(first_);
  const auto sidecar = Load(OpenMode::kReadWrite);
  ASSERT_OK(sidecar);
  ASSERT_OK((*sidecar)->file().Lock());
  EXPECT_EQ(fs_.Stat(kPath)->inode, fs_.Stat(kSnapshot)->inode);
  ASSERT_OK((*sidecar)->Separate());
  EXPECT_NE(fs_.Stat(kPath)->inode, fs_.Stat(kSnapshot)->inode);
  EXPECT_TRUE(fs_.At(kPath).bytes == before_);
}

TEST_F(OwnFileTest, ACrashAtAnyStepLeavesBothWhole) {
  for (const Case& one : AllThatWrites()) {
    SCOPED_TRACE(one.name);
    Link(first_);
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return one.change(*sidecar);
        },
        [&](bool) {
          ExpectSnapshotIsAsItWas();
          const auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Whole(**loaded));
        });
  }
}

// A directory that cannot be synced may have the old name after a crash. Then an intent would be lost.
TEST_F(OwnFileTest, AnIntentIsNotSetBeforeTheNewNameIsDurable) {
  Link(first_);
  auto sidecar = Load(OpenMode::kReadWrite);
  ASSERT_OK(sidecar);
  bool works = false;
  fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    return works || op != MemoryFileSystem::Op::kSync || path != "d" ? Status::Ok() : Status(Code::kIo, path + ": cannot be synced");
  };
  EXPECT_CODE((*sidecar)->SetIntent(NewIntent(kIntentWholeFile)), Code::kIo);
  EXPECT_CODE((*sidecar)->SetIntent(NewIntent(kIntentWholeFile)), Code::kIo);
  EXPECT_FALSE((*sidecar)->intent().has_value());
  works = true;
  ASSERT_OK((*sidecar)->SetIntent(NewIntent(kIntentWholeFile)));
  ExpectSnapshotIsAsItWas();
  const auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_TRUE((*loaded)->intent().has_value());
}

TEST_F(OwnFileTest, UnreadablePagesStayDamage) {
  Link(first_);
  fs_.At(kPath).unreadable = {{0, 4096}};
  auto sidecar = Load(OpenMode::kReadWrite);
  ASSERT_OK(sidecar);
  EXPECT_FALSE((*sidecar)->damage().empty());
  ASSERT_OK((*sidecar)->Separate());
  const auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_FALSE((*loaded)->damage().empty());
  EXPECT_TRUE(Same((*loaded)->contents(), first_));
}

}  // namespace
}  // namespace lzy::testing
