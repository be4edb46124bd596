// Broadcaster and Gatherer: one rank's side of a validated collective call. Each `Run` is the whole protocol. Between
// the first message and the barrier of Together::Finish, no rank may leave: a rank with an error goes on making the
// MPI calls that the others wait for. Only an error of MPI ends a call early.

#include "validated/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "validated/mend.h"
#include "validated/together.h"
#include "validated/tree.h"
#include "validated/wire.h"

namespace lzy::validated {
namespace {

using Buffer = std::unique_ptr<std::uint8_t[]>;

Buffer MakeBuffer(std::size_t size) {
  return std::make_unique_for_overwrite<std::uint8_t[]>(size);
}

/// Bytes of payload that fit into the announcement of a collective call. All announcements of a broadcast have room
/// for them, since MPI_Ibcast needs a length that all ranks know before.
constexpr std::size_t kMostWithin = 512;

// One chunk under way.
struct Slot {
  Slot() { message.SetLong(); }

  Message message;
  Buffer scratch;

  /// Where the bytes from `begin` on lie in `payload`. If that has gaps: a scratch buffer of `most` bytes, from or to
  /// which the caller copies.
  std::uint8_t* Place(const Payload& payload, std::uint64_t begin, std::uint64_t most) {
    if (payload.contiguous() != nullptr) return payload.contiguous() + begin;
    if (scratch == nullptr) scratch = MakeBuffer(most);
    return scratch.get();
  }
};

Announce AnnounceOf(Kind kind, std::uint64_t bytes, const Sizes& sizes) {
  return {kind, bytes, sizes.leaf, sizes.first_chunk, sizes.most_block, {}};
}

/// Hashes all of `payload`. Unless `copy` is null, copies it there on the way, so that it is read only once.
void HashAll(const Payload& payload, const Announce& announce, TransferTree& tree, const Payload* copy) {
  Slot slot;
  for (Chunks chunk(announce); !chunk.done(); chunk.Next()) {
    std::uint8_t* place = slot.Place(payload, chunk.begin(), announce.most_chunk);
    if (payload.contiguous() == nullptr) payload.CopyOut(chunk.begin(), {place, chunk.size()});
    if (copy != nullptr) copy->CopyIn(chunk.begin(), {place, chunk.size()});
    tree.HashLeaves(chunk.begin(), {place, chunk.size()});
  }
  tree.Build();
}

// `why` as an error that names the owner and the bytes. Errors of MPI stay what they are.
Status Unproven(const Status& why, int owner, const std::vector<Interval>& unproven, std::uint64_t bytes) {
  if (why.ok() || why.code() == Code::kMpi) return why;
  return {Code::kCorrupt,
          fmt::format("{} of {} bytes from rank {} could not be proven: {}", RangesText(unproven), bytes, owner, why.message())};
}

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
  Task ShareFixed(Part part, Bytes& message);
  bool AcceptAnnounce(ByteSpan message);
  bool AcceptRoot(ByteSpan message);
  Task ShareChunks();
  void BeginChunk();
  void TakeChunk(std::uint64_t begin, std::uint64_t size, Slot& slot);
  Task Prove();
  Task MendFrom(int rank);

  // Broadcasts of chunks under way at a time.
  static constexpr std::size_t kWindow = 3;

  const std::shared_ptr<Link> link_;
  Payload payload_;
  const int root_;
  const bool in_place_;
  // On the root its own, elsewhere as it arrived.
  Announce announce_;
  // This rank has brought as many bytes as the root. If not, it takes part with a buffer of its own and fails in the
  // end.
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

// What fits into the announcement is hashed before it is sent, with the root in it. Everything else is hashed while
// it travels. In place nothing travels, so all is hashed here.
void Broadcaster::Prepare() {
  const std::uint64_t bytes = payload_.bytes();
  const Kind kind = in_place_ ? Kind::kInPlace : bytes <= kMostWithin ? Kind::kInline : Kind::kMessage;
  SetAnnounce(AnnounceOf(kind, bytes, SizesFor(bytes, link_->sizes())));
  if (kind != Kind::kMessage) HashAll(payload_, announce_, tree_, nullptr);
  announce_.root = expected_ = tree_.Root();
  if (kind == Kind::kMessage) announce_.root = Hash{};
  Bytes message(kAnnounceBytes + kMostWithin);
  EncodeAnnounce(announce_, message.data());
  if (kind == Kind::kInline) payload_.CopyOut(0, {message.data() + kAnnounceBytes, bytes});
  answers_.SetAnnouncement(std::move(message));
}

// The root's own copy is not shown to the fault hook: it did not travel.
Task Broadcaster::ShareFixed(Part part, Bytes& message) {
  Message shared;
  shared.Begin("MPI_Ibcast", [&](MPI_Request* r) {
    return PMPI_Ibcast(message.data(), static_cast<int>(message.size()), MPI_BYTE, root_, link_->inner(), r);
  });
  Status status = co_await pump_.Done(shared);
  if (status.ok() && !is_root()) link_->Arrived(part, root_, message);
  co_return status;
}

// Takes what arrived only if all of it is right, with the payload if that is in it.
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
  Status status = co_await ShareFixed(Part::kAnnounce, message);
  if (!status.ok() || is_root() || AcceptAnnounce(message)) co_return status;
  const std::function<bool(ByteSpan)> accept = [this](ByteSpan reply) { return AcceptAnnounce(reply); };
  status = co_await Ask(together_.Ask(root_), SignalOf(kAgain), Part::kAnnounce, message.size(), accept);
  co_return status;
}

// The root hashes a chunk when its broadcast has begun, while it travels.
void Broadcaster::BeginChunk() {
  const std::uint64_t begin = to_begin_->begin(), size = to_begin_->size();
  to_begin_->Next();
  Slot& slot = slots_[begun_++ % kWindow];
  std::uint8_t* place = fits_ ? slot.Place(payload_, begin, announce_.most_chunk) : elsewhere_.get();
  if (is_root() && payload_.contiguous() == nullptr) payload_.CopyOut(begin, {place, size});
  slot.message.Begin("MPI_Ibcast", [&](MPI_Request* r) {
    return PMPI_Ibcast(place, static_cast<int>(size), MPI_BYTE, root_, link_->inner(), r);
  });
  if (is_root()) tree_.HashLeaves(begin, {place, size});
}

// All others hash a chunk when it has just arrived.
void Broadcaster::TakeChunk(std::uint64_t begin, std::uint64_t size, Slot& slot) {
  if (is_root() || !fits_) return;
  std::uint8_t* place = slot.Place(payload_, begin, announce_.most_chunk);
  link_->Arrived(Part::kChunk, root_, {place, size});
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
    Status status = co_await pump_.Done(slots_[i % kWindow].message);
    if (!status.ok()) co_return status;
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
  Status status = co_await ShareFixed(Part::kRoot, message);
  if (!status.ok() || is_root() || AcceptRoot(message)) co_return status;
  status = co_await AskRoot(together_.Ask(root_), announce_.bytes, &expected_);
  co_return status;
}

// The kind says what follows. It is the same on all ranks, so they make the same MPI calls.
Task Broadcaster::ShareContent() {
  if (announce_.kind == Kind::kInline) co_return Status::Ok();
  if (announce_.kind == Kind::kInPlace) {
    if (!is_root() && fits_) HashAll(payload_, announce_, tree_, nullptr);
    co_return Status::Ok();
  }
  Status status = co_await ShareChunks();
  if (status.ok()) status = co_await ShareRoot();
  co_return status;
}

Task Broadcaster::MendFrom(int rank) {
  Status status = co_await Mend(together_.Ask(rank), tree_, payload_, expected_, unproven_);
  co_return status;
}

// The parent answers when it has proven its own bytes. If it gave up, it refuses, and the root is asked.
Task Broadcaster::Prove() {
  if (is_root() || tree_.Root() == expected_) co_return Status::Ok();
  const int parent = ParentOf(link_->rank(), root_, link_->size());
  Status status = co_await MendFrom(parent);
  if (status.ok() || status.code() == Code::kMpi || parent == root_) co_return status;
  status = co_await MendFrom(root_);
  co_return status;
}

// Every path but that of an MPI error leads to Finish, where the others wait.
Task Broadcaster::Run() {
  if (link_->size() == 1) co_return Status::Ok();
  Status status = co_await ShareAnnounce();
  const bool known = status.ok();
  unproven_ = {{0, std::max<std::uint64_t>(payload_.bytes(), 1)}};
  // Without the announcement, this rank cannot know what the root does next. Most likely it is what the arguments of
  // this rank's own call say, so it makes the MPI calls for that.
  if (!known && status.code() == Code::kCorrupt) {
    const Kind kind = in_place_ ? Kind::kInPlace : payload_.bytes() <= kMostWithin ? Kind::kInline : Kind::kMessage;
    SetAnnounce(AnnounceOf(kind, payload_.bytes(), SizesFor(payload_.bytes(), link_->sizes())));
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
  // Only now does this rank have something proven to answer from; requests have waited until here. With an error it
  // refuses.
  if (!is_root()) together_.Serve(status.ok() ? &answers_ : nullptr);
  // The root must fail too. It has to learn of that before the barrier ends.
  if (status.code() == Code::kCorrupt) {
    const Status told = co_await together_.GiveUp(root_);
    if (!told.ok()) co_return told;
  }
  const Status finished = co_await together_.Finish();
  co_return status.ok() ? finished : status;
}

// One rank's side of an all-gather: announcements with roots, then the blocks in a ring, then requests to the owners.
class Gatherer {
 public:
  Gatherer(std::shared_ptr<Link> link, Payload mine, std::vector<Payload> blocks, bool in_place)
      : link_(std::move(link)),
        mine_(std::move(mine)),
        blocks_(std::move(blocks)),
        in_place_(in_place),
        ranks_(static_cast<std::size_t>(link_->size())),
        me_(static_cast<std::size_t>(link_->rank())),
        bytes_(mine_.bytes()),
        announce_(AnnounceOf(in_place             ? Kind::kInPlace
                             : bytes_ <= kMostWithin ? Kind::kInline
                                                     : Kind::kMessage,
                             bytes_, SizesFor(bytes_, link_->sizes()))),
        trees_(ranks_, TransferTree(bytes_, announce_.leaf)),
        expected_(ranks_),
        known_(ranks_, false),
        answers_(trees_[me_], mine_),
        together_(*link_) {}

  Task Run();

 private:
  // Chunks under way at a time, in each direction.
  static constexpr std::size_t kWindow = 4;

  Task ShareRecords();
  void TakeRecord(std::size_t rank, MutableByteSpan record);
  // Moves blocks of more than kMostWithin bytes round the ring.
  Task ShareBlocks();
  // Start the receive or send of message `number` of the ring.
  std::uint8_t* BeginReceive(std::uint64_t number);
  void BeginSend(std::uint64_t number);
  void TakeChunk(std::uint64_t number, std::uint8_t* content);
  // The rank that is so many steps behind this one in the ring.
  std::size_t Behind(std::uint64_t steps) const { return (me_ + ranks_ - static_cast<std::size_t>(steps) % ranks_) % ranks_; }
  Task Prove(std::size_t rank);

  const std::shared_ptr<Link> link_;
  const Payload mine_;
  const std::vector<Payload> blocks_;
  const bool in_place_;
  const std::size_t ranks_;
  const std::size_t me_;
  const std::uint64_t bytes_;
  Announce announce_;
  // By rank: the tree of its block as it is here.
  std::vector<TransferTree> trees_;
  // By rank: the root, if it is known.
  std::vector<Hash> expected_;
  std::vector<bool> known_;
  Answers answers_;
  Together together_;
  // The chunks of one block; the same for all blocks.
  std::vector<Interval> chunks_;
  std::array<Slot, kWindow> receives_, sends_;
  Pump& pump_ = Pump::OfProcess();
};

// Announcements of all ranks, with roots, and the blocks themselves if they are short. Amounts agree, as in MPI, so
// all messages have the same length.
Task Gatherer::ShareRecords() {
  const std::size_t size = kAnnounceBytes + (announce_.kind == Kind::kInline ? bytes_ : 0);
  Bytes record(size), all(size * ranks_);
  announce_.root = trees_[me_].Root();
  EncodeAnnounce(announce_, record.data());
  if (size > kAnnounceBytes) mine_.CopyOut(0, {record.data() + kAnnounceBytes, bytes_});
  answers_.SetAnnounce(announce_);
  answers_.SetAnnouncement(record);
  together_.Serve(&answers_);
  Message shared;
  shared.Begin("MPI_Iallgather", [&](MPI_Request* r) {
    return PMPI_Iallgather(record.data(), static_cast<int>(size), MPI_BYTE, all.data(), static_cast<int>(size), MPI_BYTE,
                           link_->inner(), r);
  });
  Status status = co_await pump_.Done(shared);
  if (!status.ok()) co_return status;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank != me_) TakeRecord(rank, MutableByteSpan(all).subspan(rank * size, size));
  }
  co_return Status::Ok();
}

// A short block is copied to its place before it is proven, like one that came by the ring; Prove repairs both.
void Gatherer::TakeRecord(std::size_t rank, MutableByteSpan record) {
  link_->Arrived(announce_.kind == Kind::kInline ? Part::kInline : Part::kAnnounce, static_cast<int>(rank), record);
  const auto announce = DecodeAnnounce(record.first(kAnnounceBytes));
  // An announcement that does not fit this rank's own counts as damaged. Its owner is then asked for the root.
  if (announce && announce->kind == announce_.kind && announce->bytes == bytes_ && announce->leaf == announce_.leaf) {
    expected_[rank] = announce->root;
    known_[rank] = true;
  }
  if (announce_.kind != Kind::kInline) return;
  const ByteSpan content = record.subspan(kAnnounceBytes);
  blocks_[rank].CopyIn(0, content);
  trees_[rank].HashLeaves(0, content);
  trees_[rank].Build();
}

// Blocks go round. In step s, each rank passes on the block that it got from the rank behind it in step s - 1; in
// step 0, its own. A message is one chunk of it: number s * chunks + c. A damaged chunk is passed on as it arrived.
// In the end each rank compares with the root of the owner.
std::uint8_t* Gatherer::BeginReceive(std::uint64_t number) {
  Slot& slot = receives_[number % kWindow];
  const Interval chunk = chunks_[number % chunks_.size()];
  std::uint8_t* place = slot.Place(blocks_[Behind(number / chunks_.size() + 1)], chunk.begin, announce_.most_chunk);
  slot.message.Begin("MPI_Irecv", [&](MPI_Request* r) {
    return PMPI_Irecv(place, static_cast<int>(chunk.end - chunk.begin), MPI_BYTE, static_cast<int>(Behind(1)), Link::kRingTag,
                      link_->inner(), r);
  });
  return place;
}

// Message `number` carries what message `number` - chunks brought, which TakeChunk has put in its place by now.
void Gatherer::BeginSend(std::uint64_t number) {
  Slot& slot = sends_[number % kWindow];
  const Interval chunk = chunks_[number % chunks_.size()];
  const std::uint64_t size = chunk.end - chunk.begin;
  const std::size_t owner = Behind(number / chunks_.size());
  const Payload& from = owner == me_ ? mine_ : blocks_[owner];
  std::uint8_t* place = slot.Place(from, chunk.begin, announce_.most_chunk);
  if (from.contiguous() == nullptr) from.CopyOut(chunk.begin, {place, size});
  slot.message.Begin("MPI_Isend", [&](MPI_Request* r) {
    return PMPI_Isend(place, static_cast<int>(size), MPI_BYTE, static_cast<int>((me_ + 1) % ranks_), Link::kRingTag,
                      link_->inner(), r);
  });
}

void Gatherer::TakeChunk(std::uint64_t number, std::uint8_t* content) {
  const Interval chunk = chunks_[number % chunks_.size()];
  const std::size_t owner = Behind(number / chunks_.size() + 1);
  const MutableByteSpan bytes(content, chunk.end - chunk.begin);
  link_->Arrived(Part::kChunk, static_cast<int>(Behind(1)), bytes);
  if (blocks_[owner].contiguous() == nullptr) blocks_[owner].CopyIn(chunk.begin, bytes);
  trees_[owner].HashLeaves(chunk.begin, bytes);
}

Task Gatherer::ShareBlocks() {
  for (Chunks chunk(announce_); !chunk.done(); chunk.Next()) chunks_.push_back({chunk.begin(), chunk.begin() + chunk.size()});
  const std::uint64_t messages = chunks_.size() * (ranks_ - 1);
  std::array<std::uint8_t*, kWindow> places{};
  std::uint64_t begun = 0;
  for (std::uint64_t number = 0; number < messages; ++number) {
    // Receives are posted ahead, so that no chunk waits for this rank.
    for (; begun < std::min(messages, number + kWindow); ++begun) places[begun % kWindow] = BeginReceive(begun);
    Status status = co_await pump_.Done(sends_[number % kWindow].message);
    if (!status.ok()) co_return status;
    BeginSend(number);
    status = co_await pump_.Done(receives_[number % kWindow].message);
    if (!status.ok()) co_return status;
    TakeChunk(number, places[number % kWindow]);
  }
  for (Slot& slot : sends_) {
    Status status = co_await pump_.Done(slot.message);
    if (!status.ok()) co_return status;
  }
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank != me_) trees_[rank].Build();
  }
  co_return Status::Ok();
}

// A rank that gives up says so to the owner, which then fails too.
Task Gatherer::Prove(std::size_t rank) {
  const Peer peer = together_.Ask(static_cast<int>(rank));
  Status status;
  std::vector<Interval> unproven{{0, bytes_}};
  if (!known_[rank]) status = co_await AskRoot(peer, bytes_, &expected_[rank]);
  if (status.ok()) status = co_await Mend(peer, trees_[rank], blocks_[rank], expected_[rank], unproven);
  if (status.ok() || status.code() == Code::kMpi) co_return status;
  const Status told = co_await together_.GiveUp(static_cast<int>(rank));
  co_return told.ok() ? Unproven(status, static_cast<int>(rank), unproven, bytes_) : told;
}

// `apart`: this rank's block has to be copied to its place in the result.
Task Gatherer::Run() {
  const bool apart = mine_.contiguous() == nullptr || mine_.contiguous() != blocks_[me_].contiguous();
  HashAll(mine_, announce_, trees_[me_], apart ? &blocks_[me_] : nullptr);
  if (ranks_ == 1) co_return Status::Ok();
  Status status = co_await ShareRecords();
  if (status.ok() && announce_.kind == Kind::kMessage) status = co_await ShareBlocks();
  if (!status.ok()) co_return status;
  // Each rank begins with another owner, so no owner has to answer all at once. One failure does not keep the other
  // blocks from being proven.
  Status worst;
  for (std::size_t step = 1; step < ranks_ && worst.code() != Code::kMpi; ++step) {
    const std::size_t rank = Behind(step);
    if (in_place_) HashAll(blocks_[rank], announce_, trees_[rank], nullptr);
    status = co_await Prove(rank);
    if (worst.ok() || status.code() == Code::kMpi) {
      worst = status;
    } else if (!status.ok()) {
      worst = Status(worst.code(), worst.message() + "; " + status.message());
    }
  }
  if (worst.code() == Code::kMpi) co_return worst;
  const Status finished = co_await together_.Finish();
  if (worst.ok() || finished.ok()) co_return worst.ok() ? finished : worst;
  co_return Status(worst.code(), worst.message() + "; " + finished.message());
}

}  // namespace

Task Broadcast(std::shared_ptr<Link> link, Payload payload, int root, bool in_place) {
  Broadcaster broadcaster(std::move(link), std::move(payload), root, in_place);
  Status status = co_await broadcaster.Run();
  co_return status;
}

Task AllGather(std::shared_ptr<Link> link, Payload mine, std::vector<Payload> blocks, bool in_place) {
  Gatherer gatherer(std::move(link), std::move(mine), std::move(blocks), in_place);
  Status status = co_await gatherer.Run();
  co_return status;
}

}  // namespace lzy::validated
