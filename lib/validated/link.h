#pragma once
// What validated exchanges among the ranks of a communicator share: private communicators, tags, and whose turn it is.

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

/// A message that has come, before anybody looked at it.
struct Arrival {
  Part part{};
  int from = 0;  ///< rank in the communicator; of a broadcast, the root
  int at = 0;    ///< this rank
};
/// For tests: may change what has come as a fault on the way would. Null: nothing does.
using FaultHook = void (*)(const Arrival& arrival, MutableByteSpan content);
void SetFaultHook(FaultHook hook);

class Link {
 public:
  /// Collective over `comm`, an intracommunicator: makes two communicators of its ranks. `sizes` the same on all ranks.
  static Result<std::shared_ptr<Link>> Make(MPI_Comm comm, const Sizes& sizes = {});
  /// For collective calls only (validated/records.h), over a communicator that is the caller's and has the tags below to itself.
  static std::unique_ptr<Link> Over(MPI_Comm comm, int rank, int size);
  /// Frees what Make made, which is collective too, unless MPI is finalized by then.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Sizes& sizes() const { return sizes_; }
  /// Announcements only, with the program's tags, so that MPI matches them by the program's wildcards and in its order.
  MPI_Comm outer() const { return outer_; }
  /// Everything else.
  MPI_Comm inner() const { return inner_; }

  /// The largest tag that a program may use: four of the inner communicator's belong to each.
  int most_tag() const { return most_tag_; }
  static int ChunkTag(int tag) { return 4 * tag; }
  static int RequestTag(int tag) { return 4 * tag + 1; }
  static int ReplyTag(int tag) { return 4 * tag + 2; }
  // Of collective calls. One ends on all ranks before the next but one that is not within it begins on any; and within one there
  // are two at most.
  static int TogetherRequestTag(std::uint64_t call) { return 4 * static_cast<int>(call % 4) + 3; }
  static int TogetherReplyTag(std::uint64_t call) { return 4 * static_cast<int>(call % 4) + 19; }
  static constexpr int kRingTag = 35;
  std::uint64_t NextCall() { return calls_++; }

  /// Tells the hook.
  void Arrived(Part part, int from, MutableByteSpan content) const;

  /// Messages of one direction between two ranks with one tag have their tags on the inner communicator in common, so one
  /// goes after the other.
  struct Lane {
    int peer = 0;
    int tag = 0;
    bool sending = false;
    friend auto operator<=>(const Lane&, const Lane&) = default;
  };
  /// A place in the queue of a lane, from its making to its end.
  class Turn {
   public:
    Turn(Link& link, const Lane& lane);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool come() const;

   private:
    Link& link_;
    const Lane lane_;
    const std::uint64_t ticket_;
  };

  /// A receive that waits for its announcement, from its making to its end; in the order in which MPI matches them.
  class Expected {
   public:
    Expected(Link& link, int source, int tag);
    ~Expected();
    Expected(const Expected&) = delete;
    Expected& operator=(const Expected&) = delete;
    /// Whether no earlier one can have matched an earlier announcement from there.
    bool FirstFor(int source, int tag) const;

   private:
    Link& link_;
    std::list<std::pair<int, int>>::iterator place_;  // source and tag, or MPI's wildcards
  };

 private:
  Link(MPI_Comm outer, const Sizes& sizes) : outer_(outer), sizes_(sizes) {}
  Status Prepare();

  MPI_Comm outer_;  // null: inner_ is somebody else's
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
