// Part of the tests of rooms that load and write trees: LZY_TEST_LEAVES_IN_MEMORY=N makes trees of more than N leaves count
// as large, so that they are not held in memory (merkle/tree.h).
#include <gtest/gtest.h>

#include <cstdlib>

#include "merkle/tree.h"

namespace {

const char* const leaves = [] {
  const char* text = std::getenv("LZY_TEST_LEAVES_IN_MEMORY");
  if (text != nullptr) lzy::SetMostLeavesInMemory(std::strtoull(text, nullptr, 10));
  return text;
}();

TEST(LargeTrees, BeginWhereTheEnvironmentSays) {
  EXPECT_EQ(lzy::MostLeavesInMemory(), leaves == nullptr ? lzy::kMostLeavesInMemory : std::strtoull(leaves, nullptr, 10));
}

}  // namespace
