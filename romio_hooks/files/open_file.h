#pragma once
// The state of one tracked file handle. A handle is tracked if the file is protected and open for writing, or if its
// reads are checked.
//
// calls/open.cc fills an OpenFile and puts it into the Registry; every later hook of the handle finds it there. The
// rooms transfers, epochs and sets change it. Several threads of the program may do so at once, so two mutexes guard
// it: epoch_mutex before mutex. DiskFile::mutex is never held while another one is taken. No collective call is made
// under any of them.

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/interval_set.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "encode/capture.h"
#include "engine/engine.h"
#include "hooks/disk/peek.h"
#include "hooks/disk/read_check.h"
#include "hooks/disk/set_pattern.h"
#include "hooks/ranges/view.h"
#include "hooks/reports/usage.h"
#include "request/options.h"

namespace lzy::hooks {

/// The most intervals that one process remembers of what it touched in a file. Beyond that, neighbours are joined, so
/// the set becomes a superset.
inline constexpr std::size_t kMostTouched = 4096;

/// A file on disk. All handles that this process has of it share one DiskFile (see Registry), because an epoch belongs
/// to the file and not to the handle.
struct DiskFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;  ///< this and device are 0 if they are not known
  int handles = 0;  ///< guarded by the registry's mutex
  /// An intent that covers what is being written is durable. False before the first epoch and between a commit
  /// and the next write.
  std::atomic<bool> epoch_open{false};

  /// A commit failed, perhaps after its new generation was written. The intents that were set before it may then be
  /// void after a crash, even if the sidecar still shows them.
  std::atomic<bool> intent_doubtful{false};

  std::mutex mutex;  ///< guards `start`
  /// The epoch that this process began last, by any handle. Its intent may be the one that is set now. Its `before` is
  /// an intent of another process; a commit resets it.
  std::optional<EpochStart> start;
};

/// What was known when the current epoch of a file began. Only rank 0 of the file's communicator has `version`; the
/// other ranks have the size and the time.
struct Epoch {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::optional<SidecarVersion> version;
  LZY_FIELDS(size, mtime_ns)
};

/// The processes that have a file open together, as of their last meeting (an open with verify-reads, or a commit). If
/// one of them has set an intent, the others need not set it again. Empty before the first meeting: then a process
/// relies on its own intents only.
struct Family {
  std::set<std::pair<std::string, std::uint32_t>> processes;  ///< host, process: as in Intent
  std::vector<Intent> intents;                                ///< set by them before they met
};

/// A read that is under way and is checked when it is done (transfers/verifying.cc). Owned by OpenFile::split_read, or
/// by the list of pending requests (transfers/pending.cc).
class UnfinishedRead {
 public:
  virtual ~UnfinishedRead() = default;
  /// Call this once, when the read is done with `code` and `status` (an MPI_Status*, or null if there is none). Returns
  /// the code for the program and corrects the status. If the result differs from `code` and is an error, the file's
  /// error handler has been called already.
  virtual int Finish(int code, void* status) = 0;
};

/// One open handle on this rank. The Registry owns it, and so does everyone who works with it; it may outlive the
/// handle by a commit at close.
struct OpenFile : std::enable_shared_from_this<OpenFile> {
  // Set at open and constant afterwards, except `path`: a commit changes it if the file was renamed while it was open.
  std::string path;  ///< absolute, symlinks resolved; as rank 0 of the communicator sees it
  Options options;
  /// The ranks that opened the file together; a communicator of one rank for members of sets.
  std::unique_ptr<Communicator> comm;
  std::shared_ptr<DiskFile> disk;
  /// MPI_MODE_SEQUENTIAL: MPI does not tell positions, so writes touch the whole file, and reads are not checked.
  bool sequential = false;
  /// Opened for reading, to be checked. There are no epochs, `disk` is null, and `comm` serves ordered reads only.
  bool reads_only = false;
  bool ranks_agree = true;  ///< the file's ranks all check their reads, and have `comm` for that
  std::unique_ptr<ReadCheck> check;  ///< verify-reads; null: reads are not checked
  /// Not ok: the file is not protected, for this reason. With on-error=fail, sync and close report it. The same on all
  /// ranks of `comm`.
  Status failed;
  std::optional<SetName> set;  ///< the set that the file is a member of
  /// What was written is read again from the memory of this machine (disk/page_cache.h). If not, the bytes of a member
  /// are kept for its parity.
  bool pages_stay = true;
  /// For option summary, on the rank that speaks for the dataset; else null.
  std::shared_ptr<Usage> usage;

  /// Guards all fields from here to `epoch_mutex`.
  std::mutex mutex;
  /// Others may write the file at any time: one process of several opened it for itself, or another program was seen
  /// writing it. Every commit then covers the whole file, and nothing is captured.
  bool uncoordinated = false;
  View view;
  /// The position of the individual file pointer in etypes of `view`. Empty: not known, so MPI must be asked. Not used
  /// if several threads may move the pointer.
  std::optional<MPI_Offset> own_pointer;
  bool own_pointer_wanders = false;  ///< something under way may move it until the next commit
  /// The byte ranges that this rank may have changed in this epoch. Recorded before the real call, so never too small.
  IntervalSet touched{kMostTouched};
  bool must_cover_all = false;  ///< if this epoch is committed, then all of the file, whatever was touched
  /// With verify-writes: in this epoch, something was written through a view with which MPI libraries are known to write
  /// elsewhere. So it may be anywhere, and the commit covers the whole file.
  bool misplaced = false;
  bool size_compared = false;       ///< CompareSizes has run in this epoch
  /// Writes between their first hook and their last one. Counted only if several threads write, or if others may move
  /// the pointer: a commit in another thread cannot know how much of them is in the file.
  int writes_under_way = 0;
  /// Calls of MPI_File_seek and MPI_File_seek_shared. If the two differ, a seek is under way; if `seeks_begun` moved
  /// during a call, the pointer of that call cannot be followed.
  std::uint64_t seeks_begun = 0, seeks_ended = 0;
  MadeWith expected;                 ///< the geometry expected of the next commit; the same on all ranks
  unsigned threads = 1;              ///< how many this process may use; set when `capture` is made
  std::shared_ptr<Capture> capture;  ///< of this epoch; null: nothing was written yet, or nothing is captured
  bool codes_tell = false;           ///< asked in this epoch: a write that fails returns an error code
  bool capture_void = false;         ///< something was written that `capture` does not know of
  /// Commits tried so far: numbers the epochs. A write that completes after a commit does not count for the next one.
  std::uint64_t captures_taken = 0;
  /// With verify-writes: the largest mtime of the file that was seen just after a write by this rank. A larger mtime at
  /// the commit means that somebody else has written.
  std::int64_t written_mtime_ns = 0;
  /// With verify-writes: the largest size that was seen then, in this epoch. If the file is shorter at the commit, somebody
  /// has cut it.
  std::uint64_t written_size = 0;
  std::uint64_t writes_begun = 0;    ///< numbers the captured writes of this handle (Capture::Take)
  int writes_unconfirmed = 0;        ///< captured writes of this epoch that may still fail
  std::shared_ptr<UnfinishedRead> split_read;  ///< a split read that has not ended
  std::optional<std::uint64_t> split_write;  ///< the bytes of a split write that is captured and has not ended

  /// Guards the fields below. Held while an epoch is begun, so that a second thread waits until the intent is durable.
  std::mutex epoch_mutex;
  Epoch epoch;
  Family family;

  bool Leads() const { return comm->rank() == 0; }
  /// Where a change of the file's size from or to `size` begins: a byte earlier if a block ends there in the middle,
  /// since that block becomes another one. Locks `mutex`.
  std::uint64_t BeginOfChange(std::uint64_t size) {
    const std::lock_guard lock(mutex);
    return size - (size % ChooseBlockSize(expected.block_size, expected.size) != 0);
  }
};

}  // namespace lzy::hooks
