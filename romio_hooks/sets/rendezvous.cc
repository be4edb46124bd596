#include "hooks/sets/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/printable.h"
#include "hooks/reports/messages.h"
#include "transport/beside.h"

namespace lzy::hooks {
namespace {

using Clock = std::chrono::steady_clock;
using Pause = std::chrono::microseconds;

constexpr int kTag = 1;
constexpr std::size_t kMostRanksNamed = 20;

Clock::time_point After(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Pauses between polls start with the shortest and double up to the longest. So waiting does not take the processor from
/// the rank that is awaited, and a meeting of ranks that come together is quick.
constexpr Pause kShortest{50};
constexpr Pause kLongest{5000};

ByteSpan BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// The content of an ABORT: one byte that says whether its receiver had arrived when the meeting was cancelled, then the
/// reason.
struct Abort {
  explicit Abort(const std::vector<std::uint8_t>& content) : late(!content.empty() && content.front() != 0) {
    if (!content.empty()) why.assign(content.begin() + 1, content.end());
  }
  bool late;
  std::string why;
};

}  // namespace

std::string RankList(const std::set<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", FirstOf(ranks, kMostRanksNamed));
}

Rendezvous::Rendezvous(MPI_Comm comm) : comm_(comm), outbox_(comm, kTag) {
  PMPI_Comm_rank(comm_, &rank_);
  PMPI_Comm_size(comm_, &size_);
}

Rendezvous::~Rendezvous() {
  outbox_.GiveUp();
}

Rendezvous::Bytes Rendezvous::Encode(Kind kind, const Key& key, ByteSpan content) {
  ByteWriter writer;
  writer.Put<std::uint8_t>(static_cast<std::uint8_t>(kind));
  writer.PutString(key.first);
  writer.Put<std::uint64_t>(key.second);
  writer.PutBytes(content);
  return std::move(writer.bytes());
}

std::list<Outbox::Sending> Rendezvous::ForOthers(Kind kind, const Key& key, ByteSpan content) const {
  std::list<Sending> messages;
  for (int rank = 1; rank < size_; ++rank) messages.push_back({Encode(kind, key, content)});
  return messages;
}

std::list<Outbox::Sending> Rendezvous::Aborts(const Key& key, const std::string& why,
                                                  const std::set<int>& late) const {
  std::list<Sending> messages;
  for (int rank = 1; rank < size_; ++rank) {
    messages.push_back({Encode(Kind::kAbort, key, BytesOf((late.contains(rank) ? '\1' : '\0') + why))});
  }
  return messages;
}

void Rendezvous::Send(int to, Kind kind, const Key& key, ByteSpan content) {
  std::list<Sending> one;
  one.push_back({Encode(kind, key, content)});
  outbox_.SendFirst(to, one);
}

void Rendezvous::WaitLonger(std::unique_lock<std::mutex>& lock, Pause& pause) {
  lock.unlock();
  BesideProgram::StopIfEnding();
  std::this_thread::sleep_for(pause);
  lock.lock();
  pause = std::min(pause * 2, kLongest);
}

std::list<Rendezvous::Message> Rendezvous::Receive() {
  while (true) {
    int there = 0;
    MPI_Status status;
    if (PMPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &there, &status) != MPI_SUCCESS || !there) return {};
    int length = 0;
    if (PMPI_Get_count(&status, MPI_BYTE, &length) != MPI_SUCCESS || length < 0) return {};
    // Everything that may throw comes before the receive. The two strings are no longer than the message.
    Bytes bytes(static_cast<std::size_t>(length));
    std::list<Message> one(1);
    Message& message = one.front();
    message.key.first.reserve(bytes.size());
    message.content.reserve(bytes.size());
    if (PMPI_Recv(bytes.data(), length, MPI_BYTE, status.MPI_SOURCE, kTag, comm_, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return {};
    }
    ByteReader reader(bytes);
    message.from = status.MPI_SOURCE;
    message.kind = static_cast<Kind>(reader.Get<std::uint8_t>());
    const ByteSpan name = reader.GetBytes(reader.Get<std::uint32_t>());
    message.key.first.assign(name.begin(), name.end());
    message.key.second = reader.Get<std::uint64_t>();
    if (!reader.ok()) continue;
    const ByteSpan content = reader.GetBytes(reader.remaining());
    message.content.assign(content.begin(), content.end());
    if (message.kind == Kind::kGo) message.turn = ++turns_;
    return one;
  }
}

Rendezvous::Outcome Rendezvous::Meet(const std::string& name, ByteSpan mine, double timeout_seconds,
                                     const Decide& decide) {
  if (name.size() > kMostName) return {Status(Code::kInternal, "the name of a meeting is too long"), {}};
  std::unique_lock lock(mutex_);
  const Key key{name, ++count_[name]};
  if (rank_ != 0) return Attend(lock, key, mine, timeout_seconds);
  return Lead(lock, key, mine, timeout_seconds, decide);
}

// ------------------------------------------------------------------------------------------------------------- Rank 0

Rendezvous::Outcome Rendezvous::Lead(std::unique_lock<std::mutex>& lock, const Key& key, ByteSpan mine, double timeout_seconds,
                                     const Decide& decide) {
  // If there is no memory for these messages, no rank has been answered yet, and the others give up when their time is
  // over. From here on there is always a message for each of them: this one, or one that replaces it completely.
  std::list<Sending> word = Aborts(key, "rank 0 ran out of memory", {});
  Outcome outcome;
  outcome.status = NoThrow([&] {
    Meeting& meeting = meetings_[key];
    led_.insert(key);
    Status status = Coordinate(lock, key, meeting, timeout_seconds, decide, mine, outcome.decision);
    word = status.ok() ? ForOthers(Kind::kGo, key, outcome.decision) : Aborts(key, status.message(), meeting.late);
    return status;
  });
  meetings_.erase(key);
  led_.erase(key);
  // Nobody else sends meanwhile, so all ranks get the GOs in the order of the turns.
  for (int rank = 1; rank < size_; ++rank) outbox_.SendFirst(rank, word);
  if (outcome.status.ok()) outcome.turn = ++turns_;
  return outcome;
}

// Rank 0 receives all messages that are there, whatever meeting they are for. A meeting that rank 0 has left is over; its
// number is at most count_. A message for a later meeting waits in meetings_ until rank 0 joins that meeting.
void Rendezvous::TakeArrivals() {
  for (auto one = Receive(); !one.empty(); one = Receive()) {
    Message& message = one.front();
    const Key& key = message.key;
    const bool joined = led_.contains(key);
    const auto came = count_.find(key.first);
    const bool over = !joined && came != count_.end() && key.second <= came->second;
    if (over) continue;
    Meeting& meeting = meetings_[key];
    // Ranks send no other kinds.
    if (message.kind == Kind::kArrive) {
      meeting.arrived[message.from] = std::move(message.content);
      if (joined) Send(message.from, Kind::kPresent, key, {});
    } else if (message.kind == Kind::kIn) {
      meeting.in.insert(message.from);
    } else if (message.kind == Kind::kWithdraw) {
      meeting.withdrawn.insert(message.from);
    }
  }
}

Status Rendezvous::Coordinate(std::unique_lock<std::mutex>& lock, const Key& key, Meeting& meeting, double timeout_seconds,
                              const Decide& decide, ByteSpan mine, Bytes& decision) {
  const Clock::time_point deadline = After(timeout_seconds);
  // Ranks that arrived earlier have not been answered: PRESENT means that rank 0 is in the meeting.
  for (const auto& [rank, content] : meeting.arrived) Send(rank, Kind::kPresent, key, {});
  meeting.arrived[0].assign(mine.begin(), mine.end());
  meeting.in.insert(0);
  Pause pause = kShortest;
  std::size_t seen = 0;
  while (true) {
    TakeArrivals();
    // A rank that withdrew has left and will not join the commit, even if its PRESENT was on its way.
    if (!meeting.withdrawn.empty()) {
      return {Code::kTimeout, fmt::format("came late on rank 0: {} had given up", RankList(meeting.withdrawn))};
    }
    if (meeting.in.size() == static_cast<std::size_t>(size_)) break;
    if (Clock::now() >= deadline) {
      // A rank that arrived and is not IN counts as missing, but it is not late.
      std::set<int> missing;
      for (int rank = 0; rank < size_; ++rank) {
        if (!meeting.in.contains(rank)) missing.insert(rank);
        if (!meeting.arrived.contains(rank)) meeting.late.insert(rank);
      }
      return {Code::kTimeout, fmt::format("waited {:g} s for {}", timeout_seconds, RankList(missing))};
    }
    const std::size_t now = meeting.in.size() + meeting.arrived.size();
    if (now != seen) pause = kShortest;
    seen = now;
    WaitLonger(lock, pause);
  }
  // All ranks are in `arrived`, and a map is in the order of the ranks.
  std::vector<Bytes> brought;
  for (auto& [rank, content] : meeting.arrived) brought.push_back(std::move(content));
  LZY_ASSIGN_OR_RETURN(decision, decide(brought));
  return Status::Ok();
}

// -------------------------------------------------------------------------------------------------------- Other ranks

// Keeps an ABORT of a meeting that this rank has not joined yet. Drops one of an earlier meeting.
void Rendezvous::NoteAbort(const Message& message) {
  const auto came = count_.find(message.key.first);
  if (came == count_.end() || message.key.second > came->second) aborts_[message.key] = Abort(message.content).why;
}

std::list<Rendezvous::Message> Rendezvous::ReceiveFor(const Key& key) {
  std::list<Message>& own = attended_.at(key);
  while (own.empty()) {
    auto one = Receive();
    if (one.empty()) return one;
    const auto whose = attended_.find(one.front().key);
    if (whose != attended_.end()) {
      whose->second.splice(whose->second.end(), one);  // allocates nothing
    } else if (one.front().kind == Kind::kAbort) {
      (void)NoThrow([&] { NoteAbort(one.front()); });
    }
  }
  std::list<Message> first;
  first.splice(first.end(), own, own.begin());
  return first;
}

// Messages are read before ARRIVE is sent, because an ABORT of this meeting may be waiting. Between IN and the answer,
// running out of memory must not end the wait, because the others rely on the promise to stay.
Rendezvous::Outcome Rendezvous::Attend(std::unique_lock<std::mutex>& lock, const Key& key, ByteSpan mine, double timeout_seconds) {
  const auto early = aborts_.extract(key);
  if (early) return {Status(Code::kTimeout, early.mapped()), {}, 0, Outcome::Own::kCameLate};
  attended_[key];
  struct Leave {
    std::map<Key, std::list<Message>>& attended;
    const Key& key;
    ~Leave() { attended.erase(key); }
  } const leave{attended_, key};
  bool arrived = false;
  bool present = false;
  Clock::time_point deadline;
  Pause pause = kShortest;
  while (true) {
    std::list<Message> one;
    const Status received = NoThrow([&] { one = ReceiveFor(key); });
    if (!received.ok() && !present) return {received, {}, 0, Outcome::Own::kNothing};
    if (!one.empty()) {
      Message& message = one.front();
      pause = kShortest;
      if (message.kind == Kind::kAbort) {
        // Rank 0 may have sent it before it saw this rank's ARRIVE. So the message says whether this rank had arrived.
        const Abort abort(message.content);
        const auto own = arrived && !abort.late ? Outcome::Own::kNothing : Outcome::Own::kCameLate;
        return {Status(Code::kTimeout, abort.why), {}, 0, own};
      }
      if (message.kind == Kind::kGo) return {Status::Ok(), std::move(message.content), message.turn};
      if (message.kind == Kind::kPresent && arrived) {
        Send(0, Kind::kIn, key, {});
        present = true;
      }
      continue;
    }
    if (!arrived) {
      Send(0, Kind::kArrive, key, mine);
      arrived = true;
      deadline = After(timeout_seconds);
    }
    if (!present && Clock::now() >= deadline) {
      Send(0, Kind::kWithdraw, key, {});
      return {Status(Code::kTimeout, fmt::format("waited {:g} s for rank 0", timeout_seconds)), {}, 0, Outcome::Own::kNobodyHere};
    }
    WaitLonger(lock, pause);
  }
}

}  // namespace lzy::hooks
