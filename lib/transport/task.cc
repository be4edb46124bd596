#include "transport/task.h"

#include <algorithm>

#include "transport/mpi_call.h"

namespace lzy::validated {

Message::~Message() {
  if (request_ == MPI_REQUEST_NULL) return;
  PMPI_Cancel(&request_);
  PMPI_Request_free(&request_);
}

bool Message::Test() {
  if (request_ == MPI_REQUEST_NULL) return true;
  int done = 0;
  const int error = PMPI_Test(&request_, &done, &came_);
  if (error != MPI_SUCCESS) error_ = error;
  return done != 0 || error != MPI_SUCCESS;
}

Status Message::status() const {
  return error_ == MPI_SUCCESS ? Status::Ok() : CheckMpi(error_, call_);
}

int Message::length() const {
  int length = 0;
  return PMPI_Get_count(&came_, MPI_BYTE, &length) == MPI_SUCCESS && length >= 0 ? length : 0;
}

Pump& Pump::OfProcess() {
  static Pump pump;
  return pump;
}

// Who goes on may wait anew, and is then looked at in the next step.
template <class What, class Test>
bool Pump::Resume(std::vector<Waiting<What>>& waiting, const Test& test) {
  bool any = false;
  const std::size_t count = waiting.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (waiting[i].what == nullptr || !test(*waiting[i].what)) continue;
    any = true;
    waiting[i].what = nullptr;
    const std::coroutine_handle<> handle = waiting[i].handle;
    handle.resume();
  }
  if (any) std::erase_if(waiting, [](const Waiting<What>& w) { return w.what == nullptr; });
  return any;
}

bool Pump::Step() {
  long_awaited_ = false;
  const bool messages = Resume(messages_, [this](Message& message) {
    const bool done = message.Test();
    long_awaited_ |= !done && message.is_long();
    return done;
  });
  const bool conditions = Resume(conditions_, [](const std::function<bool()>& condition) { return condition(); });
  return messages || conditions;
}

void Pump::Help() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) Step();
}

void Pump::RunUntil(const std::function<bool()>& done) {
  // A chunk comes within a millisecond, and who gave the processor to a busy process for that would have it back after milliseconds.
  constexpr int kLongSpins = 10000;
  Patience patience;
  for (;;) {
    bool moved = false, is_long = false;
    {
      const std::lock_guard lock(mutex_);
      if (done()) return;
      moved = Step();
      if (moved && done()) return;
      is_long = long_awaited_;
    }
    if (moved) {
      patience = Patience();
    } else {
      patience.Wait(is_long ? kLongSpins : Patience::kSpins);
    }
  }
}

Status Pump::Run(Task task) {
  {
    const std::lock_guard lock(mutex_);
    task.Start();
  }
  RunUntil([&] { return task.done(); });
  return task.status();
}

}  // namespace lzy::validated
