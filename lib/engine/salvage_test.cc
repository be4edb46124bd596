// Salvage: more is lost than parity covers, and everything that can be rebuilt is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "misfortune_fixture.h"
#include "sidecar/sidecar.h"

namespace lzy::testing {
namespace {

TEST_P(BothForms, SalvageRepairsTheRowsThatParityCovers) {
  Make();
  for (std::uint64_t at : {0u, 1u, 2u}) Data().bytes[at * kBlock] ^= 1;  // neighbours: three of one row or of two
  auto damaged_only = [&] {
    std::vector<std::uint64_t> bad;
    for (std::uint64_t b = 0; b * kBlock < Data().bytes.size(); ++b) {
      const auto from = static_cast<std::ptrdiff_t>(b * kBlock);
      const auto to = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>((b + 1) * kBlock, Data().bytes.size()));
      if (!std::equal(Data().bytes.begin() + from, Data().bytes.begin() + to,
                      committed_.at(paths_[0]).bytes.begin() + from))
        bad.push_back(b);
    }
    return bad;
  };
  // Make one row lose all of its data and parity, and another one block.
  std::fill(Data().bytes.begin(), Data().bytes.begin() + 4 * kBlock, std::uint8_t{0});
  const std::string sidecar = *SidecarPath(paths_[0]);
  const std::uint64_t base = (*Sidecar::Load(fs_, sidecar, OpenMode::kRead))->ParityFileOffset(0);
  for (std::uint64_t b = 0; b < 6; ++b) fs_.At(sidecar).bytes[base + b * kBlock] ^= 1;
  Data().bytes[20 * kBlock] ^= 1;
  const DatasetReport refused = Restore(Here(), Ref(), {});
  EXPECT_EQ(ExitCodeOf(refused), 2) << Text(refused);
  EXPECT_EQ(damaged_only(), (std::vector<std::uint64_t>{0, 1, 2, 3, 20}));
  RestoreRequest request;
  request.salvage = true;
  const DatasetReport salvaged = Restore(Here(), Ref(), request);
  ASSERT_OK(salvaged.status);
  EXPECT_EQ(ExitCodeOf(salvaged), 2) << Text(salvaged);
  const auto left = damaged_only();
  EXPECT_EQ(std::count(left.begin(), left.end(), 20u), 0) << "this one could be had";
  EXPECT_FALSE(left.empty());
  const DatasetReport after = Check();
  EXPECT_EQ(ExitCodeOf(after), 2) << "what was not had is still lost: " << Text(after);
}

// Nothing of member 1 is proven, and more is lost beside it than parity covers. Its present bytes are kept.
TEST_P(BothForms, SalvageKeepsUnprovenDataThatCannotBeRebuilt) {
  Make(4);
  ASSERT_OK(fs_.Remove(*SidecarPath(paths_[1])));
  Data(1).bytes[2 * kBlock] ^= 1;
  for (std::uint32_t r : {2u, 3u}) {
    LoseMember(r);
  }
  const Bytes before = Data(1).bytes;
  RestoreRequest request;
  request.salvage = true;
  const DatasetReport salvaged = Restore(Here(), Ref(), request);
  ASSERT_OK(salvaged.status);
  EXPECT_EQ(ExitCodeOf(salvaged), 2) << Text(salvaged);
  EXPECT_EQ(Data(1).bytes, before);
}

// A whole group is gone, so the path from a member to the dataset root is not known. Losses of another group are salvaged
// all the same, but without a sidecar, which would prove nothing.
TEST_P(BothForms, SalvageWorksBesideAGroupThatIsLost) {
  options_.parity = 1;
  options_.group = 2;
  Make(4);
  const DatasetReport info = Info(Here(), Ref());
  ASSERT_EQ(info.map.size(), 2u);
  const std::string victim = info.map[0].devices[0].path;
  for (const GroupMap::Device& device : info.map[1].devices) {
    ASSERT_OK(fs_.Remove(device.path));
    ASSERT_OK(fs_.Remove(*SidecarPath(device.path)));
  }
  ASSERT_OK(fs_.Remove(victim));
  ASSERT_OK(fs_.Remove(*SidecarPath(victim)));
  EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), {})), 2);
  EXPECT_FALSE(fs_.Has(victim)) << "nothing is written where something is beyond repair";
  RestoreRequest request;
  request.salvage = true;
  EXPECT_EQ(ExitCodeOf(Restore(Here(), Ref(), request)), 2);
  ASSERT_TRUE(fs_.Has(victim));
  EXPECT_EQ(fs_.At(victim).bytes, committed_.at(victim).bytes);
  const DatasetReport after = Check();
  EXPECT_EQ(ExitCodeOf(after), 2) << Text(after);
  for (const Damage& d : after.damage) {
    EXPECT_TRUE(d.path != victim || d.part != DamagePart::kData) << "what was salvaged is right: " << Text(after);
  }
}

}  // namespace
}  // namespace lzy::testing
