#include "validated/dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lzy::validated {
namespace {

// Number of leaves below a full node of `level`.
std::uint64_t PowerOfFanout(std::size_t level) {
  std::uint64_t leaves = 1;
  for (std::size_t i = 0; i < level; ++i) leaves *= TransferTree::kFanout;
  return leaves;
}

/// The bytes below a node. The last node of a level may have fewer leaves.
Interval RangeUnder(const TransferTree& tree, std::size_t level, std::uint64_t index) {
  const std::uint64_t leaves = PowerOfFanout(level);
  const std::uint64_t first = index * leaves;
  const std::uint64_t last = std::min<std::uint64_t>(first + leaves, tree.Count(0)) - 1;
  return {tree.LeafRange(first).begin, tree.LeafRange(last).end};
}

}  // namespace

Bytes Answers::RootOf(Announce announce) const {
  announce.kind = Kind::kRoot;
  announce.root = tree_.Root();
  Bytes message(kAnnounceBytes);
  EncodeAnnounce(announce, message.data());
  return message;
}

Bytes Answers::To(ByteSpan message) {
  if (message.size() == kAgain) return announcement_;
  if (message.size() == kGetRoot) return RootOf(announce_);
  if (message.size() >= kGetWord && message.size() <= kMostSignal) {
    return Bytes(kWordReply + (word_ >> (8 * (message.size() - kGetWord)) & 0xff));
  }
  const auto request = DecodeRequest(message);
  if (!request) return SignalOf(kGarbled);
  return request->kind == Kind::kGetNodes ? Nodes(*request) : Leaves(*request);
}

// The request has a right digest, but its indices need not fit this tree. They ascend, so the last one decides.
Bytes Answers::Nodes(const Request& request) {
  if (request.level == 0 || request.level >= tree_.levels() || request.indices.back() >= tree_.Count(request.level)) {
    return SignalOf(kGarbled);
  }
  in_doubt_.clear();
  std::vector<Hash> hashes;
  for (const std::uint32_t index : request.indices) {
    const auto children = tree_.Children(request.level, index);
    hashes.insert(hashes.end(), children.begin(), children.end());
    in_doubt_.push_back(RangeUnder(tree_, request.level, index));
  }
  return EncodeNodes(request.level, hashes);
}

// The size of the reply is computed before it is allocated. A damaged or wrong request cannot make this side allocate
// more than kMostReply, or one leaf.
Bytes Answers::Leaves(const Request& request) {
  if (tree_.levels() == 0 || request.indices.back() >= tree_.Count(0)) return SignalOf(kGarbled);
  std::uint64_t size = 0;
  std::vector<Interval> ranges;
  for (const std::uint32_t index : request.indices) {
    ranges.push_back(tree_.LeafRange(index));
    size += ranges.back().end - ranges.back().begin;
  }
  if (size > kMostReply && request.indices.size() > 1) return SignalOf(kGarbled);
  Bytes reply(kLeavesHeader + size);
  std::uint8_t* to = reply.data() + kLeavesHeader;
  for (const Interval& range : ranges) {
    payload_.CopyOut(range.begin, {to, range.end - range.begin});
    to += range.end - range.begin;
  }
  in_doubt_ = std::move(ranges);
  return reply;
}

// The receive is posted before the request is sent. So the reply always finds its receive, and a rank that answers
// never waits for the one that asked.
Task Ask(Peer peer, Bytes request, MessagePart part, std::size_t most, const std::function<bool(ByteSpan)>& accept) {
  Pump& pump = Pump::OfProcess();
  Bytes reply(std::max<std::size_t>(most, kMostSignal));
  const MPI_Comm comm = peer.link->inner();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Message asked, answered;
    answered.Receive(reply, peer.rank, peer.reply_tag, comm);
    asked.Send(request, peer.rank, peer.request_tag, comm, peer.synchronous);
    LZY_CO_RETURN_IF_ERROR(co_await pump.Done(asked));
    LZY_CO_RETURN_IF_ERROR(co_await pump.Done(answered));
    const auto length = static_cast<std::size_t>(answered.length());
    if (length == kRefused) co_return Status(Code::kUnprotected, fmt::format("rank {} has nothing proven to answer from", peer.rank));
    // kGarbled: the request arrived damaged. That counts as an attempt.
    if (length <= kMostSignal) continue;
    peer.link->Arrived(part, peer.rank, {reply.data(), length});
    if (accept({reply.data(), length})) co_return Status::Ok();
  }
  co_return Status(Code::kCorrupt, fmt::format("no reply of rank {} came undamaged in {} attempts", peer.rank, kAttempts));
}

// The content is zeros that are not read; only the length counts.
Task SendSignal(Peer peer, Signal signal) {
  Message told;
  const std::uint8_t nothing[kMostSignal] = {};
  told.Send({nothing, static_cast<std::size_t>(signal)}, peer.rank, peer.request_tag, peer.link->inner(), peer.synchronous);
  co_return co_await Pump::OfProcess().Done(told);
}

// A root with a right digest, but for another number of bytes, is not the root of this message.
Task AskRoot(Peer peer, std::uint64_t bytes, Hash* root) {
  const std::function<bool(ByteSpan)> accept = [&](ByteSpan reply) {
    const auto announce = DecodeAnnounce(reply);
    if (!announce || announce->kind != Kind::kRoot || announce->bytes != bytes) return false;
    *root = announce->root;
    return true;
  };
  co_return co_await Ask(peer, SignalOf(kGetRoot), MessagePart::kRoot, kAnnounceBytes, accept);
}

namespace {

/// Descends from the root to the leaves that differ, level by level. A level with many differing nodes needs several
/// requests.
Task FindLeaves(Peer peer, Descent& descent) {
  while (!descent.done()) {
    const std::size_t level = descent.level();
    const std::size_t nodes = descent.differing().size();
    for (std::size_t from = 0; from < nodes; from += kMostIndices) {
      const std::size_t count = std::min(kMostIndices, nodes - from);
      Request request{Kind::kGetNodes, static_cast<std::uint8_t>(level), {}};
      for (std::size_t i = from; i < from + count; ++i) request.indices.push_back(descent.differing()[i].index);
      const std::size_t children = descent.ChildCount(from, count);
      const std::function<bool(ByteSpan)> accept = [&](ByteSpan reply) {
        const auto hashes = DecodeNodes(reply, static_cast<std::uint8_t>(level), children);
        return hashes && descent.Take(from, count, *hashes);
      };
      const std::size_t size = kFrame + sizeof(Hash) * children;
      LZY_CO_RETURN_IF_ERROR(co_await Ask(peer, EncodeRequest(request), MessagePart::kNodes, size, accept));
    }
  }
  co_return Status::Ok();
}

/// Takes leaves with right hashes out of a reply to a request for `wanted`. Returns the others.
std::vector<Descent::Node> TakeLeaves(TransferTree& tree, const Payload& to, std::span<const Descent::Node> wanted, ByteSpan reply) {
  std::vector<Descent::Node> bad;
  std::size_t at = kLeavesHeader;
  for (const Descent::Node& leaf : wanted) {
    const Interval range = tree.LeafRange(leaf.index);
    const ByteSpan bytes = reply.subspan(at, range.end - range.begin);
    at += bytes.size();
    if (TransferTree::LeafOf(leaf.index, bytes) != leaf.expected) {
      bad.push_back(leaf);
      continue;
    }
    to.CopyIn(range.begin, bytes);
    tree.SetLeaf(leaf.index, leaf.expected);
  }
  return bad;
}

/// One round: all of `leaves` are sent again. Those that arrive damaged stay in `leaves`.
Task FetchLeaves(Peer peer, TransferTree& tree, const Payload& to, std::vector<Descent::Node>& leaves) {
  const std::size_t batch = std::clamp<std::size_t>(kMostReply / tree.leaf_bytes(), 1, kMostIndices);
  std::vector<Descent::Node> bad;
  for (std::size_t from = 0; from < leaves.size(); from += batch) {
    const auto wanted = std::span<const Descent::Node>(leaves).subspan(from, std::min(batch, leaves.size() - from));
    Request request{Kind::kGetLeaves, 0, {}};
    std::size_t size = kLeavesHeader;
    for (const Descent::Node& leaf : wanted) {
      request.indices.push_back(leaf.index);
      const Interval range = tree.LeafRange(leaf.index);
      size += range.end - range.begin;
    }
    // A reply of the right length is accepted even if leaves in it are bad. The good ones are kept, and the next
    // round asks for the others only.
    const std::function<bool(ByteSpan)> accept = [&](ByteSpan reply) {
      if (reply.size() != size) return false;
      const std::vector<Descent::Node> still = TakeLeaves(tree, to, wanted, reply);
      bad.insert(bad.end(), still.begin(), still.end());
      return true;
    };
    LZY_CO_RETURN_IF_ERROR(co_await Ask(peer, EncodeRequest(request), MessagePart::kLeaves, size, accept));
  }
  leaves = std::move(bad);
  co_return Status::Ok();
}

// Replaces `unproven` by the bytes below these nodes.
void NoteUnproven(const TransferTree& tree, std::size_t level, const std::vector<Descent::Node>& nodes,
                  std::vector<Interval>& unproven) {
  unproven.clear();
  for (const Descent::Node& node : nodes) unproven.push_back(RangeUnder(tree, level, node.index));
}

}  // namespace

// Descends, then fetches in rounds. Updates `unproven` after each step, so that it is right at every exit.
Task FetchDiffering(Peer peer, TransferTree& tree, const Payload& to, Hash root, std::vector<Interval>& unproven) {
  unproven.clear();
  if (tree.Root() == root) co_return Status::Ok();
  Descent descent(tree, root);
  Status status = co_await FindLeaves(peer, descent);
  NoteUnproven(tree, descent.level(), descent.differing(), unproven);
  if (!status.ok()) co_return status;
  std::vector<Descent::Node> leaves = descent.differing();
  for (int round = 0; round < kRounds && !leaves.empty(); ++round) {
    status = co_await FetchLeaves(peer, tree, to, leaves);
    NoteUnproven(tree, 0, leaves, unproven);
    if (!status.ok()) co_return status;
  }
  if (!leaves.empty()) {
    co_return Status(Code::kCorrupt, fmt::format("{} leaves from rank {} arrived damaged {} times over", leaves.size(), peer.rank, kRounds));
  }
  // The leaves were compared one by one. Compute the root over all of them once more.
  tree.Build();
  if (tree.Root() == root) co_return Status::Ok();
  unproven = {{0, tree.bytes()}};
  co_return Status(Code::kInternal, "the leaves have their hashes and the root has not");
}

}  // namespace lzy::validated
