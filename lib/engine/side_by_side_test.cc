// Small datasets side by side: which rank handles which, and that all ranks get all reports.
#include "engine/side_by_side.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <filesystem>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "judge/examine.h"
#include "names/provers.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

class SideBySideTest : public ::testing::Test {
 protected:
  void Write(int files) {
    for (int i = 0; i < files; ++i) WriteFile(scratch_ / fmt::format("f{:03}", i), Bytes(1000, static_cast<std::uint8_t>(i)));
  }
  /// Resolves the directory and calls HandleSmall on each of `ranks` ranks.
  template <class Check>
  void Run(int ranks, const EngineCall& call, const Check& check, const std::function<bool()>& stop = {}) {
    RunRanks(ranks, [&](Communicator& comm) {
      Context context{PosixFileSystem(), comm, options_};
      context.stop = stop;
      const auto datasets = ResolvePath(context.fs, comm, scratch_.path(), Resolve::kProtectable);
      ASSERT_OK(datasets);
      const auto reports = HandleSmall(context, *datasets, call, {});
      ASSERT_OK(reports);
      ASSERT_EQ(reports->size(), datasets->size());
      std::vector<std::optional<DatasetReport>> done;
      for (const SmallReport& one : *reports) done.push_back(one.again ? std::nullopt : one.report);
      check(*datasets, done);
    });
  }
  static DatasetReport ProtectOne(const Context& context, const DatasetRef& dataset) { return Protect(context, dataset, {}); }
  static DatasetReport VerifyOne(const Context& context, const DatasetRef& dataset) { return Verify(context, dataset, {}); }

  Scratch scratch_;
  Options options_;
};

// One thread finds out that two files have each other's sidecars, while another one has already opened the second file.
TEST_F(SideBySideTest, WhatAnotherThreadFoundOutAboutAFileCounts) {
  Write(2);
  const auto alone = SelfCommunicator();
  const Context context{PosixFileSystem(), *alone, options_};
  const std::string files[] = {scratch_ / "f000", scratch_ / "f001"};
  for (const std::string& file : files) ASSERT_TRUE(ProtectOne(context, {DatasetKind::kShared, file, {}, {}}).committed);
  // As from a backup: only content shows which sidecar belongs to which file.
  for (const std::string& file : files) {
    WriteFile(file + ".new", ReadFile(file));
    SetMtime(file + ".new", MtimeOf(file));
  }
  for (const std::string& file : files) std::filesystem::rename(file + ".new", file);
  std::filesystem::rename(scratch_ / ".LZY.f000", scratch_ / "between");
  std::filesystem::rename(scratch_ / ".LZY.f001", scratch_ / ".LZY.f000");
  std::filesystem::rename(scratch_ / "between", scratch_ / ".LZY.f001");

  const auto view = OpenDataset(context, {DatasetKind::kShared, files[1], {}, {}}, {});
  ASSERT_OK(view);
  const auto found = AdoptByContent(context.fs, files[0], nullptr);
  ASSERT_OK(found);
  ASSERT_TRUE(*found);
  const auto adopted = AdoptShared(context, *view);
  ASSERT_OK(adopted);
  EXPECT_TRUE(*adopted);
  for (const std::string& file : files) EXPECT_EQ(ExitCodeOf(VerifyOne(context, {DatasetKind::kShared, file, {}, {}})), 0);
}

TEST_F(SideBySideTest, AllRanksHaveAllReportsAndEachDatasetIsHandledOnce) {
  Write(50);
  std::atomic<int> calls = 0;
  Run(3, [&](const Context& context, const DatasetRef& dataset) {
    ++calls;
    EXPECT_EQ(context.comm.size(), 1);
    EXPECT_EQ(context.options.threads, 1u);
    return ProtectOne(context, dataset);
  }, [](const auto& datasets, const auto& reports) {
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      ASSERT_TRUE(reports[i]);
      EXPECT_EQ(reports[i]->path, datasets[i].path);
      EXPECT_TRUE(reports[i]->committed);
      EXPECT_EQ(reports[i]->bytes, 1000u);
    }
  });
  EXPECT_EQ(calls, 50);
  const std::string rotten = scratch_ / "f007";
  const std::int64_t mtime = MtimeOf(rotten);
  WriteAt(rotten, 500, Bytes(3, 0xee));
  SetMtime(rotten, mtime);
  Run(2, VerifyOne, [&](const auto& datasets, const auto& reports) {
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      ASSERT_TRUE(reports[i]);
      ASSERT_EQ(ExitCodeOf(*reports[i]), datasets[i].path == rotten ? 1 : 0) << datasets[i].path;
      if (datasets[i].path != rotten) continue;
      ASSERT_EQ(reports[i]->damage.size(), 1u);  // what is nested in a report arrives, too
      EXPECT_EQ(reports[i]->damage[0].cause, DamageCause::kHash);
      EXPECT_EQ(reports[i]->damage[0].path, rotten);
    }
  });
}

TEST_F(SideBySideTest, LargeFilesAndSetsAreLeftToTheCaller) {
  Write(2);
  WriteFile(scratch_ / "large", Bytes(kSmallFile + 1, 1));
  WriteFile(scratch_ / "exact", Bytes(kSmallFile, 1));
  Run(2, ProtectOne, [&](const auto& datasets, const auto& reports) {
    for (std::size_t i = 0; i < datasets.size(); ++i) EXPECT_EQ(reports[i].has_value(), datasets[i].path != scratch_ / "large");
  });
  const DatasetRef set{DatasetKind::kSet, scratch_ / "f%r", {{0, scratch_ / "f000"}}};
  const DatasetRef gone{DatasetKind::kShared, scratch_ / "gone", {}};
  const auto alone = SelfCommunicator();
  const auto reports = HandleSmall({PosixFileSystem(), *alone, options_}, std::vector{set, gone}, ProtectOne, {});
  ASSERT_OK(reports);
  EXPECT_FALSE((*reports)[0].report);
  EXPECT_FALSE((*reports)[1].report);
}

TEST_F(SideBySideTest, AnInterruptLeavesTheRestAlone) {
  Write(40);
  std::atomic<int> calls = 0;
  Run(1, [&](const Context& context, const DatasetRef& dataset) {
    ++calls;
    return ProtectOne(context, dataset);
  }, [](const auto&, const auto& reports) {
    std::size_t done = 0;
    for (const auto& report : reports) {
      ASSERT_TRUE(report);
      done += report->status.ok() ? 1 : 0;
      EXPECT_TRUE(report->status.ok() || report->status.code() == Code::kInterrupted) << report->status.message();
    }
    EXPECT_GE(done, 5u);
    EXPECT_LT(done, 40u);
  }, [&] { return calls >= 10; });
}

}  // namespace
}  // namespace lzy::testing
