#include "pending.h"

#include <mpi.h>

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capturing.h"

namespace lzy::hooks {
namespace {

struct PendingWrite {
  std::weak_ptr<OpenFile> file;
  std::uint64_t epoch = 0;  // of ExpectConfirmation
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // of all writes; 0: none
};

class PendingWrites {
 public:
  /// The only one; never destroyed, since requests may be completed while the process ends.
  static PendingWrites& Get() {
    static auto* const all = new PendingWrites;
    return *all;
  }

  /// False when that request is known already: the other one was completed out of sight.
  bool Insert(MPI_Request request, PendingWrite write) {
    const std::lock_guard lock(mutex_);
    write.number = ++last_number_;
    const bool is_new = writes_.insert_or_assign(request, std::move(write)).second;
    Count();
    return is_new;
  }
  /// Its number; 0 when it is none.
  std::uint64_t NumberOf(MPI_Request request) {
    const std::lock_guard lock(mutex_);
    const auto at = writes_.find(request);
    return at == writes_.end() ? 0 : at->second.number;
  }
  /// Takes it out; one without a file when it is not there any more. Of two calls of which one called the other both had
  /// seen it, and MPI may have given the handle to another write meanwhile.
  PendingWrite Take(MPI_Request request, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto at = writes_.find(request);
    if (at == writes_.end() || at->second.number != number) return {};
    PendingWrite write = std::move(at->second);
    writes_.erase(at);
    Count();
    return write;
  }

 private:
  void Count() { pending_writes.store(static_cast<int>(writes_.size()), std::memory_order_relaxed); }

  std::mutex mutex_;
  std::unordered_map<MPI_Request, PendingWrite> writes_;
  std::uint64_t last_number_ = 0;
};

/// One of a call's requests that is of a write.
struct Watched {
  int place = 0;  // in the call's array
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;
};

std::vector<Watched> WatchedOf(const Completion& call) {
  std::vector<Watched> watched;
  const auto* requests = static_cast<const MPI_Request*>(call.requests);
  for (int i = 0; requests != nullptr && i < call.count; ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    const std::uint64_t number = PendingWrites::Get().NumberOf(requests[i]);
    if (number != 0) watched.push_back({i, requests[i], number});
  }
  return watched;
}

bool IsIgnored(const void* statuses) {
  return statuses == MPI_STATUS_IGNORE || statuses == MPI_STATUSES_IGNORE;
}

/// The status of the request that was at `place`.
const MPI_Status* StatusOf(const Completion& call, int place) {
  const auto* statuses = static_cast<const MPI_Status*>(*call.statuses);
  if (call.outcome == Outcome::kEach) return statuses + place;
  if (call.outcome == Outcome::kOne) return statuses;
  for (int i = 0; i < *call.some; ++i) {
    if (call.indices[i] == place) return statuses + i;
  }
  return nullptr;
}

void Settle(const PendingWrite& write, bool succeeded) {
  if (const auto file = write.file.lock()) Confirm(*file, write.epoch, succeeded);
}

}  // namespace

void WantStatus(void** status, MPI_Status& own) {
  if (IsIgnored(*status)) *status = &own;
}

bool IsWhole(const void* status, std::uint64_t bytes) {
  if (status == nullptr || IsIgnored(status)) return false;
  MPI_Count written = 0;
  return PMPI_Get_elements_x(static_cast<const MPI_Status*>(status), MPI_BYTE, &written) != MPI_SUCCESS || written < 0 ||
         static_cast<std::uint64_t>(written) >= bytes;
}

void BeginPending(OpenFile& file, const std::shared_ptr<Capture>& capture, const void* request, std::uint64_t bytes) {
  const MPI_Request made = *static_cast<const MPI_Request*>(request);
  if (made == MPI_REQUEST_NULL) return VoidCapture(file);  // it is done, but nobody knows how much of it
  const auto epoch = ExpectConfirmation(file, capture);
  if (!epoch) return;
  // Should this fail it is never confirmed.
  if (!PendingWrites::Get().Insert(made, {file.weak_from_this(), *epoch, bytes, 0})) VoidCapture(file);
}

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
  } catch (...) {  // no memory: then they stay under way
    known = false;
  }
  const int code = real();
  if (!known) return code;
  const auto* requests = static_cast<const MPI_Request*>(call.requests);
  for (const Watched& one : watched) {
    const bool given_up = code != MPI_SUCCESS || call.outcome == Outcome::kUnknown;
    if (!given_up && requests[one.place] != MPI_REQUEST_NULL) continue;
    const PendingWrite write = PendingWrites::Get().Take(one.request, one.number);
    Settle(write, !given_up && IsWhole(StatusOf(call, one.place), write.bytes));
  }
  return code;
}

}  // namespace lzy::hooks
