#pragma once
// Computes which device of a group holds parity in a unit row (docs/format.md §6, "Rotation"). Layout is built on this.
//
// In unit row t, parity number q lies on device (t + q) mod n. Every other device contributes its next unused data
// unit. For m = 1 and unit = block this is the layout of Gropp, Ross, Miller, "Providing Efficient I/O Redundancy in
// MPI Environments", §3: P(j) on device j skips device j.
//
// Devices are numbered 0..n-1 within the group here. The *position* of a device in a row is its place in the codeword
// of the row: positions [0, m) are parity, [m, n) are data. All functions are O(1).

#include <cstdint>

namespace lzy {

struct Rotation {
  std::uint32_t n = 1;  ///< devices of the group
  std::uint32_t m = 0;  ///< parity units in every row; m < n

  std::uint32_t k() const { return n - m; }
  /// The position of a device in a row, and the inverse.
  std::uint32_t PositionOf(std::uint32_t device, std::uint64_t row) const;
  std::uint32_t DeviceAt(std::uint32_t position, std::uint64_t row) const;
  bool IsParity(std::uint32_t device, std::uint64_t row) const { return PositionOf(device, row) < m; }

  /// Data units that `device` contributes to rows before `row`. If it holds data in `row`, this is the index of that
  /// unit.
  std::uint64_t DataUnitsBefore(std::uint32_t device, std::uint64_t row) const;
  /// Parity units that `device` holds of rows before `row`. If it holds parity in `row`, this is the index of that
  /// unit.
  std::uint64_t ParityUnitsBefore(std::uint32_t device, std::uint64_t row) const;
  /// Inverses of the two above. Precondition of the second: m > 0.
  std::uint64_t RowOfDataUnit(std::uint32_t device, std::uint64_t unit) const;
  std::uint64_t RowOfParityUnit(std::uint32_t device, std::uint64_t unit) const;
};

}  // namespace lzy
