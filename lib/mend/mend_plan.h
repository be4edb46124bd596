#pragma once
// What a repair or restore is going to do, before anything is written. Pure: it is decided from the view and the
// findings alone, which are the same on all ranks, so all ranks have the same plan without asking each other.
//
// A row is the unit of loss. If more of its blocks are lost than it has parity, it is beyond repair. Without salvage
// nothing at all is written then, since a half-mended dataset could hide what was lost. Mender (mender.h) carries the
// plan out; lzy-info and dry runs only look at it.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "mend/mend.h"
#include "rows/rows.h"

namespace lzy {

/// What happens to one file and its sidecar. Byte ranges are those of the data file.
struct FilePlan {
  bool rebuild_data = false;     ///< all of it, aside, then renamed
  bool rebuild_sidecar = false;  ///< likewise
  bool data_in_place = false;    ///< some blocks
  bool parity_in_place = false;
  bool heal_metadata = false;
  bool rehash_parity = false;        ///< some of its hashes are lost: they are computed again, and held to the root
  bool cut_tail = false;             ///< bytes behind the committed end
  bool edits_left = false;           ///< stale or at-risk data stay as they are: the file must not look as committed
  bool finish_repair = false;        ///< an earlier repair broke off: its note and the mtime are still to be put right
  std::vector<ByteRange> changed;    ///< of the data, in place
  std::vector<ByteRange> unmended;   ///< of the data, beyond repair
  std::set<std::string> parts_left;  ///< parts of the parity that are left as they are
  std::map<std::string, std::vector<ByteRange>> unmended_parity;  ///< by file that it is in
  /// The rebuilt file has gaps. A repair's intent in its sidecar tells everybody so; without one, nothing can.
  bool leaves_gaps(const FileView& file) const { return rebuild_data && !unmended.empty() && file.sidecar != nullptr; }
  bool any() const {
    return rebuild_data || rebuild_sidecar || data_in_place || parity_in_place || heal_metadata || cut_tail || finish_repair;
  }
};

/// One group of a set, or the shared file: its files, by their number in the layout, and the rows to be rebuilt.
struct EnsemblePlan {
  std::vector<FilePlan> files;
  std::vector<RowRun> runs;
  std::vector<RowBlock> from_replica;  ///< blocks of data that are copied from there
};

struct MendPlan {
  std::vector<EnsemblePlan> ensembles;
  bool beyond = false;  ///< rows have lost more than parity covers: nothing may be written, unless salvage is asked for
};

/// Plans the mending of all that the findings name. Local, and the same on all ranks. An error is a plan that
/// contradicts the layout, never a loss: see MendPlan::beyond.
Result<MendPlan> PlanMending(const DatasetView& view, const Findings& findings, const MendRequest& request);

/// Bytes of data that the plan takes from the replica.
std::uint64_t BytesFromReplica(const MendPlan& plan);

/// Marks what `plan`, carried out, has mended, and that the file is there again.
void MarkRepaired(const DatasetView& view, const MendPlan& plan, const MendRequest& request, DatasetReport& report);

}  // namespace lzy
