// The sending side of a validated message (docs/exchange.md, "Messages from one rank to another"). Sender::Run is the
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
        announce_{in_place                                 ? Kind::kInPlace
                  : payload_.bytes() <= sizes_.most_inline ? Kind::kInline
                  : payload_.bytes() <= sizes_.most_whole  ? Kind::kWhole
                                                           : Kind::kMessage,
                  payload_.bytes(), sizes_.leaf, sizes_.first_chunk, sizes_.most_chunk, {}},
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
  Task SendChunk();
  // Hashes the chunk of a slot that has left, and keeps `moving` going meanwhile.
  void HashSent(Slot& slot, Message& moving);
  Task HashRest();
  // The answer to kGo: all other chunks, then the root.
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

// The announcement is sent at once, before the chunks wait for their turn. MPI matches messages in the order in which they
// are sent, so the receiver sees the order of the program's calls.
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
  announced_.Send(announcement_, dest_, tag_, link_->outer());
}

void Sender::Begin(Slot& slot, ByteSpan bytes) {
  slot.message.Send(bytes, dest_, Link::ChunkTag(tag_), link_->inner());
}

// A short payload travels faster than an answer to its announcement and a separate root would. So it was hashed before.
void Sender::SendWhole() {
  Begin(slots_[0], {slots_[0].Place(payload_, 0, payload_.bytes()), payload_.bytes()});
  chunks_.Next();
}

// A chunk is hashed while it is in the cache. If it was copied, that is before it travels. Otherwise it is after it has
// left, while the following chunks travel. The first chunk is hashed at once, because the answer to the announcement must
// be waited for anyway.
Task Sender::SendChunk() {
  Slot& slot = slots_[chunk_ % kWindow];
  Slot& next = slots_[(chunk_ + 1) % kWindow];
  const bool at_once = chunk_ == 0 || payload_.contiguous() == nullptr;
  ++chunk_;
  LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(slot.message));
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
    LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(slot.message));
    HashSent(slot, slots_[(chunk_ + 1) % kWindow].message);
  }
  tree_.Build();
  co_return Status::Ok();
}

// The receiver has posted its receive before it asked, so this does not wait for it.
Task Sender::Reply(Bytes reply) {
  Message message;
  message.Send(reply, dest_, Link::ReplyTag(tag_), link_->inner());
  co_return co_await pump_.Done(message);
}

Task Sender::Go() {
  // In place, the tree is built already, and nothing is sent.
  if (announce_.kind == Kind::kMessage) {
    while (!chunks_.done()) {
      LZY_CO_RETURN_IF_ERROR(co_await SendChunk());
    }
    LZY_CO_RETURN_IF_ERROR(co_await HashRest());
  }
  co_return co_await Reply(answers_.RootOf(announce_));
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
    request.Receive({buffer.get(), kMostRequest}, dest_, Link::RequestTag(tag_), link_->inner());
    LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(request));
    const int length = request.length();
    if (length <= kTooLong) co_return End(static_cast<Signal>(length));
    const MutableByteSpan content(buffer.get(), static_cast<std::size_t>(length));
    if (length > kMostSignal) link_->Arrived(MessagePart::kRequest, dest_, content);
    if (length == kGo) {
      LZY_CO_RETURN_IF_ERROR(co_await Go());
    } else {
      LZY_CO_RETURN_IF_ERROR(co_await Reply(answers_.To(content)));
    }
  }
}

// The order matters: announce, wait for the turn on the chunk tag, send the first chunk, then answer. Every sent message is
// received in the end, even by a receiver that cannot use it. So nothing is left for the next message with this tag.
Task Sender::Run() {
  Announced();
  answers_.SetAnnouncement(announcement_);
  const Link::Turn turn(*link_, {dest_, tag_, true});
  if (!turn.come()) co_await pump_.Until([&] { return turn.come(); });
  if (announce_.kind == Kind::kMessage) {
    LZY_CO_RETURN_IF_ERROR(co_await SendChunk());
  } else if (announce_.kind == Kind::kWhole) {
    SendWhole();
  } else if (announce_.kind == Kind::kInPlace) {
    HashAll(payload_, announce_, tree_);
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

}  // namespace

Task Send(std::shared_ptr<Link> link, Payload payload, int dest, int tag, bool in_place) {
  Sender sender(std::move(link), std::move(payload), dest, tag, in_place);
  co_return co_await sender.Run();
}

}  // namespace lzy::validated
