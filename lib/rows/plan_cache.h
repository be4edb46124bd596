#pragma once
// The plans of the row pipeline (rows/rows.h): which blocks of a row are read, and which are made from them.
//
// Making a plan inverts a matrix, which costs O(k^3) (erasure/codec.h). Rows with the same losses share one. encode/ and
// repair/ ask a PlanCache for the plans of their rows, and pass runs of rows to the pipeline. Pure: no I/O, no MPI. Positions
// are those of erasure/codec.h: [0, m) are parity, [m, n) are data.

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

/// Positions of a row that are read, and positions that are made. Immutable; shared by all runs that use it.
struct RowPlan {
  std::vector<std::uint32_t> sources;  ///< positions; always k
  std::vector<std::uint32_t> targets;  ///< positions, ascending; none if m = 0 or if nothing is wanted
  Plan plan;
};

/// The block rows (group, unit_row, first_slice .. first_slice + slices - 1), all worked on with the same plan. On
/// each device, their blocks lie back to back.
struct RowRun {
  std::uint32_t group = 0;
  std::uint64_t unit_row = 0;
  std::uint32_t first_slice = 0;
  std::uint32_t slices = 1;
  std::shared_ptr<const RowPlan> plan;
};

/// Block rows of all `runs`.
std::uint64_t CountRows(std::span<const RowRun> runs);

/// Makes and keeps the plans for a set of rows. Not thread-safe. `layout` must outlive it; the plans may outlive both.
class PlanCache {
 public:
  explicit PlanCache(const Layout& layout) : layout_(layout) {}
  /// The plan that makes all parity of a row from its data. It is the same for all rows of a group.
  Result<std::shared_ptr<const RowPlan>> Encode(std::uint32_t group);
  /// A plan for one unit row. `bad`: devices whose blocks cannot be sources. `wanted`: devices whose blocks are made
  /// (a subset of `bad`). kBeyondRepair if more than m are bad. All ranks get the same plan from the same arguments.
  Result<std::shared_ptr<const RowPlan>> Rebuild(std::uint32_t group, std::uint64_t unit_row,
                                                 std::span<const std::uint32_t> bad,
                                                 std::span<const std::uint32_t> wanted);

 private:
  /// The codec for the size of a group. Groups of the same size share one.
  Result<const Codec*> CodecFor(std::uint32_t group);
  const Layout& layout_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Codec> codecs_;  // by n and m
  // By group, and sources and targets with UINT32_MAX between them; the empty key is the plan for encoding.
  std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::shared_ptr<const RowPlan>> plans_;
};

/// Adds a run to those before. If it continues the last one (same plan, next slice), it becomes part of that.
void AppendRun(std::vector<RowRun>& runs, RowRun run);

}  // namespace lzy
