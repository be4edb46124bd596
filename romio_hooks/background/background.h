#pragma once
// Commits in the background (docs/design/background.md). The hooks of sync and close hand a commit over to a thread of the
// layer, and return. The intent of the epoch stays set until the commit counts.
//
// Order. The commits of shared files that one thread of the program hands over form a *lane*: they run one after the other,
// in this order. So do the commits of one set. Each lane has a thread of its own. So a commit waits only for commits for
// which the program itself would have waited with commit=wait, and ranks that close files in different orders cannot hang
// where they did not hang before. Messages of different commits cannot mix, because each open file has a communicator
// of its own, and sets take turns (sets/sets.h).
//
// All functions are local and thread-safe. Waiting threads sleep.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/status.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

class Background {
 public:
  /// The only object of a process. It is never destroyed, because its threads may outlive main().
  static Background& Get();

  /// True if MPI allows it (MPI_THREAD_MULTIPLE), and MPI_Finalize has not begun. The ranks of a file compare their answers
  /// when they open it (OpenFile::background).
  bool IsPossible();
  /// Sees to it that the threads stop when the process ends. Call it before MPI_Init if commits in the background are asked
  /// for: exit handlers that the program registers later run before the threads stop, and may call MPI_Finalize.
  static void StopAtExit();
  /// Hands over `commit`, which is called once in the thread of its lane. Waits until fewer than kMostQueued commits that
  /// the caller's thread handed over have not ended, and until no other lane commits `file`. False if there is no thread for it:
  /// then the caller commits. `since`: when the hook began its own work.
  bool Begin(const std::shared_ptr<OpenFile>& file, CommitTimes::Clock::time_point since, std::function<Status()> commit);

  /// Whether any commit has not ended.
  bool IsBusy() const { return pending_.load() != 0; }
  /// Returns when all commits of this handle have ended.
  void AwaitFile(const OpenFile& file);
  /// Returns when all commits have ended that were handed over before the call.
  void AwaitAll();
  /// Call it before the program opens `path` for writing. Waits for all commits if a file is there that is not empty, or if
  /// a file of this name has a commit that has not ended. Otherwise a new file takes nothing away.
  void AwaitBeforeOpen(const std::string& path);

  /// The commits of `path` (empty: all) that failed since the last call, as one status; waits for them, at most for
  /// `patience` (nullopt: without a limit). kTimeout if they have not ended.
  Status AwaitResult(const std::string& path, std::optional<std::chrono::duration<double>> patience);
  /// True once after a commit failed whose file has on-error=fail: the caller returns an error to the program.
  bool TakeFailure();

  /// In MPI_Finalize: waits for all commits, and ends the threads. From now on nothing is taken any more. `speaks`: this
  /// rank writes a line if that takes long.
  void Finish(bool speaks);

  /// The most commits of a thread of the program that have not ended.
  static constexpr std::size_t kMostQueued = 2;

 private:
  struct Job {
    std::uint64_t number = 0;
    std::thread::id from;  // the thread of the program
    std::shared_ptr<OpenFile> file;
    std::string path;
    std::uint64_t file_system = 0, inode = 0;
    std::uint64_t memory = 0;  // of its capture
    CommitTimes::Clock::duration blocked{};
    std::function<Status()> commit;
  };
  /// A path of the program: its real directory with its name, and the file that is there.
  struct Named {
    std::string path;
    std::optional<FileStat> stat;
    bool missing = false;
    /// Whether the commit is of this file.
    bool Is(const Job& job) const;
  };
  static Named Name(const std::string& path);

  struct Lane {
    std::deque<std::shared_ptr<Job>> jobs;  // the first one is under way
    std::thread thread;
    bool works = false;  // the thread has not ended
    int callers = 0;     // calls of Begin that wait for room in it
  };

  /// The loop of a lane's thread.
  void Work(Lane& lane);
  void RunFirst(Lane& lane, std::unique_lock<std::mutex>& lock);
  void NoteResult(const Job& job, const Status& status);
  /// Starts the thread of a lane that has work and none. The caller holds mutex_.
  bool StartThreadOf(Lane& lane);
  /// Removes lanes without work. The caller holds mutex_.
  void RemoveEndedLanes();
  /// True for any job that has not ended. The caller holds mutex_.
  template <class Which>
  bool Any(const Which& which) const;

  std::atomic<std::size_t> pending_{0};  // jobs that have not ended
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::thread::id, std::string>, Lane> lanes_;  // by the thread of the program, and the id of the set
  std::uint64_t begun_ = 0, ended_ = 0;
  std::deque<std::pair<Job, Status>> failures_;  // until AwaitResult returns them
  bool owes_error_ = false;
  bool finished_ = false;
  std::optional<bool> possible_;
};

}  // namespace lzy::hooks
