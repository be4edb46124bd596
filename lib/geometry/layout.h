#pragma once
// Where every block lives: the complete geometry of one dataset (docs/format.md "Geometry").
//
// Pure arithmetic: no I/O, no MPI, O(1) per query but for construction.
//
// Terms. A *file* is a user's file: file 0 of a shared dataset, file r (the member of rank r) of a set. A *device*
// is a member of a set or a stripe position (offset / unit mod D) of a shared file. A *row* here is a block row: the
// i-th block (0 <= i < unit / block) of every unit of unit row t of one group.
//
// Invariant: every byte of every file lies in exactly one data block; every row has at most one block on each device.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "geometry/rotation.h"

namespace lzy {

enum class DatasetKind : std::uint32_t { kShared = 1, kSet = 2 };

/// How the parity units of a dataset are laid out in the parity regions of its sidecars.
enum class ParityPlacement : std::uint32_t {
  kPooled = 1,     ///< one region for all devices, in order of rows (a shared file's single sidecar)
  kPerDevice = 2,  ///< one region a device, in order of its rows (sets)
  kStriped = 3,    ///< one region, unit x on stripe position x mod D (file systems with real stripes)
  kDirectories = 4,  ///< the same region, but unit x in the x mod D-th of D files (shared files with device directories)
};

/// Everything that determines a layout but the sizes. Persisted in the sidecar.
struct GeometryParameters {
  DatasetKind kind = DatasetKind::kShared;
  ParityPlacement placement = ParityPlacement::kPooled;
  std::uint32_t block_size = 65536;  ///< power of two, kMinBlockSize..kMaxBlockSize
  std::uint64_t unit = 65536;        ///< power-of-two multiple of block_size
  std::uint32_t parity = 1;          ///< m, < size of the smallest group
  std::vector<std::vector<std::uint32_t>> groups;  ///< device numbers; a partition of 0..D-1
};

inline constexpr std::uint32_t kMinBlockSize = 512;
inline constexpr std::uint32_t kMaxBlockSize = 16u << 20;
inline constexpr std::uint64_t kMaxUnit = 1ull << 30;
inline constexpr std::uint32_t kMaxGroup = 255;

/// The rule of docs/format.md "Geometry": the largest power-of-two multiple of the block size that is at most `stripe` and has
/// 4 * n * u <= size (shared; n the largest group) or 4 * u <= size (set; size of the largest member); at least a block,
/// at most kMaxUnit. Precondition: block_size is a power of two.
std::uint64_t ChooseUnit(DatasetKind kind, std::uint32_t block_size, std::uint64_t stripe, std::uint32_t n,
                         std::uint64_t size);

/// A row's address. `slice` is the block's index within its unit.
struct RowId {
  std::uint32_t group = 0;
  std::uint64_t unit_row = 0;
  std::uint32_t slice = 0;
  friend bool operator==(const RowId&, const RowId&) = default;
};

/// A block as bytes of a file or of a parity region. `index` is its leaf number in that file's or region's hash tree.
/// `length` is 0 for a block past the end (it counts as zeros and has no leaf).
struct BlockPlace {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint64_t index = 0;
};

class Layout {
 public:
  /// `file_sizes`: bytes of each file: one for a shared dataset, D (the number of devices in `groups`) for a set.
  /// kInvalidArgument names the value that is out of range: each size is at most 2^62, and no parity region (m / (n - m)
  /// times its data) may exceed 2^63 - 1 bytes. A set takes kPerDevice only, a shared file any placement.
  static Result<Layout> Create(GeometryParameters parameters, std::vector<std::uint64_t> file_sizes);

  const GeometryParameters& parameters() const { return parameters_; }
  DatasetKind kind() const { return parameters_.kind; }
  std::uint32_t block_size() const { return parameters_.block_size; }
  std::uint64_t unit() const { return parameters_.unit; }
  std::uint32_t parity() const { return parameters_.parity; }
  std::uint32_t slices() const { return static_cast<std::uint32_t>(unit() / block_size()); }  ///< block rows a unit row
  std::uint32_t devices() const { return static_cast<std::uint32_t>(group_of_.size()); }
  std::uint32_t group_count() const { return static_cast<std::uint32_t>(parameters_.groups.size()); }
  const std::vector<std::uint32_t>& group(std::uint32_t g) const { return parameters_.groups[g]; }
  std::uint32_t group_of(std::uint32_t device) const { return group_of_[device]; }
  std::uint32_t index_in_group(std::uint32_t device) const { return index_in_group_[device]; }
  Rotation rotation(std::uint32_t g) const { return {static_cast<std::uint32_t>(group(g).size()), parity()}; }
  std::uint32_t largest_group() const;

  std::uint32_t files() const { return static_cast<std::uint32_t>(file_sizes_.size()); }
  std::uint64_t file_size(std::uint32_t file) const { return file_sizes_[file]; }
  /// The file that holds `device`'s data: 0 for a shared dataset, the device itself for a set.
  std::uint32_t file_of(std::uint32_t device) const { return kind() == DatasetKind::kShared ? 0 : device; }
  /// Bytes of data on `device`.
  std::uint64_t device_size(std::uint32_t device) const { return device_sizes_[device]; }
  /// Data blocks (= leaves) of `file`.
  std::uint64_t data_blocks(std::uint32_t file) const;

  /// Parity regions: D when per device, else 1; and the one that holds `device`'s parity.
  std::uint32_t regions() const { return parameters_.placement == ParityPlacement::kPerDevice ? devices() : 1; }
  std::uint32_t region_of(std::uint32_t device) const {
    return parameters_.placement == ParityPlacement::kPerDevice ? device : 0;
  }
  /// Bytes, and blocks (= leaves, zero-length ones in holes included), of a parity region.
  std::uint64_t parity_size(std::uint32_t region) const { return parity_sizes_[region]; }
  std::uint64_t parity_blocks(std::uint32_t region) const { return parity_blocks_[region]; }
  /// Sum over all regions of the bytes that parity blocks really have (holes between them not counted). Exact, or
  /// 2^64 - 1 when it is more than that. O(n^2) a group, whatever the sizes.
  std::uint64_t total_parity_bytes() const;

  /// Unit rows of a group: the least number that covers all data of all its devices.
  std::uint64_t unit_rows(std::uint32_t g) const { return unit_rows_[g]; }

  /// The block of `device` in a row where it holds data (precondition), as bytes of file_of(device).
  BlockPlace DataBlock(std::uint32_t device, std::uint64_t unit_row, std::uint32_t slice) const;
  /// The block of `device` in a row where it holds parity (precondition), as bytes of region_of(device). Its length
  /// is that of the longest data block of the row.
  BlockPlace ParityBlock(std::uint32_t device, std::uint64_t unit_row, std::uint32_t slice) const;
  bool IsParity(std::uint32_t device, std::uint64_t unit_row) const {
    return rotation(group_of(device)).IsParity(index_in_group(device), unit_row);
  }
  /// Longest data block of a row: the row's length (0: nothing in it). `unit_length` is the same for the whole unit.
  std::uint32_t RowLength(const RowId& row) const;
  std::uint64_t UnitRowLength(std::uint32_t g, std::uint64_t unit_row) const;

  struct DeviceRow {
    std::uint32_t device = 0;
    RowId row;
  };
  /// The device and row of data block `index` of `file`, and of parity block `index` of `region`.
  DeviceRow LocateData(std::uint32_t file, std::uint64_t index) const;
  DeviceRow LocateParity(std::uint32_t region, std::uint64_t index) const;

  /// First unit row kept in a pooled region, and bytes from one parity unit to the next. A sidecar laid out with
  /// other values than the new layout's must be encoded afresh.
  std::uint64_t first_row() const { return first_row_; }
  std::uint64_t parity_stride() const { return stride_; }

 private:
  Layout() = default;
  void PlaceData();
  Status PlaceParity();
  /// Makes `device`'s parity region large enough for its last parity unit that has any data of rows before `rows_end`,
  /// the furthest that data of another device of its group reach.
  Status ExtendRegion(std::uint32_t device, std::uint64_t rows_end);
  /// The row after that of the device's last data unit; 0 when it has none.
  std::uint64_t DataRowsEnd(std::uint32_t device) const;
  /// Unit rows of a group in which some data unit is whole.
  std::uint64_t FullUnitRows(std::uint32_t g) const;
  std::uint64_t ParityUnitIndex(std::uint32_t device, std::uint64_t unit_row) const;
  /// Bytes of device's data unit in unit_row (0 past the end or where it holds parity).
  std::uint64_t DataUnitLength(std::uint32_t device, std::uint64_t unit_row) const;

  GeometryParameters parameters_;
  std::vector<std::uint64_t> file_sizes_;
  std::vector<std::uint64_t> device_sizes_;
  std::vector<std::uint32_t> group_of_;
  std::vector<std::uint32_t> index_in_group_;
  std::vector<std::uint64_t> unit_rows_;
  std::vector<std::uint64_t> parity_sizes_;
  std::vector<std::uint64_t> parity_blocks_;
  std::uint64_t first_row_ = 0;
  std::uint64_t stride_ = 0;
};

}  // namespace lzy
