#pragma once
// The epochs of one file, as one rank sees them: beginning and ending them, and what it brings to a commit (docs/design.md "Epochs").
// How commits are made together is in commit.h, and for file sets in sets.h.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engine/engine.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

enum class Moment { kSync, kClose };

/// Before the first write after the open; by the lowest rank of the communicator alone. Waits up to option timeout
/// while another process holds the sidecar. Fills in file.epoch, and what decides whether this epoch must cover all of
/// it.
Status BeginFirstEpoch(OpenFile& file);

/// Before any write, by any rank, once what it touches is recorded: begins a new epoch if the last was committed. Cheap
/// while an epoch is open.
void EnsureEpoch(OpenFile& file);

/// Before a write, at the first of an epoch: whether the file has become smaller than it was, which nobody told MPI
/// (PnetCDF uses truncate()). Touches all of it then.
void CompareSizes(OpenFile& file);

/// What one rank brings to a commit. The default is that of a rank which has nothing to say.
struct Part {
  enum class Presence : std::uint8_t { kThere, kMoved, kGone };

  bool data_safe = true;        ///< its own sync succeeded
  bool open_elsewhere = false;  ///< this process has the file open by another handle
  bool cover_all = false;       ///< something else than this program's writes changed the file, or may have
  bool met_commit = false;      ///< by another program
  bool capture_counts = false;  ///< `capture` knows all that this rank wrote, and nobody else writes the file
  Presence presence = Presence::kThere;
  std::string path;        ///< where the file is now
  std::uint64_t size = 0;  ///< the larger of its sizes at the beginning of the epoch and now
  Interval resized;        ///< what lies between these sizes: changed if anything was
  IntervalSet touched;
  /// As in EpochStart, of the epoch that this process began last; both as by MarkOf.
  std::optional<Intent> intent, before;
  Intent process;  ///< says of this process what its intents do
  std::shared_ptr<Capture> capture;  ///< not for other ranks

  bool Touched() const { return !touched.empty(); }
  LZY_FIELDS(data_safe, open_elsewhere, cover_all, met_commit, capture_counts, presence, path, size, resized, touched, intent, before,
             process)
};

/// What of an intent other ranks are told: all that SameWriter compares. Its ranges are many.
Intent MarkOf(Intent intent);

/// Takes what this rank touched (nothing is touched then) and, where `look` is set, what became of the file on disk. At
/// most `intervals` of the former.
Part TakePart(OpenFile& file, Moment moment, bool data_safe, bool look, std::size_t intervals);
/// All ranks' intervals together: a megabyte of them on every rank.
inline constexpr std::size_t kMostIntervals = 65536;
/// How many intervals each of `ranks` may bring, so that all of them together stay small.
std::size_t IntervalsEach(int ranks);

/// The intents in all ranks' parts: those that this program set.
std::vector<Intent> OwnIntents(const std::vector<Part>& parts);
/// When a file has just been opened together: only who they are. Collective over the file's communicator.
Status MeetProcesses(OpenFile& file);
/// Remembers who has the file open together, for the intents to come.
void MeetFamily(OpenFile& file, const std::vector<Part>& parts);
/// Whether somebody who is not among `own` writes the file too, as far as `part` tells.
bool MetOthers(const Part& part, const std::vector<Intent>& own);

/// Undoes TakePart after a commit that did not happen, or seems not to have: all of the file is touched, and the next
/// write makes sure of an intent.
void Untake(OpenFile& file);
/// After a commit that did, of generation `generation` and of a file of `size` bytes: the next write begins an epoch.
/// `met_others`: all commits to come cover all of the file.
void EndEpoch(OpenFile& file, std::uint64_t generation, std::uint64_t size, bool met_others);
/// The epoch ended without a change by this program: takes the intent back, if it is the one that is set. By one rank
/// alone.
void TakeIntentBack(OpenFile& file);

/// Makes written data durable by a descriptor of our own: PMPI_File_sync could call the program's error handler.
Status SyncData(const std::string& path);

}  // namespace lzy::hooks
