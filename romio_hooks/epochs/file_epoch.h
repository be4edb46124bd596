#pragma once
// The epochs of one file on one rank: begins and ends them, and collects this rank's part of a commit
// (docs/design/commit.md "Epochs"). commit.h has commits of several ranks, sets/sets.h those of file sets.
//
// An epoch begins before its first write: the engine makes an intent durable (BeginEpoch). It ends with a commit
// (EndEpoch), or with TakeIntentBack if nothing was written. Invariant: while a write is under way, a durable intent covers
// the file. This process or one of its family set it. There are two exceptions: the file was removed, or the intent could
// not be set. In the second case a message says so.
//
// Everything here is local, except MeetProcesses. Lock epoch_mutex before mutex (files/open_file.h). A second thread that
// writes meanwhile waits in EnsureEpoch until the intent is durable.

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

/// Begins the first epoch after the open. Only rank 0 of the communicator calls it, while the other ranks wait for its
/// answer. Waits up to option timeout while another process holds the sidecar. Sets file.epoch, and decides whether this
/// epoch must cover the whole file. With verify-reads, the epoch may be postponed until the first write.
Status BeginFirstEpoch(OpenFile& file);

/// Begins a new epoch if the last one was committed. Any rank calls it before each write, after it recorded the touched
/// ranges. Costs one atomic read while an epoch is open. If the intent cannot be set, the write continues: a message says
/// so, and the next commit covers the whole file.
void EnsureEpoch(OpenFile& file);

/// Marks the whole file as touched if it became smaller without MPI (PnetCDF calls truncate()). Call it before the first
/// write of an epoch; before other writes it does nothing.
void CompareSizes(OpenFile& file);

/// Call it when a commit is handed over, after the real call. Returns size and time of the file such that every later change of
/// it, however soon, gives it another time: waits for the next tick of the clock, some milliseconds, where the kernel does
/// not give each change a time of its own. nullopt if the file is not there.
std::optional<FileTime> TimeAtHandOver(const std::string& path);
/// A descriptor for OpenFile::place; null on NFS, where it could keep a file of the program from being removed.
std::shared_ptr<const Descriptor> PlaceAtHandOver(const std::string& path);
/// In the background, before the commit: from now on, tools that find the intent of this process say that its commit is under
/// way. After a commit that failed, with false: they do not say so any more.
void MarkCommitUnderWay(OpenFile& file, bool under_way);
/// True if the file was moved to where this process does not see it: it has no path any more, but is not deleted.
bool IsMovedAway(const OpenFile& file);

/// The contribution of one rank to a commit. The default value is that of a rank without a contribution. Ranks exchange
/// their parts, so all ranks derive the same commit from them.
struct EpochPart {
  enum class Presence : std::uint8_t { kThere, kMoved, kGone };

  bool data_safe = true;        ///< this rank's own sync succeeded
  bool open_elsewhere = false;  ///< this process has the file open by another handle, too
  bool cover_all = false;       ///< something other than this program's writes changed the file, or may have
  bool met_commit = false;      ///< another program committed the file
  bool capture_counts = false;  ///< `capture` knows all writes of this rank, and nobody else writes the file
  Presence presence = Presence::kThere;
  std::string path;        ///< present path of the file
  std::uint64_t size = 0;  ///< the larger of the sizes at the beginning of the epoch and now
  Interval resized;        ///< the bytes between these two sizes; they count as changed if anything was written
  IntervalSet touched;
  /// As in EpochStart, for the last epoch that this process began; both reduced by MarkOf.
  std::optional<Intent> intent, before;
  Intent process;  ///< describes this process as its intents do
  std::optional<FileTime> handed_over;  ///< OpenFile::handed_over
  std::shared_ptr<Capture> capture;  ///< not sent to other ranks
  std::int64_t written_until_ns = 0;  ///< OpenFile::written_until_ns; 0 with verify-writes, which compares more

  bool Touched() const { return !touched.empty(); }
  LZY_FIELDS(data_safe, open_elsewhere, cover_all, met_commit, capture_counts, presence, path, size, written_until_ns, resized, touched,
             intent, before, process, handed_over)
};

/// Reduces an intent to the fields that SameWriter compares. The ranges are left out, because there may be many.
Intent MarkOf(Intent intent);

/// Takes the ranges that this rank touched, as at most `intervals` intervals. Then nothing counts as touched any more. If
/// `look` is set, also checks the state of the file on disk. At close, counts the handle as closed.
EpochPart TakePart(OpenFile& file, Moment moment, bool data_safe, bool look, std::size_t intervals);
/// Looks at the state of the file on disk: name, size, commits of others. Only the rank that leads the file, or that has the
/// member of a set.
void LookAtDisk(OpenFile& file, EpochPart& part);
/// The most intervals of all ranks together. Every rank holds them during a commit: one megabyte.
inline constexpr std::size_t kMostIntervals = 65536;
/// The most intervals for each of `ranks` ranks.
std::size_t IntervalsEach(int ranks);

/// Adds the epoch to a `request` that was made from parts: the commit that the epoch started from (on the rank that leads
/// the file), in programs with threads the callback that reports new writes, and for a commit in the background the one
/// that reports edits since it was handed over. `file` must outlive the request.
void FillFromEpoch(OpenFile& file, ProtectRequest& request);

/// After a commit: knows the intent of file.doubts as one of this program.
void AdoptDoubts(OpenFile& file);
/// The intents that processes of this program set, from the parts of all ranks.
std::vector<Intent> OwnIntents(const std::vector<EpochPart>& parts);
/// After a collective open: the ranks exchange their process identities, which EnsureEpoch needs. Collective over the
/// file's communicator.
Status MeetProcesses(OpenFile& file);
/// Remembers the processes that have the file open together, for later intents.
void MeetFamily(OpenFile& file, const std::vector<EpochPart>& parts);
/// True if, by `part`, a process that is not among `own` writes the file, too.
bool MetOthers(const EpochPart& part, const std::vector<Intent>& own);

/// Call it after a failed commit: the whole file counts as touched, and the next write sets an intent again.
void Untake(OpenFile& file);
/// Call it after a commit of generation `generation`, when the file had `size` bytes. The next write begins an epoch. If
/// `met_others`, other programs write the file, too, and every later commit covers the whole file. If another thread wrote
/// during the commit, the commit may lack this write, so the next epoch begins here and touches the whole file.
void EndEpoch(OpenFile& file, std::uint64_t generation, std::uint64_t size, bool met_others);
/// Ends an epoch in which this program changed nothing: clears the intent if it is still the one of this epoch. Only one
/// rank calls it.
void TakeIntentBack(OpenFile& file);

/// Makes written data durable through a descriptor of our own, because PMPI_File_sync could call the program's error
/// handler.
Status SyncData(const std::string& path);

}  // namespace lzy::hooks
