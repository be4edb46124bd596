#pragma once
// Shared by all validated exchanges among the ranks of a communicator: private communicators, tags, and the order of
// messages with the same tag (docs/exchange.md, "Communicators and tags").
//
// The C interface keeps one Link for each communicator of the program (lib/capi/exchange.cc). MpiCommunicator has one over
// its own. Turn and Expected are made, queried and destroyed under the mutex of the Pump.

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <tuple>

#include "base/bytes.h"
#include "base/status.h"
#include "transport/task.h"
#include "validated/wire.h"

namespace lzy::validated {

/// A message that has arrived, before its content is examined.
struct Arrival {
  MessagePart part{};
  /// The rank that sent it, in the communicator; in a broadcast, the root.
  int from = 0;
  /// This rank.
  int at = 0;
};
/// For tests. The hook may change the content of each arrival, as a fault on the way would. Null: no hook. The thread that
/// received the message calls it. Set it while no message is under way.
using FaultHook = void (*)(const Arrival& arrival, MutableByteSpan content);
void SetFaultHook(FaultHook hook);

/// The communicators and tags of validated exchanges. Each exchange under way, or its owner, keeps the Link alive by a
/// shared_ptr.
class Link {
 public:
  /// Collective over `comm`, an intracommunicator. Makes two communicators of its ranks, with MPI_ERRORS_RETURN. `sizes` is
  /// limited by SizesFor and must be the same on all ranks, because a receiver needs it to make room for inline messages.
  static Result<std::shared_ptr<Link>> Make(MPI_Comm comm, const Sizes& sizes = {});
  /// For collective calls only (proven_records.h). Uses `comm`, which stays the caller's and must outlive this. No other
  /// messages on `comm` may have the tags below. Local.
  static std::unique_ptr<Link> Over(MPI_Comm comm, int rank, int size);
  /// Collective, as MPI_Comm_free is: frees the communicators that Make made. Does nothing once MPI is finalized.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Sizes& sizes() const { return sizes_; }
  /// Carries announcements only, with the tags of the program. So MPI matches them in its own order, wildcards
  /// included.
  MPI_Comm outer() const { return outer_; }
  /// Carries everything else.
  MPI_Comm inner() const { return inner_; }

  /// The largest tag that the program may use. Each tag of the program has four on the inner communicator.
  int most_tag() const { return most_tag_; }
  /// Tags on the inner communicator for a tag of the program.
  static int ChunkTag(int tag) { return 4 * tag; }
  static int RequestTag(int tag) { return 4 * tag + 1; }
  static int ReplyTag(int tag) { return 4 * tag + 2; }
  // Tags of collective call number `call`, in turn from call to call. Calls need different tags as long as one of
  // them may still be answering requests. A rank begins call c + 1 when it has passed the barrier of call c, and call
  // c + 2 when all ranks have entered that of c + 1; so c has ended everywhere by then. Two more calls may run within
  // a call (a broadcast gathers groups and costs). So four tags are enough.
  static int TogetherRequestTag(std::uint64_t call) { return 4 * static_cast<int>(call % 4) + 3; }
  static int TogetherReplyTag(std::uint64_t call) { return 4 * static_cast<int>(call % 4) + 19; }
  /// Tag of blocks that go round in a gather.
  static constexpr int kRingTag = 35;
  /// The number of the next collective call; the same on all ranks, because they make the same calls.
  std::uint64_t NextCall() { return calls_++; }

  /// Passes `content`, which came from rank `from`, to the fault hook, if a test has set one. Called for every arrival
  /// before its content is used.
  void Arrived(MessagePart part, int from, MutableByteSpan content) const;

  /// Messages in one direction between two ranks with one tag share their tags on the inner communicator. So they go
  /// one after the other, in the order of their announcements.
  struct Lane {
    int peer = 0;
    int tag = 0;
    bool sending = false;
    friend auto operator<=>(const Lane&, const Lane&) = default;
  };
  /// A place in the queue of a lane. It is taken when this is made and given up when this is destroyed.
  class Turn {
   public:
    Turn(Link& link, const Lane& lane);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// True if all messages before it in the lane have ended.
    bool come() const;

   private:
    Link& link_;
    const Lane lane_;
    const std::uint64_t ticket_;
  };

  /// A receive that waits for its announcement. Objects must be made in the order in which the receives were posted.
  /// Several announcements may have arrived when the pump tests them, and it may find a later one first. FirstFor detects
  /// this.
  class Expected {
   public:
    Expected(Link& link, int source, int tag);
    ~Expected();
    Expected(const Expected&) = delete;
    Expected& operator=(const Expected&) = delete;
    /// True if no earlier receive is still waiting that could have matched an announcement from `source` with `tag`.
    bool FirstFor(int source, int tag) const;

   private:
    Link& link_;
    /// Source and tag of the receive, or MPI's wildcards.
    std::list<std::pair<int, int>>::iterator place_;
  };

 private:
  Link(MPI_Comm outer, const Sizes& sizes) : outer_(outer), sizes_(sizes) {}
  Status Prepare();

  /// MPI_COMM_NULL: inner_ belongs to the caller.
  MPI_Comm outer_;
  MPI_Comm inner_ = MPI_COMM_NULL;
  const Sizes sizes_;
  int rank_ = 0;
  int size_ = 0;
  int most_tag_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t tickets_ = 0;
  std::map<Lane, std::deque<std::uint64_t>> lanes_;
  std::list<std::pair<int, int>> expected_;
};

}  // namespace lzy::validated
