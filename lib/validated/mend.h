#pragma once
// The conversation of a validated exchange once the bytes are there: who has them asks for what it lacks to prove them,
// and who sent them answers. One request at a time, one reply to each; who asks decides how often.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "base/status.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/link.h"
#include "validated/tree.h"
#include "validated/wire.h"

namespace lzy::validated {

inline constexpr int kAttempts = 8;  ///< of one message that arrives damaged
inline constexpr int kRounds = 8;    ///< of sending leaves that arrive damaged
inline constexpr std::uint64_t kMostReply = std::uint64_t{4} << 20;  ///< bytes of leaves in one reply; at least one leaf

using Bytes = std::vector<std::uint8_t>;

/// A signal, as requests and replies are given to be sent.
inline Bytes SignalOf(Signal signal) {
  return Bytes(static_cast<std::size_t>(signal));
}

/// Answers from what is proven: the payload and its tree, whose bytes stay as they are while somebody may ask.
class Answers {
 public:
  /// Both must outlive this; the tree is built before anything but kAgain is asked for.
  Answers(const TransferTree& tree, const Payload& payload) : tree_(tree), payload_(payload) {}

  void SetAnnouncement(Bytes announcement) { announcement_ = std::move(announcement); }
  /// For kGetWord.
  void SetWord(std::uint64_t word) { word_ = word; }
  /// Made of the announcement, once the tree is built.
  Bytes RootOf(Announce announce) const;
  void SetAnnounce(const Announce& announce) { announce_ = announce; }

  /// To whatever came that is not an end: kGarbled to what cannot be answered.
  Bytes To(ByteSpan message);
  /// Where the last request that could be read was about: what could not be proven when the other side gives up.
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

/// Whom to ask, and how.
struct Peer {
  Link* link = nullptr;
  int rank = 0;
  int request_tag = 0;
  int reply_tag = 0;
  bool synchronous = false;  ///< requests are done only when they have arrived
};

/// Sends `request` until a reply arrives, of at most `most` bytes, of which accept(reply) is true; at most kAttempts times, then
/// kCorrupt. kUnprotected when the peer has nothing to answer from. `accept` must outlive the task.
Task Ask(Peer peer, Bytes request, Part part, std::size_t most, const std::function<bool(ByteSpan)>& accept);
/// Sends one signal.
Task Tell(Peer peer, Signal signal);
/// The root of what the peer announced, which had so many bytes.
Task AskRoot(Peer peer, std::uint64_t bytes, Hash* root);

/// Makes `to` what has this root, by the peer: finds the leaves that differ and has all of them sent again, round by round. `tree`
/// is that of `to`, and in the end the peer's. When that cannot be reached, kCorrupt, and what is left is in `unproven`.
/// All but `peer` must outlive the task.
Task Mend(Peer peer, TransferTree& tree, const Payload& to, Hash root, std::vector<Interval>& unproven);

}  // namespace lzy::validated
