#include "hooks/background/background.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "base/file.h"
#include "hooks/files/thread_level.h"
#include "hooks/reports/messages.h"
#include "storage/parallel.h"
#include "transport/beside.h"

namespace lzy::hooks {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// How long the end of a process without MPI_Finalize waits for a commit to leave MPI.
constexpr auto kPatienceAtExit = 2s;
/// MPI_Finalize says what it waits for after this time.
constexpr auto kSilence = 5s;
/// Failures that nobody asks for.
constexpr std::size_t kMostFailures = 64;

// Of this thread, and so of the threads that it starts. The program's own threads come first, but a thread of the lowest
// priority could be kept off the processor while it holds a lock that the program's MPI calls need.
void LowerPriority() {
  constexpr int kNicer = 5, kNicest = 19, kIoWhoProcess = 1, kIoClassIdle = 3 << 13;
  const auto self = static_cast<id_t>(syscall(SYS_gettid));
  (void)setpriority(PRIO_PROCESS, self, std::min(getpriority(PRIO_PROCESS, self) + kNicer, kNicest));
  (void)syscall(SYS_ioprio_set, kIoWhoProcess, 0, kIoClassIdle);
}

// A program may end by exit() without MPI_Finalize, and MPI_Abort may call exit(). A child process has no such threads.
constinit pid_t owner = 0;

}  // namespace

void Background::StopAtExit() {
  if (owner != 0) return;
  owner = getpid();
  (void)std::atexit([] {
    if (getpid() == owner) BesideProgram::EndAll(kPatienceAtExit);
  });
}

Background& Background::Get() {
  static auto& background = *new Background;
  return background;
}

bool Background::IsPossible() {
  const std::lock_guard lock(mutex_);
  if (finished_ || BesideProgram::Ending()) return false;
  if (!possible_) {
    possible_ = MpiAllowsThreads();
    if (*possible_) StopAtExit();
  }
  return *possible_;
}

template <class Which>
bool Background::Any(const Which& which) const {
  for (const auto& [key, lane] : lanes_) {
    if (std::ranges::any_of(lane.jobs, [&](const auto& job) { return which(*job); })) return true;
  }
  return false;
}

bool Background::Begin(const std::shared_ptr<OpenFile>& file, CommitTimes::Clock::time_point since, std::function<Status()> commit) {
  auto job = std::make_shared<Job>();
  job->from = std::this_thread::get_id();
  job->file = file;
  job->path = file->path;
  job->commit = std::move(commit);
  {
    const std::lock_guard lock(file->mutex);
    job->memory = file->capture ? file->capture->Kept() : 0;
  }
  if (file->disk) {
    job->file_system = file->disk->file_system;
    job->inode = file->disk->inode;
  }
  std::unique_lock lock(mutex_);
  if (finished_ || BesideProgram::Ending()) return false;
  RemoveEndedLanes();
  Lane& lane = lanes_[{job->from, file->set ? file->set->id : std::string()}];
  const auto queued = [&] {
    std::size_t count = 0;
    (void)Any([&](const Job& other) {
      count += other.from == job->from ? 1 : 0;
      return false;
    });
    return count;
  };
  const auto is_elsewhere = [&]() -> bool {
    const auto of_file = [&](const auto& other) { return other->file == file; };
    return Any([&](const Job& other) { return other.file == file; }) && std::ranges::none_of(lane.jobs, of_file);
  };
  ++lane.callers;
  changed_.wait(lock, [&] { return BesideProgram::Interrupted() || (queued() < kMostQueued && !is_elsewhere()); });
  --lane.callers;
  if (finished_ || BesideProgram::Ending()) return false;
  job->blocked = Clock::now() - since;
  lane.jobs.push_back(job);
  if (!StartThreadOf(lane)) {
    lane.jobs.pop_back();
    return false;
  }
  // The thread needs mutex_ to begin.
  job->number = ++begun_;
  ++pending_;
  memory_in_commits += job->memory;
  file->commits_pending.fetch_add(1);
  return true;
}

bool Background::StartThreadOf(Lane& lane) {
  if (lane.works) return true;
  if (lane.thread.joinable()) lane.thread.join();  // it has done its last work
  BesideProgram::Expect();
  try {
    lane.thread = StartThread([this, &lane] { Work(lane); });
  } catch (...) {
    BesideProgram::DoNotExpect();
    return false;
  }
  lane.works = true;
  return true;
}

void Background::RemoveEndedLanes() {
  for (auto at = lanes_.begin(); at != lanes_.end();) {
    Lane& lane = at->second;
    const bool ended = !lane.works && lane.jobs.empty() && lane.callers == 0;
    if (ended && lane.thread.joinable()) lane.thread.join();
    at = ended ? lanes_.erase(at) : std::next(at);
  }
}

void Background::Work(Lane& lane) {
  const BesideProgram beside;
  LowerPriority();
  std::unique_lock lock(mutex_);
  while (!lane.jobs.empty()) RunFirst(lane, lock);
  lane.works = false;
  changed_.notify_all();
}

void Background::RunFirst(Lane& lane, std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Job> job = lane.jobs.front();
  lock.unlock();
  job->file->times = {Clock::now(), job->blocked};
  const Status status = NoThrow([&] { return job->commit(); });
  if (job->file->usage) job->file->usage->AddBackground(Clock::now() - job->file->times.begun);
  // Before the file counts as committed, its communicator is freed: that is collective, and has an order.
  job->commit = nullptr;
  const bool fails = job->file->options.fail_on_error;
  job->file->commits_pending.fetch_sub(1);
  job->file.reset();
  lock.lock();
  if (!status.ok()) (void)NoThrow([&] { NoteResult(*job, status); });
  owes_error_ = owes_error_ || (!status.ok() && fails);
  memory_in_commits -= job->memory;
  lane.jobs.pop_front();
  ++ended_;
  --pending_;
  changed_.notify_all();
}

void Background::NoteResult(const Job& job, const Status& status) {
  if (failures_.size() >= kMostFailures) failures_.pop_front();
  failures_.emplace_back(job, status);
}

void Background::AwaitFile(const OpenFile& file) {
  if (file.commits_pending.load() == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return BesideProgram::Interrupted() || !Any([&](const Job& job) { return job.file.get() == &file; });
  });
}

void Background::AwaitAll() {
  if (pending_.load() == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, last = begun_] {
    return BesideProgram::Interrupted() || !Any([&](const Job& job) { return job.number <= last; });
  });
}

Background::Named Background::Name(const std::string& path) {
  const auto directory = PosixFileSystem().RealPath(DirectoryOf(path));
  const auto stat = PosixFileSystem().Stat(path);
  Named named{directory.ok() ? JoinPath(*directory, BaseNameOf(path)) : path, std::nullopt, true};
  if (stat.ok()) named.stat = *stat;
  named.missing = stat.status().code() == Code::kNotFound;
  return named;
}

// A file may have been renamed since, so its inode counts, too.
bool Background::Named::Is(const Job& job) const {
  return job.path == path || (stat && job.inode == stat->inode && job.file_system == stat->file_system);
}

void Background::AwaitBeforeOpen(const std::string& path) {
  if (pending_.load() == 0) return;
  const Named named = Name(path);
  if (named.missing || (named.stat && named.stat->size == 0)) {
    // The file of a commit may have been renamed meanwhile: its sidecar must follow before another file gets its name.
    const std::lock_guard lock(mutex_);
    if (!Any([&](const Job& job) { return named.Is(job); })) return;
  }
  AwaitAll();
}

Status Background::AwaitResult(const std::string& path, std::optional<std::chrono::duration<double>> patience) {
  const Named named = path.empty() ? Named() : Name(path);
  const auto counts = [&](const Job& job) { return path.empty() || named.Is(job); };
  std::unique_lock lock(mutex_);
  const auto done = [&, last = begun_] {
    return BesideProgram::Interrupted() || !Any([&](const Job& job) { return job.number <= last && counts(job); });
  };
  // Clocks cannot count much further.
  constexpr std::chrono::duration<double> kLongest{1e9};
  if (!patience || !(*patience <= kLongest)) {
    changed_.wait(lock, done);
  } else if (!changed_.wait_for(lock, *patience, done)) {
    return {Code::kTimeout, "commits in the background have not ended"};
  }
  Status first;
  std::erase_if(failures_, [&](const std::pair<Job, Status>& failure) {
    if (!counts(failure.first)) return false;
    if (first.ok()) first = failure.second;
    return true;
  });
  return first;
}

bool Background::TakeFailure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(owes_error_, false);
}

void Background::Finish(bool speaks) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = ended_;
  const auto idle = [&] { return BesideProgram::Interrupted() || pending_.load() == 0; };
  if (!changed_.wait_for(lock, kSilence, idle)) {
    if (speaks) {
      const std::string path = [&] {
        for (const auto& [key, lane] : lanes_) {
          if (!lane.jobs.empty()) return lane.jobs.front()->path;
        }
        return std::string();
      }();
      const std::uint64_t all = begun_ - before;
      Say(fmt::format("MPI_Finalize waits for commits in the background: {} of {} done, now {}", ended_ - before, all, path));
    }
    changed_.wait(lock, idle);
  }
  finished_ = true;
  if (BesideProgram::Interrupted()) return;  // threads that stopped in the middle do not end
  lock.unlock();
  // Nobody adds lanes or work any more.
  for (auto& [key, lane] : lanes_) {
    if (lane.thread.joinable()) lane.thread.join();
  }
}

}  // namespace lzy::hooks
