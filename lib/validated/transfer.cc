// The two sides of a validated message (docs/exchange.md, "Messages from one rank to another"). Sender::Run and
// Receiver::Run are the protocol; everything else is one of its steps. Both are coroutines in the Pump: each co_await
// may run other messages.

#include "validated/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "validated/chunk.h"
#include "validated/mend.h"
#include "validated/tree.h"
#include "validated/wire.h"

namespace lzy::validated {
namespace {

// An announcement whose root is not known yet.
Announce AnnounceOf(Kind kind, std::uint64_t bytes, const Sizes& sizes) {
  return {kind, bytes, sizes.leaf, sizes.first_chunk, sizes.most_chunk, {}};
}

/// A payload with gaps is copied before it is sent. Its chunks are kept short, so that a window of copies takes a few
/// megabytes.
Sizes SizesOf(const Payload& payload, Sizes wanted) {
  if (payload.contiguous() == nullptr) wanted.most_chunk = std::min<std::uint64_t>(wanted.most_chunk, 512u << 10);
  return SizesFor(payload.bytes(), wanted);
}

// One message that is sent. The announcement says which of four ways it takes: inline, whole (one chunk, hashed
// before), in chunks (hashed while they travel), or in place (nothing travels but hashes).
class Sender {
 public:
  Sender(std::shared_ptr<Link> link, Payload payload, int dest, int tag, bool in_place)
      : link_(std::move(link)),
        payload_(std::move(payload)),
        dest_(dest),
        tag_(tag),
        sizes_(SizesOf(payload_, link_->sizes())),
        announce_(AnnounceOf(in_place                                 ? Kind::kInPlace
                             : payload_.bytes() <= sizes_.most_inline ? Kind::kInline
                             : payload_.bytes() <= sizes_.most_whole  ? Kind::kWhole
                                                                      : Kind::kMessage,
                             payload_.bytes(), sizes_)),
        tree_(payload_.bytes(), sizes_.leaf),
        answers_(tree_, payload_),
        chunks_(announce_) {
    answers_.SetAnnounce(announce_);
  }

  Task Run();

 private:
  // Chunks under way at most. A slot is used again when its chunk has left.
  static constexpr std::size_t kWindow = 8;

  // Sends the announcement; for short payloads, hashes them first.
  void Announced();
  ByteSpan ChunkBytes(Slot& slot);
  void Begin(Slot& slot, ByteSpan bytes);
  void SendWhole();
  void HashInPlace();
  Task SendChunk();
  // Hashes the chunk of a slot that has left, and keeps `moving` going meanwhile.
  void HashSent(Slot& slot, Message& moving);
  Task HashRest();
  // What the receiver asks for by kGo: all other chunks, then the root.
  Task Go();
  Task Reply(Bytes reply);
  // Answers the receiver until it ends the message.
  Task Converse();
  Status End(Signal signal) const;

  const std::shared_ptr<Link> link_;
  const Payload payload_;
  const int dest_;
  const int tag_;
  const Sizes sizes_;
  const Announce announce_;
  TransferTree tree_;
  Answers answers_;
  Chunks chunks_;
  Bytes announcement_;
  Message announced_;
  std::array<Slot, kWindow> slots_;
  std::size_t chunk_ = 0;
  Pump& pump_ = Pump::OfProcess();
};

ByteSpan Sender::ChunkBytes(Slot& slot) {
  return payload_.View(chunks_.begin(), chunks_.size(), slot.Scratch(payload_, chunks_.size()));
}

// The announcement is sent at once, before the chunks have their turn. MPI matches messages in the order in which
// they are sent, so the receiver sees the order of the program's calls.
void Sender::Announced() {
  Announce announce = announce_;
  // The length repeats the kind, in case the content arrives damaged (KindByLength).
  announcement_.resize(announce.kind == Kind::kMessage  ? kAnnounceBytes
                       : announce.kind == Kind::kWhole ? kWholeBytes
                                                       : kInPlaceBytes);
  if (announce.kind == Kind::kInline) {
    announcement_.resize(kInlineHeader + payload_.bytes());
    const MutableByteSpan content = MutableByteSpan(announcement_).subspan(kInlineHeader);
    payload_.CopyOut(0, content);
    tree_.HashLeaves(0, content);
  } else if (announce.kind == Kind::kWhole) {
    tree_.HashLeaves(0, ChunkBytes(slots_[0]));
  }
  // In all other kinds the root follows later: hashing first would keep the receiver waiting.
  if (announce.kind == Kind::kInline || announce.kind == Kind::kWhole) {
    tree_.Build();
    announce.root = tree_.Root();
  }
  EncodeAnnounce(announce, announcement_.data());
  announced_.Begin("MPI_Isend", [&](MPI_Request* r) {
    return PMPI_Isend(announcement_.data(), static_cast<int>(announcement_.size()), MPI_BYTE, dest_, tag_, link_->outer(), r);
  });
}

void Sender::Begin(Slot& slot, ByteSpan bytes) {
  slot.message.Begin("MPI_Isend", [&](MPI_Request* r) {
    return PMPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, dest_, Link::ChunkTag(tag_), link_->inner(), r);
  });
}

// A short payload travels faster than the answer to an announcement and a root of its own would. So it was hashed
// before.
void Sender::SendWhole() {
  Begin(slots_[0], payload_.contiguous() != nullptr ? ByteSpan(payload_.contiguous(), payload_.bytes())
                                                    : ByteSpan(slots_[0].scratch.get(), payload_.bytes()));
  chunks_.Next();
}

// A chunk is hashed while it is in the cache. If it had to be copied, that is now, before it travels. Otherwise it is
// when it has left, while the chunks behind it travel. The first chunk is hashed at once, because the answer to the
// announcement must be waited for anyway.
Task Sender::SendChunk() {
  Slot& slot = slots_[chunk_ % kWindow];
  Slot& next = slots_[(chunk_ + 1) % kWindow];
  const bool at_once = chunk_ == 0 || payload_.contiguous() == nullptr;
  ++chunk_;
  Status status = co_await pump_.Done(slot.message);
  if (!status.ok()) co_return status;
  HashSent(slot, next.message);
  const std::uint64_t begin = chunks_.begin();
  const ByteSpan bytes = payload_.View(begin, chunks_.size(), slot.Scratch(payload_, sizes_.most_chunk));
  chunks_.Next();
  Begin(slot, bytes);
  slot.unhashed = {begin, begin + bytes.size()};
  if (at_once) {
    HashBeside(tree_, begin, bytes, slot.message);
    slot.unhashed = {};
  }
  co_return Status::Ok();
}

// Only contiguous payloads get here with something to hash: chunks with a copy are hashed at once.
void Sender::HashSent(Slot& slot, Message& moving) {
  const auto [begin, end] = std::exchange(slot.unhashed, {});
  if (begin != end) HashBeside(tree_, begin, {payload_.contiguous() + begin, end - begin}, moving);
}

// Goes once round the window, the oldest chunk first.
Task Sender::HashRest() {
  for (std::size_t i = 0; i < kWindow; ++i, ++chunk_) {
    Slot& slot = slots_[chunk_ % kWindow];
    if (slot.unhashed.begin == slot.unhashed.end) continue;
    Status status = co_await pump_.Done(slot.message);
    if (!status.ok()) co_return status;
    HashSent(slot, slots_[(chunk_ + 1) % kWindow].message);
  }
  tree_.Build();
  co_return Status::Ok();
}

void Sender::HashInPlace() {
  Buffer scratch = payload_.contiguous() == nullptr ? MakeBuffer(sizes_.most_chunk) : nullptr;
  for (; !chunks_.done(); chunks_.Next()) {
    tree_.HashLeaves(chunks_.begin(), payload_.View(chunks_.begin(), chunks_.size(), scratch.get()));
  }
  tree_.Build();
}

// The receiver has posted its receive before it asked, so this does not wait for it.
Task Sender::Reply(Bytes reply) {
  Message message;
  message.Begin("MPI_Isend", [&](MPI_Request* r) {
    return PMPI_Isend(reply.data(), static_cast<int>(reply.size()), MPI_BYTE, dest_, Link::ReplyTag(tag_), link_->inner(), r);
  });
  Status status = co_await pump_.Done(message);
  co_return status;
}

Task Sender::Go() {
  while (!chunks_.done()) {
    Status status = co_await SendChunk();
    if (!status.ok()) co_return status;
  }
  // Of a message in place, the tree is built already.
  if (announce_.kind == Kind::kMessage) {
    Status hashed = co_await HashRest();
    if (!hashed.ok()) co_return hashed;
  }
  Status status = co_await Reply(answers_.RootOf(announce_));
  co_return status;
}

// in_doubt() has the bytes of the last request. They are what the receiver could not prove, unless it needed several
// requests.
Status Sender::End(Signal signal) const {
  if (signal == kProven) return Status::Ok();
  if (signal == kTooLong) {
    return {Code::kInvalidArgument, fmt::format("rank {}: its buffer has no room for {} bytes (tag {})", dest_, payload_.bytes(), tag_)};
  }
  const auto doubt = answers_.in_doubt().empty() ? std::vector<Interval>{{0, payload_.bytes()}} : answers_.in_doubt();
  return {Code::kCorrupt, fmt::format("rank {} could not prove {} of {} bytes sent to it (tag {})", dest_,
                                      payload_.bytes() == 0 ? "any" : RangesText(doubt), payload_.bytes(), tag_)};
}

// One request at a time. The end is a signal, in which nothing can be wrong, so both sides always know it.
Task Sender::Converse() {
  const Buffer buffer = MakeBuffer(kMostRequest);
  for (;;) {
    Message request;
    // The receiver hashes all it got before it answers.
    if (announce_.kind != Kind::kInline) request.SetLong();
    request.Begin("MPI_Irecv", [&](MPI_Request* r) {
      return PMPI_Irecv(buffer.get(), static_cast<int>(kMostRequest), MPI_BYTE, dest_, Link::RequestTag(tag_), link_->inner(), r);
    });
    Status status = co_await pump_.Done(request);
    if (!status.ok()) co_return status;
    const int length = request.length();
    if (length <= kTooLong) co_return End(static_cast<Signal>(length));
    const MutableByteSpan content(buffer.get(), static_cast<std::size_t>(length));
    if (length > kMostSignal) link_->Arrived(Part::kRequest, dest_, content);
    if (length == kGo) {
      status = co_await Go();
    } else {
      Bytes reply = answers_.To(content);
      status = co_await Reply(std::move(reply));
    }
    if (!status.ok()) co_return status;
  }
}

// The order matters: announce, wait for the turn on the chunk tag, send the first chunk, then answer. Everything that
// was sent has been received in the end, even by a receiver that cannot use it. So nothing is left over for the next
// message with this tag.
Task Sender::Run() {
  Announced();
  answers_.SetAnnouncement(announcement_);
  const Link::Turn turn(*link_, {dest_, tag_, true});
  if (!turn.come()) co_await pump_.Until([&] { return turn.come(); });
  if (announce_.kind == Kind::kMessage) {
    Status sent = co_await SendChunk();
    if (!sent.ok()) co_return sent;
  } else if (announce_.kind == Kind::kWhole) {
    SendWhole();
  } else if (announce_.kind == Kind::kInPlace) {
    HashInPlace();
  }
  const Status ended = co_await Converse();
  // Sends are waited for even after an error: their buffers are in this object.
  Status status = co_await pump_.Done(announced_);
  for (Slot& slot : slots_) {
    const Status sent = co_await pump_.Done(slot.message);
    if (status.ok()) status = sent;
  }
  co_return ended.ok() ? status : ended;
}

class Receiver {
 public:
  Receiver(std::shared_ptr<Link> link, Payload payload, bool in_place, Envelope* envelope)
      : link_(std::move(link)), payload_(std::move(payload)), in_place_(in_place), envelope_(*envelope) {}

  Task Run(int source, int tag);

 private:
  // Receives that are posted at a time: one that is hashed, and two that travel.
  static constexpr std::size_t kWindow = 3;

  Task TakeAnnouncement();
  // True if `message` is an announcement with all that must come with it.
  bool Accept(ByteSpan message);
  Part PartOfFirst() const { return announce_.kind == Kind::kInline ? Part::kInline : Part::kAnnounce; }
  Task Continue();
  void ReceiveChunk();
  Task TakeChunks();
  void HashInPlace();
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

// Errors of MPI stay what they are.
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
  Status status = co_await Ask(peer_, SignalOf(kAgain), PartOfFirst(), first_.size(), accept);
  co_return status;
}

// The first chunk is on its way with the announcement. It must be received whatever becomes of the message, or the
// next message with this tag would get it.
Task Receiver::DropChunk() {
  const Buffer scratch = MakeBuffer(kMostFirstChunk);
  Message message;
  message.Begin("MPI_Irecv", [&](MPI_Request* r) {
    return PMPI_Irecv(scratch.get(), static_cast<int>(kMostFirstChunk), MPI_BYTE, peer_.rank, Link::ChunkTag(envelope_.tag),
                      link_->inner(), r);
  });
  Status status = co_await pump_.Done(message);
  co_return status;
}

// The signal goes first. The sender waits for a request before it waits for its chunk.
Task Receiver::Unusable(Signal signal, Status status) {
  Status told = co_await Tell(peer_, signal);
  if (told.ok() && announce_.has_chunk()) told = co_await DropChunk();
  co_return told.ok() ? status : told;
}

void Receiver::ReceiveChunk() {
  Slot& slot = slots_[begun_++ % kWindow];
  const std::uint64_t begin = to_begin_->begin(), size = to_begin_->size();
  to_begin_->Next();
  // Straight into the user's buffer if it has no gaps.
  std::uint8_t* to = payload_.contiguous() != nullptr ? payload_.contiguous() + begin : slot.Scratch(payload_, announce_.most_chunk);
  slot.message.Begin("MPI_Irecv", [&](MPI_Request* r) {
    return PMPI_Irecv(to, static_cast<int>(size), MPI_BYTE, peer_.rank, Link::ChunkTag(envelope_.tag), link_->inner(), r);
  });
}

// A chunk is hashed when it has just arrived and is in the cache, while the next one travels.
Task Receiver::TakeChunks() {
  Chunks chunk(announce_);
  for (std::size_t i = 0; !chunk.done(); ++i, chunk.Next()) {
    while (!to_begin_->done() && begun_ < i + kWindow) ReceiveChunk();
    Slot& slot = slots_[i % kWindow];
    const Status status = co_await pump_.Done(slot.message);
    if (!status.ok()) co_return status;
    std::uint8_t* content = payload_.contiguous() != nullptr ? payload_.contiguous() + chunk.begin() : slot.scratch.get();
    link_->Arrived(Part::kChunk, peer_.rank, {content, chunk.size()});
    HashBeside(tree_, chunk.begin(), {content, chunk.size()}, slots_[(i + 1) % kWindow].message);
    if (payload_.contiguous() == nullptr) payload_.CopyIn(chunk.begin(), {content, chunk.size()});
  }
  co_return Status::Ok();
}

void Receiver::HashInPlace() {
  Buffer scratch = payload_.contiguous() == nullptr ? MakeBuffer(announce_.most_chunk) : nullptr;
  for (Chunks chunk(announce_); !chunk.done(); chunk.Next()) {
    tree_.HashLeaves(chunk.begin(), payload_.View(chunk.begin(), chunk.size(), scratch.get()));
  }
}

// The sender sends the root once by itself, so its receive is posted before the chunks are taken. If it arrives
// damaged, it is asked for again.
Task Receiver::TakeRoot(Hash* root) {
  Bytes message(kAnnounceBytes);
  Message came;
  came.SetLong();
  came.Begin("MPI_Irecv", [&](MPI_Request* r) {
    return PMPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_BYTE, peer_.rank, peer_.reply_tag, link_->inner(), r);
  });
  if (in_place_) {
    HashInPlace();
  } else {
    const Status taken = co_await TakeChunks();
    if (!taken.ok()) co_return taken;
  }
  tree_.Build();
  Status status = co_await pump_.Done(came);
  if (!status.ok()) co_return status;
  link_->Arrived(Part::kRoot, peer_.rank, message);
  const auto announce = DecodeAnnounce(message);
  if (announce && announce->kind == Kind::kRoot && announce->bytes == announce_.bytes) {
    *root = announce->root;
    co_return Status::Ok();
  }
  status = co_await AskRoot(peer_, announce_.bytes, root);
  co_return status;
}

/// With an announcement that was read.
Task Receiver::Continue() {
  if (announce_.bytes > payload_.bytes()) {
    Status status(Code::kInvalidArgument, fmt::format("a message of {} bytes from rank {} (tag {}) has no room in a buffer of {}",
                                                      announce_.bytes, peer_.rank, envelope_.tag, payload_.bytes()));
    status = co_await Unusable(kTooLong, status);
    co_return status;
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
    tree_.Build();
  } else {
    status = co_await Tell(peer_, kGo);
    if (status.ok()) status = co_await TakeRoot(&root);
  }
  // Until here nobody has compared anything. Mend ends at once if the roots are equal.
  if (status.ok()) status = co_await Mend(peer_, tree_, payload_, root, unproven_);
  if (!status.ok()) {
    const Status told = co_await Tell(peer_, kGivenUp);
    co_return told.ok() ? Unproven(status) : told;
  }
  co_return Status::Ok();
}

Task Receiver::Run(int source, int tag) {
  // Room for the longest first message that a sender with the same Sizes may send.
  first_.resize(kInlineHeader + link_->sizes().most_inline);
  Message message;
  message.Begin("MPI_Irecv", [&](MPI_Request* r) {
    return PMPI_Irecv(first_.data(), static_cast<int>(first_.size()), MPI_BYTE, source, tag, link_->outer(), r);
  });
  // From here on, this receive has its place in the order of receives (Link::Expected).
  std::optional<Link::Expected> expected(std::in_place, *link_, source, tag);
  Status status = co_await pump_.Done(message);
  if (!status.ok()) co_return status;
  envelope_ = {message.source(), message.tag(), 0};
  // The pump may have seen this announcement before one that an earlier receive matched. The chunks come in the order
  // of MPI's matching, so that order must be kept here.
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
  status = co_await TakeAnnouncement();
  // lzy_send needs lzy_recv, lzy_validate_send needs lzy_validate_recv. Both sides learn of a mix.
  if (status.ok() && in_place_ != (announce_.kind == Kind::kInPlace)) {
    status = Status(Code::kInvalidArgument, fmt::format("rank {} with tag {}: one side sends a message, the other validates one",
                                                        peer_.rank, envelope_.tag));
  } else {
    status = Unproven(status);
  }
  if (!status.ok()) {
    status = co_await Unusable(kGivenUp, status);
    co_return status;
  }
  envelope_.bytes = announce_.bytes;
  status = co_await Continue();
  if (status.ok()) status = co_await Tell(peer_, kProven);
  co_return status;
}

}  // namespace

Task Send(std::shared_ptr<Link> link, Payload payload, int dest, int tag, bool in_place) {
  Sender sender(std::move(link), std::move(payload), dest, tag, in_place);
  Status status = co_await sender.Run();
  co_return status;
}

Task Receive(std::shared_ptr<Link> link, Payload payload, int source, int tag, bool in_place, Envelope* envelope) {
  Receiver receiver(std::move(link), std::move(payload), in_place, envelope);
  Status status = co_await receiver.Run(source, tag);
  co_return status;
}

}  // namespace lzy::validated
