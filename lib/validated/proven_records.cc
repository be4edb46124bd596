#include "validated/proven_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "transport/mpi_call.h"
#include "validated/collective.h"

namespace lzy::validated {
namespace {

// The leaves follow from the length alone, so both sides build the same tree without agreeing on it.
TransferTree TreeOf(ByteSpan bytes) {
  TransferTree tree(bytes.size(), SizesFor(bytes.size(), {}).leaf);
  tree.HashLeaves(0, bytes);
  tree.Build();
  return tree;
}

}  // namespace

Records::Records(Link& link, ByteSpan mine, std::uint16_t note)
    : link_(link),
      mine_(mine),
      // Never written to: no rank proves its own bytes.
      payload_(Payload::Of(MutableByteSpan(const_cast<std::uint8_t*>(mine.data()), mine.size()))),
      tree_(TreeOf(mine)),
      answers_(tree_, payload_),
      all_(static_cast<std::size_t>(link.size())) {
  // The record of this rank. If a rank requests the announcement again, the same message is the reply.
  Other& self = all_[static_cast<std::size_t>(link.rank())];
  self.record = {mine.size(), note, tree_.Root()};
  self.known = true;
  Bytes message(kRecordBytes);
  EncodeRecord(self.record, message.data());
  if (mine.size() <= kMostInRecord) std::copy(mine.begin(), mine.end(), message.begin() + kRecordHeader);
  self.within.assign(message.begin() + kRecordHeader, message.end());
  answers_.SetAnnouncement(std::move(message));
  answers_.SetWord(self.record.word());
  together_.emplace(link);
}

// The answering task is in the lists of the pump, which another thread may be running.
Records::~Records() {
  const std::lock_guard lock(Pump::OfProcess().mutex());
  together_.reset();
}

void Records::Serve(Answers* answers) {
  const std::lock_guard lock(Pump::OfProcess().mutex());
  together_->Serve(answers);
}

// Requests are answered before the records travel: a rank whose records have arrived may ask at once, while this one
// still waits in the collective call.
Status Records::Gather() {
  const Bytes mine = answers_.To(SignalOf(kAgain));
  Bytes all(kRecordBytes * all_.size());
  Serve(&answers_);
  LZY_RETURN_IF_ERROR(CallMpi("MPI_Iallgather", [&](MPI_Request* request) {
    return PMPI_Iallgather(mine.data(), kRecordBytes, MPI_BYTE, all.data(), kRecordBytes, MPI_BYTE, link_.inner(), request);
  }));
  for (std::size_t rank = 0; rank < all_.size(); ++rank) {
    LZY_RETURN_IF_ERROR(Receive(rank, MutableByteSpan(all).subspan(rank * kRecordBytes, kRecordBytes)));
  }
  return Status::Ok();
}

Status Records::Broadcast(int root) {
  Bytes message = answers_.To(SignalOf(kAgain));
  Serve(root == link_.rank() ? &answers_ : nullptr);
  LZY_RETURN_IF_ERROR(CallMpi("MPI_Ibcast", [&](MPI_Request* request) {
    return PMPI_Ibcast(message.data(), kRecordBytes, MPI_BYTE, root, link_.inner(), request);
  }));
  return Receive(static_cast<std::size_t>(root), message);
}

// A record with a right digest may still carry a damaged payload. It is compared here, so one request brings both
// again.
bool Records::Accept(std::size_t rank, ByteSpan message) {
  if (message.size() != kRecordBytes) return false;
  const auto record = DecodeRecord(message);
  if (!record) return false;
  const ByteSpan within = message.subspan(kRecordHeader);
  // The bound comes first: `within` has no more bytes than kMostInRecord.
  if (record->bytes <= kMostInRecord && TreeOf(within.first(record->bytes)).Root() != record->root) return false;
  all_[rank] = {*record, true, Bytes(within.begin(), within.end())};
  return true;
}

// First the record is asked for again. If it cannot be had undamaged, the failure is noted, and the word alone is
// asked for. Zeros stand for the payload, so that Take has something to copy; Finish fails anyway.
Status Records::Receive(std::size_t rank, MutableByteSpan message) {
  const int from = static_cast<int>(rank);
  if (from == link_.rank()) return Status::Ok();
  link_.Arrived(MessagePart::kAnnounce, from, message);
  if (Accept(rank, message)) return Status::Ok();
  const std::function<bool(ByteSpan)> accept = [&](ByteSpan reply) { return Accept(rank, reply); };
  const Status again =
      Pump::OfProcess().Run(Ask(together_->Ask(from), SignalOf(kAgain), MessagePart::kAnnounce, kRecordBytes, accept));
  if (again.ok() || again.code() == Code::kMpi) return again;
  Note(again);
  all_[rank].within.assign(kMostInRecord, 0);
  return AskWord(rank);
}

// All ranks must know the amount of each rank, even if messages are damaged, because the amount decides which MPI calls
// come next. So the last resort is to request it byte by byte. The length of each reply is the byte, and lengths cannot be
// wrong.
Status Records::AskWord(std::size_t rank) {
  std::uint64_t word = 0;
  for (int byte = 0; byte < 8; ++byte) {
    const std::function<bool(ByteSpan)> accept = [&](ByteSpan reply) {
      if (reply.size() < kWordReply) return false;
      word |= std::uint64_t{reply.size() - kWordReply} << (8 * byte);
      return true;
    };
    const auto signal = static_cast<Signal>(kGetWord + byte);
    LZY_RETURN_IF_ERROR(Pump::OfProcess().Run(
        Ask(together_->Ask(static_cast<int>(rank)), SignalOf(signal), MessagePart::kAnnounce, kWordReply + 255, accept)));
  }
  all_[rank].record.SetWord(word);
  return Status::Ok();
}

void Records::Take(std::size_t rank, MutableByteSpan to) const {
  if (!to.empty()) std::memcpy(to.data(), all_[rank].within.data(), to.size());
}

void Records::Note(const Status& status) {
  if (trouble_.ok()) trouble_ = status;
}

// Compares and repairs the payload of one rank.
Status Records::FetchFrom(std::size_t rank, MutableByteSpan came) {
  const int from = static_cast<int>(rank);
  link_.Arrived(MessagePart::kChunk, from, came);
  // Without its root nothing can be proven. The failure was noted when the record was asked for.
  if (!all_[rank].known) return Status::Ok();
  TransferTree tree = TreeOf(came);
  if (tree.Root() == all_[rank].record.root) return Status::Ok();
  std::vector<Interval> unproven;
  const Payload to = Payload::Of(came);
  const Hash& root = all_[rank].record.root;
  const Status fetched = Pump::OfProcess().Run(FetchDiffering(together_->Ask(from), tree, to, root, unproven));
  return Unproven(fetched, from, unproven, came.size());
}

// NoThrow: a rank that runs out of memory here must still come to the barrier in Finish.
void Records::Prove(std::size_t rank, MutableByteSpan came) {
  if (static_cast<int>(rank) == link_.rank()) return;
  Note(NoThrow([&] { return FetchFrom(rank, came); }));
}

// A rank that failed reports this to all others before it enters the barrier. GiveUp is synchronous, so the report has
// arrived when the barrier is passed. So every rank knows of every failure when Finish returns. After an error of MPI, no
// barrier is made.
Status Records::Finish() {
  Pump& pump = Pump::OfProcess();
  const Status mine = std::exchange(trouble_, {});
  if (mine.code() == Code::kMpi) return mine;
  for (int rank = 0; rank < link_.size() && !mine.ok(); ++rank) {
    if (rank != link_.rank()) LZY_RETURN_IF_ERROR(pump.Run(together_->GiveUp(rank)));
  }
  const Status finished = pump.Run(together_->Finish());
  if (finished.code() == Code::kMpi) return finished;
  // kCorrupt would tell the engine that a file is damaged, but only messages were.
  if (!mine.ok()) return {mine.code() == Code::kNoMemory ? Code::kNoMemory : Code::kMpi, mine.message()};
  if (together_->gave_up().empty()) return finished;
  return {Code::kMpi, fmt::format("rank {} could not prove what came to it", together_->gave_up().front())};
}

}  // namespace lzy::validated
