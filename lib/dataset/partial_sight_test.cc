// Sets on the disks of several nodes. A command that runs on some of them must not take members of the others for lost.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "dataset/sights.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kOneEach = 4;
constexpr std::int64_t kWrittenLongAgo = 1'600'000'000'000'000'000;
using NodeNames = std::vector<std::string>;

/// Node nR has a disk of its own with member R, unless the test puts all members on the disk of n0 (`shared_`).
class PartialSight : public ::testing::Test {
 protected:
  PartialSight() {
    options_.block_size = 4096;
    options_.stripe = 4096;
    options_.threads = 1;
    options_.timeout_seconds = 20;
    for (std::uint32_t rank = 0; rank < kOneEach; ++rank) content_.push_back(RandomBytes(rng_, 30000 + 1000 * rank));
  }
  MemoryFileSystem& DiskOf(const std::string& node) { return disks_[shared_ ? "n0" : node]; }
  static std::string MemberName(std::uint32_t rank) { return fmt::format("s.{}", rank); }
  static std::string SidecarName(std::uint32_t rank) { return fmt::format(".LZY.s.{}", rank); }

  void Write(std::uint32_t parity) {
    options_.parity = parity;
    for (std::uint32_t rank = 0; rank < kOneEach; ++rank) DiskOf(fmt::format("n{}", rank)).Put(MemberName(rank), content_[rank], kWrittenLongAgo);
    ASSERT_OK(On({"n0", "n1", "n2", "n3"}, [](const Context& c, const DatasetRef& set) { return Protect(c, set, {}); }).status);
  }
  /// Runs `work` on these nodes. Each rank sees the members on its node.
  DatasetReport On(const NodeNames& nodes, const std::function<DatasetReport(const Context&, const DatasetRef&)>& work) {
    std::vector<MemoryFileSystem*> disks;
    for (const std::string& node : nodes) disks.push_back(&DiskOf(node));
    std::vector<DatasetReport> reports(nodes.size());
    RunRanks(static_cast<int>(nodes.size()), [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      DatasetRef set{DatasetKind::kSet, "s.%r", {}};
      for (std::uint32_t m = 0; m < kOneEach; ++m) {
        if (disks[rank]->Has(MemberName(m)) || disks[rank]->Has(SidecarName(m))) set.members[m] = MemberName(m);
      }
      reports[rank] = work({*disks[rank], comm, options_}, set);
    }, nodes);
    for (const DatasetReport& report : reports) EXPECT_EQ(Text(report), Text(reports[0]));
    return reports[0];
  }
  DatasetReport VerifyOn(const NodeNames& nodes) {
    return On(nodes, [](const Context& c, const DatasetRef& set) { return Verify(c, set, {}); });
  }
  DatasetReport RestoreOn(const NodeNames& nodes, const RestoreRequest& request = {}) {
    return On(nodes, [&](const Context& c, const DatasetRef& set) { return Restore(c, set, request); });
  }
  void Lose(const std::string& node) { disks_.erase(node); }
  static std::vector<std::string> NotVisible(const DatasetReport& report) {
    std::vector<std::string> out;
    for (const auto& member : report.not_visible) out.push_back(fmt::format("{} on {}", member.path, member.domain));
    return out;
  }
  std::map<std::string, std::map<std::string, Bytes>> Image() {
    std::map<std::string, std::map<std::string, Bytes>> out;
    for (auto& [node, disk] : disks_) {
      for (const auto& [name, file] : disk.nodes()) out[node][name] = file->bytes;
    }
    return out;
  }
  void ExpectNothingIsKnownOf(const DatasetReport& report, const std::vector<std::string>& members) {
    EXPECT_OK(report.status);
    EXPECT_EQ(ExitCodeOf(report), 4) << Text(report);
    EXPECT_EQ(report.state, DatasetState::kUnprotected);
    EXPECT_EQ(NotVisible(report), members);
    for (const Damage& one : report.damage) EXPECT_EQ(one.cause, DamageCause::kNotVisible) << Text(report);
    EXPECT_EQ(report.damage.size(), members.size());
  }

  Rng rng_{SeedOf(20261127)};
  Options options_;
  std::vector<Bytes> content_;
  bool shared_ = false;
  std::map<std::string, MemoryFileSystem> disks_;
};

TEST_F(PartialSight, MembersOfOtherNodesAreNeitherMissingNorMadeAgain) {
  Write(2);
  const auto before = Image();
  const std::vector<std::string> away = {"s.2 on n2", "s.3 on n3"};
  const DatasetReport seen = VerifyOn({"n0", "n1"});
  ExpectNothingIsKnownOf(seen, away);
  EXPECT_THAT(seen.needed_nodes, ElementsAre("n0", "n1", "n2", "n3"));
  ExpectNothingIsKnownOf(VerifyOn({"n0"}), {"s.1 on n1", "s.2 on n2", "s.3 on n3"});
  ExpectNothingIsKnownOf(On({"n0", "n1"}, [](const Context& c, const DatasetRef& set) { return Info(c, set); }), away);
  VerifyRequest repair;
  repair.repair = repair.force = true;
  ExpectNothingIsKnownOf(On({"n0", "n1"}, [&](const Context& c, const DatasetRef& set) { return Verify(c, set, repair); }), away);
  ProtectRequest protect;
  protect.force = true;
  ExpectNothingIsKnownOf(On({"n0", "n1"}, [&](const Context& c, const DatasetRef& set) { return Protect(c, set, protect); }), away);
  for (int way = 0; way < 4; ++way) {
    RestoreRequest request;
    request.dry_run = way == 0;
    request.salvage = way == 2;
    if (way == 3) request.devices = {2, 3};
    ExpectNothingIsKnownOf(RestoreOn({"n0", "n1"}, request), away);
  }
  EXPECT_EQ(On({"n0", "n1"}, [](const Context& c, const DatasetRef& set) { return Unprotect(c, set, {}); }).planned, false);
  EXPECT_EQ(Image(), before);
  EXPECT_EQ(ExitCodeOf(VerifyOn({"n3", "n2", "n1", "n0"})), 0);
}

TEST_F(PartialSight, ANewNodeTakesThePlaceOfALostOne) {
  Write(1);
  Lose("n2");
  ExpectNothingIsKnownOf(VerifyOn({"n0", "n1", "n3"}), {"s.2 on n2"});
  DiskOf("n4").Put("another", Bytes(10));  // a directory without files is none in memory
  const DatasetReport restored = RestoreOn({"n0", "n1", "n3", "n4"});
  EXPECT_EQ(restored.state, DatasetState::kRestored) << Text(restored);
  EXPECT_EQ(DiskOf("n4").At(MemberName(2)).bytes, content_[2]);
  EXPECT_EQ(ExitCodeOf(VerifyOn({"n0", "n1", "n3", "n4"})), 0);
  // The member was written on another node but is on n4. That does not make the file system shared.
  ExpectNothingIsKnownOf(VerifyOn({"n4", "n0"}), {"s.1 on n1", "s.3 on n3"});
}

TEST_F(PartialSight, WhatTheUserCallsLostIsMadeAgain) {
  Write(2);
  Lose("n2");
  Lose("n3");
  const auto before = Image();
  RestoreRequest request;
  request.lost.named = {"n2"};
  const DatasetReport refused = RestoreOn({"n0", "n1"}, request);
  EXPECT_EQ(ExitCodeOf(refused), 1) << Text(refused);  // the other one is lost, as the user says
  EXPECT_THAT(NotVisible(refused), ElementsAre("s.3 on n3"));
  EXPECT_EQ(Image(), before);
  request.lost.named = {"n2", "n3.cluster"};  // as another MPI calls it
  EXPECT_EQ(RestoreOn({"n0", "n1"}, request).state, DatasetState::kRestored);
  for (const std::uint32_t rank : {2U, 3U}) {
    EXPECT_TRUE(DiskOf("n0").Has(MemberName(rank)) != DiskOf("n1").Has(MemberName(rank)));
  }
  EXPECT_EQ(ExitCodeOf(VerifyOn({"n0", "n1"})), 0);
}

TEST_F(PartialSight, AllThatIsNotHereIsLostIfTheUserSaysSo) {
  Write(3);
  Lose("n1");
  Lose("n2");
  Lose("n3");
  RestoreRequest request;
  request.lost.all = true;
  EXPECT_EQ(RestoreOn({"n0"}, request).state, DatasetState::kRestored);
  for (std::uint32_t rank = 0; rank < kOneEach; ++rank) EXPECT_EQ(DiskOf("n0").At(MemberName(rank)).bytes, content_[rank]);
}

TEST_F(PartialSight, OnASharedFileSystemAnAbsentMemberIsLost) {
  shared_ = true;
  Write(1);
  for (const NodeNames& nodes : {NodeNames{"n0"}, {"login"}, {"n1", "n2"}, {"n0", "n1", "n2", "n3"}}) {
    ASSERT_OK(disks_["n0"].Remove(MemberName(3)));
    ASSERT_OK(disks_["n0"].Remove(SidecarName(3)));
    const DatasetReport seen = VerifyOn(nodes);
    EXPECT_EQ(seen.state, DatasetState::kDamaged) << Text(seen);
    EXPECT_THAT(seen.not_visible, IsEmpty());
    EXPECT_THAT(seen.needed_nodes, IsEmpty());
    EXPECT_EQ(RestoreOn(nodes).state, DatasetState::kRestored);
    EXPECT_EQ(disks_["n0"].At(MemberName(3)).bytes, content_[3]);
  }
}

TEST_F(PartialSight, OnASingleNodeAnAbsentMemberIsLost) {
  shared_ = true;
  for (std::uint32_t rank = 0; rank < kOneEach; ++rank) disks_["n0"].Put(MemberName(rank), content_[rank], kWrittenLongAgo);
  options_.parity = 1;
  ASSERT_OK(On({"n0", "n0"}, [](const Context& c, const DatasetRef& set) { return Protect(c, set, {}); }).status);
  ASSERT_OK(disks_["n0"].Remove(MemberName(0)));
  ASSERT_OK(disks_["n0"].Remove(SidecarName(0)));
  EXPECT_EQ(VerifyOn({"n0"}).state, DatasetState::kDamaged);
  EXPECT_EQ(RestoreOn({"n0"}).state, DatasetState::kRestored);
}

TEST_F(PartialSight, DamageThatIsSeenIsGraver) {
  Write(1);
  disks_["n0"].At(MemberName(0)).bytes[5] ^= 1;
  const auto before = Image();
  for (const bool repair : {false, true}) {
    VerifyRequest request;
    request.repair = repair;
    const DatasetReport seen = On({"n0", "n1"}, [&](const Context& c, const DatasetRef& set) { return Verify(c, set, request); });
    EXPECT_EQ(ExitCodeOf(seen), 1) << Text(seen);  // whether it is beyond repair is not known
    EXPECT_EQ(seen.state, DatasetState::kDamaged);
    EXPECT_THAT(NotVisible(seen), ElementsAre("s.2 on n2", "s.3 on n3"));
    EXPECT_EQ(Image(), before);
  }
  VerifyRequest repair;
  repair.repair = true;
  EXPECT_EQ(On({"n0", "n1", "n2", "n3"}, [&](const Context& c, const DatasetRef& set) { return Verify(c, set, repair); }).state,
            DatasetState::kRestored);
}

TEST_F(PartialSight, GroupsOfWhichNothingIsSeen) {
  options_.group = 2;
  Write(1);
  const auto before = Image();
  const DatasetReport seen = VerifyOn({"n0"});
  EXPECT_EQ(ExitCodeOf(seen), 4) << Text(seen);
  EXPECT_EQ(seen.not_visible.size(), 3U);
  EXPECT_EQ(ExitCodeOf(RestoreOn({"n0"})), 4);
  EXPECT_EQ(Image(), before);
  Lose("n1");
  Lose("n3");
  // The command runs on as many nodes as before. Then members that no rank sees are lost, and with them a whole group.
  Lose("n2");
  EXPECT_EQ(ExitCodeOf(RestoreOn({"n0", "n4", "n5", "n6"})), 2);
}

TEST_F(PartialSight, NamesOfNodes) {
  EXPECT_TRUE(HasNode({"n1"}, "n1"));
  EXPECT_TRUE(HasNode({"n1.cluster"}, "n1"));
  EXPECT_TRUE(HasNode({"n1"}, "n1.cluster"));
  EXPECT_FALSE(HasNode({"n1"}, "n10"));
  EXPECT_FALSE(HasNode({"n1.cluster"}, "n1.other"));
  EXPECT_FALSE(HasNode({""}, ".n1"));
}

}  // namespace
}  // namespace lzy::testing
