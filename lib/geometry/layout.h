#pragma once
// The place of every block: the complete geometry of one dataset (docs/format.md §6).
//
// A Layout is made from sizes and options (dataset/, commit/) or from the contents of a sidecar. All other rooms ask it for
// places: rows/ and encode/ for the blocks of a row, judge/ and repair/ for the row of a bad block. It is pure arithmetic: no
// I/O, no MPI. A query costs O(1), or O(n) if it needs the length of a row. Ranks with equal parameters and sizes get equal
// layouts, so no rank sends its layout.
//
// Terms. A *file* is a user's file: file 0 of a shared dataset, file r (the member of rank r) of a set. A *device* is a
// member of a set, or a stripe position (offset / unit mod D) of a shared file. A *row* here is a block row: the i-th
// block (0 <= i < unit / block) of every unit of unit row t of one group.
//
// Invariant: every byte of every file lies in exactly one data block; every row has at most one block on each device.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/record.h"
#include "base/status.h"
#include "geometry/rotation.h"

namespace lzy {

/// One file that all ranks write, or one file per rank. Persisted in the superblock, as are the numbers below.
enum class DatasetKind : std::uint32_t { kShared = 1, kSet = 2 };

/// How the parity units of a dataset are laid out in the parity regions of its sidecars.
enum class ParityPlacement : std::uint32_t {
  kPooled = 1,     ///< one region for all devices, in order of rows (a shared file's single sidecar)
  kPerDevice = 2,  ///< one region a device, in order of its rows (sets)
  kStriped = 3,    ///< one region, unit x on stripe position x mod D (file systems with real stripes)
  kDirectories = 4,  ///< the same region, but unit x in file x mod D of D files (shared files with device directories)
};

/// Everything that determines a layout except the sizes. Persisted in the sidecar.
struct GeometryParameters {
  DatasetKind kind = DatasetKind::kShared;
  ParityPlacement placement = ParityPlacement::kPooled;
  std::uint32_t block_size = 65536;  ///< power of two, kMinBlockSize..kMaxBlockSize
  std::uint64_t unit = 65536;        ///< power-of-two multiple of block_size
  std::uint32_t parity = 1;          ///< m, < size of the smallest group
  std::vector<std::vector<std::uint32_t>> groups;  ///< device numbers; a partition of 0..D-1
};

// Bounds of docs/format.md §4. A group fits the symbols of a code over GF(256).
inline constexpr std::uint32_t kMinBlockSize = 512;
inline constexpr std::uint32_t kMaxBlockSize = 16u << 20;
inline constexpr std::uint64_t kMaxUnit = 1ull << 30;
inline constexpr std::uint32_t kMaxGroup = 255;

/// Block sizes of option block-size=auto. A file of up to kSmallBlocksUpTo bytes has small blocks: its parity is at
/// least one block, which should not be as large as the file.
inline constexpr std::uint32_t kUsualBlockSize = 64u << 10;
inline constexpr std::uint32_t kSmallBlockSize = 4u << 10;
inline constexpr std::uint64_t kSmallBlocksUpTo = 64u << 10;
/// Value of option block-size=auto, also in geometries without a size: use the rule above.
inline constexpr std::uint32_t kAutomaticBlockSize = 0;

/// The block size for option value `option` and a file of `size` bytes (in a set: its largest member).
constexpr std::uint32_t ChooseBlockSize(std::uint32_t option, std::uint64_t size) {
  if (option != kAutomaticBlockSize) return option;
  return size <= kSmallBlocksUpTo ? kSmallBlockSize : kUsualBlockSize;
}

/// The unit u for a new dataset, by the rule of docs/format.md §6. It is the largest power-of-two multiple of the
/// block size that is at most `stripe` and has 4 * n * u <= size (shared file; n the size of the largest group) or 4 *
/// u <= size (set; `size` that of the largest member). It is at least a block and at most kMaxUnit. All sizes are
/// bytes. Precondition: block_size is a power of two.
std::uint64_t ChooseUnit(DatasetKind kind, std::uint32_t block_size, std::uint64_t stripe, std::uint32_t n,
                         std::uint64_t size);

/// A row's address. `slice` is the block's index within its unit.
struct RowId {
  std::uint32_t group = 0;
  std::uint64_t unit_row = 0;
  std::uint32_t slice = 0;
  friend auto operator<=>(const RowId&, const RowId&) = default;
  LZY_FIELDS(group, unit_row, slice)
};

/// A block as bytes of a file or of a parity region. `index` is its leaf number in that file's or region's hash tree.
/// `length` is 0 for a block past the end (it counts as zeros and has no leaf).
struct BlockPlace {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint64_t index = 0;
};

/// Immutable and thread-safe. Arguments of queries must be in range (device < devices(), index < data_blocks(file),
/// ...); that is not checked.
class Layout {
 public:
  /// `file_sizes`: bytes of each file: one for a shared dataset, D (the number of devices in `groups`) for a set.
  /// kInvalidArgument names the value that is out of range, so parameters from a hostile sidecar are safe. Each size is
  /// at most 2^62. No parity region (m / (n - m) times its data) may exceed 2^63 - 1 bytes. A set takes kPerDevice
  /// only, a shared file any placement.
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
  /// The j of docs/format.md §6, which Rotation calls a device.
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

  /// Number of parity regions (D with kPerDevice, else 1), and the region with the parity of `device`.
  std::uint32_t regions() const { return parameters_.placement == ParityPlacement::kPerDevice ? devices() : 1; }
  std::uint32_t region_of(std::uint32_t device) const {
    return parameters_.placement == ParityPlacement::kPerDevice ? device : 0;
  }
  /// Bytes, and blocks (= leaves, zero-length ones in holes included), of a parity region.
  std::uint64_t parity_size(std::uint32_t region) const { return parity_sizes_[region]; }
  std::uint64_t parity_blocks(std::uint32_t region) const { return parity_blocks_[region]; }

  /// Unit rows of a group: the least number that covers all data of all its devices.
  std::uint64_t unit_rows(std::uint32_t g) const { return unit_rows_[g]; }
  /// The largest unit_rows(g) of all groups.
  std::uint64_t most_unit_rows() const { return *std::max_element(unit_rows_.begin(), unit_rows_.end()); }

  /// The block of `device` in a row, as bytes of file_of(device). Length 0 if the device's data end before it.
  /// Precondition: the device holds data in this row (see IsParity).
  BlockPlace DataBlock(std::uint32_t device, std::uint64_t unit_row, std::uint32_t slice) const;
  /// The block of `device` in a row, as bytes of region_of(device). It is as long as the longest data block of the row.
  /// Precondition: the device holds parity in this row.
  BlockPlace ParityBlock(std::uint32_t device, std::uint64_t unit_row, std::uint32_t slice) const;
  bool IsParity(std::uint32_t device, std::uint64_t unit_row) const {
    return rotation(group_of(device)).IsParity(index_in_group(device), unit_row);
  }
  /// The length of a row: that of its longest data block, in bytes. 0 means that the row has no data.
  std::uint32_t RowLength(const RowId& row) const;
  /// The same for a unit row: the length of its longest data unit.
  std::uint64_t UnitRowLength(std::uint32_t g, std::uint64_t unit_row) const;

  struct DeviceRow {
    std::uint32_t device = 0;
    RowId row;
  };
  /// The device and row of data block `index` of `file`, and of parity block `index` of `region`.
  DeviceRow LocateData(std::uint32_t file, std::uint64_t index) const;
  DeviceRow LocateParity(std::uint32_t region, std::uint64_t index) const;

  // The same for data or parity, for code that handles both alike.
  std::uint32_t HolderOf(bool of_parity, std::uint32_t device) const { return of_parity ? region_of(device) : file_of(device); }
  std::uint64_t Blocks(bool of_parity, std::uint32_t f) const { return of_parity ? parity_blocks(f) : data_blocks(f); }
  BlockPlace Block(bool of_parity, std::uint32_t device, std::uint64_t unit_row, std::uint32_t slice) const {
    return of_parity ? ParityBlock(device, unit_row, slice) : DataBlock(device, unit_row, slice);
  }
  DeviceRow Locate(bool of_parity, std::uint32_t f, std::uint64_t index) const {
    return of_parity ? LocateParity(f, index) : LocateData(f, index);
  }
  /// The device at a position of the code (erasure/codec.h) in a unit row.
  std::uint32_t DeviceAt(std::uint32_t g, std::uint32_t position, std::uint64_t unit_row) const {
    return group(g)[rotation(g).DeviceAt(position, unit_row)];
  }

  /// True if the remaining parity can rebuild all data of the lost files (`gone`, by file). A lost file is a lost device in
  /// each row in which it has data. `parity_lost(device, unit_row)`: whether the parity of the device in this row is lost,
  /// too. Stops at the first unit row with more losses than parity.
  bool CanRebuild(const std::vector<bool>& gone,
                  const std::function<bool(std::uint32_t device, std::uint64_t unit_row)>& parity_lost) const;

  /// First unit row that a pooled region keeps (t0), and bytes from one parity unit to the next (s). Both depend on the
  /// file size. If a sidecar records other values than a new layout has, everything must be encoded anew.
  std::uint64_t first_row() const { return first_row_; }
  std::uint64_t parity_stride() const { return stride_; }

 private:
  Layout() = default;
  void PlaceData();
  Status PlaceParity();
  /// Makes the parity region of `device` large enough for its last parity unit that is not empty. `rows_end`: the data
  /// of all other devices of the group end before this unit row.
  Status ExtendRegion(std::uint32_t device, std::uint64_t rows_end);
  /// The unit row after that of the device's last data unit; 0 if it has none.
  std::uint64_t DataRowsEnd(std::uint32_t device) const;
  /// The x of docs/format.md §6: number of the device's parity unit in its region.
  std::uint64_t ParityUnitIndex(std::uint32_t device, std::uint64_t unit_row) const;
  /// Bytes of the device's data unit in a unit row; 0 past the end, or if the device holds parity there.
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
