#pragma once
// File sets: one file for each rank, opened on communicators of one rank, committed together (docs/design.md "Sets").

#include <mpi.h>

#include <atomic>
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
#include "hooks/epochs/epoch.h"
#include "hooks/files/open_file.h"
#include "hooks/sets/rendezvous.h"

namespace lzy::hooks {

class Sets {
 public:
  /// The communicators on which members' commits meet are made while MPI is initialised, since that is the last moment
  /// at which all ranks are known to make the same calls: a first open or close of a member is a local call, in which
  /// duplicating MPI_COMM_WORLD could hang, and MPI_Comm_idup could then come in another order on another rank.
  static void Start();
  /// nullptr before Start and after Finish, and in programs that use MPI sessions only.
  static Sets* Get();
  /// Whether the environment of every rank of MPI_COMM_WORLD asks for verify-reads.
  bool all_check_reads() const { return all_check_reads_; }
  /// Whether the environments of all ranks declare the same sets (LZY_SET). Where they do not, none is made of them: some ranks
  /// would wait for others at every commit.
  bool declared_alike() const { return declared_alike_; }
  /// Mends the sets that the environment declares, where that of every rank asks for it (option heal). Right after Start,
  /// by all ranks.
  void Heal();
  /// At MPI_Finalize, while MPI still works: commits once more what could not be committed at close, then frees the
  /// communicators.
  static void Finish();

  Sets(MPI_Comm comm, std::unique_ptr<Communicator> world);
  ~Sets();

  std::uint32_t rank() const { return static_cast<std::uint32_t>(world_->rank()); }
  int size() const { return world_->size(); }
  /// A member was opened here: MPI_Finalize will have to ask the others about unfinished commits.
  void NoteMember() { members_seen_ = true; }

  /// Commits the set of which `file` is this rank's member; to be called by all ranks, and returns in bounded time when
  /// they do not. The file is closed already when `moment` is kClose. Says on stderr what the user should know.
  Status Commit(OpenFile& file, Moment moment, bool data_safe);

 private:
  /// A member whose commit failed, to be tried again.
  struct Pending {
    std::string pattern;
    std::string path;
    Options options;
    std::optional<Intent> intent;
  };

  /// What a member brings to a meeting, and what its rank keeps of it.
  struct Arrival;
  void Arrive(OpenFile& file, Moment moment, bool data_safe, Arrival& mine);
  static Result<Rendezvous::Bytes> DecideCommit(const std::vector<Rendezvous::Bytes>& brought,
                                                const std::string& pattern);
  Status CommitTogether(OpenFile& file, const Arrival& mine, const std::string& pattern, Written& written);
  Status CheckTogether(const OpenFile& file, const Written& written);
  void TellOfFailedMeeting(const OpenFile& file, Moment moment, const Rendezvous::Outcome& met) const;
  DatasetReport Protect(Attempt& attempt, const Status& prepared);
  void CommitPending();
  Rendezvous::Bytes ListPending() const;
  Result<Rendezvous::Bytes> DecidePending(const std::vector<Rendezvous::Bytes>& brought);
  void CommitPendingSet(const std::string& id, const std::string& pattern);

  std::mutex mutex_;  // one commit at a time, whatever threads close members
  bool all_check_reads_ = false;
  bool all_heal_ = false;
  bool declared_alike_ = true;
  MPI_Comm comm_;
  std::unique_ptr<Communicator> world_;
  Rendezvous rendezvous_;
  std::map<std::string, Pending> pending_;  // by id
  std::atomic<bool> members_seen_{false};
};

}  // namespace lzy::hooks
