// Gatherer: one rank's side of a validated all-gather. `Run` is the whole protocol. Between the first message and the
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
#include "validated/proven_records.h"
#include "validated/together.h"
#include "validated/transfer_tree.h"

namespace lzy::validated {
namespace {

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
        announce_(AnnounceOf(bytes_, in_place, link_->sizes())),
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
  // The rank that is `steps` places behind this one in the ring.
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
  // By rank: the tree of its block on this rank.
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
  LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(shared));
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank != me_) TakeRecord(rank, MutableByteSpan(all).subspan(rank * size, size));
  }
  co_return Status::Ok();
}

// A short block is copied to its place before it is proven, like one that came by the ring; Prove repairs both.
void Gatherer::TakeRecord(std::size_t rank, MutableByteSpan record) {
  link_->Arrived(announce_.kind == Kind::kInline ? MessagePart::kInline : MessagePart::kAnnounce, static_cast<int>(rank), record);
  const auto announce = DecodeAnnounce(record.first(kAnnounceBytes));
  // An announcement that does not match this rank's own counts as damaged. Then its owner is asked for the root.
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
  slot.message.Receive({place, chunk.end - chunk.begin}, static_cast<int>(Behind(1)), Link::kRingTag, link_->inner());
  return place;
}

// Message `number` sends the chunk that came in message `number` - chunks. TakeChunk has put it in its place already.
void Gatherer::BeginSend(std::uint64_t number) {
  Slot& slot = sends_[number % kWindow];
  const Interval chunk = chunks_[number % chunks_.size()];
  const std::uint64_t size = chunk.end - chunk.begin;
  const std::size_t owner = Behind(number / chunks_.size());
  const Payload& from = owner == me_ ? mine_ : blocks_[owner];
  std::uint8_t* place = slot.Place(from, chunk.begin, announce_.most_chunk);
  if (from.contiguous() == nullptr) from.CopyOut(chunk.begin, {place, size});
  slot.message.Send({place, size}, static_cast<int>((me_ + 1) % ranks_), Link::kRingTag, link_->inner());
}

void Gatherer::TakeChunk(std::uint64_t number, std::uint8_t* content) {
  const Interval chunk = chunks_[number % chunks_.size()];
  const std::size_t owner = Behind(number / chunks_.size() + 1);
  const MutableByteSpan bytes(content, chunk.end - chunk.begin);
  link_->Arrived(MessagePart::kChunk, static_cast<int>(Behind(1)), bytes);
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
    LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(sends_[number % kWindow].message));
    BeginSend(number);
    LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(receives_[number % kWindow].message));
    TakeChunk(number, places[number % kWindow]);
  }
  for (Slot& slot : sends_) {
    LZY_CO_RETURN_IF_ERROR(co_await pump_.Done(slot.message));
  }
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank != me_) trees_[rank].Build();
  }
  co_return Status::Ok();
}

// A rank that gives up reports this to the owner, which then fails, too.
Task Gatherer::Prove(std::size_t rank) {
  const Peer peer = together_.Ask(static_cast<int>(rank));
  Status status;
  std::vector<Interval> unproven{{0, bytes_}};
  if (!known_[rank]) status = co_await AskRoot(peer, bytes_, &expected_[rank]);
  if (status.ok()) status = co_await FetchDiffering(peer, trees_[rank], blocks_[rank], expected_[rank], unproven);
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
  // Each rank begins with another owner, so no owner has to answer all at once. After a failure, the other blocks are still
  // proven.
  Status worst;
  for (std::size_t step = 1; step < ranks_ && worst.code() != Code::kMpi; ++step) {
    const std::size_t rank = Behind(step);
    if (in_place_) HashAll(blocks_[rank], announce_, trees_[rank]);
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

Task AllGather(std::shared_ptr<Link> link, Payload mine, std::vector<Payload> blocks, bool in_place) {
  Gatherer gatherer(std::move(link), std::move(mine), std::move(blocks), in_place);
  co_return co_await gatherer.Run();
}

}  // namespace lzy::validated
