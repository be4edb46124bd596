#pragma once
// Rebuilding of lost blocks, row by row, from the blocks that are left and the parity that was committed.
//
// repair/ uses RebuildRows for repairs and restores. A commit uses the rest for blocks that rotted since the last commit
// (docs/design/commit.md §5, "Rot that a commit finds"): GatherRot, RebuildRot, then it encodes the rows again, and calls
// ForsakeParity for blocks that stay lost. RebuildRot writes no files: its results go into FileJob::rebuilt.

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "encode/encode.h"

namespace lzy {

/// This rank's part of the rows of a shared file. Parts are contiguous, so each rank reads long ranges. They are
/// disjoint, and their sizes differ by one row at most. `runs` must be the same on all ranks. Local.
std::vector<RowRun> ShareOf(std::span<const RowRun> runs, const Communicator& comm);

/// Files and parity regions as they were committed: data by file of the layout, parity by region. A stream without a
/// file is not open on this rank.
struct RowStreams {
  std::vector<BlockStream> data, parity;

  /// The stream that a block belongs to.
  const BlockStream& of(const Layout& layout, const RowBlock& block) const {
    return (block.parity ? parity : data)[layout.HolderOf(block.parity, block.device)];
  }
};
/// The streams of the files that this rank has open. `ensemble` must outlive them.
RowStreams StreamsOf(const Ensemble& ensemble);

/// Executes `runs` of rebuild plans (PlanCache::Rebuild) over `streams`. `owner`: by device, the rank in `comm` that reads
/// and writes it. `source` checks each source block, `target` takes the rebuilt blocks (as for ExecuteRows). Costs are
/// added to `stats`. Collective over `comm`; the same Status on all ranks.
Status RebuildRows(const Context& context, const Layout& layout, const RowStreams& streams, Communicator& comm,
                   std::vector<int> owner, std::span<const RowRun> runs, const SourceFn& source, const TargetFn& target,
                   RowStats& stats);

/// RebuildRows for callers that write nothing. Compares sources and rebuilt blocks with their leaves; returns kBusy if one
/// differs, because then somebody writes to `path`. Calls `take` for each rebuilt block on its owner, one at a time.
Status RebuildInMemory(const Context& context, const Layout& layout, const RowStreams& streams, Communicator& comm,
                       std::vector<int> owner, std::span<const RowRun> runs, const std::string& path,
                       const std::function<void(const RowBlock& block, ByteSpan bytes)>& take);

/// The rank of each device's owner in `comm`, for the ensemble of a set. `comm` is the communicator of the whole dataset,
/// or that of the ensemble's owners (group_comm).
std::vector<int> OwnersIn(const Ensemble& ensemble, const Communicator& comm);

/// Untouched blocks that differ from their leaves: block numbers in the file, by rank of the member (0 for a shared file).
using RottenBlocks = std::map<std::uint32_t, std::set<std::uint64_t>>;

struct Rot {
  RottenBlocks all;
  RottenBlocks lost;  ///< those that could not be rebuilt
};
/// Collects the findings of all jobs on all ranks; the same on all ranks. `jobs`: those of this rank, by rank of the
/// member. Collective.
Result<Rot> GatherRot(Communicator& comm, const std::map<std::uint32_t, FileJob*>& jobs);

/// Rebuilds rotten blocks of `ensemble`, in memory, from the committed parity. Contents that have their committed leaf go
/// into FileJob::rebuilt, where encoding finds them. Blocks that were touched since that commit (`touched`, by rank of the
/// member) count as lost. A block that cannot be rebuilt is left out; that is no failure. Uses up to half of option
/// `memory`. The old parity must still be in place. Collective over `comm`, the owners of the files.
Status RebuildRot(const Context& context, const Ensemble& ensemble, Communicator& comm, const std::vector<int>& owner,
                  const RottenBlocks& rot, const std::map<std::uint32_t, IntervalSet>& touched,
                  const std::map<std::uint32_t, FileJob*>& jobs);

/// The byte ranges of these blocks, for RowsToEncode.
IntervalSet TouchedBlocks(const std::set<std::uint64_t>& blocks, std::uint32_t block_size);

/// Records in `jobs` that the rows of `lost` blocks have no parity (docs/format.md §3, "Rows without parity"). Their parity
/// was made from contents that differ from the leaf, so it can never restore the right ones. `jobs`: by file of the layout;
/// null for files of other ranks. Keys of `lost` are files of the layout, too. Local.
void ForsakeParity(const Layout& layout, const RottenBlocks& lost, const std::vector<FileJob*>& jobs);

}  // namespace lzy
