#include "geometry/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <ranges>
#include <utility>

#include "base/numbers.h"

namespace lzy {
namespace {

constexpr std::uint64_t kMaxFileSize = 1ull << 62;
constexpr std::uint64_t kMaxRegion = std::numeric_limits<std::int64_t>::max();  // what off_t can address

// Bytes of block `slice` of a unit that has `unit_length` bytes.
std::uint32_t SliceLength(std::uint64_t unit_length, std::uint32_t slice, std::uint32_t block_size) {
  const std::uint64_t begin = std::uint64_t{slice} * block_size;
  if (unit_length <= begin) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(unit_length - begin, block_size));
}

Status Invalid(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

Status CheckKind(const GeometryParameters& p) {
  const auto kind = static_cast<std::uint32_t>(p.kind);
  const auto placement = static_cast<std::uint32_t>(p.placement);
  if (p.kind != DatasetKind::kShared && p.kind != DatasetKind::kSet) {
    return Invalid(fmt::format("dataset kind {}: must be 1 (shared file) or 2 (file set)", kind));
  }
  if (p.placement < ParityPlacement::kPooled || p.placement > ParityPlacement::kDirectories) {
    return Invalid(fmt::format(
        "parity placement {}: must be 1 (pooled), 2 (per device), 3 (striped) or 4 (in directories)", placement));
  }
  if (p.kind == DatasetKind::kSet && p.placement != ParityPlacement::kPerDevice) {
    return Invalid(fmt::format("parity placement {}: a file set's must be 2 (per device)", placement));
  }
  return Status::Ok();
}

Status CheckUnits(const GeometryParameters& p) {
  if (!std::has_single_bit(p.block_size) || p.block_size < kMinBlockSize || p.block_size > kMaxBlockSize) {
    return Invalid(
        fmt::format("block size {}: must be a power of two from {} to {}", p.block_size, kMinBlockSize, kMaxBlockSize));
  }
  if (!std::has_single_bit(p.unit) || p.unit < p.block_size || p.unit > kMaxUnit) {
    return Invalid(fmt::format("stripe unit {}: must be a power of two from {} (the block size) to {}", p.unit,
                               p.block_size, kMaxUnit));
  }
  return Status::Ok();
}

Status CheckGroups(const GeometryParameters& p) {
  // First the sizes, which also give the number of devices; then that each device is in exactly one group.
  if (p.groups.empty()) return Invalid("groups 0: must be at least 1");
  std::uint64_t devices = 0;
  for (std::size_t g = 0; g < p.groups.size(); ++g) {
    const std::size_t n = p.groups[g].size();
    if (n < 1 || n > kMaxGroup) {
      return Invalid(fmt::format("group {} has {} devices: must be 1 to {}", g, n, kMaxGroup));
    }
    if (p.parity >= n) {
      return Invalid(
          fmt::format("parity {}: must be less than the {} devices of group {}, i.e. 0 to {}", p.parity, n, g, n - 1));
    }
    devices += n;
  }
  std::vector<bool> seen(devices, false);
  for (std::size_t g = 0; g < p.groups.size(); ++g) {
    for (std::uint32_t device : p.groups[g]) {
      if (device >= devices) {
        return Invalid(fmt::format("device {} in group {}: must be 0 to {}, the groups having {} devices in all",
                                   device, g, devices - 1, devices));
      }
      if (seen[device]) {
        return Invalid(
            fmt::format("device {} in group {}: must be in one group, once, but is there already", device, g));
      }
      seen[device] = true;
    }
  }
  return Status::Ok();
}

Status CheckSizes(const GeometryParameters& p, const std::vector<std::uint64_t>& sizes) {
  std::size_t expected = 1;
  if (p.kind == DatasetKind::kSet) {
    expected = 0;
    for (const auto& group : p.groups) expected += group.size();
  }
  if (sizes.size() != expected) {
    return Invalid(fmt::format("{} file sizes: must be {}", sizes.size(),
                               p.kind == DatasetKind::kSet ? fmt::format("{}, one for each device of the set", expected)
                                                           : "1 for a shared file"));
  }
  for (std::size_t file = 0; file < sizes.size(); ++file) {
    if (sizes[file] > kMaxFileSize) {
      return Invalid(fmt::format("size {} of file {}: must be at most {}", sizes[file], file, kMaxFileSize));
    }
  }
  return Status::Ok();
}

}  // namespace

std::uint64_t ChooseUnit(DatasetKind kind, std::uint32_t block_size, std::uint64_t stripe, std::uint32_t n,
                         std::uint64_t size) {
  const std::uint64_t units = kind == DatasetKind::kShared ? 4 * std::max<std::uint64_t>(n, 1) : 4;
  // Any power of two that is no smaller than the block size is a multiple of it.
  return std::max<std::uint64_t>(block_size, std::bit_floor(std::min({stripe, size / units, kMaxUnit})));
}

Result<Layout> Layout::Create(GeometryParameters parameters, std::vector<std::uint64_t> file_sizes) {
  LZY_RETURN_IF_ERROR(CheckKind(parameters));
  LZY_RETURN_IF_ERROR(CheckUnits(parameters));
  LZY_RETURN_IF_ERROR(CheckGroups(parameters));
  LZY_RETURN_IF_ERROR(CheckSizes(parameters, file_sizes));
  Layout layout;
  layout.parameters_ = std::move(parameters);
  layout.file_sizes_ = std::move(file_sizes);
  layout.PlaceData();
  LZY_RETURN_IF_ERROR(layout.PlaceParity());
  return layout;
}

// Inverts the list of groups, and computes the bytes of data of each device.
void Layout::PlaceData() {
  std::size_t devices = 0;
  for (const auto& group : parameters_.groups) devices += group.size();
  group_of_.resize(devices);
  index_in_group_.resize(devices);
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    for (std::uint32_t j = 0; j < group(g).size(); ++j) {
      group_of_[group(g)[j]] = g;
      index_in_group_[group(g)[j]] = j;
    }
  }

  if (kind() == DatasetKind::kSet) {
    device_sizes_ = file_sizes_;
  } else {
    // Units are dealt round robin. The short last unit goes to the device that would get the next one.
    const std::uint64_t full_units = file_sizes_[0] / unit();
    const std::uint64_t tail = file_sizes_[0] % unit();
    device_sizes_.resize(devices);
    for (std::uint64_t d = 0; d < devices; ++d) {
      const std::uint64_t units = full_units / devices + (d < full_units % devices);
      device_sizes_[d] = units * unit() + (d == full_units % devices ? tail : 0);
    }
  }

  unit_rows_.assign(group_count(), 0);
  for (std::uint32_t d = 0; d < devices; ++d) {
    std::uint64_t& rows = unit_rows_[group_of(d)];
    rows = std::max(rows, DataRowsEnd(d));
  }
}

// A pooled region of a small file must not be larger than needed. So its stride is at most the file size, and leading
// unit rows without data are left out. Rows can be empty at the start because parity rotates: with few units, the first
// data may belong to devices that hold parity in row 0.
Status Layout::PlaceParity() {
  const bool pooled = parameters_.placement == ParityPlacement::kPooled;
  stride_ = pooled ? std::min(unit(), file_sizes_[0]) : unit();
  if (pooled) {
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    for (std::uint32_t d = 0; d < devices(); ++d) {
      if (device_size(d) != 0) first = std::min(first, rotation(group_of(d)).RowOfDataUnit(index_in_group(d), 0));
    }
    if (file_sizes_[0] != 0) first_row_ = first;
  }

  parity_sizes_.assign(regions(), 0);
  parity_blocks_.assign(regions(), 0);
  if (parity() == 0) return Status::Ok();
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    // Find the two devices of the group whose data reach furthest. In a row where a device holds parity it has no data,
    // so its last parity unit depends on how far the data of *other* devices reach.
    std::uint64_t furthest = 0;
    std::uint64_t second = 0;
    std::uint32_t furthest_device = 0;
    for (std::uint32_t d : group(g)) {
      const std::uint64_t end = DataRowsEnd(d);
      if (end > furthest) {
        second = std::exchange(furthest, end);
        furthest_device = d;
      } else {
        second = std::max(second, end);
      }
    }
    for (std::uint32_t d : group(g)) {
      LZY_RETURN_IF_ERROR(ExtendRegion(d, d == furthest_device ? second : furthest));
    }
  }
  return Status::Ok();
}

Status Layout::ExtendRegion(std::uint32_t device, std::uint64_t rows_end) {
  const std::uint32_t g = group_of(device);
  const std::uint32_t j = index_in_group(device);
  const std::uint32_t region = region_of(device);
  // Search backwards for the last parity unit with a length; it ends the region, because later units lie further on.
  // The search takes at most m steps: some other device has its last data unit in row rows_end - 1. No two devices hold
  // parity in the same m rows of a turn. So of the last m rows before rows_end in which this device holds parity, that
  // other device has data in at least one.
  for (std::uint64_t x = rotation(g).ParityUnitsBefore(j, rows_end); x-- > 0;) {
    const std::uint64_t row = rotation(g).RowOfParityUnit(j, x);
    const std::uint64_t length = UnitRowLength(g, row);
    if (length == 0) continue;
    const std::uint64_t unit_index = ParityUnitIndex(device, row);
    // Sizes from a hostile sidecar can be anything up to 2^62, and parity may be 254 times the data.
    const std::uint64_t end = SaturatedSum(SaturatedProduct(unit_index, stride_), length);
    if (end > kMaxRegion) {
      return Invalid(
          fmt::format("file size {} with parity {} in a group of {} devices: needs a parity region of more "
                      "than {} bytes",
                      file_size(file_of(device)), parity(), group(g).size(), kMaxRegion));
    }
    parity_sizes_[region] = std::max(parity_sizes_[region], end);
    parity_blocks_[region] = std::max(parity_blocks_[region], unit_index * slices() + CeilDiv(length, block_size()));
    break;
  }
  return Status::Ok();
}

std::uint32_t Layout::largest_group() const {
  return static_cast<std::uint32_t>(std::ranges::max(parameters_.groups | std::views::transform(std::ranges::size)));
}

std::uint64_t Layout::data_blocks(std::uint32_t file) const {
  return CeilDiv(file_size(file), block_size());
}

std::uint64_t Layout::DataRowsEnd(std::uint32_t device) const {
  const std::uint64_t units = CeilDiv(device_size(device), unit());
  return units == 0 ? 0 : rotation(group_of(device)).RowOfDataUnit(index_in_group(device), units - 1) + 1;
}

std::uint64_t Layout::DataUnitLength(std::uint32_t device, std::uint64_t unit_row) const {
  if (IsParity(device, unit_row)) return 0;
  const std::uint64_t size = device_size(device);
  const std::uint64_t index = rotation(group_of(device)).DataUnitsBefore(index_in_group(device), unit_row);
  if (index > size / unit()) return 0;  // past the end; and index * unit() below cannot overflow
  return std::min(size - index * unit(), unit());
}

std::uint64_t Layout::UnitRowLength(std::uint32_t g, std::uint64_t unit_row) const {
  std::uint64_t longest = 0;
  for (std::uint32_t device : group(g)) {
    longest = std::max(longest, DataUnitLength(device, unit_row));
    if (longest == unit()) break;
  }
  return longest;
}

std::uint32_t Layout::RowLength(const RowId& row) const {
  return SliceLength(UnitRowLength(row.group, row.unit_row), row.slice, block_size());
}

BlockPlace Layout::DataBlock(std::uint32_t device, std::uint64_t unit_row, std::uint32_t slice) const {
  std::uint64_t unit_index = rotation(group_of(device)).DataUnitsBefore(index_in_group(device), unit_row);
  if (kind() == DatasetKind::kShared) unit_index = unit_index * devices() + device;
  return {.offset = unit_index * unit() + std::uint64_t{slice} * block_size(),
          .length = SliceLength(DataUnitLength(device, unit_row), slice, block_size()),
          .index = unit_index * slices() + slice};
}

// The table "Where parity lies" of docs/format.md §6, column x.
std::uint64_t Layout::ParityUnitIndex(std::uint32_t device, std::uint64_t unit_row) const {
  const std::uint32_t g = group_of(device);
  const std::uint32_t j = index_in_group(device);
  switch (parameters_.placement) {
    case ParityPlacement::kPooled:
      return ((unit_row - first_row_) * group_count() + g) * parity() + rotation(g).PositionOf(j, unit_row);
    case ParityPlacement::kStriped:
    case ParityPlacement::kDirectories:
      return rotation(g).ParityUnitsBefore(j, unit_row) * devices() + device;
    case ParityPlacement::kPerDevice:
      break;
  }
  return rotation(g).ParityUnitsBefore(j, unit_row);
}

BlockPlace Layout::ParityBlock(std::uint32_t device, std::uint64_t unit_row, std::uint32_t slice) const {
  const std::uint64_t unit_index = ParityUnitIndex(device, unit_row);
  return {.offset = unit_index * stride_ + std::uint64_t{slice} * block_size(),
          .length = RowLength({group_of(device), unit_row, slice}),
          .index = unit_index * slices() + slice};
}

Layout::DeviceRow Layout::LocateData(std::uint32_t file, std::uint64_t index) const {
  DeviceRow at;
  std::uint64_t unit_index = index / slices();
  at.device = file;
  if (kind() == DatasetKind::kShared) {
    at.device = static_cast<std::uint32_t>(unit_index % devices());
    unit_index /= devices();
  }
  at.row.group = group_of(at.device);
  at.row.unit_row = rotation(at.row.group).RowOfDataUnit(index_in_group(at.device), unit_index);
  at.row.slice = static_cast<std::uint32_t>(index % slices());
  return at;
}

// The inverse of ParityUnitIndex, placement by placement.
Layout::DeviceRow Layout::LocateParity(std::uint32_t region, std::uint64_t index) const {
  DeviceRow at;
  std::uint64_t unit_index = index / slices();
  at.row.slice = static_cast<std::uint32_t>(index % slices());
  if (parameters_.placement == ParityPlacement::kPooled) {
    const auto position = static_cast<std::uint32_t>(unit_index % parity());
    unit_index /= parity();
    at.row.group = static_cast<std::uint32_t>(unit_index % group_count());
    at.row.unit_row = first_row_ + unit_index / group_count();
    at.device = DeviceAt(at.row.group, position, at.row.unit_row);
    return at;
  }
  at.device = region;
  if (parameters_.placement != ParityPlacement::kPerDevice) {
    at.device = static_cast<std::uint32_t>(unit_index % devices());
    unit_index /= devices();
  }
  at.row.group = group_of(at.device);
  at.row.unit_row = rotation(at.row.group).RowOfParityUnit(index_in_group(at.device), unit_index);
  return at;
}

bool Layout::CanRebuild(const std::vector<bool>& gone,
                        const std::function<bool(std::uint32_t device, std::uint64_t unit_row)>& parity_lost) const {
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    for (std::uint64_t row = 0; row < unit_rows(g); ++row) {
      std::uint32_t data = 0, parity_units = 0;
      for (const std::uint32_t device : group(g)) {
        if (IsParity(device, row)) {
          parity_units += parity_lost(device, row) ? 1 : 0;
        } else {
          data += gone[file_of(device)] && DataUnitLength(device, row) > 0 ? 1 : 0;
        }
      }
      if (data > 0 && data + parity_units > parity()) return false;
    }
  }
  return true;
}

}  // namespace lzy
