#include "link/link_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "comm/named_ranks.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// The kinds of messages, and their numbers. A space is the number of a communicator. A phase is the number of a call of
// RunWithCalls in its space.
enum Kind : std::uint8_t {
  kCollective,  // space, number
  kCall,        // space, phase, number
  kAnswer,      // space, phase, number of the call
  kWorkEnded,   // space, phase
  kStop,        // number of the signal
};

// How often a rank that waits looks for a signal.
constexpr auto kLook = std::chrono::milliseconds(100);

using Key = std::pair<std::uint64_t, std::uint64_t>;

}  // namespace

class LinkHub {
 public:
  /// What has arrived for one phase of calls.
  struct Phase {
    std::deque<ChannelMessage> calls;
    bool other_ended = false;
    bool over = false;  // no more calls are answered here
  };

  explicit LinkHub(Link::Ends ends)
      : ends_(std::move(ends)),
        channel_(ends_.peer, [this](ChannelMessage message) { Receive(std::move(message)); }, [this] { Failed(); }) {}

  const Link::Ends& ends() const { return ends_; }
  Channel& channel() { return channel_; }

  /// Waits for a message of the other rank.
  Result<ChannelMessage> Take(Key key) {
    std::unique_lock lock(mutex_);
    LZY_RETURN_IF_ERROR(WaitUntil(lock, [&] { return collectives_.contains(key); }));
    auto message = collectives_.extract(key);
    return std::move(message.mapped());
  }

  /// Waits until `ready`, with the mutex. Returns the failure of the channel if that comes first.
  template <class Ready>
  Status WaitUntil(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    while (!ready()) {
      if (const Status failed = channel_.status(); !failed.ok()) return failed;
      changed_.wait_for(lock, kLook);
      PassSignal(lock);
    }
    return Status::Ok();
  }

  std::mutex& mutex() { return mutex_; }
  std::condition_variable& changed() { return changed_; }
  /// The mutex must be held.
  Phase& PhaseOf(Key key) { return phases_[key]; }

  std::uint64_t BeginCall(MutableByteSpan answer, Caller::Done done) {
    const std::lock_guard lock(mutex_);
    calls_[++last_call_] = {answer, std::move(done)};
    return last_call_;
  }
  /// Ends all calls that have got no answer, if the channel has failed.
  void FailCalls() {
    std::map<std::uint64_t, Open> calls;
    {
      const std::lock_guard lock(mutex_);
      if (channel_.status().ok()) return;
      calls.swap(calls_);
    }
    for (auto& [number, call] : calls) call.done(channel_.status());
  }
  std::uint64_t NewSpace() { return ++last_space_; }

 private:
  struct Open {
    MutableByteSpan answer;
    Caller::Done done;
  };

  void Failed() {
    FailCalls();
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  void Receive(ChannelMessage message) {
    const auto& numbers = message.label.numbers;
    if (message.label.kind == kStop) {
      if (ends_.stop) ends_.stop(static_cast<int>(numbers[0]));
      return;
    }
    if (message.label.kind == kAnswer) return EndCall(message);
    const std::lock_guard lock(mutex_);
    if (message.label.kind == kCollective) collectives_.emplace(Key{numbers[0], numbers[1]}, std::move(message));
    else if (message.label.kind == kCall) phases_[{numbers[0], numbers[1]}].calls.push_back(std::move(message));
    else if (message.label.kind == kWorkEnded) phases_[{numbers[0], numbers[1]}].other_ended = true;
    changed_.notify_all();
  }

  void EndCall(const ChannelMessage& message) {
    std::optional<Open> call;
    {
      const std::lock_guard lock(mutex_);
      const auto at = calls_.find(message.label.numbers[2]);
      if (at == calls_.end()) return;
      call = std::move(at->second);
      calls_.erase(at);
    }
    if (message.size > call->answer.size()) return call->done(Status(Code::kInternal, fmt::format("{}: sent a malformed answer", ends_.peer)));
    std::ranges::copy(message.bytes(), call->answer.begin());
    call->done(static_cast<std::size_t>(message.size));
  }

  void PassSignal(std::unique_lock<std::mutex>& lock) {
    const int signal = ends_.signal && !passed_ ? ends_.signal() : 0;
    if (signal == 0) return;
    passed_ = true;
    lock.unlock();
    channel_.Send({kStop, {static_cast<std::uint64_t>(signal), 0, 0}}, std::vector<std::uint8_t>());
    lock.lock();
  }

  const Link::Ends ends_;
  std::mutex mutex_;  // for the fields up to channel_
  std::condition_variable changed_;
  std::map<Key, ChannelMessage> collectives_;
  std::map<Key, Phase> phases_;
  std::map<std::uint64_t, Open> calls_;
  std::uint64_t last_call_ = 0;
  bool passed_ = false;
  std::atomic<std::uint64_t> last_space_ = 0;
  Channel channel_;  // the last member: its threads use the others
};

namespace {

/// One call of RunWithCalls.
class Calls final : public Caller {
 public:
  Calls(LinkHub& hub, int rank, Key phase, const CallHandler& handler) : hub_(hub), rank_(rank), phase_(phase), handler_(handler) {}

  void Begin(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer, Done done) override {
    if (rank == rank_) return done(handler_.answer(rank_, call, answer.first(handler_.most_answer)));
    const std::uint64_t number = hub_.BeginCall(answer, std::move(done));
    hub_.channel().Send({kCall, {phase_.first, phase_.second, number}}, std::move(call));
    hub_.FailCalls();  // the channel may have failed before
  }

  Status Run(const std::function<void(Caller&)>& work) {
    std::vector<std::thread> threads;
    const Status started = NoThrow([&] {
      for (unsigned i = 0; i < std::max(1u, handler_.threads); ++i) threads.push_back(StartThread([this] { AnswerAll(); }));
    });
    Status worked = threads.empty() ? started : NoThrow([&] { work(*this); });
    hub_.channel().Send({kWorkEnded, {phase_.first, phase_.second, 0}}, std::vector<std::uint8_t>());
    {
      std::unique_lock lock(hub_.mutex());
      const Status waited = hub_.WaitUntil(lock, [&] { return hub_.PhaseOf(phase_).other_ended; });
      if (worked.ok()) worked = waited;
      hub_.PhaseOf(phase_).over = true;
      hub_.changed().notify_all();
    }
    for (std::thread& thread : threads) thread.join();
    return worked;
  }

 private:
  // A thread. The work of the other rank has ended when all of its calls have been answered.
  void AnswerAll() {
    for (;;) {
      ChannelMessage call;
      {
        std::unique_lock lock(hub_.mutex());
        LinkHub::Phase& phase = hub_.PhaseOf(phase_);
        hub_.changed().wait(lock, [&] { return phase.over || !phase.calls.empty(); });
        if (phase.calls.empty()) return;
        call = std::move(phase.calls.front());
        phase.calls.pop_front();
      }
      std::shared_ptr<AlignedBuffer> buffer;
      std::size_t length = 0;
      const Status answered = NoThrow([&] {
        buffer = std::make_shared<AlignedBuffer>(handler_.most_answer);
        length = handler_.answer(1 - rank_, call.bytes(), {buffer->data(), handler_.most_answer});
      });
      const MessageLabel label{kAnswer, {phase_.first, phase_.second, call.label.numbers[2]}};
      // An empty answer is malformed for the caller, which then stops.
      if (!answered.ok()) length = 0;
      hub_.channel().Send(label, buffer, length > 0 ? ByteSpan(buffer->data(), length) : ByteSpan());
    }
  }

  LinkHub& hub_;
  const int rank_;
  const Key phase_;
  const CallHandler& handler_;
};

class LinkCommunicator final : public Communicator, public NamedRanks {
 public:
  LinkCommunicator(std::shared_ptr<LinkHub> hub, std::uint64_t space) : hub_(std::move(hub)), space_(space) {}

  int rank() const override { return hub_->ends().rank; }
  int size() const override { return 2; }
  std::string ProcessorName() const override { return hub_->ends().here; }
  // Paths of the other machine have its name in front.
  std::string name_of(int rank) const override { return rank == 1 ? hub_->ends().host : std::string(); }

  Status Barrier() override { return Exchange({}).status(); }

  Status Broadcast(Bytes& bytes, int root) override {
    if (root == rank()) {
      Send(bytes);
      return hub_->channel().status();
    }
    LZY_ASSIGN_OR_RETURN(const ChannelMessage got, hub_->Take({space_, ++taken_}));
    return NoThrow([&] { bytes.assign(got.bytes().begin(), got.bytes().end()); });
  }

  Result<std::vector<Bytes>> AllGather(ByteSpan mine) override {
    LZY_ASSIGN_OR_RETURN(const ChannelMessage got, Exchange(mine));
    return ByRank(mine, got.bytes());
  }

  Result<std::vector<Bytes>> Gather(ByteSpan mine, int root) override {
    if (root != rank()) {
      Send(mine);
      LZY_RETURN_IF_ERROR(hub_->channel().status());
      return std::vector<Bytes>();
    }
    LZY_ASSIGN_OR_RETURN(const ChannelMessage got, hub_->Take({space_, ++taken_}));
    return ByRank(mine, got.bytes());
  }

  Result<std::uint64_t> AllReduceMax(std::uint64_t value) override {
    LZY_ASSIGN_OR_RETURN(const std::uint64_t other, ExchangeNumber(value));
    return std::max(value, other);
  }
  Result<std::uint64_t> AllReduceSum(std::uint64_t value) override {
    LZY_ASSIGN_OR_RETURN(const std::uint64_t other, ExchangeNumber(value));
    return value + other;
  }

  Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts) override {
    if (counts.size() != 2) return {Code::kInternal, fmt::format("ReduceScatterXor: {} counts for 2 ranks", counts.size())};
    const std::uint64_t* const part[] = {send, send + counts[0]};
    const auto me = static_cast<std::size_t>(rank());
    const auto* theirs = reinterpret_cast<const std::uint8_t*>(part[1 - me]);
    LZY_ASSIGN_OR_RETURN(const ChannelMessage got, Exchange({theirs, counts[1 - me] * sizeof(std::uint64_t)}));
    if (got.size != counts[me] * sizeof(std::uint64_t)) return Malformed();
    for (std::uint64_t i = 0; i < counts[me]; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, got.bytes().data() + i * sizeof word, sizeof word);
      receive[i] = part[me][i] ^ word;
    }
    return Status::Ok();
  }

  Result<std::unique_ptr<Communicator>> Split(int color) override {
    ByteWriter mine;
    mine.Put(static_cast<std::int64_t>(color));
    mine.Put(hub_->NewSpace());
    LZY_ASSIGN_OR_RETURN(const ChannelMessage got, Exchange(mine.bytes()));
    ByteReader other(got.bytes());
    const auto their_color = other.Get<std::int64_t>();
    const auto their_space = other.Get<std::uint64_t>();
    if (!other.ok()) return Malformed();
    if (color < 0) return std::unique_ptr<Communicator>();
    if (color != their_color) return SelfCommunicator();
    // The number that rank 0 proposes counts.
    ByteReader own(mine.bytes());
    (void)own.Get<std::int64_t>();
    const std::uint64_t space = rank() == 0 ? own.Get<std::uint64_t>() : their_space;
    return std::unique_ptr<Communicator>(std::make_unique<LinkCommunicator>(hub_, space));
  }

  Status RunWithCalls(const CallHandler& handler, const std::function<void(Caller&)>& work) override {
    return Calls(*hub_, rank(), {space_, ++phases_}, handler).Run(work);
  }

 private:
  Status Malformed() const { return {Code::kInternal, fmt::format("{}: sent a malformed message", hub_->ends().peer)}; }

  // Messages of one rank are counted, so those of two calls cannot be mixed up.
  void Send(ByteSpan mine) { hub_->channel().Send({kCollective, {space_, ++sent_, 0}}, std::vector<std::uint8_t>(mine.begin(), mine.end())); }
  Result<ChannelMessage> Exchange(ByteSpan mine) {
    Send(mine);
    return hub_->Take({space_, ++taken_});
  }
  Result<std::uint64_t> ExchangeNumber(std::uint64_t value) {
    ByteWriter mine;
    mine.Put(value);
    LZY_ASSIGN_OR_RETURN(const ChannelMessage got, Exchange(mine.bytes()));
    ByteReader other(got.bytes());
    const auto theirs = other.Get<std::uint64_t>();
    if (!other.ok()) return Malformed();
    return theirs;
  }
  Result<std::vector<Bytes>> ByRank(ByteSpan mine, ByteSpan theirs) const {
    std::vector<Bytes> all(2);
    LZY_RETURN_IF_ERROR(NoThrow([&] {
      all[static_cast<std::size_t>(rank())].assign(mine.begin(), mine.end());
      all[static_cast<std::size_t>(1 - rank())].assign(theirs.begin(), theirs.end());
    }));
    return all;
  }

  const std::shared_ptr<LinkHub> hub_;
  const std::uint64_t space_;
  std::uint64_t sent_ = 0, taken_ = 0, phases_ = 0;
};

}  // namespace

Link::Link(Ends ends)
    : hub_(std::make_shared<LinkHub>(std::move(ends))), communicator_(std::make_unique<LinkCommunicator>(hub_, 0)) {}
Link::~Link() = default;

Channel& Link::channel() { return hub_->channel(); }
void Link::Close() { hub_->channel().Close(); }

}  // namespace lzy
