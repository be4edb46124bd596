// The receiving side of a validated message (docs/exchange.md, "Messages from one rank to another"). Receiver::Run is the
// protocol; everything else is one of its steps. It is a coroutine in the Pump: each co_await may run other messages.

#include "validated/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "validated/chunk.h"
#include "validated/dialogue.h"
#include "validated/transfer_tree.h"
#include "validated/wire.h"

namespace lzy::validated {
namespace {

class Receiver {
 public:
  Receiver(std::shared_ptr<Link> link, Payload payload, bool in_place, Envelope* envelope)
      : link_(std::move(link)), payload_(std::move(payload)), in_place_(in_place), envelope_(*envelope) {}

  Task Run(int source, int tag);

 private:
  // Number of receives that are posted at once: one that is hashed, and two that travel.
  static constexpr std::size_t kWindow = 3;

  Task TakeAnnouncement();
  // True if `message` is an announcement with all its parts.
  bool Accept(ByteSpan message);
  MessagePart PartOfFirst() const { return announce_.kind == Kind::kInline ? MessagePart::kInline : MessagePart::kAnnounce; }
  Task Continue();
  void ReceiveChunk();
  Task TakeChunks();
  Task TakeRoot(Hash* root);
  // Receives the first chunk and throws it away.
  Task DropChunk();
  // Ends a message that cannot be received, by `signal`; the result is `status`.
  Task Unusable(Signal signal, Status status);
  // `why` as an error that names the peer and the bytes.
  Status Unproven(const Status& why) const;

  const std::shared_ptr<Link> link_;
  const Payload payload_;
  const bool in_place_;
  Envelope& envelope_;
  Peer peer_;
  // The announcement as it arrived, with the payload if that is inline.
  Bytes first_;
  // Until the announcement is read, only its kind is known, from its length.
  Announce announce_;
  TransferTree tree_;
  std::vector<Interval> unproven_;
  // The next chunk whose receive is to be posted.
  std::optional<Chunks> to_begin_;
  std::array<Slot, kWindow> slots_;
  std::size_t begun_ = 0;
  Pump& pump_ = Pump::OfProcess();
};

// Errors of MPI stay unchanged.
Status Receiver::Unproven(const Status& why) const {
  if (why.ok() || why.code() == Code::kMpi) return why;
  const std::string what = announce_.bytes == 0 ? "the announcement" : RangesText(unproven_);
  return {Code::kCorrupt, fmt::format("{} of the message from rank {} (tag {}, {} bytes) could not be proven: {}", what, peer_.rank,
                                      envelope_.tag, announce_.bytes, why.message())};
}

/// The kind must be the one that the length says. For an inline message, the payload must have its root: then it is
/// delivered here, unless it only has to be compared or has no room.
bool Receiver::Accept(ByteSpan message) {
  if (message.size() != first_.size() || message.size() < kAnnounceBytes) return false;
  const auto announce = DecodeAnnounce(message.first(kAnnounceBytes));
  if (!announce || announce->kind != announce_.kind) return false;
  const bool within = announce->kind == Kind::kInline;
  const ByteSpan content = message.subspan(within ? kInlineHeader : message.size());
  if (within && content.size() != announce->bytes) return false;
  announce_ = *announce;
  if (!within) return true;
  tree_ = TransferTree(announce_.bytes, announce_.leaf);
  tree_.HashLeaves(0, content);
  tree_.Build();
  unproven_ = {{0, announce_.bytes}};
  if (tree_.Root() != announce_.root) return false;
  // A payload that is too long is not copied; Continue refuses the message.
  if (announce_.bytes <= payload_.bytes() && !in_place_) payload_.CopyIn(0, content);
  return true;
}

Task Receiver::TakeAnnouncement() {
  if (Accept(first_)) co_return Status::Ok();
  const std::function<bool(ByteSpan)> accept = [this](ByteSpan reply) { return Accept(reply); };
  co_return co_await Ask(peer_, SignalOf(kAgain), PartOfFirst(), first_.size(), accept);
}

// The first chunk is on its way with the announcement. It must be received in any case; otherwise the next message with
// this tag would get it.
Task Receiver::DropChunk() {
  const Buffer scratch = MakeBuffer(kMostFirstChunk);
  Message message;
  message.Receive({scratch.get(), kMostFirstChunk}, peer_.rank, Link::ChunkTag(envelope_.tag), link_->inner());
  co_return co_await pump_.Done(message);
}

// The signal goes first. The sender waits for a request before it waits for its chunk.
Task Receiver::Unusable(Signal signal, Status status) {
  Status told = co_await SendSignal(peer_, signal);
  if (told.ok() && announce_.has_chunk()) told = co_await DropChunk();
  co_return told.ok() ? status : told;
}

void Receiver::ReceiveChunk() {
  Slot& slot = slots_[begun_++ % kWindow];
  const std::uint64_t begin = to_begin_->begin(), size = to_begin_->size();
  to_begin_->Next();
  // Straight into the user's buffer if it has no gaps.
  std::uint8_t* to = slot.Place(payload_, begin, announce_.most_chunk);
  slot.message.Receive({to, size}, peer_.rank, Link::ChunkTag(envelope_.tag), link_->inner());
}

// A chunk is hashed when it has just arrived and is in the cache, while the next one travels.
Task Receiver::TakeChunks() {
  Chunks chunk(announce_);
  for (std::size_t i = 0; !chunk.done(); ++i, chunk.Next()) {
    while (!to_begin_->done() && begun_ < i + kWindow) ReceiveChunk();
    Slot& slot = slots_[i % kWindow];
    LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(slot.message));
    std::uint8_t* content = slot.Place(payload_, chunk.begin(), chunk.size());
    link_->Arrived(MessagePart::kChunk, peer_.rank, {content, chunk.size()});
    HashBeside(tree_, chunk.begin(), {content, chunk.size()}, slots_[(i + 1) % kWindow].message);
    if (payload_.contiguous() == nullptr) payload_.CopyIn(chunk.begin(), {content, chunk.size()});
  }
  tree_.Build();
  co_return Status::Ok();
}

// The sender sends the root once by itself, so its receive is posted before the chunks are taken. If it arrives
// damaged, it is asked for again.
Task Receiver::TakeRoot(Hash* root) {
  Bytes message(kAnnounceBytes);
  Message came;
  came.SetLong();
  came.Receive(message, peer_.rank, peer_.reply_tag, link_->inner());
  if (in_place_) {
    HashAll(payload_, announce_, tree_);
  } else {
    LZY_CO_RETURN_IF_ERROR(co_await TakeChunks());
  }
  LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(came));
  link_->Arrived(MessagePart::kRoot, peer_.rank, message);
  const auto announce = DecodeAnnounce(message);
  if (announce && announce->kind == Kind::kRoot && announce->bytes == announce_.bytes) {
    *root = announce->root;
    co_return Status::Ok();
  }
  co_return co_await AskRoot(peer_, announce_.bytes, root);
}

/// Called after the announcement was read.
Task Receiver::Continue() {
  if (announce_.bytes > payload_.bytes()) {
    const Status status(Code::kInvalidArgument,
                        fmt::format("a message of {} bytes from rank {} (tag {}) has no room in a buffer of {}",
                                    announce_.bytes, peer_.rank, envelope_.tag, payload_.bytes()));
    co_return co_await Unusable(kTooLong, status);
  }
  if (announce_.kind == Kind::kInline) co_return Status::Ok();
  tree_ = TransferTree(announce_.bytes, announce_.leaf);
  unproven_ = {{0, announce_.bytes}};
  if (!in_place_) {
    // The first chunk arrives before `go` has reached the sender. Its receive is posted now, so that MPI need not
    // buffer it.
    to_begin_.emplace(announce_);
    ReceiveChunk();
  }
  Status status;
  Hash root = announce_.root;
  // One chunk, and the root is in the announcement: no `go` is needed.
  if (announce_.kind == Kind::kWhole) {
    status = co_await TakeChunks();
  } else {
    status = co_await SendSignal(peer_, kGo);
    if (status.ok()) status = co_await TakeRoot(&root);
  }
  // Until here no hashes were compared. FetchDiffering ends at once if the roots are equal.
  if (status.ok()) status = co_await FetchDiffering(peer_, tree_, payload_, root, unproven_);
  if (!status.ok()) {
    const Status told = co_await SendSignal(peer_, kGivenUp);
    co_return told.ok() ? Unproven(status) : told;
  }
  co_return Status::Ok();
}

Task Receiver::Run(int source, int tag) {
  // Room for the longest first message that a sender with the same Sizes may send.
  first_.resize(kInlineHeader + link_->sizes().most_inline);
  Message message;
  message.Receive(first_, source, tag, link_->outer());
  // From here on, this receive has its place in the order of receives (Link::Expected).
  std::optional<Link::Expected> expected(std::in_place, *link_, source, tag);
  LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(message));
  envelope_ = {message.source(), message.tag(), 0};
  // The pump may find this announcement before one that an earlier receive matched. The chunks come in the order of MPI's
  // matching, so that order must be kept here.
  if (!expected->FirstFor(envelope_.source, envelope_.tag)) {
    co_await pump_.Until([&] { return expected->FirstFor(envelope_.source, envelope_.tag); });
  }
  expected.reset();
  // Then the earlier messages of the lane must end, because they use the same tags.
  const Link::Turn turn(*link_, {envelope_.source, envelope_.tag, false});
  if (!turn.come()) co_await pump_.Until([&] { return turn.come(); });

  peer_ = {link_.get(), envelope_.source, Link::RequestTag(envelope_.tag), Link::ReplyTag(envelope_.tag), false};
  first_.resize(static_cast<std::size_t>(message.length()));
  announce_.kind = KindByLength(first_.size());
  link_->Arrived(PartOfFirst(), peer_.rank, first_);
  Status status = co_await TakeAnnouncement();
  // lzy_send needs lzy_recv, lzy_validate_send needs lzy_validate_recv. Both sides learn of a mix.
  if (status.ok() && in_place_ != (announce_.kind == Kind::kInPlace)) {
    status = Status(Code::kInvalidArgument, fmt::format("rank {} with tag {}: one side sends a message, the other validates one",
                                                        peer_.rank, envelope_.tag));
  } else {
    status = Unproven(status);
  }
  if (!status.ok()) co_return co_await Unusable(kGivenUp, status);
  envelope_.bytes = announce_.bytes;
  status = co_await Continue();
  if (status.ok()) status = co_await SendSignal(peer_, kProven);
  co_return status;
}

}  // namespace

Task Receive(std::shared_ptr<Link> link, Payload payload, int source, int tag, bool in_place, Envelope* envelope) {
  Receiver receiver(std::move(link), std::move(payload), in_place, envelope);
  co_return co_await receiver.Run(source, tag);
}

}  // namespace lzy::validated
