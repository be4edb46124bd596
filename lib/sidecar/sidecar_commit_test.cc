// Commits that are prepared first, that fail, or that a crash or a loss of power stops at any step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "passing_files.h"
#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

TEST_F(SidecarTest, PreparedDoesNotCountUntilFinished) {
  const SidecarContents before = MakeContents(1, 100, 30, 1, DatasetKind::kSet);
  const SidecarContents after = MakeContents(2, 110, 40, 1, DatasetKind::kSet, 2);
  auto sidecar = Create(before);
  ASSERT_OK(sidecar->Prepare(after));
  EXPECT_EQ(fs_.At(kPath).durable, File()) << "prepared means durable";
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_TRUE(Same((*loaded)->contents(), before));
  EXPECT_TRUE(Whole(**loaded));
  EXPECT_EQ((*loaded)->prepared_generation(), 2u);
  loaded = Load(OpenMode::kRead, /*prepared=*/true);
  ASSERT_OK(loaded);
  EXPECT_TRUE(Same((*loaded)->contents(), after));
  ASSERT_OK(sidecar->FinishPrepared());
  loaded = Load();
  ASSERT_OK(loaded);
  ExpectSame((*loaded)->contents(), after);
  EXPECT_EQ((*loaded)->prepared_generation(), 0u);
  EXPECT_TRUE((*loaded)->damage().empty());
  EXPECT_CODE(sidecar->FinishPrepared(), Code::kInternal);
}

// What another node has renamed may seem to be there until somebody tries to remove it.
// `stubborn`: not even then does this node believe the server, until another file is renamed to the name.
TEST_F(SidecarTest, ALeftoverThatIsGoneOnTheServerIsNoObstacle) {
  static const std::string kFresh = "d/.LZY-new.f";
  class LateFiles final : public PassingFileSystem {
   public:
    LateFiles(FileSystem& fs, bool stubborn) : PassingFileSystem(fs), stubborn_(stubborn) {}
    Result<std::unique_ptr<lzy::File>> Open(const std::string& path, OpenMode mode, bool follow, std::uint32_t create_mode) override {
      if (mode == OpenMode::kCreateNew && seems_there_ && path == kFresh) return Status(Code::kIo, path + ": open: File exists");
      return PassingFileSystem::Open(path, mode, follow, create_mode);
    }
    Result<FileStat> Stat(const std::string& path, bool follow) override {
      return seems_there_ && path == kFresh ? FileStat() : PassingFileSystem::Stat(path, follow);
    }
    Status Remove(const std::string& path) override {
      seems_there_ = seems_there_ && stubborn_;
      return PassingFileSystem::Remove(path);
    }
    Status Rename(const std::string& from, const std::string& to) override {
      seems_there_ = seems_there_ && to != kFresh;
      return PassingFileSystem::Rename(from, to);
    }

   private:
    const bool stubborn_;
    bool seems_there_ = true;
  };
  auto like = fs_.Open("d/f", OpenMode::kRead);
  ASSERT_OK(like);
  for (const bool stubborn : {false, true}) {
    LateFiles late(fs_, stubborn);
    const auto made = Sidecar::Create(late, kFresh, MakeContents(1, 100, 30), **like);
    ASSERT_OK(made);
    EXPECT_EQ((*made)->path(), kFresh);
    EXPECT_TRUE(fs_.Has(kFresh));
    ASSERT_OK(fs_.Remove(kFresh));
    for (const auto& [path, node] : fs_.nodes()) EXPECT_FALSE(path.starts_with("d/.LZY-tmp")) << path;
  }
}

TEST_F(SidecarTest, AnAbandonedPreparationCanBeReplaced) {
  const SidecarContents before = MakeContents(1, 100, 30, 1, DatasetKind::kSet);
  auto sidecar = Create(before);
  ASSERT_OK(sidecar->Prepare(MakeContents(2, 110, 40, 1, DatasetKind::kSet, 2)));
  sidecar.reset();
  auto loaded = Load(OpenMode::kReadWrite);
  ASSERT_OK(loaded);
  const SidecarContents again = MakeContents(3, 90, 20, 1, DatasetKind::kSet, 2);
  ASSERT_OK((*loaded)->Prepare(again));
  ASSERT_OK((*loaded)->FinishPrepared());
  loaded = Load();
  ASSERT_OK(loaded);
  ExpectSame((*loaded)->contents(), again);
}

// What was prepared may have fewer levels than what is in copy 0.
TEST_F(SidecarTest, APreparedGenerationOfAnotherShapeIsCompleted) {
  for (const auto& [blocks, more] : {std::pair<std::uint64_t, std::uint64_t>{300, 170}, {170, 300}}) {
    Create(MakeContents(1, blocks, blocks / 3, 1, DatasetKind::kSet));
    const SidecarContents after = MakeContents(2, more, more / 3, 1, DatasetKind::kSet, 2);
    {
      auto sidecar = Load(OpenMode::kReadWrite);
      ASSERT_OK(sidecar);
      if (!(*sidecar)->Fits(after)) continue;
      ASSERT_OK((*sidecar)->Prepare(after));
    }
    auto loaded = Load(OpenMode::kReadWrite, /*prepared=*/true);
    ASSERT_OK(loaded);
    ASSERT_OK((*loaded)->CompletePrepared());
    loaded = Load();
    ASSERT_OK(loaded);
    ExpectSame((*loaded)->contents(), after);
    EXPECT_TRUE((*loaded)->damage().empty());
  }
}

TEST_F(SidecarTest, ACommitInPlaceIsAllOrNothingWhereverItStops) {
  for (std::uint32_t parity : {1u, 2u}) {
    const SidecarContents before = MakeContents(1, 300, 100, parity);
    // A level less than before: places of other sizes.
    const SidecarContents after = MakeContents(2, 170, 120, parity, DatasetKind::kShared, 2);
    Create(before);
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return sidecar->WriteAll(after);
        },
        [&](bool done) {
          auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Whole(**loaded));
          const bool is_new = Same((*loaded)->contents(), after);
          EXPECT_TRUE(is_new || Same((*loaded)->contents(), before));
          if (done) {
            EXPECT_TRUE(is_new);
          }
          // And it goes on from there.
          loaded = Load(OpenMode::kReadWrite);
          ASSERT_OK(loaded);
          const SidecarContents next = MakeContents(3, 280, 110, parity, DatasetKind::kShared, 3);
          ASSERT_OK((*loaded)->WriteAll(next));
          loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Same((*loaded)->contents(), next));
          EXPECT_TRUE((*loaded)->damage().empty());
        });
  }
}

TEST_F(SidecarTest, ATwoPhaseCommitIsAllOrNothingWhereverItStops) {
  const SidecarContents before = MakeContents(1, 300, 100, 1, DatasetKind::kSet);
  const SidecarContents after = MakeContents(2, 170, 120, 1, DatasetKind::kSet, 2);
  Create(before);
  bool prepared = false;
  AtEveryCrash(
      fs_,
      [&]() -> Status {
        prepared = false;
        LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
        LZY_RETURN_IF_ERROR(sidecar->Prepare(after));
        prepared = true;
        return sidecar->FinishPrepared();
      },
      [&](bool done) {
        auto loaded = Load();
        if (!loaded.ok()) {
          // The one page that makes it count was torn. The member has it prepared, for when another has it committed.
          EXPECT_TRUE(prepared && !done) << loaded.status().message();
          loaded = Load(OpenMode::kRead, /*prepared=*/true);
          ASSERT_OK(loaded);
          EXPECT_TRUE(Same((*loaded)->contents(), after));
          EXPECT_TRUE(Whole(**loaded));
          return;
        }
        EXPECT_TRUE(Whole(**loaded));
        const bool is_new = Same((*loaded)->contents(), after);
        EXPECT_TRUE(is_new || Same((*loaded)->contents(), before));
        if (done) {
          EXPECT_TRUE(is_new);
        }
        if (!prepared) {
          EXPECT_FALSE(is_new) << "nobody may have it before all have it prepared";
        }
        if (prepared && !is_new) {
          // Another member may have it committed by now, so here it must be to be had.
          EXPECT_EQ((*loaded)->prepared_generation(), 2u);
          auto rolled = Load(OpenMode::kRead, /*prepared=*/true);
          ASSERT_OK(rolled);
          EXPECT_TRUE(Same((*rolled)->contents(), after));
          EXPECT_TRUE(Whole(**rolled));
        }
      });
}

// A write that fails (once, or from then on) is another matter than a crash: the caller goes on, relying on the generation
// before and on its intent.
TEST_F(SidecarTest, AFailedCommitLeavesTheGenerationBeforeAndItsIntent) {
  for (const auto kind : {DatasetKind::kShared, DatasetKind::kSet}) {
    for (const bool once : {true, false}) {
      const SidecarContents before = MakeContents(1, 300, 100, 1, kind);
      const SidecarContents after = MakeContents(2, 170, 120, 1, kind, 2);
      ASSERT_OK(Create(before)->SetIntent(NewIntent(kIntentWholeFile)));
      const auto start = fs_.Copy();
      for (std::uint64_t fails = 0;; ++fails) {
        SCOPED_TRACE(std::to_string(fails) + (once ? " once" : " for good"));
        ASSERT_LT(fails, 100u);
        fs_.Restore(start);
        auto sidecar = Load(OpenMode::kReadWrite);
        ASSERT_OK(sidecar);
        std::uint64_t used = 0;
        bool first_page_unsynced = false;
        fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t offset, std::uint64_t) {
          if (op == MemoryFileSystem::Op::kRead) return Status::Ok();
          const bool failing = once ? used == fails : used >= fails;
          ++used;
          if (op == MemoryFileSystem::Op::kWrite && offset == 0) first_page_unsynced = true;
          if (op == MemoryFileSystem::Op::kSync && !failing) first_page_unsynced = false;
          return failing ? Status(Code::kIo, path + ": failed") : Status::Ok();
        };
        const bool failed = !(*sidecar)->WriteAll(after).ok();
        fs_.fault = nullptr;
        auto loaded = Load();
        ASSERT_OK(loaded);
        EXPECT_TRUE(Whole(**loaded));
        const bool is_new = Same((*loaded)->contents(), after);
        if (failed && once) {
          EXPECT_FALSE(is_new);
          EXPECT_FALSE(first_page_unsynced) << "which generation counts is decided for good";
        }
        if (!failed) {
          EXPECT_TRUE(is_new);
        }
        EXPECT_EQ((*loaded)->intent().has_value(), !is_new);
        EXPECT_TRUE(is_new || Same((*loaded)->contents(), before));
        // What is left is as good a start as any, on the same object (unless it was told of failure) and on a fresh one.
        if (!failed) {
          ASSERT_OK((*sidecar)->WriteAll(MakeContents(4, 200, 90, 1, kind, 3)));
        }
        loaded = Load(OpenMode::kReadWrite);
        ASSERT_OK(loaded);
        const SidecarContents next = MakeContents(3, 280, 110, 1, kind, 4);
        ASSERT_OK((*loaded)->WriteAll(next));
        loaded = Load();
        ASSERT_OK(loaded);
        EXPECT_TRUE(Same((*loaded)->contents(), next));
        EXPECT_TRUE((*loaded)->damage().empty());
        if (used <= fails || HasFailure()) break;
      }
    }
  }
}

// A commit that stops just after it began to count leaves copy 0 with copy 1's metadata: the next one must not begin by
// overwriting these.
TEST_F(SidecarTest, ACommitAfterABrokenOneIsAllOrNothingToo) {
  const SidecarContents first = MakeContents(1, 300, 100, 1);
  const SidecarContents second = MakeContents(2, 170, 120, 1, DatasetKind::kShared, 2);
  const SidecarContents third = MakeContents(3, 280, 110, 1, DatasetKind::kShared, 3);
  Create(first);
  const auto start = fs_.Copy();
  for (std::uint64_t stop = 0; !HasFailure(); ++stop) {
    SCOPED_TRACE(stop);
    fs_.Restore(start);
    std::uint64_t used = 0;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      return op == MemoryFileSystem::Op::kRead || used++ < stop ? Status::Ok() : Status(Code::kIo, path + ": crashed");
    };
    {
      auto sidecar = Load(OpenMode::kReadWrite);
      (void)(*sidecar)->WriteAll(second).ok();
    }
    fs_.fault = nullptr;
    auto left = Load();
    ASSERT_OK(left);
    const SidecarContents middle = (*left)->contents();
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return sidecar->WriteAll(third);
        },
        [&](bool) {
          auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Whole(**loaded));
          EXPECT_TRUE(Same((*loaded)->contents(), third) || Same((*loaded)->contents(), middle));
        });
    if (used <= stop) break;
  }
}

TEST_F(SidecarTest, RepairIsSafeWhereverItStops) {
  const SidecarContents contents = MakeContents(1, 300, 100, 1);
  Create(contents);
  const std::uint64_t spacing = (*Load())->contents().superblock.spacing;
  for (std::uint32_t lost : {0u, 1u}) {
    Create(contents);
    std::fill_n(File().begin() + static_cast<std::ptrdiff_t>(lost * spacing), spacing, std::uint8_t{0});
    fs_.At(kPath).durable = File();
    RepairAtEveryCrash(contents, [](const Sidecar&, bool) {});
  }
}

TEST_F(SidecarTest, FullDiskLeavesTheCommittedStateAlone) {
  const SidecarContents before = MakeContents(1, 300, 100, 1);
  Create(before);
  fs_.fault = [](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    return op == MemoryFileSystem::Op::kWrite ? Status(Code::kIo, path + ": No space left on device") : Status::Ok();
  };
  auto loaded = Load(OpenMode::kReadWrite);
  ASSERT_OK(loaded);
  EXPECT_CODE((*loaded)->WriteAll(MakeContents(2, 300, 100, 1, DatasetKind::kShared, 2)), Code::kIo);
  EXPECT_CODE((*loaded)->SetIntent(NewIntent(kIntentWholeFile)), Code::kIo);
  fs_.fault = nullptr;
  loaded = Load();
  ASSERT_OK(loaded);
  ExpectSame((*loaded)->contents(), before);
}

}  // namespace
}  // namespace lzy::testing
