#pragma once
// A small dataset in memory, protected, for tests of what happens to it when storage fails.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_dataset.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {

inline constexpr std::uint32_t kBlock = 512;
inline constexpr std::int64_t kPast = 1'600'000'000'000'000'000;

class MisfortuneTest : public MemoryDatasetTest {
 protected:
  MisfortuneTest() : MemoryDatasetTest(kBlock, kBlock, 4) {}

  /// A shared file of 24 blocks and some bytes, or a set of `members` such files; protected.
  void Make(std::uint32_t members = 0) {
    NameFiles(members);
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      fs_.Put(paths_[r], RandomBytes(rng_, 24 * kBlock - 100 * r - 7), kPast + r);
    }
    const DatasetReport made = Protect(Here(), ref_, {});
    ASSERT_OK(made.status);
    root_ = made.root;
    committed_ = fs_.Copy();
  }

  MemoryFileSystem::Node& Data(std::uint32_t r = 0) { return fs_.At(paths_[r]); }
  static std::string StateOf(const DatasetReport& report) { return Name(report.state); }
  /// Removes member `r` and its sidecar.
  void LoseMember(std::uint32_t r) {
    ASSERT_OK(fs_.Remove(paths_[r]));
    ASSERT_OK(fs_.Remove(*SidecarPath(paths_[r])));
  }
  /// Member `r` and its sidecar are again as the first commit left them.
  void PutBackMember(std::uint32_t r) {
    for (const std::string& path : {paths_[r], *SidecarPath(paths_[r])}) {
      fs_.Put(path, Bytes(committed_.at(path).bytes), committed_.at(path).stat.mtime_ns);
    }
  }
  /// A commit built the sidecar of member `r` anew, with the parity of `old`, and did not get to rename it.
  void WriteNewSidecar(std::uint32_t r, Sidecar& old, const SidecarContents& contents) {
    auto data = fs_.Open(paths_[r], OpenMode::kRead);
    ASSERT_OK(data);
    auto fresh = Sidecar::Create(fs_, NewSidecarPath(paths_[r]), contents, **data);
    ASSERT_OK(fresh);
    Bytes parity(contents.superblock.parity_size);
    ASSERT_OK(ReadExactly(old.file(), old.ParityFileOffset(0), parity));
    ASSERT_OK((*fresh)->file().WriteAt((*fresh)->ParityFileOffset(0), parity));
    ASSERT_OK((*fresh)->WriteAll(contents));
  }
  /// Protects, commits, verifies or restores with three ranks, of which rank 1 has no memory for its operation `at`; nothing
  /// when it has not so many.
  std::vector<DatasetReport> RunWithoutMemory(const std::string& what, int at) {
    static thread_local bool starving = false;
    std::atomic<int> operations{0};
    fs_.fault = [&](MemoryFileSystem::Op, const std::string&, std::uint64_t, std::uint64_t) -> Status {
      if (starving && operations++ == at) throw std::bad_alloc();
      return Status::Ok();
    };
    std::vector<DatasetReport> reports(3);
    RunRanks(3, [&](Communicator& comm) {
      starving = comm.rank() == 1;
      const Context context{.fs = fs_, .comm = comm, .options = options_, .share_page_cache = at % 2 == 0};
      DatasetRef ref = ref_;
      std::erase_if(ref.members, [&](const auto& m) { return static_cast<int>(m.first) != comm.rank(); });
      DatasetReport& report = reports[static_cast<std::size_t>(comm.rank())];
      ProtectRequest request;
      if (what == "commit") {
        request.touched.emplace();
        (*request.touched)[ref_.members.empty() ? 0 : static_cast<std::uint32_t>(comm.rank())].Add({3 * kBlock, 3 * kBlock + 100});
      }
      report = what == "verify"    ? Verify(context, ref, {})
               : what == "restore" ? Restore(context, ref, {})
                                   : Protect(context, ref, request);
    });
    fs_.fault = nullptr;
    if (operations <= at) reports.clear();
    return reports;
  }
  /// An edit by somebody who does not know of us.
  void Write(std::uint32_t r, std::uint64_t offset, const Bytes& bytes) {
    auto file = fs_.Open(paths_[r], OpenMode::kReadWrite);
    ASSERT_OK(file);
    ASSERT_OK((*file)->WriteAt(offset, bytes));
  }
  void ExpectDataAsCommitted() {
    for (const std::string& path : paths_) {
      ASSERT_TRUE(fs_.Has(path));
      EXPECT_EQ(fs_.At(path).bytes, committed_.at(path).bytes) << path;
      EXPECT_EQ(fs_.At(path).stat.mtime_ns, committed_.at(path).stat.mtime_ns) << path;
      EXPECT_EQ(fs_.At(path).stat.mode, committed_.at(path).stat.mode) << path;
    }
  }
  void ExpectIntact() {
    const DatasetReport report = Check();
    ASSERT_OK(report.status);
    EXPECT_EQ(std::string(Name(report.state)), "intact");
    EXPECT_TRUE(report.damage.empty());
    EXPECT_EQ(report.root, root_);
  }

  void ExpectBytes(const std::map<std::string, MemoryFileSystem::Node>& expected) {
    for (const auto& [path, node] : expected) EXPECT_EQ(fs_.At(path).bytes, node.bytes) << path;
  }
  /// Neither a look nor a repair without force changes the first file.
  void ExpectLeftAlone(const std::string& state, const Bytes& edited) {
    for (int again = 0; again < 2; ++again) {
      const DatasetReport after = again == 0 ? Check() : Repair();
      EXPECT_EQ(StateOf(after), state) << Text(after);
      EXPECT_EQ(Data().bytes, edited) << "data were taken back without force";
    }
  }
  void ExpectTakenBackByForce() {
    EXPECT_EQ(ExitCodeOf(Repair(/*force=*/true)), 0);
    ExpectDataAsCommitted();
    ExpectIntact();
  }

  /// Nothing of the data is called rot that is not, and a commit makes everything whole again.
  void ExpectRecoverable(const std::string& what) {
    const DatasetReport found = Check();
    ASSERT_TRUE(found.status.ok()) << what << ": " << Text(found);
    for (const Damage& d : found.damage) {
      if (d.part == DamagePart::kMetadata) continue;
      EXPECT_TRUE(d.cause == DamageCause::kAtRisk || d.cause == DamageCause::kStale) << what << ": " << Text(found);
    }
    EXPECT_NE(found.state, DatasetState::kUnrepairable) << what << ": " << Text(found);
    const auto before = fs_.Copy();
    const DatasetReport repaired = Repair();
    for (const std::string& path : paths_) {
      EXPECT_EQ(fs_.At(path).bytes, before.at(path).bytes) << what << ": repair took data back: " << Text(repaired);
    }
    const DatasetReport again = Protect(Here(), Ref(), {});
    ASSERT_TRUE(again.status.ok()) << what << ": " << Text(again);
    EXPECT_EQ(ExitCodeOf(again), 0) << what << ": " << Text(again);
    for (const std::string& path : paths_) EXPECT_EQ(fs_.At(path).bytes, before.at(path).bytes) << what;
    const DatasetReport after = Check();
    ASSERT_OK(after.status);
    EXPECT_EQ(std::string(Name(after.state)), "intact") << what << ": " << Text(after);
    EXPECT_TRUE(after.damage.empty()) << what << ": " << Text(after);
  }

  /// One epoch of a job with as many ranks as there are members (three for a shared file), as the hooks go through it.
  /// True: done.
  bool Epoch(int ranks) {
    for (const std::string& path : paths_) {
      if (!BeginEpoch(fs_, options_, path, ref_.kind == DatasetKind::kSet ? ref_.path : "").ok()) return false;
    }
    std::vector<std::map<std::uint32_t, IntervalSet>> touched(static_cast<std::size_t>(ranks));
    program_writes_ = true;
    for (std::uint32_t f = 0; f < paths_.size(); ++f) {
      auto file = fs_.Open(paths_[f], OpenMode::kReadWrite);
      IntervalSet& mine = touched[f % touched.size()][f];
      mine.Add({{3 * kBlock + 10, 4 * kBlock + 10}, {20 * kBlock, 29 * kBlock}});
      for (const Interval& r : mine.intervals()) {
        if (!(*file)->WriteAt(r.begin, Bytes(r.end - r.begin, static_cast<std::uint8_t>(0xa0 + f))).ok()) return false;
      }
      if (f % 2 == 1 && !(*file)->Truncate(15 * kBlock + 3).ok()) return false;
      if (!(*file)->Sync().ok()) return false;
      touched_[f] = mine;
    }
    program_writes_ = false;
    std::atomic<bool> done{true};
    RunRanks(ranks, [&](Communicator& comm) {
      ProtectRequest request;
      request.touched = touched[static_cast<std::size_t>(comm.rank())];
      DatasetRef ref = ref_;
      std::erase_if(ref.members, [&](const auto& m) { return static_cast<int>(m.first) != comm.rank(); });
      if (!Protect(Context{fs_, comm, options_}, ref, request).status.ok()) done = false;
    });
    return done;
  }

  std::map<std::string, MemoryFileSystem::Node> committed_;
  Hash root_;
  bool program_writes_ = false;  ///< in Epoch(): not lzy
  std::map<std::uint32_t, IntervalSet> touched_;  ///< by the program, in the last Epoch()
};

/// With sidecars of the compact form, and of the ordinary one. bad_sectors_test.cc instantiates it for all tests.
class BothForms : public MisfortuneTest, public ::testing::WithParamInterface<bool> {
 protected:
  BothForms() { options_.compact = GetParam(); }
};

/// For commits in place, which the compact form does not have.
class OrdinaryForm : public MisfortuneTest {
 protected:
  OrdinaryForm() { options_.compact = false; }
};

}  // namespace lzy::testing
