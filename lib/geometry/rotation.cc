#include "geometry/rotation.h"

#include <algorithm>

namespace lzy {
namespace {

// Within one turn (rows 0..n-1), device d holds parity q in row d - q. So its parity rows are [d - m + 1, d], taken
// mod n: one interval, or two (the head and the tail of the turn) if d < m - 1. A negative result means two.
std::int64_t FirstParityRow(std::uint32_t device, std::uint32_t m) {
  return std::int64_t{device} - std::int64_t{m} + 1;
}

// Length of [begin, end) cut to [0, limit).
std::int64_t Overlap(std::int64_t begin, std::int64_t end, std::int64_t limit) {
  return std::max<std::int64_t>(0, std::min(end, limit) - std::max<std::int64_t>(begin, 0));
}

}  // namespace

std::uint32_t Rotation::PositionOf(std::uint32_t device, std::uint64_t row) const {
  return (device + n - static_cast<std::uint32_t>(row % n)) % n;
}

std::uint32_t Rotation::DeviceAt(std::uint32_t position, std::uint64_t row) const {
  return static_cast<std::uint32_t>((row % n + position) % n);
}

std::uint64_t Rotation::ParityUnitsBefore(std::uint32_t device, std::uint64_t row) const {
  const auto rest = static_cast<std::int64_t>(row % n);
  const std::int64_t begin = FirstParityRow(device, m);
  const std::int64_t end = std::int64_t{device} + 1;
  // Whole turns have m each. The second term is the part of the interval that wrapped below row 0; it is empty if none
  // did (begin >= 0), because then it lies behind the turn.
  const std::int64_t in_rest = Overlap(begin, end, rest) + Overlap(begin + n, end + n, rest);
  return row / n * m + static_cast<std::uint64_t>(in_rest);
}

std::uint64_t Rotation::DataUnitsBefore(std::uint32_t device, std::uint64_t row) const {
  return row - ParityUnitsBefore(device, row);
}

std::uint64_t Rotation::RowOfDataUnit(std::uint32_t device, std::uint64_t unit) const {
  const auto rest = static_cast<std::int64_t>(unit % k());
  const std::int64_t begin = FirstParityRow(device, m);
  // Data lie between two intervals of parity, of which the first ends with row `device`; or before and after one.
  const std::int64_t row = begin < 0 ? rest + device + 1 : rest < begin ? rest : rest + m;
  return unit / k() * n + static_cast<std::uint64_t>(row);
}

std::uint64_t Rotation::RowOfParityUnit(std::uint32_t device, std::uint64_t unit) const {
  const auto rest = static_cast<std::int64_t>(unit % m);
  const std::int64_t begin = FirstParityRow(device, m);
  // With two intervals, the head has rows 0..device; the tail starts where m - device - 1 rows of the turn are left.
  const std::int64_t row = begin >= 0 ? begin + rest : rest <= device ? rest : rest + n - m;
  return unit / m * n + static_cast<std::uint64_t>(row);
}

}  // namespace lzy
