#pragma once
// Which blocks of a row are read and which are made from them: the plans of the row pipeline (rows/rows.h). Pure.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "erasure/codec.h"
#include "geometry/layout.h"

namespace lzy {

/// Which positions of a row are read and which are made.
struct RowPlan {
  std::vector<std::uint32_t> sources;  ///< positions, k of them (fewer never)
  std::vector<std::uint32_t> targets;  ///< positions
  Plan plan;
};

/// Block rows (group, unit_row, first_slice .. first_slice + slices - 1), all worked on with the same plan.
struct RowRun {
  std::uint32_t group = 0;
  std::uint64_t unit_row = 0;
  std::uint32_t first_slice = 0;
  std::uint32_t slices = 1;
  std::shared_ptr<const RowPlan> plan;
};

/// Makes and remembers the plans that a set of rows needs.
class PlanCache {
 public:
  explicit PlanCache(const Layout& layout) : layout_(layout) {}
  Result<std::shared_ptr<const RowPlan>> Encode(std::uint32_t group);
  /// `bad`: devices of the row that cannot be sources; `wanted`: devices to be made (a subset of bad). kBeyondRepair
  /// when more than m are bad.
  Result<std::shared_ptr<const RowPlan>> Rebuild(std::uint32_t group, std::uint64_t unit_row,
                                                 std::span<const std::uint32_t> bad,
                                                 std::span<const std::uint32_t> wanted);

 private:
  Result<const Codec*> CodecFor(std::uint32_t group);
  const Layout& layout_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Codec> codecs_;
  std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::shared_ptr<const RowPlan>> plans_;
};

/// Adds a run to those before; as one with the last where it goes on with that.
void AppendRun(std::vector<RowRun>& runs, RowRun run);

}  // namespace lzy
