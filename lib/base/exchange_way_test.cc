#include "base/exchange_way.h"

#include <gtest/gtest.h>

namespace lzy {
namespace {

TEST(ExchangeWay, IsReadAsItIsWritten) {
  for (std::uint8_t i = 0; i < kExchangeWays; ++i) {
    const auto way = static_cast<ExchangeWay>(i);
    EXPECT_EQ(ParseExchangeWay(ExchangeWayName(way)), way);
  }
}

TEST(ExchangeWay, RefusesOtherText) {
  for (const char* bad : {"", "MPI", "mpi ", "pairs", "auto:1", "5"}) EXPECT_FALSE(ParseExchangeWay(bad)) << bad;
}

// Ranks of other versions may send such a number.
TEST(ExchangeWay, HasANameForNumbersThatAreNone) {
  EXPECT_STREQ(ExchangeWayName(static_cast<ExchangeWay>(200)), "auto");
}

}  // namespace
}  // namespace lzy
