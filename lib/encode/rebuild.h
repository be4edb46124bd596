#pragma once
// Lost blocks of what was committed, rebuilt row by row from the blocks that are left.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "encode/encode.h"

namespace lzy {

/// The part of the rows of a shared file that this rank works on: contiguous, so that each rank reads long stretches.
std::vector<RowRun> ShareOf(std::span<const RowRun> runs, const Communicator& comm);

/// Files and parity regions as they were committed, by file of the layout; those without a file are not open here.
struct RowStreams {
  std::vector<BlockStream> data, parity;

  const BlockStream& of(const Layout& layout, const RowBlock& block) const {
    return block.parity ? parity[layout.region_of(block.device)] : data[layout.file_of(block.device)];
  }
};
/// What this rank has open of `ensemble`, which must outlive it.
RowStreams StreamsOf(const Ensemble& ensemble);

/// Executes `runs` of rebuild plans over `streams`. Collective over `comm`; `owner`: by device, rank in it. `source` and
/// `target` as for ExecuteRows: to check what goes in, to take what comes out.
Status RebuildRows(const Context& context, const Layout& layout, const RowStreams& streams, Communicator& comm,
                   std::vector<int> owner, std::span<const RowRun> runs, const SourceFn& source, const TargetFn& target,
                   RowStats& stats);

/// By device of a set's ensemble: its owner's rank in `comm`, the communicator of the whole dataset or of the ensemble's owners.
std::vector<int> OwnersIn(const Ensemble& ensemble, const Communicator& comm);

/// Blocks that nobody wrote and that are not what was committed: indices, by rank of the member (0: the shared file).
using RottenBlocks = std::map<std::uint32_t, std::set<std::uint64_t>>;

struct Rot {
  RottenBlocks all;
  RottenBlocks lost;  ///< those that could not be rebuilt
};
/// What the jobs of all ranks found; the same everywhere. `jobs`: by rank of the member.
Result<Rot> GatherRot(Communicator& comm, const std::map<std::uint32_t, FileJob*>& jobs);

/// Rebuilds rotten blocks of `ensemble` from the parity that was committed, in memory: right contents, held to their leaves, go
/// into FileJob::rebuilt, from where encoding takes them. What was touched since that commit (`touched`, by rank of the member)
/// counts as lost. A block that cannot be had stays out. Collective over `comm`, the files' owners.
Status RebuildRot(const Context& context, const Ensemble& ensemble, Communicator& comm, std::vector<int> owner,
                  const RottenBlocks& rot, const std::map<std::uint32_t, IntervalSet>& touched,
                  const std::map<std::uint32_t, FileJob*>& jobs);

/// The blocks as something that was touched: to encode the rows that they are in.
IntervalSet TouchedBlocks(const std::set<std::uint64_t>& blocks, std::uint32_t block_size);

/// Records in `jobs` (by file of the layout; null: of other ranks) that the rows of `lost` blocks have no parity: it was made
/// from contents that are not what their leaves say, so it can never give the right ones back (docs/format.md "Rows without
/// parity"). Keys of `lost` are files of the layout.
void ForsakeParity(const Layout& layout, const RottenBlocks& lost, const std::vector<FileJob*>& jobs);

}  // namespace lzy
