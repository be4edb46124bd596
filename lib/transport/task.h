#pragma once
// Protocols written down as they run, one step after the other, though a process is in many of them at once: coroutines
// that wait for MPI requests, and the pump that looks which have come. Nothing moves but in calls of the pump.

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

#include "base/status.h"

namespace lzy::validated {

/// Runs when it is awaited (or started by the pump), once; co_return a Status. What it throws becomes one. Its arguments are
/// kept by value, and what they refer to must outlive it.
class [[nodiscard]] Task {
 public:
  struct promise_type {
    Status status;
    std::coroutine_handle<> next = std::noop_coroutine();

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
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
  /// Not before it is done, if it was started.
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return handle_.done(); }
  const Status& status() const { return handle_.promise().status; }
  /// Runs it up to where it has to wait.
  void Start() { handle_.resume(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().next = caller;
    return handle_;
  }
  Status await_resume() { return std::move(handle_.promise().status); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

/// An MPI request under way; what it reads or writes must outlive this. One that nobody waited for is cancelled at the
/// end: that is for the way out after an error of MPI.
class Message {
 public:
  Message() = default;
  ~Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  /// `start(&request)` begins it; `call` is its name. The message is done when the one before is.
  template <class Start>
  void Begin(const char* call, const Start& start) {
    call_ = call;
    error_ = start(&request_);
    if (error_ != MPI_SUCCESS) request_ = MPI_REQUEST_NULL;
  }
  /// It takes longer than it would take to give the processor to others and have it back: a chunk of a payload.
  void SetLong() { long_ = true; }
  bool is_long() const { return long_; }
  /// Whether it is done, and if so how: status() and source(), tag(), length() tell.
  bool Test();
  Status status() const;
  int source() const { return came_.MPI_SOURCE; }
  int tag() const { return came_.MPI_TAG; }
  int length() const;  ///< bytes; of one received as MPI_BYTE

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Status came_{};
  int error_ = MPI_SUCCESS;
  const char* call_ = "";
  bool long_ = false;
};

/// Of a process: all that it waits for. Calls are for one thread at a time, under mutex().
class Pump {
 public:
  static Pump& OfProcess();

  std::mutex& mutex() { return mutex_; }

  /// Goes on with whatever can go on. True if anything could.
  bool Step();
  /// Starts `task`, which stays the caller's, and pumps until it is done. Takes the mutex, and lets others have it in between.
  Status Run(Task task);
  /// A step, unless another thread is at it: for who waits for something else, so that nobody waits for this process meanwhile.
  void Help();
  /// Pumps until `done()`, which is asked under the mutex.
  void RunUntil(const std::function<bool()>& done);

  /// co_await of these suspends until the message is done (then: its status), or until the condition holds. A task that is
  /// destroyed while it waits is forgotten.
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
  template <class What>
  struct Waiting {
    What* what;  // null: nobody waits any more
    std::coroutine_handle<> handle;
  };
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
  bool long_awaited_ = false;  // a long message was, in the last step
  std::vector<Waiting<Message>> messages_;
  std::vector<Waiting<std::function<bool()>>> conditions_;
};

}  // namespace lzy::validated
