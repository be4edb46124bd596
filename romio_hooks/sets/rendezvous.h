#pragma once
// Meetings of all ranks that may fail: who does not come is named, and nobody waits for ever (docs/design.md "Sets").
//
// A close of a set's member is a local call, so a collective operation in it would hang for ever when one rank does not
// call it. Ranks therefore meet by messages, and only when all are known to be there, and have said that they will not
// leave, is there a collective commit. Rank 0 coordinates:
//
//   rank r: ARRIVE ->            rank 0, once it is in the same meeting, answers each ARRIVE:   <- PRESENT
//   rank r: IN ->                (r promises to stay)                when all are IN:           <- GO, or ABORT
//   rank r: WITHDRAW ->          (no PRESENT within the time-out)                               <- ABORT to all
//
// Rank 0 ends every meeting within the time-out of its own arrival, so a rank that is IN waits without one; altogether
// nobody waits for longer than twice the time-out. That holds when memory runs out, too: whoever is IN does nothing
// that could fail before it has its answer, and rank 0 has an ABORT ready from the beginning. ABORT goes to ranks that
// have not arrived too: they find it when they do. Meetings of one name are numbered by each rank for itself; a message
// for another number than the one a rank is at is stale, or waits for it.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace lzy::hooks {

class Rendezvous {
 public:
  using Bytes = std::vector<std::uint8_t>;
  /// Made on rank 0 from what each rank brought, by rank: what all of them get, or why the meeting is off.
  using Decide = std::function<Result<Bytes>(const std::vector<Bytes>&)>;

  /// `comm`: of the layer's own, errors return; not freed here. Used for nothing else.
  explicit Rendezvous(MPI_Comm comm);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  struct Outcome {
    /// Ok: every rank gets `decision`. kTimeout: "waited 60 s for ranks 2, 5" or the like. On rank 0 also what Decide
    /// said.
    Status status;
    Bytes decision;
    /// What only this rank knows of a meeting that failed, while rank 0 knows all the rest.
    enum class Own : std::uint8_t {
      kNothing,
      kCameLate,    ///< the others had given up already
      kNobodyHere,  ///< rank 0 did not come
    } own = Own::kNothing;
  };
  /// The next meeting called `name` (of at most kMostName bytes). Local: returns on every rank that calls it.
  Outcome Meet(const std::string& name, ByteSpan mine, double timeout_seconds, const Decide& decide);

  static constexpr std::size_t kMostName = 4096;

 private:
  enum class Kind : std::uint8_t { kArrive = 1, kIn, kWithdraw, kPresent, kGo, kAbort };
  struct Message {
    Kind kind = Kind::kAbort;
    int from = 0;
    std::string name;
    std::uint64_t number = 0;
    Bytes content;
  };
  using Key = std::pair<std::string, std::uint64_t>;
  /// What rank 0 knows of a meeting.
  struct Meeting {
    std::map<int, Bytes> arrived;
    std::set<int> in;
    std::set<int> withdrawn;
    std::set<int> late;  ///< not arrived when time was up
  };
  struct Sending {
    Bytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static Bytes Encode(Kind kind, const Key& key, ByteSpan content);
  /// The message for each other rank, so that sending needs no memory.
  std::list<Sending> ForOthers(Kind kind, const Key& key, ByteSpan content) const;
  /// The same for an ABORT; those in `late` were not there when it was decided.
  std::list<Sending> Aborts(const Key& key, const std::string& why, const std::set<int>& late) const;
  /// Sends the first of `messages`.
  void SendFirst(int to, std::list<Sending>& messages);
  void Send(int to, Kind kind, const Key& key, ByteSpan content);
  /// What it throws, it throws before the message is taken.
  std::optional<Message> Receive();
  Status Coordinate(const Key& key, Meeting& meeting, double timeout_seconds, const Decide& decide, ByteSpan mine,
                    Bytes& decision);
  void TakeArrivals(const Key& current);
  Outcome Lead(const Key& key, ByteSpan mine, double timeout_seconds, const Decide& decide);
  Outcome Attend(const Key& key, ByteSpan mine, double timeout_seconds);
  void NoteAbort(Message message, Key about);
  bool FindAbort(const Key& key, std::string& reason);

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::map<std::string, std::uint64_t> count_;  // meetings of this name that this rank came to
  std::map<Key, Meeting> meetings_;             // rank 0: under way, or arrived at before rank 0 did
  std::map<Key, std::string> aborts_;           // other ranks: called off before this rank came
  std::list<Sending> sending_;
};

/// "rank 2", "ranks 2, 5", the first twenty of many.
std::string RankList(const std::set<int>& ranks);

}  // namespace lzy::hooks
