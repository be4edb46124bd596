#pragma once
// Meetings of all ranks. A meeting may fail: a rank that does not come is named, and no rank waits for ever
// (docs/design/commit.md "Sets").
//
// Closing a member of a set is a local call. A collective operation in it would hang if one rank did not close its member.
// So ranks first meet by messages. The collective commit begins only if all ranks have come and have promised to stay. Rank
// 0 coordinates:
//
//   rank r: ARRIVE ->            rank 0, once it is in the same meeting, answers each ARRIVE:   <- PRESENT
//   rank r: IN ->                (r promises to stay)                when all are IN:           <- GO, or ABORT
//   rank r: WITHDRAW ->          (no PRESENT within the time-out)                               <- ABORT to all
//
// Invariants:
//  - Rank 0 ends every meeting within the time-out after its own arrival. So a rank that is IN waits without a time-out,
//    and no rank waits for longer than twice the time-out.
//  - This holds if memory runs out, too. A rank that is IN needs no memory to wait for its answer, and rank 0 has an
//    ABORT ready from the beginning.
//  - ABORT also goes to ranks that have not arrived. They find it when they do.
//  - Each rank numbers the meetings of one name for itself. A message for another number than the current one is stale,
//    or is kept for a later meeting.
//  - A process may be in several meetings at once, in different threads. Whichever thread receives a message passes it on.
//    All ranks number the meetings that succeed in the same order: that in which rank 0 sends its GOs.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "hooks/sets/outbox.h"

namespace lzy::hooks {

/// One per process. Thread-safe, but one thread at a time for each name.
class Rendezvous {
 public:
  using Bytes = std::vector<std::uint8_t>;
  /// Rank 0 calls it when all ranks are IN. The argument has the bytes of each rank, by rank; all ranks get the result. An
  /// error cancels the meeting, and all ranks get its message.
  using Decide = std::function<Result<Bytes>(const std::vector<Bytes>&)>;

  /// `comm`: a communicator only for this object, with MPI_ERRORS_RETURN. The caller frees it. No other point-to-point
  /// messages may use it.
  explicit Rendezvous(MPI_Comm comm);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  struct Outcome {
    /// Ok: all ranks came and got the same `decision`. kTimeout: the meeting is cancelled on all ranks; the message has the
    /// reason ("waited 60 s for ranks 2, 5"). On rank 0 it may also be the error of Decide.
    Status status;
    Bytes decision;
    /// If status is ok: the number of this meeting among all that succeeded, from 1; the same on all ranks.
    std::uint64_t turn = 0;
    /// The part of a failure that only this rank knows. Rank 0 reports everything else.
    enum class Own : std::uint8_t {
      kNothing,
      kCameLate,    ///< the others had given up already
      kNobodyHere,  ///< rank 0 did not come
    } own = Own::kNothing;
  };
  /// Joins the next meeting called `name` (at most kMostName bytes), with the bytes `mine`. Returns within twice
  /// `timeout_seconds` even if other ranks never call it. After success, collective calls of all ranks are safe, because
  /// every rank has returned from this meeting or is about to.
  Outcome Meet(const std::string& name, ByteSpan mine, double timeout_seconds, const Decide& decide);

  static constexpr std::size_t kMostName = 4096;

 private:
  /// Ranks send the first three to rank 0. Rank 0 sends the last three.
  enum class Kind : std::uint8_t { kArrive = 1, kIn, kWithdraw, kPresent, kGo, kAbort };
  /// Identifies a meeting: name, and number among the meetings of this name, from 1.
  using Key = std::pair<std::string, std::uint64_t>;
  struct Message {
    Kind kind = Kind::kAbort;
    int from = 0;
    Key key;
    Bytes content;
    std::uint64_t turn = 0;  ///< of a GO
  };
  /// State of a meeting on rank 0. The sets contain ranks.
  struct Meeting {
    std::map<int, Bytes> arrived;  ///< the bytes of each rank
    std::set<int> in;
    std::set<int> withdrawn;
    std::set<int> late;  ///< not arrived when time was up
  };
  using Sending = Outbox::Sending;

  /// Encodes a message: kind, name, number, then `content`.
  static Bytes Encode(Kind kind, const Key& key, ByteSpan content);
  /// Makes one message for each other rank in advance, so that sending needs no memory.
  std::list<Sending> ForOthers(Kind kind, const Key& key, ByteSpan content) const;
  /// The same for ABORT. The message tells ranks in `late` that they had not arrived when the meeting was cancelled.
  std::list<Sending> Aborts(const Key& key, const std::string& why, const std::set<int>& late) const;
  void Send(int to, Kind kind, const Key& key, ByteSpan content);
  /// Returns the next message in a list, which is empty if there is none; does not wait. Allocates all memory before it takes
  /// the message from MPI, so no message is lost if it throws.
  std::list<Message> Receive();
  /// Other ranks: the next message for `key`, empty if there is none. Passes messages for other threads on.
  std::list<Message> ReceiveFor(const Key& key);
  /// Pauses without the lock.
  static void WaitLonger(std::unique_lock<std::mutex>& lock, std::chrono::microseconds& pause);
  /// Rank 0: waits for all ranks and decides.
  Status Coordinate(std::unique_lock<std::mutex>& lock, const Key& key, Meeting& meeting, double timeout_seconds,
                    const Decide& decide, ByteSpan mine, Bytes& decision);
  /// Rank 0: handles all messages that have arrived, and answers ranks that arrive at a meeting that rank 0 has joined.
  void TakeArrivals();
  /// Meet on rank 0, and on the other ranks. The caller holds `lock` on mutex_; it is released while waiting.
  Outcome Lead(std::unique_lock<std::mutex>& lock, const Key& key, ByteSpan mine, double timeout_seconds, const Decide& decide);
  Outcome Attend(std::unique_lock<std::mutex>& lock, const Key& key, ByteSpan mine, double timeout_seconds);
  /// Keeps an ABORT of a meeting that this rank has not joined yet.
  void NoteAbort(const Message& message);

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::mutex mutex_;  // for all fields below, and for messages
  std::uint64_t turns_ = 0;                     // meetings that succeeded
  std::set<Key> led_;                           // rank 0: meetings that it has joined and not left
  std::map<Key, std::list<Message>> attended_;  // other ranks: the same, with messages that another thread received
  std::map<std::string, std::uint64_t> count_;  // by name: meetings that this rank has joined
  std::map<Key, Meeting> meetings_;             // rank 0: meetings under way, and later ones with arrived ranks
  std::map<Key, std::string> aborts_;           // other ranks: meetings cancelled before this rank joined
  Outbox outbox_;
};

/// "rank 2", "ranks 2, 5", the first twenty of many.
std::string RankList(const std::set<int>& ranks);

}  // namespace lzy::hooks
