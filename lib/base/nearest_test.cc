#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace lzy {
namespace {

const std::vector<std::string> kKnown = {"parity", "group", "block-size", "log", "set"};

TEST(Nearest, FindsWhatWasMeant) {
  EXPECT_EQ(Nearest("partiy", kKnown), "parity");       // swapped
  EXPECT_EQ(Nearest("blocksize", kKnown), "block-size");  // dropped
  EXPECT_EQ(Nearest("groups", kKnown), "group");        // added
  EXPECT_EQ(Nearest("perety", kKnown), "parity");       // two changed
}

TEST(Nearest, GuessesNothingFarOff) {
  EXPECT_EQ(Nearest("x", kKnown), "");
  EXPECT_EQ(Nearest("bet", kKnown), "set");
  EXPECT_EQ(Nearest("bat", kKnown), "");
  EXPECT_EQ(Nearest("verify", kKnown), "");
  EXPECT_EQ(Nearest("", kKnown), "");
  EXPECT_EQ(Nearest(std::string(1000, 'p'), kKnown), "");
}

}  // namespace
}  // namespace lzy
