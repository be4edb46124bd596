#include "transport/task.h"

#include <algorithm>

#include "transport/mpi_call.h"

namespace lzy::validated {

// MPI frees the request when it is cancelled or done; this does not wait for it.
Message::~Message() {
  if (request_ == MPI_REQUEST_NULL) return;
  PMPI_Cancel(&request_);
  PMPI_Request_free(&request_);
}

void Message::Send(ByteSpan bytes, int dest, int tag, MPI_Comm comm, bool synchronous) {
  const auto send = synchronous ? PMPI_Issend : PMPI_Isend;
  Begin("MPI_Isend", [&](MPI_Request* request) {
    return send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, dest, tag, comm, request);
  });
}

void Message::Receive(MutableByteSpan to, int source, int tag, MPI_Comm comm) {
  Begin("MPI_Irecv", [&](MPI_Request* request) {
    return PMPI_Irecv(to.data(), static_cast<int>(to.size()), MPI_BYTE, source, tag, comm, request);
  });
}

void Message::Broadcast(MutableByteSpan bytes, int root, MPI_Comm comm) {
  Begin("MPI_Ibcast", [&](MPI_Request* request) {
    return PMPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, root, comm, request);
  });
}

// An error of MPI_Test counts as done, or the task would wait forever.
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
  static auto& pump = *new Pump;  // never destroyed: commits may go on while the process ends
  return pump;
}

// Resumes the tasks whose wait is over. A resumed task may wait again, and so add to `waiting`: hence indices instead of
// iterators, and a count that is taken before. New entries are tested in the next step. A task may also destroy others;
// their entries become null. An entry is cleared before its task continues, because the object of the entry may be
// destroyed afterwards.
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

// Messages first, because their arrival often makes conditions true.
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

// If another thread has the mutex, it pumps, or will soon.
void Pump::Help() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) Step();
}

// The mutex is held for one step at a time, so several threads can be here at once. A step of one of them may finish the
// task of another: hence `done` is tested first. As long as any step resumes a task, there is no waiting.
void Pump::RunUntil(const std::function<bool()>& done) {
  // A chunk comes within a millisecond. If the process yielded the processor to a busy one meanwhile, it would get it back
  // only after some milliseconds.
  constexpr int kLongSpins = 10000;
  Patience patience;
  for (;;) {
    bool moved = false, is_long = false;
    {
      const std::lock_guard lock(mutex_);
      if (done()) return;
      moved = Step();
      // A step may have completed the awaited task. Then there is no need to take the mutex again.
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

// `task` lives in this frame, and other threads may resume it: RunUntil returns only when it is done.
Status Pump::Run(Task task) {
  {
    const std::lock_guard lock(mutex_);
    task.Start();
  }
  RunUntil([&] { return task.done(); });
  return task.status();
}

}  // namespace lzy::validated
