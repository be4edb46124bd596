// Records of sets about members without sidecars.

#include "names/recorded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class RecordedTest : public ::testing::TestWithParam<bool> {  // with a key
 protected:
  void SetUp() override {
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      contents_.push_back(RandomBytes(rng_, 1400));
      fs_.Put(ExpandPattern(kPattern, rank), contents_.back(), 1'000'000'000);
    }
    options_.group = 3;
    options_.block_size = 512;
    if (GetParam()) options_.key = TestKey();
    DatasetRef set{DatasetKind::kSet, kPattern, {}};
    for (std::uint32_t rank = 0; rank < 6; ++rank) set.members[rank] = ExpandPattern(kPattern, rank);
    ASSERT_OK(Protect(Context{fs_, *self_, options_}, set, {}).status);
    sidecars_ = {Sidecar(0), Sidecar(1), Sidecar(2), Sidecar(3), Sidecar(4), Sidecar(5)};
  }
  static std::string Sidecar(std::uint32_t rank) { return *SidecarPath(ExpandPattern(kPattern, rank)); }
  void Lose(std::uint32_t rank) { std::erase(sidecars_, Sidecar(rank)); }

  static constexpr const char* kPattern = "d/s%r/state";
  Rng rng_{31};
  MemoryFileSystem fs_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  Options options_;
  std::vector<Bytes> contents_;
  std::vector<std::string> sidecars_;
};

TEST_P(RecordedTest, MembersWithTheirSidecarsAreNotAmongThem) {
  EXPECT_TRUE(RecordedMembers(fs_, sidecars_).OfSize(1400, {}).empty());
}

TEST_P(RecordedTest, TheOthersOfItsGroupTellWhatALostMemberWas) {
  Lose(1);
  Lose(5);
  const RecordedMembers recorded(fs_, sidecars_);
  const auto found = recorded.OfSize(1400, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(recorded.OfSize(1401, {}).empty());
  EXPECT_TRUE(recorded.OfSize(1400, found[0].set).empty());
  for (const RecordedMember& member : found) {
    const std::uint32_t rank = member.path == "d/s1/state" ? 1 : 5;
    EXPECT_EQ(member.path, ExpandPattern(kPattern, rank));
    fs_.Put("d/copy", contents_[rank], 1);
    EXPECT_TRUE(RootsOf(fs_, "d/copy", options_.key.get()).Are(member));
    EXPECT_EQ(RootsOf(fs_, "d/copy", nullptr).Are(member), !GetParam());
    Bytes changed = contents_[rank];
    changed[1399] ^= 1;
    fs_.Put("d/copy", changed, 1);
    EXPECT_FALSE(RootsOf(fs_, "d/copy", options_.key.get()).Are(member));
  }
}

TEST_P(RecordedTest, OneSidecarTellsOfItsGroupOnly) {
  EXPECT_EQ(RecordedMembers(fs_, {"d/none", Sidecar(0)}).OfSize(1400, {}).size(), 2u);
  EXPECT_TRUE(RecordedMembers(fs_, {}).OfSize(1400, {}).empty());
}

INSTANTIATE_TEST_SUITE_P(, RecordedTest, ::testing::Bool(), [](const auto& test) { return test.param ? "Sealed" : "Plain"; });

}  // namespace
}  // namespace lzy::testing
