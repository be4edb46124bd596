#include "validated/proven_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "storage/parallel.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/chunk.h"
#include "validated/link.h"
#include "validated/transfer.h"

namespace lzy::validated {
namespace {

using CallBytes = std::vector<std::uint8_t>;

// Messages with calls have this tag; the answer to the call in slot s has tag 1 + s.
constexpr int kCallTag = 0;
constexpr std::uint32_t kMostSlots = 1024;
// A message with calls: of each, the slot, the length and the bytes.
constexpr std::size_t kCallHeader = 8;
constexpr std::size_t kMostBatch = 2 * (Caller::kMostCall + kCallHeader);
// Receives of calls that are posted at once.
constexpr int kListeners = 4;
// Answers that are being made or sent, beyond one for each thread.
constexpr unsigned kSpareAnswers = 4;

// The threads that answer. Thread-safe.
class Answerers {
 public:
  struct Question {
    int from = 0;
    std::uint32_t slot = 0;
    CallBytes bytes;
  };
  struct Answer {
    int to = 0;
    std::uint32_t slot = 0;
    Buffer buffer;
    std::size_t length = 0;
  };

  explicit Answerers(const CallHandler& handler) : handler_(handler) {
    // All memory of a thread is allocated before it starts, because a thread could not report a lack of memory.
    const unsigned buffers = handler.threads + kSpareAnswers;
    answers_.reserve(buffers);
    free_.reserve(buffers);
    for (unsigned i = 0; i < buffers; ++i) free_.push_back(MakeBuffer(handler.most_answer));
    for (unsigned t = 0; t < handler.threads; ++t) {
      // With fewer threads it takes longer; without any, Turn answers.
      if (!NoThrow([&] { threads_.push_back(StartThread([this] { Work(); })); }).ok()) break;
    }
  }
  ~Answerers() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Answerers(const Answerers&) = delete;
  Answerers& operator=(const Answerers&) = delete;

  void Ask(Question question) {
    {
      const std::lock_guard lock(mutex_);
      questions_.push_back(std::move(question));
    }
    changed_.notify_one();
  }
  /// The answers made since the last call.
  std::vector<Answer> Take() {
    std::vector<Answer> taken;
    taken.reserve(answers_.capacity());
    std::unique_lock lock(mutex_);
    while (threads_.empty() && Ready()) One(lock);
    std::ranges::move(answers_, std::back_inserter(taken));
    answers_.clear();
    return taken;
  }
  /// Returns the buffer of an answer that was sent.
  void GiveBack(Buffer buffer) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(buffer));
    }
    changed_.notify_one();
  }

 private:
  // Under the mutex.
  bool Ready() const { return !questions_.empty() && !free_.empty(); }
  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || Ready(); });
      if (ended_) return;
      One(lock);
    }
  }
  void One(std::unique_lock<std::mutex>& lock) {
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    Answer answer{question.from, question.slot, std::move(free_.back()), 0};
    free_.pop_back();
    lock.unlock();
    answer.length = handler_.answer(question.from, question.bytes, {answer.buffer.get(), handler_.most_answer});
    lock.lock();
    answers_.push_back(std::move(answer));
  }

  const CallHandler& handler_;
  std::mutex mutex_;  // for all fields below except threads_
  std::condition_variable changed_;
  std::deque<Question> questions_;
  std::vector<Answer> answers_;
  std::vector<Buffer> free_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

// One call of RunWithCalls. The thread that runs the pump does everything except Begin and the work, under its mutex, in
// Turn.
class Calls final : public Caller {
 public:
  Calls(std::shared_ptr<Link> link, const CallHandler& handler)
      : link_(std::move(link)), handler_(handler), couriers_(static_cast<std::size_t>(link_->size())) {}

  Status Run(const std::function<void(Caller&)>& work) {
    Status worked;
    std::thread worker;
    const Status started = NoThrow([&] {
      answerers_.emplace(handler_);
      for (int i = 0; i < kListeners; ++i) listeners_.push_back(std::make_unique<Listener>());
      worker = StartThread([&] {
        worked = NoThrow([&] { work(*this); });
        const std::lock_guard lock(mutex_);
        worked_ = true;
      });
    });
    // A rank without a thread for its work still takes part, because the others would wait forever.
    if (!started.ok()) worked_ = true;
    Pump::OfProcess().RunUntil([&] {
      bool ended = false;
      Note(NoThrow([&] { ended = Turn(); }));
      return ended;
    });
    if (worker.joinable()) worker.join();
    {
      const std::lock_guard lock(Pump::OfProcess().mutex());
      listeners_.clear();  // no more messages will come
    }
    answerers_.reset();
    if (!started.ok()) return started;
    return worked.ok() ? trouble_ : worked;
  }

  void Begin(int rank, CallBytes call, MutableByteSpan answer, Done done) override {
    if (rank < 0 || rank >= link_->size() || call.size() > kMostCall) {
      return done(Status(Code::kInternal, fmt::format("a call of {} bytes to rank {}", call.size(), rank)));
    }
    auto one = std::make_unique<Pending>();
    one->rank = rank;
    one->call = std::move(call);
    one->answer = answer;
    one->done = std::move(done);
    const std::lock_guard lock(mutex_);
    queued_.push_back(std::move(one));
  }

 private:
  /// A call of this rank that has no answer yet.
  struct Pending {
    int rank = 0;
    std::uint32_t slot = 0;
    CallBytes call;
    MutableByteSpan answer;
    Done done;
    Envelope envelope;
    std::optional<Task> receiving;
  };
  /// Sends calls to one rank, one message after the other.
  struct Courier {
    std::deque<std::uint32_t> waiting;     // slots
    std::vector<std::uint32_t> under_way;  // slots
    CallBytes batch;
    std::optional<Task> sending;
  };
  struct Listener {
    Buffer buffer = MakeBuffer(kMostBatch);
    Envelope envelope;
    std::optional<Task> receiving;
  };
  /// An answer that is being sent.
  struct Leaving {
    Buffer buffer;
    std::optional<Task> sending;
  };

  static Payload Of(std::uint8_t* bytes, std::size_t size) { return Payload::Of(MutableByteSpan(bytes, size)); }

  // Does all work that can be done now. True at the end on all ranks.
  bool Turn() {
    bool worked = false;
    std::deque<std::unique_ptr<Pending>> queued;
    {
      const std::lock_guard lock(mutex_);
      worked = worked_;
      queued.swap(queued_);
    }
    for (auto& one : queued) unslotted_.push_back(std::move(one));
    StartCalls();
    for (auto& listener : listeners_) Listen(*listener);
    for (std::size_t rank = 0; rank < couriers_.size(); ++rank) Deliver(couriers_[rank], static_cast<int>(rank));
    if (answerers_) SendAnswers();
    EndCalls();
    if (!worked || !pending_.empty() || !unslotted_.empty()) return false;
    {
      // The callback of an answer may have begun another call.
      const std::lock_guard lock(mutex_);
      if (!queued_.empty()) return false;
    }
    // When all ranks have entered the barrier, no rank waits for an answer any more.
    if (!std::exchange(ending_, true)) {
      barrier_.Begin("MPI_Ibarrier",
                     [&](MPI_Request* request) { return PMPI_Ibarrier(link_->inner(), request); });
    }
    const bool idle = leaving_.empty() && std::ranges::none_of(couriers_, [](const Courier& courier) {
                        return courier.sending.has_value();
                      });
    if (!barrier_.Test() || !idle) return false;
    Note(barrier_.status());
    return true;
  }

  void Note(const Status& status) {
    if (trouble_.ok()) trouble_ = status;
  }

  // The receive of the answer is posted before the call leaves.
  void StartCalls() {
    while (!unslotted_.empty() && pending_.size() < kMostSlots) {
      std::unique_ptr<Pending> one = std::move(unslotted_.front());
      unslotted_.pop_front();
      while (pending_.contains(next_slot_)) next_slot_ = (next_slot_ + 1) % kMostSlots;
      one->slot = next_slot_;
      next_slot_ = (next_slot_ + 1) % kMostSlots;
      one->receiving = Receive(link_, Of(one->answer.data(), one->answer.size()), one->rank,
                               kCallTag + 1 + static_cast<int>(one->slot), false, &one->envelope);
      one->receiving->Start();
      couriers_[static_cast<std::size_t>(one->rank)].waiting.push_back(one->slot);
      pending_[one->slot] = std::move(one);
    }
  }

  void Deliver(Courier& courier, int rank) {
    if (courier.sending) {
      if (!courier.sending->done()) return;
      if (!courier.sending->status().ok()) {
        for (const std::uint32_t slot : courier.under_way) Fail(slot, courier.sending->status());
      }
      courier.sending.reset();
    }
    if (courier.waiting.empty()) return;
    courier.batch.clear();
    courier.under_way.clear();
    while (!courier.waiting.empty()) {
      const auto at = pending_.find(courier.waiting.front());
      if (at == pending_.end()) {  // it has failed already
        courier.waiting.pop_front();
        continue;
      }
      const Pending& one = *at->second;
      if (courier.batch.size() + kCallHeader + one.call.size() > kMostBatch) break;
      ByteWriter header;
      header.Put(one.slot);
      header.Put(static_cast<std::uint32_t>(one.call.size()));
      courier.batch.insert(courier.batch.end(), header.bytes().begin(), header.bytes().end());
      courier.batch.insert(courier.batch.end(), one.call.begin(), one.call.end());
      courier.under_way.push_back(one.slot);
      courier.waiting.pop_front();
    }
    if (courier.under_way.empty()) return;
    courier.sending = Send(link_, Of(courier.batch.data(), courier.batch.size()), rank, kCallTag, false);
    courier.sending->Start();
  }

  // The sender also knows if a message could not be proven.
  void Listen(Listener& listener) {
    if (listener.receiving) {
      if (!listener.receiving->done()) return;
      const Status& status = listener.receiving->status();
      if (status.ok()) Take(listener);
      if (status.code() == Code::kMpi) return Note(status);
    }
    listener.receiving =
        Receive(link_, Of(listener.buffer.get(), kMostBatch), MPI_ANY_SOURCE, kCallTag, false, &listener.envelope);
    listener.receiving->Start();
  }

  void Take(const Listener& listener) {
    ByteReader in({listener.buffer.get(), static_cast<std::size_t>(listener.envelope.bytes)});
    while (in.ok() && in.remaining() > 0) {
      const auto slot = in.Get<std::uint32_t>();
      const ByteSpan bytes = in.GetBytes(in.Get<std::uint32_t>());
      if (in.ok()) answerers_->Ask({listener.envelope.source, slot, CallBytes(bytes.begin(), bytes.end())});
    }
  }

  void SendAnswers() {
    for (auto& answer : answerers_->Take()) {
      Leaving& one = leaving_.emplace_back();
      one.buffer = std::move(answer.buffer);
      one.sending = Send(link_, Of(one.buffer.get(), answer.length), answer.to, kCallTag + 1 + static_cast<int>(answer.slot),
                         false);
      one.sending->Start();
    }
    std::erase_if(leaving_, [&](Leaving& one) {
      if (!one.sending->done()) return false;
      one.sending.reset();
      answerers_->GiveBack(std::move(one.buffer));
      return true;
    });
  }

  void EndCalls() {
    for (auto at = pending_.begin(); at != pending_.end();) {
      Pending& one = *at->second;
      if (!one.receiving->done()) {
        ++at;
        continue;
      }
      const Status status = one.receiving->status();
      const Done done = std::move(one.done);
      const auto length = static_cast<std::size_t>(one.envelope.bytes);
      at = pending_.erase(at);
      done(status.ok() ? Result<std::size_t>(length) : Result<std::size_t>(status));
    }
  }

  // The call did not arrive, so no answer will come.
  void Fail(std::uint32_t slot, const Status& why) {
    const auto at = pending_.find(slot);
    if (at == pending_.end()) return;
    const Done done = std::move(at->second->done);
    pending_.erase(at);
    done(why);
  }

  const std::shared_ptr<Link> link_;
  const CallHandler& handler_;
  std::optional<Answerers> answerers_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<Courier> couriers_;  // by rank
  std::deque<std::unique_ptr<Pending>> unslotted_;
  std::map<std::uint32_t, std::unique_ptr<Pending>> pending_;  // by slot
  std::uint32_t next_slot_ = 0;
  std::list<Leaving> leaving_;
  Message barrier_;
  bool ending_ = false;
  Status trouble_;
  std::mutex mutex_;  // for the fields below
  std::deque<std::unique_ptr<Pending>> queued_;
  bool worked_ = false;
};

}  // namespace

Status RunWithCalls(MPI_Comm comm, const CallHandler& handler, const std::function<void(Caller&)>& work) {
  LZY_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, Link::Make(comm));
  Calls calls(link, handler);
  return calls.Run(work);
}

}  // namespace lzy::validated
