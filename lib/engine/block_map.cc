#include "engine/block_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "dataset/by_servers.h"
#include "judge/examine.h"

namespace lzy {
namespace {

/// Consecutive blocks of one file or parity region.
struct Blocks {
  bool of_parity = false;
  std::uint32_t holder = 0;  ///< number of the file or region
  std::uint64_t first = 0, last = 0;
};

/// The number of parity units of a pooled region to examine for one damage. In reports, a range has one unit, because the
/// next one is on another device. Only a forged catalogue can have more.
constexpr std::uint64_t kMostSteps = 1u << 16;

class Mapper {
 public:
  Mapper(const DatasetView& view, BlockMap& out) : view_(view), out_(out) {}

  void Add(std::size_t index, const Damage& damage) {
    const std::size_t before = out_.cells.size();
    if (damage.part != DamagePart::kMetadata && damage.length > 0) Place(index, damage);
    if (out_.cells.size() == before) out_.elsewhere.push_back(index);
  }

 private:
  void Place(std::size_t index, const Damage& damage) {
    std::uint32_t number = 0;
    for (const Ensemble& ensemble : view_.ensembles) {
      for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
        // In a set, a device is a member.
        if (view_.ref.kind == DatasetKind::kSet && ensemble.files[f].rank != damage.device) continue;
        const auto blocks = damage.part == DamagePart::kData ? DataBlocks(*ensemble.layout, f, damage) : ParityBlocks(ensemble, f, damage);
        if (blocks) PlaceBlocks(index, ensemble, number, *blocks);
      }
      number += ensemble.layout->group_count();
    }
  }

  static std::optional<Blocks> DataBlocks(const Layout& layout, std::uint32_t f, const Damage& damage) {
    const std::uint64_t size = layout.file_size(f);
    if (damage.offset >= size) return std::nullopt;
    const std::uint64_t last = damage.offset + std::min(damage.length, size - damage.offset) - 1;
    return Blocks{false, f, damage.offset / layout.block_size(), last / layout.block_size()};
  }

  static std::optional<Blocks> ParityBlocks(const Ensemble& ensemble, std::uint32_t f, const Damage& damage) {
    const Layout& layout = *ensemble.layout;
    const std::uint32_t region = layout.region_of(f);
    // The index of the parity block with the byte `offset` of the damaged file.
    const auto index = [&](std::uint64_t offset) -> std::optional<std::uint64_t> {
      const auto in_region = ParityOffset(ensemble.files[f], layout.unit(), damage.device, offset);
      if (!in_region || *in_region >= layout.parity_size(region)) return std::nullopt;
      return *in_region / layout.parity_stride() * layout.slices() + *in_region % layout.parity_stride() / layout.block_size();
    };
    if (layout.parity() == 0 || damage.offset + damage.length < damage.offset) return std::nullopt;
    const auto first = index(damage.offset), last = index(damage.offset + damage.length - 1);
    if (!first || !last || *last < *first) return std::nullopt;
    return Blocks{true, region, *first, *last};
  }

  // The blocks of one device are in the order of its rows, so the first and the last block give the range of rows.
  void PlaceBlocks(std::size_t index, const Ensemble& ensemble, std::uint32_t number, const Blocks& blocks) {
    const Layout& layout = *ensemble.layout;
    const std::uint64_t slices = layout.slices();
    const std::uint64_t first_unit = blocks.first / slices, last_unit = blocks.last / slices;
    // The distance from one unit of a device to its next one in the file or region. A pooled region has no fixed distance,
    // so each unit is examined.
    const bool pooled = blocks.of_parity && layout.parameters().placement == ParityPlacement::kPooled;
    const std::uint64_t turn = layout.kind() == DatasetKind::kShared && !pooled ? layout.devices() : 1;
    // A range of data may include all devices. A range of parity is on the device that the report names.
    const std::uint64_t steps = pooled ? std::min(kMostSteps, last_unit - first_unit + 1) : blocks.of_parity ? 1 : turn;
    for (std::uint64_t unit = first_unit; unit <= last_unit && unit - first_unit < steps; ++unit) {
      const std::uint64_t end = pooled ? unit : unit + (last_unit - unit) / turn * turn;
      const auto from = layout.Locate(blocks.of_parity, blocks.holder, std::max(blocks.first, unit * slices));
      const auto to = layout.Locate(blocks.of_parity, blocks.holder, std::min(blocks.last, end * slices + slices - 1));
      if (from.row.unit_row >= layout.unit_rows(from.row.group)) continue;  // padding of a region
      const std::uint64_t rows = layout.unit_rows(from.row.group) * slices;
      out_.cells.push_back({.damage = index,
                            .group = GroupIndex(ensemble, number + from.row.group, from.row.group),
                            .position = layout.index_in_group(from.device),
                            .of_parity = blocks.of_parity,
                            .first = from.row.unit_row * slices + from.row.slice,
                            .last = std::min(rows - 1, to.row.unit_row * slices + to.row.slice)});
    }
  }

  std::size_t GroupIndex(const Ensemble& ensemble, std::uint32_t number, std::uint32_t g) {
    const auto [at, fresh] = groups_.emplace(number, out_.groups.size());
    if (fresh) {
      out_.groups.push_back({.number = number,
                             .map = MapOfGroup(view_.ref.kind, ensemble, g),
                             .rows = ensemble.layout->unit_rows(g) * ensemble.layout->slices()});
    }
    return at->second;
  }

  const DatasetView& view_;
  BlockMap& out_;
  std::map<std::uint32_t, std::size_t> groups_;
};

}  // namespace

GroupMap MapOfGroup(DatasetKind kind, const Ensemble& ensemble, std::uint32_t g) {
  constexpr std::size_t kMostNames = 8;  // a file may be on very many servers
  GroupMap map;
  const ServerOf server_of = ServersOf(*ensemble.layout, ensemble.files);
  const bool told = std::ranges::any_of(ensemble.files, [](const FileView& file) { return file.stripes.data.has_value(); });
  for (const std::uint32_t device : ensemble.layout->group(g)) {
    if (kind == DatasetKind::kSet) {
      map.devices.push_back({ensemble.files[device].rank, ensemble.files[device].path, ensemble.records[device].domain});
    } else {
      const auto& parts = ensemble.files[0].part_paths;
      map.devices.push_back({device, parts.empty() ? "" : DirectoryOf(parts[device]), ""});
    }
    if (told) map.devices.back().server = fmt::format("{}", fmt::join(ServersOfDevice(*ensemble.layout, device, server_of, kMostNames), ","));
  }
  return map;
}

Result<BlockMap> MapBlocks(const Context& context, const DatasetRef& dataset, const std::vector<Damage>& damage) {
  LZY_ASSIGN_OR_RETURN(const DatasetView view, OpenDataset(context, dataset, {}));
  if (!view.committed) {
    return view.unusable.ok() ? Status(Code::kUnprotected, "there is no usable sidecar") : view.unusable;
  }
  DatasetReport report(dataset.path, dataset.kind);
  DescribeMetadata(view, report);
  BlockMap map{.uuid = report.uuid,
               .generation = report.generation,
               .parity = report.parity,
               .block_size = report.block_size,
               .unit = report.unit};
  Mapper mapper(view, map);
  for (std::size_t i = 0; i < damage.size(); ++i) mapper.Add(i, damage[i]);
  return map;
}

}  // namespace lzy
