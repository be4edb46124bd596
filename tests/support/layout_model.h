#pragma once
// Layouts for tests: short ways to make them, random ones, and a model that deals units and rows in the plainest way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "geometry/layout.h"
#include "status_matchers.h"

namespace lzy::testing {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

inline std::vector<std::vector<std::uint32_t>> OneGroup(std::uint32_t n) {
  std::vector<std::uint32_t> group(n);
  std::iota(group.begin(), group.end(), 0u);
  return {group};
}

inline GeometryParameters Shared(std::uint32_t n, std::uint32_t m, std::uint32_t block_size, std::uint64_t unit,
                          ParityPlacement placement = ParityPlacement::kPooled) {
  return {DatasetKind::kShared, placement, block_size, unit, m, OneGroup(n)};
}

inline GeometryParameters Set(std::uint32_t n, std::uint32_t m, std::uint32_t block_size, std::uint64_t unit) {
  return {DatasetKind::kSet, ParityPlacement::kPerDevice, block_size, unit, m, OneGroup(n)};
}

inline Layout Make(const GeometryParameters& parameters, const std::vector<std::uint64_t>& sizes) {
  Result<Layout> layout = Layout::Create(parameters, sizes);
  EXPECT_OK(layout);
  return std::move(layout).value();
}

inline std::string Describe(const GeometryParameters& p, const std::vector<std::uint64_t>& sizes) {
  return ::testing::PrintToString(
             std::make_tuple(static_cast<int>(p.kind), static_cast<int>(p.placement), p.block_size, p.unit, p.parity)) +
         " (kind, placement, block, unit, parity) groups " + ::testing::PrintToString(p.groups) + " sizes " +
         ::testing::PrintToString(sizes);
}

// Devices dealt to groups at random, every group larger than m.
inline std::vector<std::vector<std::uint32_t>> RandomGroups(std::mt19937_64& random, std::uint32_t m) {
  std::vector<std::vector<std::uint32_t>> groups(1 + random() % 3);
  std::uint32_t devices = 0;
  for (auto& group : groups) {
    group.resize(m + 1 + random() % 5);
    devices += static_cast<std::uint32_t>(group.size());
  }
  std::vector<std::uint32_t> order(devices);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  auto next = order.begin();
  for (auto& group : groups) {
    for (std::uint32_t& device : group) device = *next++;
  }
  return groups;
}

inline GeometryParameters RandomParameters(std::mt19937_64& random, DatasetKind kind) {
  GeometryParameters p;
  p.kind = kind;
  p.placement =
      kind == DatasetKind::kSet ? ParityPlacement::kPerDevice : static_cast<ParityPlacement>(1 + random() % 4);
  p.block_size = 512;
  p.unit = 512u << random() % 3;
  p.parity = static_cast<std::uint32_t>(random() % 4);
  p.groups = RandomGroups(random, p.parity);
  return p;
}

// Sizes that meet the edges: empty, shorter than a block, exact multiples, one byte off them.
inline std::uint64_t RandomSize(std::mt19937_64& random, std::uint64_t unit, std::uint64_t most_units) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return random() % 600;
    case 2:
      return random() % most_units * unit;
    case 3:
      return random() % most_units * unit + 1;
    case 4:
      return (1 + random() % most_units) * unit - 1;
    default:
      return random() % (most_units * unit);
  }
}

// The geometry again, in the plainest way: units are cut from the files and dealt to devices one after the other, rows
// are filled one after the other until nothing is left. Shares no arithmetic with the implementation.
struct ModelUnit {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
struct ModelRow {
  std::vector<std::uint32_t> parity;        // devices, in order of position
  std::map<std::uint32_t, ModelUnit> data;  // by device; devices whose data have ended are missing
  std::vector<std::uint32_t> ended;         // those
  std::uint64_t length = 0;
};
struct ModelParityUnit {
  std::uint32_t device = 0;
  std::uint32_t group = 0;
  std::uint64_t row = 0;
  std::uint32_t region = 0;
  std::uint64_t index = 0;  // x
  std::uint64_t length = 0;
};
struct Model {
  std::vector<std::vector<ModelRow>> rows;  // by group
  std::vector<ModelParityUnit> parity;
  std::vector<std::uint64_t> device_sizes;
  std::uint64_t first_row = 0;
  std::uint64_t stride = 0;
};

inline std::vector<std::vector<ModelUnit>> CutIntoUnits(const GeometryParameters& p,
                                                        const std::vector<std::uint64_t>& sizes,
                                                        std::size_t devices) {
  std::vector<std::vector<ModelUnit>> units(devices);
  for (std::size_t file = 0; file < sizes.size(); ++file) {
    std::size_t device = file;
    for (std::uint64_t offset = 0; offset < sizes[file]; offset += p.unit) {
      units[device].push_back({offset, std::min(p.unit, sizes[file] - offset)});
      if (p.kind == DatasetKind::kShared) device = (device + 1) % devices;
    }
  }
  return units;
}

inline std::vector<ModelRow> DealRows(const GeometryParameters& p, const std::vector<std::uint32_t>& group,
                               const std::vector<std::vector<ModelUnit>>& units) {
  std::vector<ModelRow> rows;
  std::map<std::uint32_t, std::size_t> used;
  const auto all_used = [&] {
    return std::all_of(group.begin(), group.end(), [&](std::uint32_t d) { return used[d] >= units[d].size(); });
  };
  for (std::size_t t = 0; !all_used(); ++t) {
    ModelRow row;
    for (std::uint32_t q = 0; q < p.parity; ++q) row.parity.push_back(group[(t + q) % group.size()]);
    for (std::uint32_t d : group) {
      if (std::find(row.parity.begin(), row.parity.end(), d) != row.parity.end()) continue;
      if (used[d] >= units[d].size()) {
        row.ended.push_back(d);
        continue;
      }
      row.data[d] = units[d][used[d]++];
      row.length = std::max(row.length, row.data[d].length);
    }
    rows.push_back(row);
  }
  return rows;
}

inline Model BuildModel(const GeometryParameters& p, const std::vector<std::uint64_t>& sizes) {
  Model model;
  std::size_t devices = 0;
  for (const auto& group : p.groups) devices += group.size();
  const auto units = CutIntoUnits(p, sizes, devices);
  for (const auto& of_device : units) {
    model.device_sizes.push_back(0);
    for (const ModelUnit& unit : of_device) model.device_sizes.back() += unit.length;
  }
  for (const auto& group : p.groups) model.rows.push_back(DealRows(p, group, units));

  const bool pooled = p.placement == ParityPlacement::kPooled;
  model.stride = pooled ? std::min(p.unit, sizes[0]) : p.unit;
  std::vector<std::uint64_t> held(devices, 0);
  bool any = false;
  std::size_t most_rows = 0;
  for (const auto& rows : model.rows) most_rows = std::max(most_rows, rows.size());
  for (std::size_t t = 0; t < most_rows; ++t) {
    for (std::uint32_t g = 0; g < p.groups.size(); ++g) {
      if (t >= model.rows[g].size()) continue;
      const ModelRow& row = model.rows[g][t];
      if (pooled && !any && row.length > 0) model.first_row = t;
      any = any || row.length > 0;
      for (std::uint32_t q = 0; q < p.parity; ++q) {
        ModelParityUnit unit{row.parity[q], g, t, 0, held[row.parity[q]]++, row.length};
        if (p.placement == ParityPlacement::kPerDevice) unit.region = unit.device;
        const bool dealt = p.placement == ParityPlacement::kStriped || p.placement == ParityPlacement::kDirectories;
        if (dealt) unit.index = unit.index * devices + unit.device;
        if (pooled) unit.index = ((t - model.first_row) * p.groups.size() + g) * p.parity + q;
        if (row.length > 0) model.parity.push_back(unit);
      }
    }
  }
  return model;
}

}  // namespace lzy::testing
