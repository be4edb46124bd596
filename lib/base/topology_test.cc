#include "base/topology.h"

#include <gtest/gtest.h>

namespace lzy {
namespace {

TEST(TopologyNames, AreReadAsTheyAreWritten) {
  for (int i = 0; i < 6; ++i) {
    const auto topology = static_cast<Topology>(i);
    const auto choice = ParseTopology(TopologyName(topology));
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->topology, topology);
    EXPECT_FALSE(choice->costs);
    EXPECT_EQ(TopologyText(*choice), TopologyName(topology));
  }
}

TEST(ParseTopology, TakesTheCostsOfANetwork) {
  const auto choice = ParseTopology("auto:1.5:0.25:24000");
  ASSERT_TRUE(choice && choice->costs);
  EXPECT_EQ(choice->topology, Topology::kAuto);
  EXPECT_DOUBLE_EQ(choice->costs->latency, 1.5e-6);
  EXPECT_DOUBLE_EQ(choice->costs->gap, 0.25e-6);
  EXPECT_DOUBLE_EQ(choice->costs->byte_time, 1 / 24e9);
  EXPECT_EQ(TopologyText(*choice), "auto:1.5:0.25:24000");
  EXPECT_EQ(TopologyText(*ParseTopology("auto:0:0:1e-3")), "auto:0:0:0.001");
}

TEST(ParseTopology, RefusesOtherText) {
  for (const char* bad : {"", "ring", "Auto", "auto ", "daisy:1:1:1", "auto:", "auto:1", "auto:1:1", "auto:1:1:", "auto:1:1:0",
                          "auto:1:1:1:", "auto:1:1:1:1", "auto:-1:1:1", "auto:1:nan:1", "auto:1:1:inf", "auto:1:1:1e999",
                          "auto::1:1", "auto:1:1:5x", "auto: 1:1:1", ":1:1:1"}) {
    EXPECT_FALSE(ParseTopology(bad)) << "'" << bad << "'";
  }
}

}  // namespace
}  // namespace lzy
