#pragma once
// What the layer knows of a file that is open for writing and protected, or whose reads are checked.

#include <mpi.h>

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

/// Intervals that are remembered of what one process touched in a file.
inline constexpr std::size_t kMostTouched = 4096;

/// A file on disk, of which this process may have several handles (Registry). An epoch belongs to the file, not to the
/// handle.
struct DiskFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  int handles = 0;  ///< guarded by the registry's mutex
  /// An intent that covers what is being written is durable. False before the first epoch and between a commit
  /// and the next write.
  std::atomic<bool> epoch_open{false};

  /// A commit failed, perhaps late: the intents set until then may be void after a crash, whatever is to be seen of
  /// them.
  std::atomic<bool> intent_doubtful{false};

  std::mutex mutex;  ///< guards `start`
  /// The epoch that this process began last, through whichever handle: its intent may be the one that is set. `before`
  /// is of another process, and forgotten when there was a commit.
  std::optional<EpochStart> start;
};

/// What was known when the current epoch of a file began. Whole on rank 0 of the file's communicator; other ranks have
/// sizes and times only.
struct Epoch {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::optional<SidecarVersion> version;
};

/// The processes that have a file open together, as known since the last time that they met: theirs are the intents
/// that one of them need not set again. Empty before: then only this process is known.
struct Family {
  std::set<std::pair<std::string, std::uint32_t>> processes;  ///< host, process: as in Intent
  std::vector<Intent> intents;                                ///< set by them before they met
};

/// A read that is under way and is checked when it is done.
class UnfinishedRead {
 public:
  virtual ~UnfinishedRead() = default;
  /// It is done, with `code` and `status` (an MPI_Status, or null where there is none): the code to return, and what
  /// the status then says. The file's error handler has been told of an error that is not `code`.
  virtual int Finish(int code, void* status) = 0;
};

struct OpenFile : std::enable_shared_from_this<OpenFile> {
  // Set at open, constant thereafter but for `path`, which a commit may change (a file renamed while open).
  std::string path;  ///< absolute, symlinks resolved; as rank 0 of the communicator sees it
  Options options;
  std::unique_ptr<Communicator> comm;
  std::shared_ptr<DiskFile> disk;
  bool sequential = false;
  /// Opened for reading: there are no epochs, no disk file, and a communicator only to check ordered reads.
  bool reads_only = false;
  bool ranks_agree = true;  ///< the file's ranks all check their reads, and have `comm` for that
  std::unique_ptr<ReadCheck> check;  ///< verify-reads; null: reads are not checked
  /// Not ok: there is no protection, and with on-error=fail this is what sync and close report. The same on all ranks.
  Status failed;
  std::optional<SetName> set;  ///< it is a member of this set
  /// For option summary, on the rank that speaks for the dataset.
  std::shared_ptr<Usage> usage;

  std::mutex mutex;  ///< guards what follows, as far as epoch_mutex
  /// Others may write the file and nobody knows when: it was opened by one process of several, or another program was
  /// met that writes it. Every commit then covers all of it.
  bool uncoordinated = false;
  View view;
  /// Where the individual pointer is, in etypes, or was further on than it is: MPI would have to be asked. Not followed
  /// where several threads may move it.
  std::optional<MPI_Offset> own_pointer;
  bool own_pointer_wanders = false;  ///< something under way may move it until the next commit
  IntervalSet touched{kMostTouched};
  /// A commit of this epoch, if there is anything to commit, covers all of the file, whatever was touched.
  bool must_cover_all = false;
  bool size_compared = false;       ///< in this epoch, before the first write by this rank
  /// Of several threads, or by a pointer that others may move: what a commit sees of them is not known.
  int writes_under_way = 0;
  std::uint64_t seeks_begun = 0, seeks_ended = 0;
  MadeWith expected;                 ///< what the next commit is expected to go by; on all ranks alike
  unsigned threads = 1;              ///< that this process may use, as known since there is a capture
  std::shared_ptr<Capture> capture;  ///< of this epoch; null: nothing was written yet, or nothing is captured
  bool codes_tell = false;           ///< asked in this epoch: writes that fail have codes that say so
  bool capture_void = false;         ///< something was written of which `capture` does not know
  std::uint64_t captures_taken = 0;  ///< by commits: which epoch this is, for writes that are done later
  /// With verify-writes: the file's mtime when a write by this rank had just been done. Later ones are of somebody else's writes.
  std::int64_t written_mtime_ns = 0;
  int writes_unconfirmed = 0;        ///< captured writes of this epoch of which it is not yet known whether they succeed
  std::shared_ptr<UnfinishedRead> split_read;  ///< a split read that has not ended
  std::optional<std::uint64_t> split_write;  ///< the bytes of a split write that is captured and has not ended

  std::mutex epoch_mutex;  ///< guards the rest, and held while an epoch is begun
  Epoch epoch;
  Family family;

  bool Leads() const { return comm->rank() == 0; }
};

}  // namespace lzy::hooks
