#pragma once
// Coroutines for protocols: each protocol is written as sequential code, although a process runs many at once. A Task is a
// coroutine that waits for MPI requests (Message) or conditions. The Pump tests them, and resumes the tasks of those that
// are complete. The room validated uses these (docs/exchange.md, "Messages").
//
// There are no threads here: tasks only run in calls of the pump. All coroutines run under the pump's mutex, so they need
// no locks among themselves. A task must not block, and must not call AwaitMpi, Pump::Run or Pump::Help.

#include <mpi.h>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

/// As LZY_RETURN_IF_ERROR, in a Task: `LZY_CO_RETURN_IF_ERROR(co_await Other());`. Expands to several statements, so use
/// it only within braces.
#define LZY_CO_RETURN_IF_ERROR(expr) LZY_CO_RETURN_IF_ERROR_INNER(LZY_CONCAT(lzy_status_, __COUNTER__), expr)
#define LZY_CO_RETURN_IF_ERROR_INNER(tmp, expr) \
  ::lzy::Status tmp = (expr);                   \
  if (!tmp.ok()) co_return tmp

namespace lzy::validated {

/// A coroutine that returns a Status (co_return). It begins when another task awaits it, or by Start, and runs once. An
/// exception becomes its Status. Its arguments are kept by value; objects that they refer to must outlive it. Move only;
/// owns its frame.
class [[nodiscard]] Task {
 public:
  struct promise_type {
    Status status;
    /// The task that awaits this one; it goes on when this one is done.
    std::coroutine_handle<> next = std::noop_coroutine();

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    /// Passes control on to `next` without using the stack, so long chains of tasks cannot overflow it.
    struct Resume {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept { return done.promise().next; }
      void await_resume() noexcept {}
    };
    Resume final_suspend() noexcept { return {}; }
    void return_value(Status result) { status = std::move(result); }
    void unhandled_exception() noexcept {
      status = NoThrow([] { std::rethrow_exception(std::current_exception()); });
    }
  };

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  /// Destroys the frame, and the tasks that it awaits. Not while the task is running.
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// True if it has returned. Only then status() is valid.
  bool done() const { return handle_.done(); }
  const Status& status() const { return handle_.promise().status; }
  /// Runs it until it has to wait. Under the pump's mutex.
  void Start() { handle_.resume(); }

  /// co_await of a task runs it, and returns its Status. Only once.
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().next = caller;
    return handle_;
  }
  Status await_resume() { return std::move(handle_.promise().status); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

/// An MPI request that is under way. Its buffers must outlive this object. The destructor cancels a request that is not
/// done; this happens only after an error of MPI.
class Message {
 public:
  Message() = default;
  ~Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  /// Begins the request by `start(&request)`; `call` is its name for errors. If the call fails, the message counts as done,
  /// and status() has the reason. Precondition: the previous message of this object is done.
  template <class Start>
  void Begin(const char* call, const Start& start) {
    call_ = call;
    error_ = start(&request_);
    if (error_ != MPI_SUCCESS) request_ = MPI_REQUEST_NULL;
  }
  /// Begins a message of bytes, which must outlive it. `synchronous`: by MPI_Issend.
  void Send(ByteSpan bytes, int dest, int tag, MPI_Comm comm, bool synchronous = false);
  void Receive(MutableByteSpan to, int source, int tag, MPI_Comm comm);
  void Broadcast(MutableByteSpan bytes, int root, MPI_Comm comm);
  /// Marks it as a message that takes longer than a switch to another process and back, such as a chunk of a payload. Then
  /// the pump spins longer before it yields.
  void SetLong() { long_ = true; }
  bool is_long() const { return long_; }
  /// True if it is done. Then status(), source(), tag() and length() are valid.
  bool Test();
  Status status() const;
  int source() const { return came_.MPI_SOURCE; }
  int tag() const { return came_.MPI_TAG; }
  /// Number of bytes that arrived, for a message received as MPI_BYTE.
  int length() const;

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Status came_{};
  int error_ = MPI_SUCCESS;
  const char* call_ = "";
  bool long_ = false;
};

/// Everything that the tasks of a process wait for. Threads call it in turns, under mutex(). There is one pump for a
/// process, because a rank that waits in any call of lzy must answer all others.
class Pump {
 public:
  static Pump& OfProcess();

  /// Held while any task runs. Hold it to change data that tasks read.
  std::mutex& mutex() { return mutex_; }

  /// Resumes every task whose message or condition is complete. True if there was one. Precondition: the mutex is held.
  bool Step();
  /// Starts `task`, and pumps until it is done; returns its Status. Takes the mutex, and releases it between steps, so
  /// other threads can pump, too.
  Status Run(Task task);
  /// Makes one step, unless another thread is making one. For callers that wait for something else, so that no other
  /// process waits for this one meanwhile (AwaitMpi).
  void Help();
  /// Pumps until `done()` returns true. `done` is called under the mutex.
  void RunUntil(const std::function<bool()>& done);

  /// co_await of Done suspends until the message is done, and returns its Status. co_await of Until suspends until the
  /// condition holds; it is tested in every step, so it should be cheap. A task that is destroyed while it waits is
  /// removed.
  auto Done(Message& message) {
    struct Awaiter : Wait<Message> {
      bool await_ready() { return this->what->Test(); }
      Status await_resume() {
        this->waits = false;
        return this->what->status();
      }
    };
    return Awaiter{{*this, messages_, &message}};
  }
  auto Until(std::function<bool()> condition) {
    struct Awaiter : Wait<std::function<bool()>> {
      Awaiter(Pump& of, std::function<bool()> until)
          : Wait<std::function<bool()>>{of, of.conditions_, nullptr}, condition(std::move(until)) {
        this->what = &condition;
      }
      bool await_ready() { return condition(); }
      void await_resume() { this->waits = false; }
      std::function<bool()> condition;
    };
    return Awaiter(*this, std::move(condition));
  }

 private:
  /// A suspended coroutine, and the object that it waits for.
  template <class What>
  struct Waiting {
    What* what;  // null: it does not wait any more
    std::coroutine_handle<> handle;
  };
  /// The result of Done and Until. It lives in the frame of the waiting task, so its destructor runs if that task is
  /// destroyed. `waits`: it is in `list`.
  template <class What>
  struct Wait {
    Wait(Pump& of, std::vector<Waiting<What>>& all, What* one) : pump(of), list(all), what(one) {}
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() {
      if (!waits) return;
      for (Waiting<What>& waiting : list) {
        if (waiting.what == what) waiting.what = nullptr;
      }
    }
    void await_suspend(std::coroutine_handle<> handle) {
      list.push_back({what, handle});
      waits = true;
    }
    Pump& pump;
    std::vector<Waiting<What>>& list;
    What* what;
    bool waits = false;
  };
  template <class What, class Test>
  static bool Resume(std::vector<Waiting<What>>& waiting, const Test& test);

  std::mutex mutex_;
  bool long_awaited_ = false;  // in the last step, some task waited for a long message
  std::vector<Waiting<Message>> messages_;
  std::vector<Waiting<std::function<bool()>>> conditions_;
};

}  // namespace lzy::validated
