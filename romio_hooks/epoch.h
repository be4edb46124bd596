#pragma once
// The epochs of one file: beginning them, and committing what was written in them (DESIGN §6). Set members begin and
// count here too; how their commits come together is in sets.h.

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engine/engine.h"
#include "open_file.h"

namespace lzy::hooks {

enum class Moment { kSync, kClose };

/// Before the first write after the open; by the lowest rank of the communicator alone. Retries while another process
/// holds the sidecar. Fills in file.epoch, and touches the whole file when this epoch must cover all of it.
Status BeginFirstEpoch(OpenFile& file);

/// Before any write, by any rank, once what it touches is recorded: begins a new epoch if the last was committed. Cheap
/// while an epoch is open.
void EnsureEpoch(OpenFile& file);

/// Before a write, at the first of an epoch: whether the file has become smaller than it was, which nobody told MPI
/// (PnetCDF uses truncate()). Touches all of it then.
void CompareSizes(OpenFile& file);

/// What one rank brings to a commit.
struct Part {
  enum class Presence : std::uint8_t { kThere, kMoved, kGone };

  bool data_safe = true;        ///< its own sync succeeded
  bool open_elsewhere = false;  ///< this process has the file open by another handle
  bool cover_all = false;       ///< something else than this program's writes changed the file, or may have
  Presence presence = Presence::kThere;
  std::string path;        ///< where the file is now
  std::uint64_t size = 0;  ///< the larger of its sizes at the beginning of the epoch and now
  Interval resized;        ///< what lies between these sizes: changed if anything was
  IntervalSet touched;

  bool Touched() const { return !touched.empty(); }
  void Put(ByteWriter& to) const;
  static Part Get(ByteReader& from);
};

/// Takes what this rank touched (nothing is touched then) and, where `look` is set, what became of the file on disk. At
/// most `intervals` of the former.
Part TakePart(OpenFile& file, Moment moment, bool data_safe, bool look, std::size_t intervals);
/// How many intervals each of `ranks` may bring, so that all of them together stay small.
std::size_t IntervalsEach(int ranks);

/// Undoes TakePart after a commit that did not happen: all of the file is touched.
void Untake(OpenFile& file);
/// After a commit that did, of generation `generation` and of a file of `size` bytes: the next write begins an epoch.
void EndEpoch(OpenFile& file, std::uint64_t generation, std::uint64_t size);
/// The epoch ended without a change: takes the intent back, unless somebody else may depend on it. By one rank alone.
void TakeIntentBack(OpenFile& file);

/// What the engine wants to know of the ranges.
Touched ToTouched(const IntervalSet& set, std::uint64_t size);

/// Makes written data durable by a descriptor of our own: PMPI_File_sync could call the program's error handler.
Status SyncData(const std::string& path);

/// Protect, waiting while another process holds the dataset's lock, up to option timeout. Collective.
DatasetReport ProtectPatiently(const Context& context, const DatasetRef& dataset, const ProtectRequest& request);

/// Commits a shared file; collective over its communicator, the same Status on all its ranks. The file is closed
/// already when `moment` is kClose. Says on stderr what the user should know.
Status CommitShared(OpenFile& file, Moment moment, bool data_safe);

}  // namespace lzy::hooks
