#pragma once
// Decides when a set whose members are written without MPI-IO is committed (option posix; docs/design/posix.md).
//
// A rank that closes such a member must not wait for the others in its close: a program may let rank 1 write only after a
// message from rank 0 that follows the close of rank 0. So a close only announces the member. Rank 0 collects the
// announcements, and calls all ranks together when it is time. Then they meet and commit as for any set (Sets::Commit).
//
//   rank r: COMPLETE ->  its member is complete       rank 0, if all members are complete:   <- COME
//   rank r: AGAIN ->     it is being written again
//   rank r: HAVE ->      the answer to ASK            rank 0, if some are complete:          <- ASK  "do you have a member?"
//   rank r: LAST ->      it is in MPI_Finalize        rank 0, when all are:                  <- END
//
// COME goes out at one of these moments:
//  - the members of all ranks are complete;
//  - nothing has changed for option timeout, at least one member is complete, and all ranks have one: some ranks write theirs
//    less often;
//  - all ranks are in MPI_Finalize, at least one member is complete, and all ranks have one.
//
// Where MPI allows it (MPI_THREAD_MULTIPLE), a thread does this. It starts when this rank first opens such a member. Otherwise
// everything happens in MPI_Finalize. No call of the program waits, except MPI_Finalize: at most three times option timeout
// for ranks that do not come.

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/record.h"
#include "base/status.h"
#include "hooks/files/open_file.h"
#include "hooks/sets/outbox.h"

namespace lzy::hooks {

/// One for each process. Thread-safe. It is never destroyed, because threads of the program may close files during and after MPI_Finalize.
/// After Finish, nothing is committed any more.
class Announcements {
 public:
  /// Commits the set of `file`, this rank's member. Every rank is called. `in_background`: not in MPI_Finalize. The result is
  /// the same on all ranks. `done` gets it, perhaps later and in another thread, and exactly once.
  using Commit = std::function<void(const std::shared_ptr<OpenFile>& file, bool in_background, std::function<void(const Status&)> done)>;
  /// Makes an entry for this rank's member of a set that this rank has not written since its last commit. Never null. If
  /// there is no such file, or `busy` (the program writes it), OpenFile::failed is kBusy.
  using MakeMember = std::function<std::shared_ptr<OpenFile>(const SetName& set, bool busy)>;

  /// `comm`: its messages with tag kTag belong to this object. It must outlive Finish.
  Announcements(MPI_Comm comm, double timeout_seconds, bool threads, Commit commit, MakeMember make_member);
  ~Announcements() = delete;
  Announcements(const Announcements&) = delete;
  Announcements& operator=(const Announcements&) = delete;

  /// This rank opens its member of `set` for writing, or begins to remove or rename it. Waits for a commit of it that is under
  /// way: all ranks take part in that without their programs. Until Complete or Withdraw, no other begins.
  void Opens(const SetName& set);
  /// The program closed `file`. If it `changed` the file, this entry replaces an earlier one that is not committed yet; otherwise
  /// that one stays, and this one is not used. True if the member waits for its commit.
  bool Complete(const std::shared_ptr<OpenFile>& file, bool changed);
  /// After Opens: the program removed its member of the set `id`, or renamed it. There is nothing to commit. `done`: it did;
  /// otherwise nothing has changed. True if it did, and the member was waiting for its commit.
  bool Withdraw(const std::string& id, bool done);
  /// Waits until no member of this rank waits for its commit; only the member `path` (absolute, links resolved), unless that is empty. At most for
  /// `patience` (nullopt: without a limit). False if that was not enough, or if members are committed only in MPI_Finalize.
  bool Await(const std::string& path, std::optional<std::chrono::duration<double>> patience);
  /// In MPI_Finalize: commits what is left. Returns when rank 0 has let all ranks go, or when the time is over.
  void Finish();

  static constexpr int kTag = 2;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint8_t { kComplete = 1, kAgain, kHave, kLast, kCome, kAsk, kEnd };
  struct Message {
    Kind kind = Kind::kEnd;
    std::string id;       ///< of the set
    std::string pattern;  ///< of the set, absolute
    bool have = false;    ///< kHave: this rank has a member that nobody writes
    LZY_FIELDS(kind, id, pattern, have)
  };
  /// This rank's member of a set.
  struct Member {
    SetName set;
    bool complete = false;           ///< it waits for its commit
    bool announced = false;          ///< rank 0 knows that
    std::shared_ptr<OpenFile> file;  ///< if it is complete; null after a commit that came too early
    int writers = 0;                 ///< opens without a close
    bool committing = false;
  };
  /// What rank 0 knows of a set.
  struct State {
    std::string pattern;
    std::map<int, std::uint64_t> complete;  ///< by rank: the number of its last announcement
    Clock::time_point changed;
    bool under_way = false;                 ///< a commit
    std::map<int, std::uint64_t> committing;  ///< `complete` when it began
    bool asking = false;
    bool asked = false;                     ///< since the last change
    int too_early = 0;                      ///< how often in a row a member was not ready
    Clock::time_point not_before;           ///< no other call of all ranks before
    std::map<int, bool> answers;
  };

  bool Leads() const { return rank_ == 0; }
  /// Rank 0: all ranks are in MPI_Finalize.
  bool AllAreHere() const { return last_.size() == static_cast<std::size_t>(size_); }
  void StartThread();
  void Work();
  /// One turn: announces, receives, decides. Returns whether anything happened. Only one thread calls it.
  bool Step();
  void Announce();
  void Tell(int to, const Message& message);
  void TellAll(const Message& message);
  bool Receive();
  void Handle(int from, const Message& message);
  void HandleOnLeader(int from, const Message& message);
  /// Rank 0: calls the ranks of sets together whose time has come.
  bool Decide();
  bool IsDue(const State& state) const;
  void Ask(const std::string& id, State& state);
  void Answered(const std::string& id, State& state);
  void CallTogether(const std::string& id, State& state);
  void Come(const Message& message);
  bool Has(const std::string& id, const std::string& pattern);
  void NameMissing(const State& state) const;
  void NoteResults();
  void LeadTheEnd();

  const MPI_Comm comm_;
  Outbox outbox_;  // only the thread that steps uses it
  int rank_ = 0, size_ = 1;
  const double timeout_seconds_;
  const bool threads_;
  const Commit commit_;
  const MakeMember make_member_;

  std::mutex mutex_;  // for the fields up to `thread_`
  std::condition_variable changed_;
  std::map<std::string, Member> members_;  // by the id of the set
  std::list<std::pair<std::string, Code>> results_;  // rank 0: ids of commits that ended, and what they came to
  bool finishing_ = false;
  std::thread thread_;

  // Only the thread that steps uses these.
  std::map<std::string, State> states_;
  std::uint64_t announcements_ = 0;
  std::set<int> last_;          // rank 0: ranks that are in MPI_Finalize
  bool all_were_here_ = false;  // rank 0: all ranks are
  bool told_last_ = false;
  bool ended_ = false;
  bool gave_up_ = false;        // rank 0: some ranks did not come to MPI_Finalize
  Clock::time_point end_by_;
};

}  // namespace lzy::hooks
