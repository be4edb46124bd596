#include "encode/capture.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/program_memory.h"

namespace lzy {
namespace {

// Bytes of a chunk for one parity block: sums are allocated in pieces of this size.
constexpr std::uint64_t kChunkBytes = 1u << 20;
// The most whole blocks that stay open. Programs write some blocks again: small overlapping pieces, metadata.
constexpr std::size_t kOpenBlocks = 16;

// A shared file has one group (Create checks it).
Rotation OnlyRotation(const Layout& layout) {
  return layout.rotation(0);
}

}  // namespace

Result<std::unique_ptr<Capture>> Capture::Create(CaptureSetup setup) {
  std::unique_ptr<Capture> capture(new Capture(std::move(setup)));
  LZY_RETURN_IF_ERROR(capture->SetGeometry(capture->setup_.parameters));
  return capture;
}

Capture::Capture(CaptureSetup setup)
    : setup_(std::move(setup)),
      block_(setup_.parameters.block_size),
      memory_(setup_.memory - setup_.hold),
      decided_(setup_.certain_from == 0),
      open_(block_),
      closed_(block_),
      room_to_hold_(setup_.hold),
      aside_(block_) {
  if (!setup_.compare) return;
  // If written_ needs room, copies of the last blocks are dropped first: programs write headers again.
  written_.emplace(block_, setup_.key, room_to_hold_, [this] {
    if (held_.empty()) return false;
    (void)TakeHeld(held_.rbegin()->first);
    return true;
  });
}

Status Capture::SetGeometry(const GeometryParameters& parameters) {
  if (parameters.kind != DatasetKind::kShared || parameters.groups.size() != 1) {
    return {Code::kInvalidArgument, "capture: a shared file with one group of devices is needed"};
  }
  // The places of blocks and rows do not depend on the size, so any size that is large enough will do.
  constexpr std::uint64_t kLargest = 1ull << 61;
  LZY_ASSIGN_OR_RETURN(Layout layout, Layout::Create(parameters, {kLargest}));
  const Rotation rotation = OnlyRotation(layout);
  LZY_ASSIGN_OR_RETURN(const Codec codec, Codec::Create(rotation.n, rotation.m));
  LZY_ASSIGN_OR_RETURN(Plan plan, codec.EncodePlan());
  if (layout_) used_ -= block_ * (rows_at_once_ ? OnlyRotation(*layout_).k() : 1);
  layout_ = std::move(layout);
  plan_ = std::move(plan);
  chunk_slices_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(kChunkBytes / block_, 1, layout_->slices()));
  rows_at_once_ = block_ * rotation.k() <= memory_ / 4;
  used_ += block_ * (rows_at_once_ ? rotation.k() : 1);  // for scratch_
  return Status::Ok();
}

// The program's write must not fail because lzy is out of memory. After any exception, the bytes are missed.
void Capture::Take(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn) noexcept {
  if (bytes.empty()) return;
  try {
    const std::lock_guard lock(mutex_);
    end_ = std::max(end_, offset + bytes.size());
    TakeAll(offset, bytes, setup_.in_order ? turn : 0);
    if (written_) PutMissed(offset, bytes, turn);
  } catch (...) {
    Miss({offset, offset + bytes.size()}, Uncompared::kMemory);
  }
}

void Capture::TakeToCompare(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn) noexcept {
  if (bytes.empty()) return;
  try {
    const std::lock_guard lock(mutex_);
    end_ = std::max(end_, offset + bytes.size());
    MissBlocks(BlocksOf({offset, offset + bytes.size()}));
    if (written_) PutMissed(offset, bytes, turn);
  } catch (...) {
    Miss({offset, offset + bytes.size()}, Uncompared::kMemory);
  }
}

void Capture::Miss(Interval bytes, Uncompared why) noexcept {
  const std::lock_guard lock(mutex_);
  MissBlocks(BlocksOf(bytes));
  Lose(bytes, why);
}

void Capture::MissAll() noexcept {
  Distrust();
  const std::lock_guard lock(mutex_);
  if (written_) written_->LoseEverything(Uncompared::kUnseen);
}

void Capture::Distrust() noexcept {
  const std::lock_guard lock(mutex_);
  PutKnown({0, kEverythingBehind});
  missed_.AddWhole();
  pages_.clear();
  chunks_.clear();
  EraseOpen({0, kEverythingBehind});
  held_.clear();
}

// Bytes that are cut off still count as written: another process may write them now, in an unknown order. This process
// knows the order of its own writes, so it may capture them again.
void Capture::Cut(std::uint64_t size) noexcept {
  const std::lock_guard lock(mutex_);
  end_ = std::min(end_, size);
  if (written_) {
    const std::uint64_t last = size / block_;
    // The leaf of the last block is useless now, but its first bytes stay.
    if (size % block_ != 0 && !missed_.whole() && IsCaptured(last)) PutCaptured(last);
    written_->Erase({size, kEverythingBehind});
  }
  if (missed_.whole()) return;
  const Interval gone{size / block_, kEverythingBehind};
  bool forgets = false;
  ForEachCaptured([&](std::uint64_t block) {
    if (block < gone.begin) return;
    cut_.Add({block, block + 1});
    forgets = true;
  });
  for (auto at = open_.blocks().lower_bound(gone.begin); at != open_.blocks().end(); ++at) {
    cut_.Add({at->first, at->first + 1});
  }
  used_ -= open_.Cut(size) * open_.BytesEach();
  if (!forgets) return;
  ForgetCaptured(gone);
  RenewSums();
}

Interval Capture::BlocksOf(Interval bytes) const {
  return {bytes.begin / block_, bytes.end / block_ + (bytes.end % block_ != 0)};
}

// Splits a write into whole blocks and the parts at both ends.
void Capture::TakeAll(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn) {
  if (missed_.whole()) return;
  if (!decided_ && offset + bytes.size() >= setup_.certain_from) Decide();
  if (const std::uint64_t at = offset % block_; at != 0) {
    const auto length = std::min<std::uint64_t>(block_ - at, bytes.size());
    TakeOpen(offset / block_, at, bytes.first(length), turn);
    offset += length;
    bytes = bytes.subspan(length);
  }
  const std::uint64_t whole = bytes.size() / block_;
  if (whole > 0) TakeWhole({offset / block_, offset / block_ + whole}, bytes.data(), turn);
  const ByteSpan rest = bytes.subspan(whole * block_);
  if (!rest.empty()) TakeOpen(offset / block_ + whole, 0, rest, turn);
}

// From here on, a block goes into sums as soon as it is whole.
void Capture::Decide() {
  decided_ = true;
  CloseOldest(kOpenBlocks);
}

// Block 0 stays open, because headers are written again. All blocks stay open while the geometry is not certain. If an open
// block is now written as a whole, its old bytes are not needed.
void Capture::TakeWhole(Interval blocks, const std::uint8_t* bytes, std::uint64_t turn) {
  const std::uint64_t first = blocks.begin;
  for (; blocks.begin < blocks.end && (!decided_ || blocks.begin == 0); ++blocks.begin) {
    TakeOpen(blocks.begin, 0, ByteSpan(bytes + (blocks.begin - first) * block_, block_), turn);
  }
  if (blocks.begin == blocks.end) return;
  for (auto at = open_.blocks().lower_bound(blocks.begin); at != open_.blocks().end() && at->first < blocks.end;) {
    const auto& [block, open] = *at++;
    if (turn > open.turn) {
      EraseOpen({block, block + 1});
    } else {
      MissBlocks({block, block + 1});
    }
  }
  TakeBlocks(blocks, bytes + (blocks.begin - first) * block_);
}

// `bytes` are those of all `blocks`. If there are enough blocks for whole rows, they are captured row by row. Then one
// Apply makes the sums of a row, which writes them once instead of k times.
void Capture::TakeBlocks(Interval blocks, const std::uint8_t* bytes) {
  const Rotation rotation = OnlyRotation(*layout_);
  const std::uint64_t slices = layout_->slices();
  const std::uint64_t stripe = slices * layout_->devices();
  if (blocks.end - blocks.begin < 2 * stripe || !rows_at_once_) {
    for (std::uint64_t i = blocks.begin; i < blocks.end; ++i) CopyAndTake(i, bytes + (i - blocks.begin) * block_);
    return;
  }
  // In a turn, each device has k = n - m data units. So data unit i of any device lies in turn i / k. The loops visit all
  // unit rows of the turns that overlap `blocks`. TakeRow leaves out blocks outside `blocks`.
  const std::uint64_t first_turn = blocks.begin / stripe / rotation.k();
  const std::uint64_t last_turn = (blocks.end - 1) / stripe / rotation.k();
  for (std::uint64_t t = first_turn * rotation.n; t < (last_turn + 1) * rotation.n; ++t) {
    for (std::uint32_t slice = 0; slice < slices; ++slice) TakeRow({0, t, slice}, blocks, bytes);
  }
}

// Captures the blocks of one row that are in `blocks`: all at once if possible, else one by one.
void Capture::TakeRow(const RowId& row, Interval blocks, const std::uint8_t* bytes) {
  const Rotation rotation = OnlyRotation(*layout_);
  std::array<std::uint64_t, kMaxGroup> index;
  bool all = true;
  for (std::uint32_t k = 0; k < rotation.k(); ++k) {
    const std::uint32_t device = layout_->DeviceAt(0, rotation.m + k, row.unit_row);
    index[k] = layout_->DataBlock(device, row.unit_row, row.slice).index;
    all = all && index[k] >= blocks.begin && index[k] < blocks.end && IsUnwritten(index[k]);
  }
  if (all && TakeWholeRow(row, {index.data(), rotation.k()}, blocks.begin, bytes)) return;
  for (std::uint32_t k = 0; k < rotation.k(); ++k) {
    if (index[k] < blocks.begin || index[k] >= blocks.end) continue;
    CopyAndTake(index[k], bytes + (index[k] - blocks.begin) * block_);
  }
}

// The quick way. It overwrites the sum instead of adding to it, so the sum must be empty. Each block is hashed in the copy
// while that is in the processor's cache. Everything that may fail comes before the sums are changed. Returns false if it
// is not possible; then nothing was captured. `index`: the data blocks of the row, unwritten. `bytes`: from block `first`
// on.
bool Capture::TakeWholeRow(const RowId& row, std::span<const std::uint64_t> index, std::uint64_t first, const std::uint8_t* bytes) {
  Chunk* const chunk = IsTooMuch(index.size() * block_) ? nullptr : ChunkFor(row);
  if (chunk == nullptr || SliceOf(*chunk, row).blocks != 0 || SliceOf(*chunk, row).spoiled) return false;
  std::array<Page*, kMaxGroup> pages;
  std::array<std::uint32_t, kMaxGroup> which;
  std::array<const std::uint8_t*, kMaxGroup> inputs;
  std::array<std::uint8_t*, kMaxGroup> sums;
  scratch_.Reserve(block_ * index.size());
  for (std::uint32_t k = 0; k < index.size(); ++k) {
    std::uint8_t* const copy = scratch_.data() + k * block_;
    pages[k] = PageFor(index[k]);
    if (pages[k] == nullptr || !ReadProgramMemory(bytes + (index[k] - first) * block_, {copy, block_})) return false;
    pages[k]->leaves[index[k] % kPageBlocks] = LeafHash(setup_.key.get(), HashTag::kDataLeaf, index[k], {copy, block_});
    which[k] = k;
    inputs[k] = copy;
  }
  for (std::uint32_t k = 0; k < index.size(); ++k) Hold(index[k], {inputs[k], block_});
  const std::uint32_t parity = OnlyRotation(*layout_).m;
  for (std::uint32_t q = 0; q < parity; ++q) sums[q] = Sum(*chunk, row, q);
  plan_->Apply({which.data(), index.size()}, inputs.data(), sums.data(), block_, /*accumulate=*/false);
  for (std::uint32_t k = 0; k < index.size(); ++k) {
    pages[k]->captured.set(index[k] % kPageBlocks);
    pages[k]->carried.reset(index[k] % kPageBlocks);
  }
  SliceOf(*chunk, row).blocks = static_cast<std::uint32_t>(index.size());
  return true;
}

// Captures a block in the program's memory. It is missed if it cannot be read.
void Capture::CopyAndTake(std::uint64_t block, const std::uint8_t* from) {
  scratch_.Reserve(block_);
  const MutableByteSpan copy(scratch_.data(), block_);
  if (!IsUnwritten(block) || !ReadProgramMemory(from, copy)) return MissBlocks({block, block + 1});
  TakeBlock(block, copy);
}

// `bytes`: the whole block, or the file's part of the last block; padded with zeros to a whole block, aligned for
// Plan::Apply, and not in the program's memory. A block that was written before is missed, because the order of the two
// writes is not known.
void Capture::TakeBlock(std::uint64_t block, ByteSpan bytes) {
  if (!IsUnwritten(block) || IsTooMuch(bytes.size())) return MissBlocks({block, block + 1});
  const Layout::DeviceRow at = layout_->LocateData(0, block);
  Chunk* chunk = ChunkFor(at.row);
  Page* page = chunk == nullptr ? nullptr : PageFor(block);
  if (page == nullptr || SliceOf(*chunk, at.row).spoiled) return MissBlocks({block, block + 1});

  page->leaves[block % kPageBlocks] = LeafHash(setup_.key.get(), HashTag::kDataLeaf, block, bytes);
  // Hold may throw, so it comes first: a share in the sum of a block that is not captured would spoil the sum.
  Hold(block, bytes);
  AddToSums(at, *chunk, bytes.data());
  page->captured.set(block % kPageBlocks);
  page->carried.reset(block % kPageBlocks);
}

std::vector<std::uint8_t> Capture::TakeHeld(std::uint64_t block) {
  const auto held = held_.find(block);
  if (held == held_.end()) return {};
  std::vector<std::uint8_t> bytes = std::move(held->second);
  held_.erase(held);
  room_to_hold_ += bytes.size();
  return bytes;
}

// Keeps a copy while there is room. So the first blocks of an epoch are held.
void Capture::Hold(std::uint64_t block, ByteSpan bytes) {
  if (bytes.size() > room_to_hold_) return;
  held_[block].assign(bytes.begin(), bytes.end());
  room_to_hold_ -= bytes.size();
}

ByteSpan Capture::Held(std::uint64_t block) const {
  const auto held = held_.find(block);
  return held == held_.end() ? ByteSpan() : ByteSpan(held->second);
}

// Adds the share of one block to the m sums of its row. `whole`: block_size bytes, aligned. The first block of a row
// overwrites what is there, so chunks need not be cleared.
void Capture::AddToSums(const Layout::DeviceRow& at, Chunk& chunk, const std::uint8_t* whole) {
  const Rotation rotation = OnlyRotation(*layout_);
  const std::uint32_t which = rotation.PositionOf(layout_->index_in_group(at.device), at.row.unit_row) - rotation.m;
  std::array<std::uint8_t*, kMaxGroup> sums;
  for (std::uint32_t q = 0; q < rotation.m; ++q) sums[q] = Sum(chunk, at.row, q);
  std::uint32_t& blocks = SliceOf(chunk, at.row).blocks;
  plan_->Apply({&which, 1}, &whole, sums.data(), block_, /*accumulate=*/blocks > 0);
  ++blocks;
}

// The row has a captured block, so its chunk exists (SortRows).
void Capture::AddRead(std::uint64_t block, const std::uint8_t* whole) {
  // A block of zeros adds nothing to the sums, and may still be written later: it is a hole, or lies behind the end of the
  // file.
  if (std::all_of(whole, whole + block_, [](std::uint8_t byte) { return byte == 0; })) return;
  const std::lock_guard lock(mutex_);
  const Layout::DeviceRow at = layout_->LocateData(0, block);
  Chunk& chunk = *ChunkFor(at.row);
  SliceOf(chunk, at.row).mixed = true;
  AddToSums(at, chunk, whole);
}

void Capture::TakeOpen(std::uint64_t block, std::uint64_t at, ByteSpan bytes, std::uint64_t turn) {
  if (!IsNew(block) || (!open_.Has(block) && !ReserveOpen()) || !open_.Put(block, at, bytes, turn)) {
    return MissBlocks({block, block + 1});
  }
  if (decided_) CloseOldest(kOpenBlocks);
}

// If memory runs out, whole blocks go into sums, which take less memory.
bool Capture::ReserveOpen() {
  if (Reserve(open_.BytesEach())) return true;
  decided_ = true;
  CloseOldest(0);
  return Reserve(open_.BytesEach());
}

void Capture::CloseOldest(std::size_t keep) {
  while (const auto block = open_.OldestWhole(keep)) Close(*block);
}

// The block is removed from open_ first, because TakeBlock accepts only blocks that are not open. Its buffer is aligned,
// and padded with zeros if the file ends in it.
void Capture::Close(std::uint64_t block) {
  OpenBlocks::Block open = open_.Take(block);
  try {
    TakeBlock(block, ByteSpan(open.bytes.data(), LengthOf(block)));
    if (written_ && !IsCaptured(block)) PutOpen(block, open);
    if (open.carried && IsCaptured(block)) PageFor(block)->carried.set(block % kPageBlocks);
    if (IsSmall()) return closed_.Insert(block, std::move(open));
  } catch (...) {
    // Out of memory. The bytes are lost, and the block must not look unwritten.
    used_ -= open_.BytesEach();
    MissBlocks({block, block + 1});
    Lose({block * block_, (block + 1) * block_}, Uncompared::kMemory);
    throw;
  }
  used_ -= open_.BytesEach();
}

std::uint64_t Capture::LengthOf(std::uint64_t block) const {
  return std::min(block_, size_ - std::min(size_, block * block_));
}

bool Capture::IsCaptured(std::uint64_t block) const {
  const auto page = pages_.find(block / kPageBlocks);
  return page != pages_.end() && page->second->captured.test(block % kPageBlocks);
}

bool Capture::IsNew(std::uint64_t block) const {
  return !IsCaptured(block) && !missed_.Overlaps({block, block + 1});
}

bool Capture::IsTooMuch(std::uint64_t bytes) const {
  return setup_.only_held && bytes > room_to_hold_;
}

bool Capture::IsUnwritten(std::uint64_t block) const {
  return IsNew(block) && !open_.Has(block);
}

void Capture::MissBlocks(Interval blocks) {
  if (blocks.begin >= blocks.end) return;
  missed_.Add(blocks);
  PutKnown(blocks);
  Forget(blocks);
}

// Puts the missed parts of a write into written_. Erases older parts of blocks that are captured, which may be there from
// before a cut.
void Capture::PutMissed(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn) {
  while (!bytes.empty()) {
    const std::uint64_t block = offset / block_;
    const auto here = bytes.first(std::min<std::uint64_t>(block_ - offset % block_, bytes.size()));
    if (missed_.Overlaps({block, block + 1})) {
      written_->Put(offset, here, turn);
    } else if (written_->HasBlock(block)) {
      written_->Erase({offset, offset + here.size()});
    }
    offset += here.size();
    bytes = bytes.subspan(here.size());
  }
}

// The next write is ordered after these parts: a turn that is not 0 comes after all captured writes.
void Capture::PutKnown(Interval blocks) noexcept {
  if (!written_) return;
  try {
    for (auto page = pages_.lower_bound(blocks.begin / kPageBlocks);
         page != pages_.end() && page->first * kPageBlocks < blocks.end; ++page) {
      for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
        const std::uint64_t block = page->first * kPageBlocks + i;
        if (block >= blocks.begin && block < blocks.end && page->second->captured.test(i)) PutCaptured(block);
      }
    }
    for (auto at = open_.blocks().lower_bound(blocks.begin); at != open_.blocks().end() && at->first < blocks.end; ++at) {
      PutOpen(at->first, at->second);
    }
  } catch (...) {
    written_->LoseEverything(Uncompared::kMemory);
  }
}

void Capture::PutCaptured(std::uint64_t block) {
  const Interval bytes{block * block_, block * block_ + LengthOf(block)};
  const std::vector<std::uint8_t> held = TakeHeld(block);
  if (!held.empty()) return written_->PutOwn(bytes.begin, held, 0);
  if (bytes.begin < bytes.end) written_->PutHash(bytes, leaf(block), 0);
}

void Capture::PutOpen(std::uint64_t block, const OpenBlocks::Block& open) {
  if (open.have.whole()) return written_->Lose({block * block_, (block + 1) * block_}, Uncompared::kMemory);
  for (const Interval& part : open.have.intervals()) {
    written_->PutOwn(block * block_ + part.begin, {open.bytes.data() + part.begin, part.end - part.begin}, open.turn);
  }
}

void Capture::Lose(Interval bytes, Uncompared why) noexcept {
  if (!written_) return;
  try {
    written_->Lose(bytes, why);
  } catch (...) {
    written_->LoseEverything(Uncompared::kMemory);
  }
}

void Capture::AddWritten(Interval bytes, IntervalSet& found) const {
  const Interval blocks = BlocksOf(bytes);
  for (std::uint64_t block = blocks.begin; block < blocks.end; ++block) {
    if (!IsCaptured(block) && !open_.Has(block) && !cut_.Overlaps({block, block + 1})) continue;
    found.Add({std::max(bytes.begin, block * block_), std::min(bytes.end, (block + 1) * block_)});
  }
  written_->AddWritten(bytes, found);
}

void Capture::SetAside(std::uint64_t block) {
  if (written_) return MissBlocks({block, block + 1});
  missed_.Add({block, block + 1});
  aside_.Insert(block, open_.Take(block));
}

void Capture::Forget(Interval blocks) {
  ForgetCaptured(blocks);
  EraseOpen(blocks);
}

void Capture::EraseOpen(Interval blocks) {
  used_ -= open_.Erase(blocks) * open_.BytesEach();
}

// Allocates nothing, because Miss must not fail. To take a share out of a sum, one would add it again (over GF(256)), but
// the bytes are gone. So the sum is spoiled.
void Capture::ForgetCaptured(Interval blocks) {
  for (auto page = pages_.lower_bound(blocks.begin / kPageBlocks);
       page != pages_.end() && page->first * kPageBlocks < blocks.end; ++page) {
    for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
      const std::uint64_t block = page->first * kPageBlocks + i;
      if (block < blocks.begin || block >= blocks.end || !page->second->captured.test(i)) continue;
      page->second->captured.reset(i);
      if (layout_->parity() == 0) continue;
      const RowId row = layout_->LocateData(0, block).row;
      SliceOf(chunks_.at(KeyOf(row)), row).spoiled = true;
    }
  }
  held_.erase(held_.lower_bound(blocks.begin), held_.lower_bound(blocks.end));
}

// The first block of a row overwrites its sum (AddToSums), so a sum without captured blocks may begin anew.
void Capture::RenewSums() {
  for (auto& [key, chunk] : chunks_) {
    for (std::uint32_t i = 0; i < chunk_slices_; ++i) {
      if (chunk.slices[i].blocks == 0) continue;
      const RowId row = RowOf(key, i);
      bool used = false;
      const Rotation rotation = OnlyRotation(*layout_);
      for (std::uint32_t k = rotation.m; k < rotation.n && !used; ++k) {
        const std::uint32_t device = layout_->DeviceAt(0, k, row.unit_row);
        used = IsCaptured(layout_->DataBlock(device, row.unit_row, row.slice).index);
      }
      if (!used) chunk.slices[i] = {};
    }
  }
}

bool Capture::Reserve(std::uint64_t bytes) {
  if (used_ + bytes > memory_) return false;
  used_ += bytes;
  return true;
}

Capture::Page* Capture::PageFor(std::uint64_t block) {
  const auto at = pages_.find(block / kPageBlocks);
  if (at != pages_.end()) return at->second.get();
  if (!Reserve(sizeof(Page))) return nullptr;
  return pages_.emplace(block / kPageBlocks, std::make_unique<Page>()).first->second.get();
}

Capture::Chunk* Capture::ChunkFor(const RowId& row) {
  const ChunkKey key = KeyOf(row);
  const auto at = chunks_.find(key);
  if (at != chunks_.end()) return &at->second;
  const std::uint64_t bytes = layout_->parity() * chunk_slices_ * block_;
  if (!Reserve(sizeof(Chunk) + bytes)) return nullptr;
  Chunk chunk;
  if (bytes > 0) chunk.parity = sums_->Take(bytes);
  chunk.slices.resize(chunk_slices_);
  return &chunks_.emplace(key, std::move(chunk)).first->second;
}

const Capture::Chunk* Capture::FindChunk(const RowId& row) const {
  const auto at = chunks_.find(KeyOf(row));
  return at == chunks_.end() ? nullptr : &at->second;
}

std::uint8_t* Capture::Sum(const Chunk& chunk, const RowId& row, std::uint32_t q) const {
  return chunk.parity + (std::uint64_t{q} * chunk_slices_ + SliceInChunk(row)) * block_;
}

}  // namespace lzy
