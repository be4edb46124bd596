#pragma once
// File sets: one file for each rank, opened on communicators of one rank and committed together (docs/design/commit.md
// "Sets").
//
// The hooks of sync and close call Commit for a member. The ranks first meet by messages (Rendezvous), because these
// calls are local. If all have come, they commit the set in collective calls over a duplicate of MPI_COMM_WORLD. A set
// that could not be committed at close is tried once more in MPI_Finalize.
//
// Start makes the only object of a process. Several threads may be in the meetings of several sets, so ranks may close members
// of two sets in different orders, if they do so in threads, or in the background. The collective commits come one after
// the other, in an order that rank 0 decides (Rendezvous::Outcome::turn). If one thread closes members in another order than
// another rank, the time-out ends the wait.

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "hooks/epochs/check_commit.h"
#include "hooks/epochs/commit.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/open_file.h"
#include "hooks/sets/announcements.h"
#include "hooks/sets/drains.h"
#include "hooks/sets/rendezvous.h"

namespace lzy::hooks {

class Sets {
 public:
  /// Makes the object and its communicator. Collective over MPI_COMM_WORLD, in the hook of MPI_Init, the last moment at
  /// which all ranks are known to make the same calls. Opening and closing a member are local calls. There, duplicating
  /// MPI_COMM_WORLD could hang, and MPI_Comm_idup could come in different orders on different ranks. After Start all ranks
  /// have the object, or none.
  /// `plain`: how members that are written without MPI-IO are committed.
  struct PlainCalls {
    bool (*may_use_threads)();
    Announcements::Commit commit;
    Announcements::MakeMember make_member;
  };
  static void Start(const PlainCalls& plain);
  /// Not ok if ranks of MPI_COMM_WORLD run versions of lzy that cannot communicate. Start finds out and reports this. Then
  /// there is no object, and the layer sends no messages.
  static const Status& Versions();
  /// nullptr before Start, after Finish, if Start failed, and in programs that use only MPI sessions.
  static Sets* Get();
  /// True if the environment of every rank of MPI_COMM_WORLD asks for verify-reads.
  bool all_check_reads() const { return all_check_reads_; }
  /// True if the environments of all ranks declare the same sets (LZY_SET). Otherwise no set is made from them, because
  /// some ranks would wait for others at every commit.
  bool declared_alike() const { return declared_alike_; }
  /// Restores damaged sets that the environment declares, if the environments of all ranks ask for it (option heal).
  /// Collective over MPI_COMM_WORLD, right after Start.
  void Heal();
  /// At MPI_Finalize, before the real call: tries again the commits that failed at close, then frees the communicator.
  /// Waits up to three times option timeout for ranks that do not come to MPI_Finalize.
  static void Finish();

  /// For Start only. Takes over `comm`. `world` is another communicator of the same ranks.
  Sets(MPI_Comm comm, std::unique_ptr<Communicator> world);
  ~Sets() = delete;

  std::uint32_t rank() const { return rank_; }
  int size() const { return size_; }
  /// For members that are written without MPI-IO; null if not all ranks want their sets committed in the background.
  Announcements* announcements() { return announcements_; }
  /// Call it when a member is opened: MPI_Finalize then asks the other ranks about unfinished commits.
  void NoteMember() { members_seen_ = true; }

  /// Commits the set that has `file` as this rank's member. All ranks should call it; if one does not, the others return
  /// kTimeout after at most twice option timeout. With kClose, the real close has returned. `data_safe`: the program's own
  /// sync on this rank succeeded. An error leaves all members at risk; if `moment` was kClose, this rank tries again at
  /// MPI_Finalize. Writes messages for the user on stderr. kBusy, without a message: a member that is written without MPI-IO is
  /// being written again, or is gone.
  Status Commit(OpenFile& file, Moment moment, bool data_safe);

  /// Leaves the commit of a member to MPI_Finalize, in a thread that may not call MPI.
  void Postpone(OpenFile& file);

 private:
  /// Frees the communicators. The object stays, because other threads of the program may just have got it: they may close files that
  /// are written without MPI-IO at any time.
  void Close();
  /// A member of this rank whose commit at close failed. The OpenFile no longer exists at MPI_Finalize, so this has copies.
  struct Pending {
    std::string pattern;
    std::string path;
    Options options;
    std::optional<Intent> intent;
  };

  /// The contribution of a member to a meeting, and data that its rank keeps for the commit.
  struct Arrival;
  /// Each rank, before the meeting: fills in `mine`.
  void Arrive(OpenFile& file, Moment moment, bool data_safe, Arrival& mine);
  /// Rank 0, in the meeting: returns an encoded Verdict, or the reason why no commit is possible.
  static Result<Rendezvous::Bytes> DecideCommit(const std::vector<Rendezvous::Bytes>& brought,
                                                const std::string& pattern);
  /// The result of CommitTogether, for CheckTogether.
  struct Committed {
    Written written;
    DatasetReport report;
  };
  /// All ranks, after the meeting; collective over world_. `prepared`: status of this rank's preparation.
  Result<Committed> CommitTogether(OpenFile& file, const EpochPart& mine, const Status& prepared, const std::string& pattern);
  /// After a commit: starts a drain if option drain names the member. Local.
  void Drain(const Options& options, const std::string& path);
  /// Checks the committed data, and reports the commit. The capture must still exist.
  Status CheckTogether(OpenFile& file, const std::string& pattern, const Committed& committed);
  /// Keeps a member for MPI_Finalize: it was closed without a commit.
  void Remember(const OpenFile& file);
  void ReportFailedMeeting(const OpenFile& file, Moment moment, const Rendezvous::Outcome& met) const;
  DatasetReport Protect(Attempt& attempt, const Status& prepared);
  /// At MPI_Finalize: a meeting to which each rank brings the list of its members (ListPending). Rank 0 decides which sets
  /// are complete (DecidePending). These are committed one after the other.
  void CommitPending();
  Rendezvous::Bytes ListPending() const;
  Result<Rendezvous::Bytes> DecidePending(const std::vector<Rendezvous::Bytes>& brought);
  void CommitPendingSet(const std::string& id, const std::string& pattern);

  /// Meetings that succeeded and have been dealt with, in the order in which rank 0 let them succeed.
  struct Turns {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t done = 0;
  };
  class Turn;

  Turns turns_;
  std::mutex mutex_;  // for pending_ and drains_; taken after a Turn
  bool all_check_reads_ = false;
  bool all_heal_ = false;
  bool declared_alike_ = true;
  MPI_Comm comm_;
  std::unique_ptr<Communicator> world_;
  const std::uint32_t rank_;
  const int size_;
  std::unique_ptr<Rendezvous> rendezvous_;
  Announcements* announcements_ = nullptr;
  std::map<std::string, Pending> pending_;  // by the id of the set
  Drains drains_;
  std::atomic<bool> members_seen_{false};
};

}  // namespace lzy::hooks
