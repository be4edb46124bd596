#include "hooks/transfers/pending.h"

#include <mpi.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/transfers/capturing.h"

namespace lzy::hooks {
namespace {

/// One pending request. A write has `file`, `epoch` and `bytes`; a read has only `read`. The file is weak: a program
/// may close it before it completes the request, and the commit then does without captures.
struct Pending {
  std::shared_ptr<UnfinishedRead> read;  // null: it is a write
  std::weak_ptr<OpenFile> file;
  std::uint64_t epoch = 0;  // of ExpectConfirmation
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // of all of them; 0: none
};

/// The list of pending requests. `number` distinguishes two uses of one handle: between WatchedOf and Take, MPI may have
/// freed the handle and given it to another call.
class PendingCalls {
 public:
  /// Never destroyed, because requests may be completed while the process ends.
  static PendingCalls& Get() {
    static auto* const all = new PendingCalls;
    return *all;
  }

  /// False if the request was in the list already, which means that the earlier one completed unseen. Replaces its entry.
  bool Insert(MPI_Request request, Pending call) {
    const std::lock_guard lock(mutex_);
    call.number = ++last_number_;
    const bool is_new = calls_.insert_or_assign(request, std::move(call)).second;
    Count();
    return is_new;
  }
  /// The number of the request; 0 if it is not in the list. Moves a read out of the list into `read`.
  std::uint64_t Watch(MPI_Request request, std::shared_ptr<UnfinishedRead>& read) {
    const std::lock_guard lock(mutex_);
    const auto at = calls_.find(request);
    if (at == calls_.end()) return 0;
    const std::uint64_t number = at->second.number;
    if (!at->second.read) return number;
    read = std::move(at->second.read);
    calls_.erase(at);
    Count();
    return number;
  }
  /// Removes and returns the request; a Pending without a file if it is no longer there. This happens if one MPI function
  /// calls another wrapped function: both see the request, and the inner one handles it.
  Pending Take(MPI_Request request, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto at = calls_.find(request);
    if (at == calls_.end() || at->second.number != number) return {};
    Pending call = std::move(at->second);
    calls_.erase(at);
    Count();
    return call;
  }

 private:
  void Count() { pending_requests.store(static_cast<int>(calls_.size()), std::memory_order_relaxed); }

  std::mutex mutex_;
  std::unordered_map<MPI_Request, Pending> calls_;
  std::uint64_t last_number_ = 0;
};

/// A listed request of a completing call.
struct Watched {
  int place = 0;  // index in the call's array of requests
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;
  /// A read is taken out of the list before the real call. If an error handler jumps out of that call, no entry is left
  /// that points to the program's buffer. Another thread's call may get the handle as soon as it is free.
  std::shared_ptr<UnfinishedRead> read;
};

/// Must run before the real call, which sets the requests that it completes to MPI_REQUEST_NULL.
std::vector<Watched> WatchedOf(const Completion& call) {
  std::vector<Watched> watched;
  const auto* requests = static_cast<const MPI_Request*>(call.requests);
  for (int i = 0; requests != nullptr && i < call.count; ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    Watched one{i, requests[i], 0, nullptr};
    one.number = PendingCalls::Get().Watch(requests[i], one.read);
    if (one.number != 0) watched.push_back(std::move(one));
  }
  return watched;
}

bool IsIgnored(const void* statuses) {
  return statuses == MPI_STATUS_IGNORE || statuses == MPI_STATUSES_IGNORE;
}

/// The status of the request that was at `place`; null if the call did not complete it.
MPI_Status* StatusOf(const Completion& call, int place) {
  auto* statuses = static_cast<MPI_Status*>(*call.statuses);
  if (call.outcome == Outcome::kEach) return statuses + place;
  if (call.outcome != Outcome::kSome) return statuses;
  for (int i = 0; i < *call.some; ++i) {
    if (call.indices[i] == place) return statuses + i;
  }
  return nullptr;
}

/// Confirms a captured write, or voids the capture of its epoch.
void SettleWrite(const Pending& write, bool succeeded) {
  const auto file = write.file.lock();
  if (!file) return;
  NoteWriteTime(*file);
  Confirm(*file, write.epoch, succeeded);
}

std::span<MPI_Status> StatusesOf(const Completion& call) {
  const int count = call.outcome == Outcome::kSome ? *call.some : call.count;
  return {static_cast<MPI_Status*>(*call.statuses), count > 0 ? static_cast<std::size_t>(count) : 0};
}

}  // namespace

int WatchRead(const void* request, std::shared_ptr<UnfinishedRead> read) {
  const MPI_Request made = *static_cast<const MPI_Request*>(request);
  if (made == MPI_REQUEST_NULL) return read->Finish(MPI_SUCCESS, nullptr);  // complete already
  (void)PendingCalls::Get().Insert(made, {std::move(read), {}, 0, 0, 0});
  return MPI_SUCCESS;
}

void WantStatus(void** status, MPI_Status& own) {
  if (IsIgnored(*status)) *status = &own;
}

std::optional<std::uint64_t> BytesTold(const void* status) {
  MPI_Count bytes = 0;
  if (status == nullptr || PMPI_Get_elements_x(static_cast<const MPI_Status*>(status), MPI_BYTE, &bytes) != MPI_SUCCESS ||
      bytes < 0) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

bool IsWhole(const void* status, std::uint64_t bytes) {
  if (status == nullptr || IsIgnored(status)) return false;
  return BytesTold(status).value_or(bytes) >= bytes;
}

void BeginPending(OpenFile& file, const std::shared_ptr<Capture>& capture, const void* request, std::uint64_t bytes) {
  const MPI_Request made = *static_cast<const MPI_Request*>(request);
  if (made == MPI_REQUEST_NULL) return VoidCapture(file);  // complete already, with an unknown result
  const auto epoch = ExpectConfirmation(file, capture);
  if (!epoch) return;
  // If Insert throws, the write is never confirmed, and the epoch does without captures. If the handle was in the list
  // already, an earlier write was completed unseen, so nobody knows whether it succeeded.
  if (!PendingCalls::Get().Insert(made, {nullptr, file.weak_from_this(), *epoch, bytes, 0})) VoidCapture(file);
}

namespace {

/// The result of a completing call, and of each of its requests. Calls for several requests report errors in the statuses,
/// and return MPI_ERR_IN_STATUS; calls for one request return its code.
class Completed {
 public:
  Completed(const Completion& call, int code) : call_(call), code_(code) {
    several_ = call.outcome == Outcome::kEach || call.outcome == Outcome::kSome;
    in_statuses_ = several_ && code == MPI_ERR_IN_STATUS;
    told_ = call.statuses != nullptr && (code == MPI_SUCCESS || in_statuses_ || !several_);
  }
  /// Completed requests are MPI_REQUEST_NULL, except with MPI_Request_get_status, which keeps them and sets a flag.
  bool IsDone(const Watched& one) const {
    if (call_.outcome == Outcome::kUnknown) return false;
    if (call_.outcome == Outcome::kPeeked) return code_ == MPI_SUCCESS && *call_.some != 0;
    return static_cast<const MPI_Request*>(call_.requests)[one.place] == MPI_REQUEST_NULL;
  }
  /// Null if the call has no status, or did not set it.
  MPI_Status* StatusFor(const Watched& one) const { return told_ ? StatusOf(call_, one.place) : nullptr; }
  int CodeFor(const MPI_Status* status) const { return in_statuses_ && status != nullptr ? status->MPI_ERROR : code_; }

  /// Replaces the code of the request of `status`, and the code of the call, which follows from all its requests. MPI sets
  /// MPI_ERROR only if the call returns MPI_ERR_IN_STATUS. So all statuses are cleared before one of them gets an error of
  /// the layer.
  void Correct(MPI_Status* status, int code) {
    if (!several_) {
      code_ = code;
    } else if (status != nullptr) {
      const auto statuses = StatusesOf(call_);
      const auto fails = [](const MPI_Status& one) { return one.MPI_ERROR != MPI_SUCCESS; };
      if (code_ == MPI_SUCCESS) {
        for (MPI_Status& one : statuses) one.MPI_ERROR = MPI_SUCCESS;
      }
      status->MPI_ERROR = code;
      in_statuses_ = true;
      code_ = std::ranges::any_of(statuses, fails) ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
    }
  }
  int code() const { return code_; }

 private:
  const Completion& call_;
  int code_;
  bool several_, in_statuses_, told_;
};

}  // namespace

// Phases: find the requests that are in the list, and provide statuses if the program wants none; make the real call;
// handle each request that it completed. If anything fails before the real call, the real call is still made.
int Complete(RealCall real, const Completion& call) {
  std::vector<Watched> watched;
  std::vector<MPI_Status> own;
  bool known = true;
  try {
    watched = WatchedOf(call);
    if (!watched.empty() && call.statuses != nullptr && IsIgnored(*call.statuses)) {
      own.resize(static_cast<std::size_t>(call.count));
      *call.statuses = own.data();
    }
  } catch (...) {  // out of memory: writes stay in the list and unconfirmed
    known = false;
  }
  Completed completed(call, real());
  if (!known) return completed.code();
  const bool failed = completed.code() != MPI_SUCCESS;
  for (const Watched& one : watched) {
    const bool done = completed.IsDone(one);
    if (one.read) {
      // A read that is not complete goes back into the list. A read that the program gave up (MPI_Request_free) is
      // forgotten: its end will not be seen.
      if (!done && call.outcome != Outcome::kUnknown) {
        (void)NoThrow([&] { PendingCalls::Get().Insert(one.request, {one.read, {}, 0, 0, 0}); });
        continue;
      }
      if (!done) continue;
      MPI_Status* const status = completed.StatusFor(one);
      const int code = completed.CodeFor(status);
      const int checked = one.read->Finish(code, status);
      if (checked != code) completed.Correct(status, checked);
      continue;
    }
    // MPI_Request_get_status leaves a write in the list for the call that frees it. A write that was given up, or whose
    // call failed, counts as failed.
    if (call.outcome == Outcome::kPeeked) continue;
    const bool given_up = call.outcome == Outcome::kUnknown || failed;
    if (!given_up && !done) continue;
    const Pending write = PendingCalls::Get().Take(one.request, one.number);
    SettleWrite(write, !given_up && IsWhole(completed.StatusFor(one), write.bytes));
  }
  return completed.code();
}

}  // namespace lzy::hooks
