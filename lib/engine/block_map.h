#pragma once
// Where damage lies in the grid of devices and block rows (geometry/layout.h), for pictures. From metadata alone.

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

/// The parts of a dataset's grid in which damage lies. A block row has the number unit_row * slices + slice.
struct BlockMap {
  /// A group with damage. Device j of it holds parity number q in unit row t if j = (t + q) mod n (geometry/rotation.h).
  struct Group {
    std::uint32_t number = 0;
    GroupMap map;
    std::uint64_t rows = 0;  ///< block rows
  };
  /// The blocks of one device in block rows [first, last] that hold data, or those that hold parity.
  struct Cells {
    std::size_t damage = 0;      ///< index in what was given
    std::size_t group = 0;       ///< index in `groups`
    std::uint32_t position = 0;  ///< the j of the device
    bool of_parity = false;
    std::uint64_t first = 0, last = 0;
  };
  std::string uuid;  ///< of the encoding that the sidecar describes
  std::uint64_t generation = 0;
  std::uint32_t parity = 0;
  std::uint32_t block_size = 0;
  std::uint64_t unit = 0;
  std::vector<Group> groups = {};
  std::vector<Cells> cells = {};  ///< in the order of damage
  /// Damage that no block of data or parity has: metadata, bytes behind the committed end, or what does not fit the
  /// sidecar's geometry.
  std::vector<std::size_t> elsewhere = {};
};

/// Opens the sidecars of a dataset, and places `damage` of a report on it in its grid. Collective, as Info is.
Result<BlockMap> MapBlocks(const Context& context, const DatasetRef& dataset, const std::vector<Damage>& damage);

/// The devices of group `g` of an ensemble. Those of a set are members; of a shared file, stripe positions, with their
/// directories if it has any.
GroupMap MapOfGroup(DatasetKind kind, const Ensemble& ensemble, std::uint32_t g);

}  // namespace lzy
