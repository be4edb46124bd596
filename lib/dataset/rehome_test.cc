// Renames sidecars after their files while several ranks or processes do the same.
#include "dataset/rehome.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "engine_fixture.h"
#include "names/proven.h"
#include "names/provers.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

constexpr std::uint32_t kMembers = 6;

class RehomeTest : public ::testing::Test {
 protected:
  RehomeTest() {
    options_.parity = 1;
    options_.group = 3;
    options_.block_size = 512;
    options_.stripe = 512;
    options_.threads = 1;
    ref_ = {DatasetKind::kSet, dir_ / "s.%r", {}};
    for (std::uint32_t r = 0; r < kMembers; ++r) {
      ref_.members[r] = ExpandPattern(ref_.path, r);
      WriteFile(ref_.members[r], RandomBytes(rng_, 3000 + 10 * r));
    }
  }
  void ProtectAsSet() {
    auto comm = SelfCommunicator();
    ASSERT_OK(Protect({fs_, *comm, options_}, ref_, {}).status);
  }
  /// Each file a dataset of its own. (A set's members that are renamed among each other do not take their sidecars along.)
  void ProtectEach() {
    auto comm = SelfCommunicator();
    for (const auto& [rank, path] : ref_.members) {
      ASSERT_OK(Protect({fs_, *comm, options_}, {DatasetKind::kShared, path, {}}, {}).status);
    }
  }

  void Rename(const std::string& from, const std::string& to) {
    ASSERT_EQ(std::rename((dir_ / from).c_str(), (dir_ / to).c_str()), 0);
  }
  /// Gives the files each other's names at random: cycles of every length.
  void Shuffle() {
    std::vector<std::uint32_t> to(kMembers);
    for (std::uint32_t r = 0; r < kMembers; ++r) to[r] = r;
    std::shuffle(to.begin(), to.end(), rng_);
    for (std::uint32_t r = 0; r < kMembers; ++r) Rename("s." + std::to_string(r), "x." + std::to_string(r));
    for (std::uint32_t r = 0; r < kMembers; ++r) Rename("x." + std::to_string(r), "s." + std::to_string(to[r]));
  }
  void ExpectAllAtHome() {
    for (const auto& [rank, path] : ref_.members) {
      auto sidecar = Sidecar::Load(fs_, *SidecarPath(path), OpenMode::kRead);
      ASSERT_OK(sidecar);
      EXPECT_EQ((*sidecar)->contents().superblock.stamp.inode, fs_.Stat(path)->inode) << path;
    }
    EXPECT_EQ(fs_.List(dir_.path())->size(), 2u * kMembers) << "nothing is left behind";
  }

  Rng rng_{7};
  FileSystem& fs_ = PosixFileSystem();
  Scratch dir_;
  Options options_;
  DatasetRef ref_;
};

TEST_F(RehomeTest, EveryRankMayLookAfterEveryFile) {
  ProtectEach();
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    Shuffle();
    RunRanks(3, [&](Communicator& comm) {
      // Each begins with another one.
      for (std::uint32_t i = 0; i < kMembers; ++i) {
        const std::string& path = ref_.members.at((i + 2 * static_cast<std::uint32_t>(comm.rank())) % kMembers);
        auto home = Rehome(fs_, path);
        EXPECT_OK(home);
        EXPECT_EQ(home.ok() ? *home : "", *SidecarPath(path));
      }
    });
    ExpectAllAtHome();
  }
}

// By its stamp, the sidecar of s.0 belongs to s.0. Content has shown that it belongs to s.1.
TEST_F(RehomeTest, ASidecarThatContentGaveToAnotherFileStaysThere) {
  ProtectEach();
  ASSERT_EQ(std::remove(SidecarPath(ref_.members[1])->c_str()), 0);
  RememberProven(fs_, dir_.path(), "s.1", ".LZY.s.0");
  const auto home = Rehome(fs_, ref_.members[1]);
  ASSERT_OK(home);
  EXPECT_EQ(*home, *SidecarPath(ref_.members[1]));
  EXPECT_EQ(ProvenSidecar(fs_, dir_.path(), "s.1"), ".LZY.s.1");
  EXPECT_TRUE(fs_.Stat(*home, /*follow=*/false).ok());
  EXPECT_EQ(fs_.Stat(*SidecarPath(ref_.members[0]), /*follow=*/false).status().code(), Code::kNotFound);
}

// With hooks, each rank may open a file of its own. Then no two ranks open the same file, but they rename the same sidecars.
TEST_F(RehomeTest, EveryRankMayBeginItsOwnEpoch) {
  ProtectEach();
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    Shuffle();
    std::vector<EpochStart> starts(kMembers);
    RunRanks(kMembers, [&](Communicator& comm) {
      const auto rank = static_cast<std::uint32_t>(comm.rank());
      auto begun = BeginEpoch(fs_, options_, ref_.members.at(rank), "");
      ASSERT_OK(begun);
      EXPECT_TRUE(begun->had_sidecar);
      starts[rank] = *begun;
    });
    ExpectAllAtHome();
    for (const auto& [rank, path] : ref_.members) {
      auto sidecar = Sidecar::Load(fs_, *SidecarPath(path), OpenMode::kRead);
      ASSERT_OK(sidecar);
      EXPECT_TRUE((*sidecar)->intent()) << path;
      EXPECT_OK(AbandonEpoch(fs_, options_, path, starts[rank]));
    }
  }
}

TEST_F(RehomeTest, ThreeRanksProtectASetWhoseMembersWereSwapped) {
  ProtectAsSet();
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    Shuffle();
    // As the hooks do: the contents under the names count, in any order.
    ProtectRequest request;
    request.touched.emplace();
    for (const auto& [rank, path] : ref_.members) (*request.touched)[rank].AddWhole();
    RunRanks(3, [&](Communicator& comm) {
      const DatasetReport report = Protect({fs_, comm, options_}, ref_, request);
      EXPECT_OK(report.status);
      EXPECT_EQ(ExitCodeOf(report), 0);
    });
    ExpectAllAtHome();
    RunRanks(3, [&](Communicator& comm) { EXPECT_EQ(ExitCodeOf(Verify({fs_, comm, options_}, ref_, {})), 0); });
  }
}

TEST_F(RehomeTest, ThreeRanksProtectASetForTheFirstTime) {
  ProtectAsSet();
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    for (const auto& [rank, path] : ref_.members) ASSERT_OK(fs_.Remove(*SidecarPath(path)));
    RunRanks(3, [&](Communicator& comm) {
      const DatasetReport report = Protect({fs_, comm, options_}, ref_, {});
      EXPECT_OK(report.status);
      EXPECT_EQ(ExitCodeOf(report), 0);
    });
    ExpectAllAtHome();
    RunRanks(3, [&](Communicator& comm) { EXPECT_EQ(ExitCodeOf(Verify({fs_, comm, options_}, ref_, {})), 0); });
  }
}

TEST_F(RehomeTest, AnIndexOfObjectsFollowsItsSidecar) {
  ProtectEach();
  for (const char* name : {"s.0", "s.2"}) WriteFile(dir_ / (std::string(".LZY-index.") + name), RandomBytes(rng_, 10));
  const auto index = ReadFile(dir_ / ".LZY-index.s.0");
  Rename("s.0", "x");
  ASSERT_OK(Rehome(fs_, dir_ / "x", {5}));
  EXPECT_EQ(ReadFile(dir_ / ".LZY-index.x"), index);
  EXPECT_NE(access((dir_ / ".LZY-index.s.0").c_str(), F_OK), 0);
  EXPECT_EQ(access((dir_ / ".LZY-index.s.2").c_str(), F_OK), 0);
}

TEST_F(RehomeTest, ALinkedFileKeepsItsSidecar) {
  ProtectAsSet();
  ASSERT_EQ(link((dir_ / "s.0").c_str(), (dir_ / "a").c_str()), 0);
  ASSERT_OK(Rehome(fs_, dir_ / "s.0"));
  EXPECT_TRUE(Exists(dir_ / ".LZY.s.0"));
}

TEST_F(RehomeTest, ALeftoverLockThatCannotBeOpenedKeepsNobodyFromAFirstProtection) {
  ASSERT_EQ(mkdir((dir_ / ".LZY-tmp.lock").c_str(), 0700), 0);
  WriteFile(dir_ / "fresh", Bytes(1000));
  ASSERT_OK(Rehome(fs_, dir_ / "fresh"));
}

TEST_F(RehomeTest, TheSidecarOfALostFileStays) {
  ProtectAsSet();
  Rename("s.0", "away");
  ASSERT_OK(Rehome(fs_, dir_ / "s.0"));
  EXPECT_TRUE(Exists(dir_ / ".LZY.s.0"));
  ASSERT_OK(Rehome(fs_, dir_ / "away"));
  EXPECT_FALSE(Exists(dir_ / ".LZY.s.0"));
  EXPECT_TRUE(Exists(dir_ / ".LZY.away"));
}

// Contents prove the owners, since stamps do not. Each file that gives up its sidecar gets its own in the same move.
TEST_F(RehomeTest, FilesThatWereRotatedGetTheirSidecarsTogether) {
  ProtectEach();
  std::map<std::string, std::vector<std::uint8_t>> sidecars;
  for (const char* name : {"s.0", "s.1", "s.2"}) {
    sidecars[name] = ReadFile(dir_ / (std::string(".LZY.") + name));
    const auto bytes = ReadFile(dir_ / name);
    WriteFile(dir_ / (std::string("copy.") + name), bytes);  // another inode, and another time
  }
  std::filesystem::remove(dir_ / "s.2");
  Rename("copy.s.1", "s.2");
  Rename("copy.s.0", "s.1");
  std::filesystem::remove(dir_ / "s.0");
  ASSERT_OK(AdoptByContent(fs_, dir_ / "s.2", nullptr));
  ASSERT_OK(Rehome(fs_, dir_ / "s.2", {5, Occupants::kYield}));
  EXPECT_EQ(ReadFile(dir_ / ".LZY.s.2"), sidecars["s.1"]);
  EXPECT_EQ(ReadFile(dir_ / ".LZY.s.1"), sidecars["s.0"]);
}

// The sidecar in the way records the name of the one that comes, so it belongs there, even if the file was edited.
TEST_F(RehomeTest, ExchangedSidecarsChangePlacesAgain) {
  ProtectEach();
  const auto first = ReadFile(dir_ / ".LZY.s.0"), second = ReadFile(dir_ / ".LZY.s.1");
  for (const char* name : {"s.0", "s.1"}) {
    const auto bytes = ReadFile(dir_ / name);
    WriteFile(dir_ / (std::string("copy.") + name), bytes);
  }
  for (const char* name : {"s.0", "s.1"}) Rename(std::string("copy.") + name, name);
  WriteFile(dir_ / "s.1", Bytes(50));  // edited
  Rename(".LZY.s.0", "between");
  Rename(".LZY.s.1", ".LZY.s.0");
  Rename("between", ".LZY.s.1");
  ASSERT_OK(AdoptByContent(fs_, dir_ / "s.0", nullptr));
  ASSERT_OK(Rehome(fs_, dir_ / "s.0"));
  EXPECT_EQ(ReadFile(dir_ / ".LZY.s.0"), first);
  EXPECT_EQ(ReadFile(dir_ / ".LZY.s.1"), second);
}

// Stamps do not identify the sidecars of copies. Set and rank do.
TEST_F(RehomeTest, SidecarsOfASetThatChangedPlacesRepairTheirMembers) {
  ref_ = {DatasetKind::kSet, dir_ / "d%r/s", {}};
  for (std::uint32_t r = 0; r < kMembers; ++r) {
    std::filesystem::create_directory(dir_ / ("d" + std::to_string(r)));
    ref_.members[r] = ExpandPattern(ref_.path, r);
    WriteFile(ref_.members[r], RandomBytes(rng_, 3000 + 10 * r));
    SetMtime(ref_.members[r], 1'600'000'000'000'000'000);
  }
  ProtectAsSet();
  const Image whole = ImageOf(dir_.path());
  for (const int ranks : {1, 3}) {
    PutBack(dir_.path(), whole);
    // 0 to 1 to 4 to 0, and 2 to 3 onto another one.
    Rename("d0/.LZY.s", "between");
    Rename("d4/.LZY.s", "d0/.LZY.s");
    Rename("d1/.LZY.s", "d4/.LZY.s");
    Rename("between", "d1/.LZY.s");
    Rename("d2/.LZY.s", "d3/.LZY.s");
    Rot(rng_, dir_ / "d0/s", 100, 1);
    Rot(rng_, dir_ / "d4/s", 2000, 1);
    RunRanks(ranks, [&](Communicator& comm) {
      const DatasetReport found = Verify({fs_, comm, options_}, ref_, {});
      EXPECT_EQ(found.state, DatasetState::kDamaged) << ranks;
    });
    RunRanks(ranks, [&](Communicator& comm) { EXPECT_EQ(ExitCodeOf(Restore({fs_, comm, options_}, ref_, {})), 0) << ranks; });
    const Image now = ImageOf(dir_.path());
    for (const auto& [path, file] : whole) {
      ASSERT_TRUE(now.contains(path)) << path;
      // The one that was overwritten is made again.
      if (!path.ends_with("d3/.LZY.s")) {
        EXPECT_EQ(now.at(path).bytes, file.bytes) << path;
      }
    }
    EXPECT_EQ(now.size(), whole.size()) << "nothing is left behind";
  }
}

}  // namespace
}  // namespace lzy::testing
