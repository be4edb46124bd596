// Broadcaster: one rank's side of a validated broadcast. `Run` is the whole protocol. Between the first message and the
// barrier of Together::Finish, no rank may leave: after an error, a rank continues to make the MPI calls that the others
// wait for. Only an error of MPI ends a call early.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "validated/chunk.h"
#include "validated/collective.h"
#include "validated/collectives.h"
#include "validated/together.h"
#include "validated/transfer_tree.h"

namespace lzy::validated {
namespace {

/// The rank that rank `rank` asks first: its parent in a binomial tree from the root. So no rank answers more than
/// log2(ranks) others. If a fault was passed on to half of the ranks, the root alone need not repair them all.
int ParentOf(int rank, int root, int size) {
  const auto place = static_cast<unsigned>((rank - root + size) % size);
  return (static_cast<int>(place & (place - 1)) + root) % size;
}

// One rank's side of a broadcast: announcement, chunks, root, then requests along the tree of ParentOf.
class Broadcaster {
 public:
  Broadcaster(std::shared_ptr<Link> link, Payload payload, int root, bool in_place)
      : link_(std::move(link)),
        payload_(std::move(payload)),
        root_(root),
        in_place_(in_place),
        answers_(tree_, payload_),
        together_(*link_) {}

  Task Run();

 private:
  bool is_root() const { return link_->rank() == root_; }
  void SetAnnounce(const Announce& announce);
  void Prepare();
  // Steps of Run: announcement, content, root. Each ends with the same knowledge on all ranks, or with an error on
  // this one.
  Task ShareAnnounce();
  Task ShareContent();
  Task ShareRoot();
  // Broadcasts a message whose length all ranks know.
  Task ShareFixed(MessagePart part, Bytes& message);
  bool AcceptAnnounce(ByteSpan message);
  bool AcceptRoot(ByteSpan message);
  Task ShareChunks();
  void BeginChunk();
  void TakeChunk(std::uint64_t begin, std::uint64_t size, Slot& slot);
  Task Prove();
  Task FetchFrom(int rank);

  // Broadcasts of chunks under way at a time.
  static constexpr std::size_t kWindow = 3;

  const std::shared_ptr<Link> link_;
  Payload payload_;
  const int root_;
  const bool in_place_;
  // On the root its own announcement, on other ranks the received one.
  Announce announce_;
  // This rank expects as many bytes as the root sends. If not, it takes part with a buffer of its own and fails at the end.
  bool fits_ = true;
  Hash expected_;
  TransferTree tree_;
  std::vector<Interval> unproven_;
  Answers answers_;
  Together together_;
  std::optional<Chunks> to_begin_;
  std::array<Slot, kWindow> slots_;
  std::size_t begun_ = 0;
  // For the chunks of a payload that does not fit.
  Buffer elsewhere_;
  Pump& pump_ = Pump::OfProcess();
};

void Broadcaster::SetAnnounce(const Announce& announce) {
  announce_ = announce;
  fits_ = announce.bytes == payload_.bytes();
  tree_ = TransferTree(announce.bytes, announce.leaf);
  answers_.SetAnnounce(announce_);
}

// A payload that fits into the announcement is hashed before it is sent, with the root in it. Other payloads are hashed
// while they travel. With in_place nothing travels, so all is hashed here.
void Broadcaster::Prepare() {
  const std::uint64_t bytes = payload_.bytes();
  SetAnnounce(AnnounceOf(bytes, in_place_, link_->sizes()));
  const Kind kind = announce_.kind;
  if (kind != Kind::kMessage) HashAll(payload_, announce_, tree_);
  announce_.root = expected_ = tree_.Root();
  if (kind == Kind::kMessage) announce_.root = Hash{};
  Bytes message(kAnnounceBytes + kMostWithin);
  EncodeAnnounce(announce_, message.data());
  if (kind == Kind::kInline) payload_.CopyOut(0, {message.data() + kAnnounceBytes, bytes});
  answers_.SetAnnouncement(std::move(message));
}

// The root's own copy is not shown to the fault hook: it did not travel.
Task Broadcaster::ShareFixed(MessagePart part, Bytes& message) {
  Message shared;
  shared.Broadcast(message, root_, link_->inner());
  Status status = co_await pump_.Done(shared);
  if (status.ok() && !is_root()) link_->Arrived(part, root_, message);
  co_return status;
}

// Accepts a message only if all of it is right, including a payload in it.
bool Broadcaster::AcceptAnnounce(ByteSpan message) {
  if (message.size() != kAnnounceBytes + kMostWithin) return false;
  const auto announce = DecodeAnnounce(message.first(kAnnounceBytes));
  if (!announce || announce->kind == Kind::kRoot) return false;
  const bool within = announce->kind == Kind::kInline;
  if (within && announce->bytes > kMostWithin) return false;
  SetAnnounce(*announce);
  expected_ = announce->root;
  if (!within) return true;
  const ByteSpan content = message.subspan(kAnnounceBytes, announce->bytes);
  tree_.HashLeaves(0, content);
  tree_.Build();
  if (tree_.Root() != expected_) return false;
  // The user's buffer is not touched before the root is right.
  if (fits_) payload_.CopyIn(0, content);
  return true;
}

// The root serves from here on: others may need the announcement again before they can receive chunks.
Task Broadcaster::ShareAnnounce() {
  Bytes message(kAnnounceBytes + kMostWithin);
  if (is_root()) {
    Prepare();
    message = answers_.To(SignalOf(kAgain));
    together_.Serve(&answers_);
  }
  Status status = co_await ShareFixed(MessagePart::kAnnounce, message);
  if (!status.ok() || is_root() || AcceptAnnounce(message)) co_return status;
  const std::function<bool(ByteSpan)> accept = [this](ByteSpan reply) { return AcceptAnnounce(reply); };
  co_return co_await Ask(together_.Ask(root_), SignalOf(kAgain), MessagePart::kAnnounce, message.size(), accept);
}

// The root hashes a chunk when its broadcast has begun, while it travels.
void Broadcaster::BeginChunk() {
  const std::uint64_t begin = to_begin_->begin(), size = to_begin_->size();
  to_begin_->Next();
  Slot& slot = slots_[begun_++ % kWindow];
  std::uint8_t* place = fits_ ? slot.Place(payload_, begin, announce_.most_chunk) : elsewhere_.get();
  if (is_root() && payload_.contiguous() == nullptr) payload_.CopyOut(begin, {place, size});
  slot.message.Broadcast({place, size}, root_, link_->inner());
  if (is_root()) tree_.HashLeaves(begin, {place, size});
}

// All others hash a chunk when it has just arrived.
void Broadcaster::TakeChunk(std::uint64_t begin, std::uint64_t size, Slot& slot) {
  if (is_root() || !fits_) return;
  std::uint8_t* place = slot.Place(payload_, begin, announce_.most_chunk);
  link_->Arrived(MessagePart::kChunk, root_, {place, size});
  tree_.HashLeaves(begin, {place, size});
  if (payload_.contiguous() == nullptr) payload_.CopyIn(begin, {place, size});
}

Task Broadcaster::ShareChunks() {
  if (!fits_) elsewhere_ = MakeBuffer(announce_.most_chunk);
  to_begin_.emplace(announce_);
  Chunks chunk(announce_);
  // Chunks that do not fit all go to one buffer, so one at a time.
  const std::size_t window = fits_ ? kWindow : 1;
  for (std::size_t i = 0; !chunk.done(); ++i, chunk.Next()) {
    while (!to_begin_->done() && begun_ < i + window) BeginChunk();
    LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(slots_[i % kWindow].message));
    TakeChunk(chunk.begin(), chunk.size(), slots_[i % kWindow]);
  }
  tree_.Build();
  co_return Status::Ok();
}

bool Broadcaster::AcceptRoot(ByteSpan message) {
  const auto announce = DecodeAnnounce(message);
  if (!announce || announce->kind != Kind::kRoot || announce->bytes != announce_.bytes) return false;
  expected_ = announce->root;
  return true;
}

// The tree of the root is complete after the last chunk, so its hash comes last.
Task Broadcaster::ShareRoot() {
  Bytes message(kAnnounceBytes);
  if (is_root()) {
    expected_ = tree_.Root();
    message = answers_.RootOf(announce_);
  }
  Status status = co_await ShareFixed(MessagePart::kRoot, message);
  if (!status.ok() || is_root() || AcceptRoot(message)) co_return status;
  co_return co_await AskRoot(together_.Ask(root_), announce_.bytes, &expected_);
}

// The kind tells what follows. It is the same on all ranks, so they make the same MPI calls.
Task Broadcaster::ShareContent() {
  if (announce_.kind == Kind::kInline) co_return Status::Ok();
  if (announce_.kind == Kind::kInPlace) {
    if (!is_root() && fits_) HashAll(payload_, announce_, tree_);
    co_return Status::Ok();
  }
  LZY_CO_RETURN_IF_ERROR(co_await ShareChunks());
  co_return co_await ShareRoot();
}

Task Broadcaster::FetchFrom(int rank) {
  return FetchDiffering(together_.Ask(rank), tree_, payload_, expected_, unproven_);
}

// The parent answers when it has proven its own bytes. If it gave up, it refuses, and the root is asked.
Task Broadcaster::Prove() {
  if (is_root() || tree_.Root() == expected_) co_return Status::Ok();
  const int parent = ParentOf(link_->rank(), root_, link_->size());
  Status status = co_await FetchFrom(parent);
  if (status.ok() || status.code() == Code::kMpi || parent == root_) co_return status;
  co_return co_await FetchFrom(root_);
}

// Every path but that of an MPI error leads to Finish, where the others wait.
Task Broadcaster::Run() {
  if (link_->size() == 1) co_return Status::Ok();
  Status status = co_await ShareAnnounce();
  const bool known = status.ok();
  unproven_ = {{0, std::max<std::uint64_t>(payload_.bytes(), 1)}};
  // Without the announcement, this rank cannot know the next MPI calls of the root. Most likely they follow from the
  // arguments of this rank's own call, so it makes these.
  if (!known && status.code() == Code::kCorrupt) {
    SetAnnounce(AnnounceOf(payload_.bytes(), in_place_, link_->sizes()));
  }
  if (status.ok() || status.code() == Code::kCorrupt) {
    Status shared = co_await ShareContent();
    if (status.ok()) status = shared;
  }
  if (status.code() == Code::kMpi) co_return status;
  if (status.ok() && fits_) status = co_await Prove();
  status = Unproven(status, root_, unproven_, payload_.bytes());
  if (status.ok() && !fits_) {
    status = Status(Code::kInvalidArgument,
                    fmt::format("the root, rank {}, has {} bytes and this rank {}", root_, announce_.bytes, payload_.bytes()));
  }
  // Only now does this rank have proven data to answer from; requests have waited until here. After an error it refuses.
  if (!is_root()) together_.Serve(status.ok() ? &answers_ : nullptr);
  // The root must fail, too. It must learn about the failure before the barrier ends.
  if (status.code() == Code::kCorrupt) {
    LZY_CO_RETURN_IF_ERROR(co_await together_.GiveUp(root_));
  }
  const Status finished = co_await together_.Finish();
  co_return status.ok() ? finished : status;
}

}  // namespace

Task Broadcast(std::shared_ptr<Link> link, Payload payload, int root, bool in_place) {
  Broadcaster broadcaster(std::move(link), std::move(payload), root, in_place);
  co_return co_await broadcaster.Run();
}

}  // namespace lzy::validated
