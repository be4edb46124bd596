#pragma once
// The epochs of one file, as one rank sees them: beginning and ending them, and what it brings to a commit
// (docs/design/commit.md "Epochs"). How ranks commit together is in commit.h, and for file sets in sets/sets.h.
//
// An epoch begins before its first write: the engine makes an intent durable (BeginEpoch). It ends with a commit
// (EndEpoch), or without one if nothing was written (TakeIntentBack). Invariant: while a write is under way, an intent
// that covers the file is durable, set by this process or by one of its family. There are two exceptions: the file was
// removed, or the intent could not be set. A message reports the latter.
//
// Everything here is local, except MeetProcesses. Locks: epoch_mutex before mutex (files/open_file.h). A second thread
// that writes meanwhile waits in EnsureEpoch until the intent is durable.

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

/// Before the first write after the open; by rank 0 of the communicator alone, while the others wait for its answer.
/// Waits up to option timeout while another process holds the sidecar. Fills in file.epoch, and what decides whether
/// this epoch must cover the whole file. With verify-reads, the epoch may be put off until the first write.
Status BeginFirstEpoch(OpenFile& file);

/// Before any write, by any rank, after what it touches was recorded: begins a new epoch if the last was committed.
/// Costs one look at an atomic while an epoch is open. If the intent cannot be set, the write goes on: a message says
/// so, and the next commit covers the whole file.
void EnsureEpoch(OpenFile& file);

/// Before the first write of an epoch: if the file has become smaller than it was without MPI (PnetCDF calls
/// truncate()), all of it counts as touched. Does nothing before the other writes.
void CompareSizes(OpenFile& file);

/// What one rank brings to a commit. The default is that of a rank that has nothing to say. Ranks exchange their parts,
/// so every rank derives the same commit from them.
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

/// What other ranks are told of an intent: all that SameWriter compares. The ranges are left out, as there may be many.
Intent MarkOf(Intent intent);

/// Takes what this rank touched, as at most `intervals` intervals; then nothing counts as touched any more. If `look`
/// is set, also looks what became of the file on disk. At close, counts the handle as closed.
Part TakePart(OpenFile& file, Moment moment, bool data_safe, bool look, std::size_t intervals);
/// The most intervals of all ranks together. Every rank holds them during a commit: one megabyte.
inline constexpr std::size_t kMostIntervals = 65536;
/// How many intervals each of `ranks` may bring, so that all of them together stay small.
std::size_t IntervalsEach(int ranks);

/// Says in `request`, which was made of parts, what the engine must know of the epoch: which commit it departs from (on the
/// rank that leads the file), and, in programs with threads, how to ask whether they have written since. `file` must
/// outlive the request.
void TellOfEpoch(OpenFile& file, ProtectRequest& request);

/// The intents in all ranks' parts: those that this program set.
std::vector<Intent> OwnIntents(const std::vector<Part>& parts);
/// After an open together: the ranks learn which processes they are, for EnsureEpoch. Collective over the file's
/// communicator.
Status MeetProcesses(OpenFile& file);
/// Remembers who has the file open together, for the intents to come.
void MeetFamily(OpenFile& file, const std::vector<Part>& parts);
/// Whether a process that is not among `own` writes the file too, as far as `part` tells.
bool MetOthers(const Part& part, const std::vector<Intent>& own);

/// After a commit that failed, perhaps late: the whole file counts as touched, and the next write sets an intent again.
void Untake(OpenFile& file);
/// After a commit of generation `generation` and of a file of `size` bytes: the next write begins an epoch.
/// `met_others`: from now on every commit covers the whole file, because other programs write it too. A write of
/// another thread during the commit may be in it or not, so it begins the next epoch here, and touches the whole file.
void EndEpoch(OpenFile& file, std::uint64_t generation, std::uint64_t size, bool met_others);
/// The epoch ended without a change by this program: takes the intent back, if it is the one that is set. By one rank
/// alone.
void TakeIntentBack(OpenFile& file);

/// Makes written data durable by a descriptor of our own: PMPI_File_sync could call the program's error handler.
Status SyncData(const std::string& path);

}  // namespace lzy::hooks
