#include "geometry/rotation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace lzy {
namespace {

// The rule as docs/format.md words it, dealt out row by row: parity on (t, t+1, …, t+m-1) mod n, and every other device
// contributes its next unused unit.
struct DealtRow {
  std::vector<bool> is_parity;        // by device
  std::vector<std::uint64_t> unit;    // of the device's data, or parity, whichever it holds in this row
  std::vector<std::uint64_t> data;    // data units of the device in earlier rows
  std::vector<std::uint64_t> parity;  // parity units of the device in earlier rows
};

std::vector<DealtRow> Deal(std::uint32_t n, std::uint32_t m, std::uint32_t rows) {
  std::vector<DealtRow> dealt;
  std::vector<std::uint64_t> data(n, 0);
  std::vector<std::uint64_t> parity(n, 0);
  for (std::uint32_t t = 0; t < rows; ++t) {
    DealtRow row{std::vector<bool>(n, false), std::vector<std::uint64_t>(n), data, parity};
    for (std::uint32_t q = 0; q < m; ++q) row.is_parity[(t + q) % n] = true;
    for (std::uint32_t d = 0; d < n; ++d) row.unit[d] = row.is_parity[d] ? parity[d]++ : data[d]++;
    dealt.push_back(row);
  }
  return dealt;
}

template <class Check>
void ForEveryRotation(std::uint32_t largest, Check check) {
  for (std::uint32_t n = 1; n <= largest; ++n) {
    for (std::uint32_t m = 0; m < n; ++m) {
      SCOPED_TRACE(::testing::Message() << "n " << n << " m " << m);
      check(Rotation{n, m});
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Rotation, MatchesDealingRowByRow) {
  ForEveryRotation(12, [](Rotation rotation) {
    const std::vector<DealtRow> dealt = Deal(rotation.n, rotation.m, 4 * rotation.n);
    for (std::uint64_t t = 0; t < dealt.size(); ++t) {
      for (std::uint32_t d = 0; d < rotation.n; ++d) {
        SCOPED_TRACE(::testing::Message() << "row " << t << " device " << d);
        ASSERT_EQ(rotation.IsParity(d, t), dealt[t].is_parity[d]);
        ASSERT_EQ(rotation.DataUnitsBefore(d, t), dealt[t].data[d]);
        ASSERT_EQ(rotation.ParityUnitsBefore(d, t), dealt[t].parity[d]);
        const std::uint64_t unit = dealt[t].unit[d];
        ASSERT_EQ(dealt[t].is_parity[d] ? rotation.RowOfParityUnit(d, unit) : rotation.RowOfDataUnit(d, unit), t);
      }
    }
  });
}

TEST(Rotation, EveryRowHasEachDeviceOnceAndParityInOrder) {
  ForEveryRotation(12, [](Rotation rotation) {
    for (std::uint64_t t = 0; t < 3 * rotation.n; ++t) {
      std::set<std::uint32_t> devices;
      for (std::uint32_t position = 0; position < rotation.n; ++position) {
        const std::uint32_t device = rotation.DeviceAt(position, t);
        ASSERT_LT(device, rotation.n);
        ASSERT_EQ(device, (t + position) % rotation.n);
        ASSERT_EQ(rotation.PositionOf(device, t), position);
        ASSERT_EQ(rotation.IsParity(device, t), position < rotation.m);
        devices.insert(device);
      }
      ASSERT_EQ(devices.size(), rotation.n);
    }
  });
}

TEST(Rotation, EveryTurnGivesEachDeviceExactlyMParityUnits) {
  ForEveryRotation(12, [](Rotation rotation) {
    // Any n consecutive rows are a turn, wherever they begin.
    for (std::uint64_t t = 0; t < 2 * rotation.n; ++t) {
      for (std::uint32_t d = 0; d < rotation.n; ++d) {
        ASSERT_EQ(rotation.ParityUnitsBefore(d, t + rotation.n) - rotation.ParityUnitsBefore(d, t), rotation.m);
        ASSERT_EQ(rotation.DataUnitsBefore(d, t + rotation.n) - rotation.DataUnitsBefore(d, t), rotation.k());
      }
    }
  });
}

TEST(Rotation, WithoutParityEverythingIsData) {
  const Rotation rotation{5, 0};
  for (std::uint64_t t : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 55}) {
    EXPECT_FALSE(rotation.IsParity(3, t));
    EXPECT_EQ(rotation.DataUnitsBefore(3, t), t);
    EXPECT_EQ(rotation.RowOfDataUnit(3, t), t);
    EXPECT_EQ(rotation.ParityUnitsBefore(3, t), 0u);
  }
}

// Rows too far out to deal one by one: a whole number of turns shifts every count by a known amount.
TEST(Rotation, FarRowsAreNearRowsShiftedByWholeTurns) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto n = static_cast<std::uint32_t>(1 + random() % 255);
    const auto m = static_cast<std::uint32_t>(random() % n);
    const auto d = static_cast<std::uint32_t>(random() % n);
    const Rotation rotation{n, m};
    const std::uint64_t near = random() % (2 * n);
    const std::uint64_t turns = random() % ((std::uint64_t{1} << 61) / n);
    const std::uint64_t far = near + turns * n;
    ASSERT_EQ(rotation.PositionOf(d, far), rotation.PositionOf(d, near));
    ASSERT_EQ(rotation.DeviceAt(d, far), rotation.DeviceAt(d, near));
    const std::uint64_t data = rotation.DataUnitsBefore(d, near) + turns * (n - m);
    const std::uint64_t parity = rotation.ParityUnitsBefore(d, near) + turns * m;
    ASSERT_EQ(rotation.DataUnitsBefore(d, far), data);
    ASSERT_EQ(rotation.ParityUnitsBefore(d, far), parity);
    ASSERT_EQ(rotation.IsParity(d, far) ? rotation.RowOfParityUnit(d, parity) : rotation.RowOfDataUnit(d, data), far);
  }
}

// Gropp, Ross, Miller, §3: P(j) on device j takes A(j-1, k) from devices k < j and A(j, k) from devices k > j.
TEST(Rotation, OneParityIsThePublishedLayout) {
  for (std::uint32_t n = 2; n <= 16; ++n) {
    const Rotation rotation{n, 1};
    for (std::uint32_t j = 0; j < n; ++j) {
      EXPECT_EQ(rotation.DeviceAt(0, j), j);
      for (std::uint32_t k = 0; k < n; ++k) {
        if (k == j) continue;
        EXPECT_EQ(rotation.DataUnitsBefore(k, j), k < j ? j - 1 : j) << "n " << n << " j " << j << " k " << k;
      }
    }
  }
}

}  // namespace
}  // namespace lzy
