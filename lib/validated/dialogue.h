#pragma once
// The dialogue at the end of a validated exchange. The receiving side asks for data that it lacks to prove its bytes; the
// sending side answers (docs/exchange.md, "Messages from one rank to another").
//
// There is one request at a time, and one reply to each request. So no side waits for a message that will not come. The
// asking side decides how often to ask, and ends the dialogue by a signal. send.cc, receive.cc, broadcast.cc, all_gather.cc
// and proven_records.cc use this.
//
// The tasks run in the Pump, under its mutex.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "base/status.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/link.h"
#include "validated/transfer_tree.h"
#include "validated/wire.h"

namespace lzy::validated {

/// How often one message is requested that arrives damaged.
inline constexpr int kAttempts = 8;
/// How often leaves are sent again. Each round requests only those that are still bad.
inline constexpr int kRounds = 8;
/// Most bytes of leaves in one reply, which bounds the memory of both sides. A single leaf is never refused.
inline constexpr std::uint64_t kMostReply = std::uint64_t{4} << 20;

using Bytes = std::vector<std::uint8_t>;

/// A message whose length is the signal; its content is not read.
inline Bytes SignalOf(Signal signal) {
  return Bytes(static_cast<std::size_t>(signal));
}

/// Answers requests from a payload and its tree. The owner must make sure that the payload is proven (or its own), and does
/// not change as long as requests may come.
class Answers {
 public:
  /// Both must outlive this. kAgain may be answered before the tree is built; everything else only after.
  Answers(const TransferTree& tree, const Payload& payload) : tree_(tree), payload_(payload) {}

  /// The reply to kAgain.
  void SetAnnouncement(Bytes announcement) { announcement_ = std::move(announcement); }
  /// The word whose bytes kGetWord asks for.
  void SetWord(std::uint64_t word) { word_ = word; }
  /// The root message for an announcement, from the tree as it is now.
  Bytes RootOf(Announce announce) const;
  void SetAnnounce(const Announce& announce) { announce_ = announce; }

  /// The reply to a message that is not an end. A request that cannot be read, or asks for something that does not exist,
  /// gets kGarbled. Never fails otherwise; may throw std::bad_alloc.
  Bytes To(ByteSpan message);
  /// The bytes of the last readable request for nodes or leaves. If the other side gives up, it could not prove these
  /// bytes.
  const std::vector<Interval>& in_doubt() const { return in_doubt_; }
  void ForgetDoubts() { in_doubt_.clear(); }

 private:
  Bytes Nodes(const Request& request);
  Bytes Leaves(const Request& request);

  const TransferTree& tree_;
  const Payload& payload_;
  Announce announce_;
  Bytes announcement_;
  std::uint64_t word_ = 0;
  std::vector<Interval> in_doubt_;
};

/// A rank to ask, and the tags of requests and replies.
struct Peer {
  Link* link = nullptr;
  int rank = 0;
  int request_tag = 0;
  int reply_tag = 0;
  /// Requests are sent by MPI_Issend: they are done when the other side has received them. Collective calls need
  /// that, since a barrier follows (together.h).
  bool synchronous = false;
};

/// Sends `request` and waits for a reply of at most `most` bytes. Asks again until accept(reply) returns true. kCorrupt
/// after kAttempts; kUnprotected if the peer refuses because it has nothing proven; kMpi. `part` is for the fault hook.
/// `accept` must outlive the task.
Task Ask(Peer peer, Bytes request, MessagePart part, std::size_t most, const std::function<bool(ByteSpan)>& accept);
/// Sends one signal; there is no reply.
Task SendSignal(Peer peer, Signal signal);
/// Asks for the root of the peer's announced message. A reply for another number of bytes is not accepted. `root` must
/// outlive the task.
Task AskRoot(Peer peer, std::uint64_t bytes, Hash* root);

/// Makes `to` the bytes with this root, with the help of the peer: finds the leaves that differ and requests them, round by
/// round. `tree` is the built tree of `to`, and has the given root at the end. A leaf is written to `to` only if it has its
/// hash. On failure (kCorrupt, or an error of Ask), `unproven` has the remaining bytes. All arguments but `peer` and `root`
/// must outlive the task.
Task FetchDiffering(Peer peer, TransferTree& tree, const Payload& to, Hash root, std::vector<Interval>& unproven);

}  // namespace lzy::validated
