// The C interface of validated messages (lzy/exchange.h). It checks arguments, turns buffer, count and datatype into
// a Payload, and runs the tasks of lib/validated in the Pump of the process.
//
// Nothing is thrown at C, and nothing is printed. A call returns a code; the text is kept for its thread. The
// communicators of lzy are an attribute of the program's communicator, so they live exactly as long as that.

#include "lzy/exchange.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transport/mpi_call.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/collectives.h"
#include "validated/link.h"
#include "validated/transfer.h"

namespace {

using lzy::Code;
using lzy::Result;
using lzy::Status;
using lzy::validated::Envelope;
using lzy::validated::Link;
using lzy::validated::Payload;
using lzy::validated::Pump;
using lzy::validated::Task;

// Programs compare the codes of this library with MPI_SUCCESS.
static_assert(MPI_SUCCESS == 0, "LZY_EXCHANGE_OK is MPI_SUCCESS");

// ---- errors

// The text for lzy_exchange_error_text; one for each thread, as errno.
std::string& LastText() {
  thread_local std::string text;
  return text;
}

// Returns `code`, and keeps `text` for the thread. If there is no memory for the text, it is empty.
int Fail(int code, const std::string& text) noexcept {
  try {
    LastText() = text;
  } catch (...) {
    LastText().clear();
  }
  return code;
}

/// The code of a failure before anything was sent.
int ArgumentCode(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return LZY_EXCHANGE_OK;
    case Code::kNotFound:
      return LZY_EXCHANGE_NOT_ATTACHED;
    case Code::kMpi:
      return LZY_EXCHANGE_MPI;
    case Code::kNoMemory:
      return LZY_EXCHANGE_NO_MEMORY;
    default:
      return LZY_EXCHANGE_ARGUMENT;
  }
}

/// The code of a failure of the exchange itself. kInvalidArgument means something else here than above: the two sides
/// do not fit.
int CodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kInvalidArgument:
      return LZY_EXCHANGE_MISMATCH;
    case Code::kCorrupt:
      return LZY_EXCHANGE_UNPROVEN;
    case Code::kInternal:
      return LZY_EXCHANGE_INTERNAL;
    default:
      return ArgumentCode(status);
  }
}

// Passes `code` on, with the message of `status`, unless it is ok.
int Said(const Status& status, int code) {
  return status.ok() ? LZY_EXCHANGE_OK : Fail(code, status.message());
}

// The same for a failure before anything was sent.
int Refused(const Status& status) {
  return Said(status, ArgumentCode(status));
}

// Runs `work`, which returns a code. An exception must not reach C code, which cannot unwind.
template <class Work>
int Guarded(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Fail(LZY_EXCHANGE_NO_MEMORY, "out of memory");
  } catch (...) {
    return Fail(LZY_EXCHANGE_INTERNAL, "an exception");
  }
}

// ---- the attribute

// Type of the communicator's attribute. Messages under way also hold the Link.
using Attached = std::shared_ptr<Link>;

// MPI calls this when the program frees the communicator or detaches it. No message may be under way then (lzy/exchange.h),
// so this frees the Link. Like freeing the communicator, this is collective.
int Delete(MPI_Comm, int, void* value, void*) {
  delete static_cast<Attached*>(value);
  return MPI_SUCCESS;
}

// The key of the attribute, made with the first use. Not copied by MPI_Comm_dup: a copy must be attached by itself.
// The lock is for programs with several threads.
Result<int> Keyval() {
  static std::mutex mutex;
  static int keyval = MPI_KEYVAL_INVALID;
  const std::lock_guard lock(mutex);
  if (keyval == MPI_KEYVAL_INVALID) {
    LZY_RETURN_IF_ERROR(lzy::CheckMpi(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, Delete, &keyval, nullptr),
                                      "MPI_Comm_create_keyval"));
  }
  return keyval;
}

// A program may call this library before MPI_Init or after MPI_Finalize. It gets an error instead of an abort by MPI.
Status CheckComm(MPI_Comm comm) {
  int initialized = 0, finalized = 0, inter = 0;
  if (PMPI_Initialized(&initialized) != MPI_SUCCESS || PMPI_Finalized(&finalized) != MPI_SUCCESS || initialized == 0 ||
      finalized != 0) {
    return {Code::kInvalidArgument, "MPI is not initialised, or finalized already"};
  }
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter != 0) {
    return {Code::kInvalidArgument, "comm: only an intracommunicator is accepted"};
  }
  return Status::Ok();
}

/// The Link of `comm`; null if there is none.
Result<Attached> FindLink(MPI_Comm comm) {
  LZY_RETURN_IF_ERROR(CheckComm(comm));
  LZY_ASSIGN_OR_RETURN(const int keyval, Keyval());
  void* value = nullptr;
  int found = 0;
  LZY_RETURN_IF_ERROR(lzy::CheckMpi(PMPI_Comm_get_attr(comm, keyval, &value, &found), "MPI_Comm_get_attr"));
  return found != 0 ? *static_cast<Attached*>(value) : Attached();
}

/// The Link of `comm`; if there is none, makes it. All ranks must call it then, because that is collective.
Result<Attached> EnsureLink(MPI_Comm comm) {
  LZY_ASSIGN_OR_RETURN(Attached link, FindLink(comm));
  if (link != nullptr) return link;
  LZY_ASSIGN_OR_RETURN(link, Link::Make(comm));
  auto value = std::make_unique<Attached>(link);
  LZY_ASSIGN_OR_RETURN(const int keyval, Keyval());
  LZY_RETURN_IF_ERROR(lzy::CheckMpi(PMPI_Comm_set_attr(comm, keyval, value.get()), "MPI_Comm_set_attr"));
  // From here on the attribute owns it.
  (void)value.release();
  return link;
}

// The Link of `comm`, or kNotFound. A message from one rank to another cannot make it, because that is collective.
Result<Attached> NeedLink(MPI_Comm comm) {
  LZY_ASSIGN_OR_RETURN(Attached link, FindLink(comm));
  if (link == nullptr) return {Code::kNotFound, "comm: lzy_exchange_attach has not been called on it"};
  return link;
}

// ---- messages from one rank to another

// The arguments of a send or a receive, in MPI's order, and which one it is. `in_place`: the receiver has the bytes
// already, and they are only compared (lzy_validate_*).
struct Message {
  const void* buffer;
  MPI_Count count;
  MPI_Datatype type;
  int peer;
  int tag;
  MPI_Comm comm;
  bool receive;
  bool in_place;
};

// Wildcards are for receives only. Tags end at a quarter of MPI's, because each uses four on the inner communicator.
Status CheckPeer(const Message& message, const Link& link) {
  const bool any_peer = message.receive && message.peer == MPI_ANY_SOURCE;
  const bool any_tag = message.receive && message.tag == MPI_ANY_TAG;
  if (!any_peer && (message.peer < 0 || message.peer >= link.size())) {
    return {Code::kInvalidArgument, fmt::format("rank {} is not accepted in a communicator of {}", message.peer, link.size())};
  }
  if (!any_tag && (message.tag < 0 || message.tag > link.most_tag())) {
    return {Code::kInvalidArgument, fmt::format("tag {} is not accepted: 0 to {}", message.tag, link.most_tag())};
  }
  return Status::Ok();
}

}  // namespace

// The object behind an lzy_request. It owns the task. The task writes the envelope, so this object must not move.
struct lzy_request_state {
  explicit lzy_request_state(bool receives) : receive(receives) {}
  const bool receive;
  // MPI's values for an empty status, until an announcement has arrived.
  Envelope envelope{MPI_ANY_SOURCE, MPI_ANY_TAG, 0};
  // None for MPI_PROC_NULL: there is nothing to be done.
  std::optional<Task> task;
};

namespace {

using Request = std::unique_ptr<lzy_request_state>;

// Checks the arguments, makes the task, and runs it up to its first wait. Then its announcement or its receive was passed
// to MPI, so MPI matches in the order of the program's calls.
Result<Request> Begin(const Message& message) {
  auto request = std::make_unique<lzy_request_state>(message.receive);
  // Accepted even on a communicator that is not attached: nothing is sent.
  if (message.peer == MPI_PROC_NULL) {
    LZY_RETURN_IF_ERROR(CheckComm(message.comm));
    if (message.receive) request->envelope.source = MPI_PROC_NULL;
    return request;
  }
  LZY_ASSIGN_OR_RETURN(Attached link, NeedLink(message.comm));
  LZY_RETURN_IF_ERROR(CheckPeer(message, *link));
  LZY_ASSIGN_OR_RETURN(Payload payload, Payload::Of(message.buffer, message.count, message.type));
  if (message.receive) {
    request->task = Receive(std::move(link), std::move(payload), message.peer, message.tag, message.in_place, &request->envelope);
  } else {
    request->task = Send(std::move(link), std::move(payload), message.peer, message.tag, message.in_place);
  }
  // Another thread may be running the pump.
  const std::lock_guard lock(Pump::OfProcess().mutex());
  request->task->Start();
  return request;
}

// A null request is done, as for MPI_Wait.
bool IsDone(const lzy_request_state* request) {
  return request == nullptr || !request->task || request->task->done();
}

// Fills in the program's status. The number of bytes is set so that MPI_Get_count works with any datatype.
void SetStatus(const lzy_request_state* request, int code, MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  const Envelope envelope = request != nullptr ? request->envelope : Envelope{MPI_ANY_SOURCE, MPI_ANY_TAG, 0};
  *status = MPI_Status();
  status->MPI_SOURCE = envelope.source;
  status->MPI_TAG = envelope.tag;
  status->MPI_ERROR = code;
  PMPI_Status_set_cancelled(status, 0);
  PMPI_Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(envelope.bytes));
}

/// Ends a request that is done, and frees it. Returns its code.
int End(Request request, MPI_Status* status) {
  // The task is done, so its status does not change any more.
  const Status came = request != nullptr && request->task ? request->task->status() : Status::Ok();
  const int code = CodeOf(came);
  SetStatus(request.get(), code, status);
  return Said(came, code);
}

// A blocking call: begins, pumps until it is done, ends. While it waits, it moves all other messages of the process
// as well.
int Transfer(const Message& message, MPI_Status* status) {
  return Guarded([&] {
    auto request = Begin(message);
    if (!request.ok()) return Refused(request.status());
    const lzy_request_state* state = request->get();
    Pump::OfProcess().RunUntil([&] { return IsDone(state); });
    return End(std::move(*request), status);
  });
}

// A nonblocking call. `to` is LZY_REQUEST_NULL unless it succeeds.
int Start(const Message& message, lzy_request* to) {
  if (to == nullptr) return Fail(LZY_EXCHANGE_ARGUMENT, "request: NULL is not accepted");
  // So a program that waits for a failed call does not wait.
  *to = LZY_REQUEST_NULL;
  return Guarded([&] {
    auto request = Begin(message);
    if (!request.ok()) return Refused(request.status());
    *to = request->release();
    return static_cast<int>(LZY_EXCHANGE_OK);
  });
}

// ---- collective calls

// Collective: runs the task that `make` makes for the Link of `comm`. Arguments are checked on this rank alone: a rank
// that fails there leaves the others waiting, as with MPI.
template <class Make>
int RunTogether(MPI_Comm comm, const Make& make) {
  return Guarded([&] {
    auto link = EnsureLink(comm);
    auto task = link.ok() ? make(*link) : Result<Task>(link.status());
    if (!task.ok()) return Refused(task.status());
    const Status status = Pump::OfProcess().Run(std::move(task).value());
    return Said(status, CodeOf(status));
  });
}

int Broadcast(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm, bool in_place) {
  return RunTogether(comm, [&](const Attached& link) -> Result<Task> {
    if (root < 0 || root >= link->size()) {
      return {Code::kInvalidArgument, fmt::format("root {} is not accepted in a communicator of {}", root, link->size())};
    }
    LZY_ASSIGN_OR_RETURN(Payload payload, Payload::Of(buffer, count, type));
    return lzy::validated::Broadcast(link, std::move(payload), root, in_place);
  });
}

// The arguments of an all-gather, in MPI's order. `from` may be MPI_IN_PLACE; then the two after it mean nothing.
struct Gather {
  const void* from;
  MPI_Count from_count;
  MPI_Datatype from_type;
  void* to;
  MPI_Count to_count;
  MPI_Datatype to_type;
};

// The places of the blocks of all ranks. Blocks are `to_count` extents apart, as in MPI_Allgather. The map of the datatype
// is made once and shared by all blocks.
Result<std::vector<Payload>> BlocksOf(const Gather& gather, int ranks) {
  LZY_ASSIGN_OR_RETURN(const Payload first, Payload::Of(gather.to, gather.to_count, gather.to_type));
  MPI_Count lower = 0, extent = 0;
  LZY_RETURN_IF_ERROR(lzy::CheckMpi(PMPI_Type_get_extent_x(gather.to_type, &lower, &extent), "MPI_Type_get_extent_x"));
  std::vector<Payload> blocks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back(first.Moved(static_cast<std::ptrdiff_t>(rank * gather.to_count * extent)));
  return blocks;
}

// With MPI_IN_PLACE, this rank's block is in its place already. Sizes are compared here, because the blocks of all ranks
// must have one length.
int AllGather(const Gather& gather, MPI_Comm comm, bool in_place) {
  return RunTogether(comm, [&](const Attached& link) -> Result<Task> {
    LZY_ASSIGN_OR_RETURN(std::vector<Payload> blocks, BlocksOf(gather, link->size()));
    // The payload of this rank is one of the blocks, or lies apart and is copied by the task.
    LZY_ASSIGN_OR_RETURN(Payload mine, gather.from == MPI_IN_PLACE
                                           ? blocks[static_cast<std::size_t>(link->rank())]
                                           : Payload::Of(gather.from, gather.from_count, gather.from_type));
    if (mine.bytes() != blocks.front().bytes()) {
      return {Code::kInvalidArgument,
              fmt::format("{} bytes to send are not the {} of a block to receive", mine.bytes(), blocks.front().bytes())};
    }
    return lzy::validated::AllGather(link, std::move(mine), std::move(blocks), in_place);
  });
}

}  // namespace

extern "C" {

const char* lzy_exchange_error_text(void) {
  return LastText().c_str();
}

// Collective the first time, because it makes communicators; afterwards only a look at the attribute.
int lzy_exchange_attach(MPI_Comm comm) {
  return Guarded([&] { return Refused(EnsureLink(comm).status()); });
}

// MPI calls Delete above when the attribute is removed. This function holds the Link until it returns, so the
// communicators are freed at its end.
int lzy_exchange_detach(MPI_Comm comm) {
  return Guarded([&] {
    const auto detach = [&]() -> Status {
      LZY_ASSIGN_OR_RETURN(const Attached link, NeedLink(comm));
      LZY_ASSIGN_OR_RETURN(const int keyval, Keyval());
      return lzy::CheckMpi(PMPI_Comm_delete_attr(comm, keyval), "MPI_Comm_delete_attr");
    };
    return Refused(detach());
  });
}

int lzy_send(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  return Transfer({buf, count, type, dest, tag, comm, false, false}, MPI_STATUS_IGNORE);
}

int lzy_recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return Transfer({buf, count, type, source, tag, comm, true, false}, status);
}

int lzy_validate_send(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  return Transfer({buf, count, type, dest, tag, comm, false, true}, MPI_STATUS_IGNORE);
}

int lzy_validate_recv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return Transfer({buf, count, type, source, tag, comm, true, true}, status);
}

int lzy_isend(const void* buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, lzy_request* request) {
  return Start({buf, count, type, dest, tag, comm, false, false}, request);
}

int lzy_irecv(void* buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, lzy_request* request) {
  return Start({buf, count, type, source, tag, comm, true, false}, request);
}

// The request is set to null before its error is returned, as MPI_Wait does.
int lzy_wait(lzy_request* request, MPI_Status* status) {
  if (request == nullptr) return Fail(LZY_EXCHANGE_ARGUMENT, "request: NULL is not accepted");
  return Guarded([&] {
    Pump::OfProcess().RunUntil([&] { return IsDone(*request); });
    return End(Request(std::exchange(*request, LZY_REQUEST_NULL)), status);
  });
}

// One step of the pump, so a loop of tests makes progress.
int lzy_test(lzy_request* request, int* flag, MPI_Status* status) {
  if (request == nullptr || flag == nullptr) return Fail(LZY_EXCHANGE_ARGUMENT, "request, flag: NULL is not accepted");
  return Guarded([&] {
    {
      const std::lock_guard lock(Pump::OfProcess().mutex());
      if (!IsDone(*request)) (void)Pump::OfProcess().Step();
      *flag = IsDone(*request) ? 1 : 0;
    }
    return *flag == 0 ? static_cast<int>(LZY_EXCHANGE_OK) : End(Request(std::exchange(*request, LZY_REQUEST_NULL)), status);
  });
}

// Waits for all messages, even after an error. Returns the first error and keeps its text, because later failures replace
// the text of the thread.
int lzy_waitall(int count, lzy_request requests[], MPI_Status statuses[]) {
  if (count < 0 || (count > 0 && requests == nullptr)) return Fail(LZY_EXCHANGE_ARGUMENT, "count, requests: not accepted");
  int worst = LZY_EXCHANGE_OK;
  std::string text;
  for (int i = 0; i < count; ++i) {
    const int code = lzy_wait(&requests[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
    if (code != LZY_EXCHANGE_OK && worst == LZY_EXCHANGE_OK) {
      worst = code;
      LastText().swap(text);
    }
  }
  if (worst != LZY_EXCHANGE_OK) LastText().swap(text);
  return worst;
}

int lzy_bcast(void* buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  return Broadcast(buf, count, type, root, comm, false);
}

int lzy_validate_bcast(void* buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  return Broadcast(buf, count, type, root, comm, true);
}

int lzy_allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm) {
  return AllGather({sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype}, comm, false);
}

int lzy_validate_allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                           MPI_Datatype recvtype, MPI_Comm comm) {
  return AllGather({sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype}, comm, true);
}

}  // extern "C"
