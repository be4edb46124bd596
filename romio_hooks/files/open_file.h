#pragma once
// The state of one tracked file handle. A handle is tracked if the file is protected and open for writing, or if reads from
// it are checked.
//
// calls/open.cc fills an OpenFile and inserts it into the Registry, where every later hook of the handle finds it. The
// rooms transfers, epochs and sets change it, possibly in several threads of the program. Two mutexes guard it: lock
// epoch_mutex before mutex. No other mutex is taken while DiskFile::mutex is held. No collective call is made under any of
// them.

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/interval_set.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "encode/capture.h"
#include "engine/engine.h"
#include "hooks/disk/commit_state.h"
#include "hooks/disk/read_check.h"
#include "hooks/disk/set_pattern.h"
#include "hooks/ranges/mpi_view.h"
#include "hooks/reports/usage.h"
#include "request/options.h"

namespace lzy::hooks {

/// The most touched intervals that one process remembers for a file. If there are more, neighbours are joined, so the set
/// becomes a superset.
inline constexpr std::size_t kMostTouched = 4096;

/// A file on disk. All handles that this process has of it share one DiskFile (see Registry), because an epoch belongs
/// to the file and not to the handle.
struct DiskFile {
  std::uint64_t file_system = 0;
  std::uint64_t inode = 0;  ///< this and file_system are 0 if they are not known
  int handles = 0;  ///< guarded by the registry's mutex
  /// True while a durable intent covers the file. False before the first epoch, and between a commit and the next write.
  std::atomic<bool> epoch_open{false};

  /// A commit failed, perhaps after its new generation was written. After a crash, intents that were set before may be
  /// void, even if the sidecar still shows them.
  std::atomic<bool> intent_doubtful{false};

  std::mutex mutex;  ///< guards `start`
  /// The last epoch that this process began, by any handle. Its intent may be the one that is set now. Its `before` is an
  /// intent of another process; a commit clears it.
  std::optional<EpochStart> start;
};

/// State of a file when its current epoch began. Only rank 0 of the file's communicator has `version`; other ranks have
/// size and mtime.
struct Epoch {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::optional<SidecarVersion> version;
  LZY_FIELDS(size, mtime_ns)
};

/// Bytes that captures of commits in the background hold in this process. New captures get so much less.
inline std::atomic<std::uint64_t> memory_in_commits{0};

/// Size and mtime of a file, as this process sees them.
struct FileTime {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileTime&) const = default;
  LZY_FIELDS(size, mtime_ns)
};

/// For the report of a commit.
struct CommitTimes {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun;                    ///< in the background: its beginning there; else the end of the real call
  std::optional<Clock::duration> handed_over;  ///< in the background: how long the program waited before
};

/// The processes that had the file open together when they last met (an open with verify-reads, or a commit). If one of
/// them has set an intent, the others need not set it again. Empty before the first meeting: then a process relies only on
/// its own intents.
struct Family {
  std::set<std::pair<std::string, std::uint32_t>> processes;  ///< host and process number, as in Intent
  std::vector<Intent> intents;                                ///< intents that these processes set before they met
};

/// A read that is checked when it is complete (transfers/verifying.cc). Owned by OpenFile::split_read, or by the list of
/// pending requests (transfers/pending.cc).
class UnfinishedRead {
 public:
  virtual ~UnfinishedRead() = default;
  /// Call it once, when the read is complete with `code` and `status` (an MPI_Status*, or null if there is none). Returns
  /// the code for the program and corrects the status. If the result differs from `code` and is an error, the error handler
  /// of the file has been called already.
  virtual int Finish(int code, void* status) = 0;
};

/// One open handle on this rank. Shared by the Registry and the hooks that work with it, so it may live until the commit at
/// close has ended.
struct OpenFile : std::enable_shared_from_this<OpenFile> {
  // Set at open and constant afterwards, except `path`: a commit changes it, under `mutex`, if the file was renamed while it
  // was open.
  std::string path;  ///< absolute, symlinks resolved; as rank 0 of the communicator sees it
  Options options;
  /// The ranks that opened the file together; a communicator of one rank for members of sets.
  std::unique_ptr<Communicator> comm;
  std::shared_ptr<DiskFile> disk;
  /// MPI_MODE_SEQUENTIAL: MPI reports no positions, so writes touch the whole file, and reads are not checked.
  bool sequential = false;
  /// Written by calls other than MPI-IO (option posix). No write is seen, so every commit covers the whole file.
  bool plain = false;
  /// Set by a commit of its set that came too early: the program writes the file, or it is gone.
  bool not_ready = false;
  /// Opened for reading only, with checks. Then there are no epochs, `disk` is null, and `comm` serves ordered reads only.
  bool reads_only = false;
  bool ranks_agree = true;  ///< all ranks of the file check their reads, and have `comm` for that
  std::unique_ptr<ReadCheck> check;  ///< verify-reads; null: reads are not checked
  /// If not ok, the reason why the file is not protected. With on-error=fail, sync and close report it. The same on all
  /// ranks of `comm`.
  Status failed;
  std::optional<SetName> set;  ///< the set that the file is a member of
  /// Data that were just written can be read again from the memory of this machine (disk/page_cache.h). If false, the
  /// capture keeps the bytes of a member for its parity.
  bool pages_stay = true;
  /// Its commits may go on in the background: option commit asks for it, and all ranks of the file allow it.
  bool background = false;
  /// Commits of this handle in the background that have not ended. A call that may change the file waits for them.
  std::atomic<int> commits_pending{0};
  /// These fields belong to the thread that commits. `handed_over`: the file when sync or close handed the commit over; if
  /// it differs from that later, somebody else has changed it. Empty: the program waits for the commit. `place`: a
  /// descriptor of the file that shows its present path, also in another directory; null if there is none.
  CommitTimes times;
  std::optional<FileTime> handed_over;
  std::shared_ptr<const Descriptor> place;
  /// For option summary, on the rank that reports for the dataset; else null.
  std::shared_ptr<Usage> usage;

  /// Guards all fields from here to `epoch_mutex`.
  std::mutex mutex;
  /// Others may write the file at any time: several processes opened it independently, or another program was seen writing
  /// it. Then every commit covers the whole file, and nothing is captured.
  bool uncoordinated = false;
  MpiView view;
  /// Position of the individual file pointer in etypes of `view`. Empty if it is not known and MPI must be asked. Not used
  /// if several threads may move the pointer.
  std::optional<MPI_Offset> own_pointer;
  bool own_pointer_wanders = false;  ///< a call under way may move it until the next commit
  /// Byte ranges that this rank may have changed in this epoch. Recorded before the real call, so never too small.
  IntervalSet touched{kMostTouched};
  bool must_cover_all = false;  ///< a commit of this epoch must cover the whole file, whatever was touched
  /// With verify-writes: this epoch has a write through a view with which some MPI libraries write to wrong places. So the
  /// data may be anywhere, and the commit covers the whole file.
  bool misplaced = false;
  bool size_compared = false;       ///< CompareSizes has run in this epoch
  /// Number of writes between their first and their last hook. Counted only if several threads write, or if others may move
  /// the pointer: a commit in another thread cannot know how much of such a write is in the file.
  int writes_under_way = 0;
  /// Numbers of begun and ended calls of MPI_File_seek and MPI_File_seek_shared. If they differ, a seek is under way. If
  /// `seeks_begun` changed during a call, the pointer cannot be followed through this call.
  std::uint64_t seeks_begun = 0, seeks_ended = 0;
  MadeWith expected;                 ///< expected geometry of the next commit; the same on all ranks
  unsigned threads = 1;              ///< threads that this process may use; set when `capture` is made
  std::shared_ptr<Capture> capture;  ///< capture of this epoch; null: nothing was written yet, or nothing is captured
  bool returns_codes = false;        ///< a failed write returns an error code (ReturnsCodes); asked once in an epoch
  bool capture_void = false;         ///< something was written that `capture` does not know
  /// Number of commits tried so far; it identifies the epoch. A write that completes after a commit does not count for the
  /// next one.
  std::uint64_t captures_taken = 0;
  /// With verify-writes: the largest mtime of the file that this rank saw right after a write of its own. A larger mtime at
  /// the commit means that somebody else has written.
  std::int64_t written_mtime_ns = 0;
  /// With verify-writes: the largest size that this rank saw then, in this epoch. If the file is shorter at the commit, it
  /// was cut.
  std::uint64_t written_size = 0;
  std::uint64_t writes_begun = 0;    ///< number of captured writes of this handle so far (`turn` of Capture::Take)
  int writes_unconfirmed = 0;        ///< number of captured writes of this epoch that may still fail
  std::shared_ptr<UnfinishedRead> split_read;  ///< a split read that has not ended
  std::optional<std::uint64_t> split_write;  ///< size in bytes of a captured split write that has not ended

  /// Guards the fields below. Held while an epoch begins, so a second thread waits until the intent is durable.
  std::mutex epoch_mutex;
  Epoch epoch;
  Family family;

  /// When the last MPI call of this rank that wrote the file had returned (nanoseconds since 1970).
  std::atomic<std::int64_t> written_until_ns{0};
  /// What commits of this handle found; the same on all ranks. Only commits use it.
  Doubts doubts;

  bool Leads() const { return comm->rank() == 0; }
  /// A copy of `path`. For threads of the program, while a commit in the background may change it.
  std::string PathNow() {
    const std::lock_guard lock(mutex);
    return path;
  }
  /// First byte that changes if the file grows or shrinks from or to `size` bytes. If a block ends there in the middle,
  /// this is one byte earlier, so that the block counts as changed. Locks `mutex`.
  std::uint64_t BeginOfChange(std::uint64_t size) {
    const std::lock_guard lock(mutex);
    return size - (size % ChooseBlockSize(expected.block_size, expected.size) != 0);
  }
};

}  // namespace lzy::hooks
