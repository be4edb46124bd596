#pragma once
// Places damage in the grid of devices and block rows (geometry/layout.h), for pictures. Uses metadata only.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataset/view.h"
#include "geometry/layout.h"
#include "names/resolve.h"
#include "request/context.h"
#include "request/report.h"

namespace lzy {

/// The damaged parts of a dataset's grid. Block row = unit_row * slices + slice.
struct BlockMap {
  /// A group with damage. Device j of it has parity number q in unit row t if j = (t + q) mod n (geometry/rotation.h).
  struct Group {
    std::uint32_t number = 0;
    GroupMap map;
    std::uint64_t rows = 0;  ///< number of block rows
  };
  /// The data blocks, or the parity blocks, of one device in block rows [first, last].
  struct Cells {
    std::size_t damage = 0;      ///< index in the `damage` that was given
    std::size_t group = 0;       ///< index in `groups`
    std::uint32_t position = 0;  ///< number j of the device in its group
    bool of_parity = false;
    std::uint64_t first = 0, last = 0;
  };
  std::string uuid;  ///< of the dataset, as the sidecar records it
  std::uint64_t generation = 0;
  std::uint32_t parity = 0;
  std::uint32_t block_size = 0;
  std::uint64_t unit = 0;
  std::vector<Group> groups = {};
  std::vector<Cells> cells = {};  ///< in the order of damage
  /// Indices of damage outside the grid: metadata, bytes behind the committed end, or ranges that do not fit the geometry.
  std::vector<std::size_t> elsewhere = {};
};

/// Opens the sidecars of a dataset, and places the `damage` of a report about it in the grid. Collective.
Result<BlockMap> MapBlocks(const Context& context, const DatasetRef& dataset, const std::vector<Damage>& damage);

/// The devices of group `g` of an ensemble: members of a set, or stripe positions of a shared file with their device
/// directories.
GroupMap MapOfGroup(DatasetKind kind, const Ensemble& ensemble, std::uint32_t g);

}  // namespace lzy
