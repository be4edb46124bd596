#include "encode/capture.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "tuning/tuning.h"

namespace lzy {
namespace {

// Bytes of a chunk for one parity block: sums are allocated in pieces of this size.
constexpr std::uint64_t kChunkBytes = 1u << 20;
// What Plan::Apply asks of its inputs.
constexpr std::size_t kAlignment = 32;

// A shared file has one group (Create checks it).
Rotation OnlyRotation(const Layout& layout) {
  return layout.rotation(0);
}

}  // namespace

Result<std::unique_ptr<Capture>> Capture::Create(const GeometryParameters& parameters, std::uint64_t memory,
                                                 std::uint64_t hold, std::shared_ptr<const LeafKey> key) {
  if (parameters.kind != DatasetKind::kShared || parameters.groups.size() != 1) {
    return {Code::kInvalidArgument, "capture: a shared file with one group of devices is needed"};
  }
  // Where blocks and rows are does not depend on the size, so any size that is large enough will do.
  constexpr std::uint64_t kLargest = 1ull << 61;
  LZY_ASSIGN_OR_RETURN(Layout layout, Layout::Create(parameters, {kLargest}));
  const Rotation rotation = OnlyRotation(layout);
  LZY_ASSIGN_OR_RETURN(Codec codec, Codec::Create(rotation.n, rotation.m));
  return std::unique_ptr<Capture>(new Capture(std::move(layout), std::move(codec), memory - hold, hold, std::move(key)));
}

Capture::Capture(Layout layout, Codec codec, std::uint64_t memory, std::uint64_t hold, std::shared_ptr<const LeafKey> key)
    : layout_(std::move(layout)),
      plan_(codec.EncodePlan()),
      block_(layout_.block_size()),
      chunk_slices_(static_cast<std::uint32_t>(
          std::clamp<std::uint64_t>(kChunkBytes / block_, 1, layout_.slices()))),
      memory_(memory),
      rows_at_once_(block_ * OnlyRotation(layout_).k() <= memory / 4),
      holds_(hold > 0),
      room_to_hold_(hold),
      key_(std::move(key)) {
  used_ = block_ * (rows_at_once_ ? OnlyRotation(layout_).k() : 1);  // for scratch_
}

// The program's write must not fail because lzy is out of memory. Whatever is thrown, the bytes are missed.
void Capture::Take(std::uint64_t offset, ByteSpan bytes) noexcept {
  if (bytes.empty()) return;
  try {
    const std::lock_guard lock(mutex_);
    TakeAll(offset, bytes);
  } catch (...) {
    Miss({offset, offset + bytes.size()});
  }
}

void Capture::Miss(Interval bytes) noexcept {
  const std::lock_guard lock(mutex_);
  MissBlocks(BlocksOf(bytes));
}

void Capture::MissAll() noexcept {
  const std::lock_guard lock(mutex_);
  missed_.AddWhole();
  pages_.clear();
  chunks_.clear();
  stitches_.clear();
  held_.clear();
}

Interval Capture::BlocksOf(Interval bytes) const {
  return {bytes.begin / block_, bytes.end / block_ + (bytes.end % block_ != 0)};
}

// Splits a write into whole blocks and the parts at both ends.
void Capture::TakeAll(std::uint64_t offset, ByteSpan bytes) {
  if (missed_.whole()) return;
  if (const std::uint64_t at = offset % block_; at != 0) {
    const auto length = std::min<std::uint64_t>(block_ - at, bytes.size());
    TakePart(offset / block_, static_cast<std::uint32_t>(at), bytes.first(length));
    offset += length;
    bytes = bytes.subspan(length);
  }
  const std::uint64_t whole = bytes.size() / block_;
  if (whole > 0) TakeBlocks({offset / block_, offset / block_ + whole}, bytes.data());
  const ByteSpan rest = bytes.subspan(whole * block_);
  if (!rest.empty()) TakePart(offset / block_ + whole, 0, rest);
}

// `bytes`: those of all of `blocks`. If there are enough blocks to have whole rows among them, they are taken row by
// row. Then the sums of a row are made by one Apply, which writes them once instead of k times.
void Capture::TakeBlocks(Interval blocks, const std::uint8_t* bytes) {
  const Rotation rotation = OnlyRotation(layout_);
  const std::uint64_t slices = layout_.slices();
  const std::uint64_t stripe = slices * layout_.devices();
  if (blocks.end - blocks.begin < 2 * stripe || !rows_at_once_) {
    for (std::uint64_t i = blocks.begin; i < blocks.end; ++i)
      TakeBlock(i, ByteSpan(bytes + (i - blocks.begin) * block_, block_));
    return;
  }
  // In a turn, each device holds k = n - m data units. So data unit i of any device lies in turn i / k. The loops
  // visit all unit rows of the turns that `blocks` reaches into. TakeRow leaves out blocks that are not of `blocks`.
  const std::uint64_t first_turn = blocks.begin / stripe / rotation.k();
  const std::uint64_t last_turn = (blocks.end - 1) / stripe / rotation.k();
  for (std::uint64_t t = first_turn * rotation.n; t < (last_turn + 1) * rotation.n; ++t) {
    for (std::uint32_t slice = 0; slice < slices; ++slice) TakeRow({0, t, slice}, blocks, bytes);
  }
}

// Takes the blocks of one row that are of `blocks`. The quick way needs all k blocks, unwritten, and a sum that
// nothing is in: it overwrites the sum. Otherwise the blocks are taken one by one.
void Capture::TakeRow(const RowId& row, Interval blocks, const std::uint8_t* bytes) {
  const Rotation rotation = OnlyRotation(layout_);
  std::array<std::uint64_t, kMaxGroup> index;
  bool all = true;
  for (std::uint32_t k = 0; k < rotation.k(); ++k) {
    const std::uint32_t device = layout_.group(0)[rotation.DeviceAt(rotation.m + k, row.unit_row)];
    index[k] = layout_.DataBlock(device, row.unit_row, row.slice).index;
    all = all && index[k] >= blocks.begin && index[k] < blocks.end && IsUnwritten(index[k]);
  }
  Chunk* chunk = all ? ChunkFor(row) : nullptr;
  if (chunk == nullptr || chunk->blocks[SliceInChunk(row)] != 0 || chunk->spoiled[SliceInChunk(row)]) {
    for (std::uint32_t k = 0; k < rotation.k(); ++k) {
      if (index[k] < blocks.begin || index[k] >= blocks.end) continue;
      TakeBlock(index[k], ByteSpan(bytes + (index[k] - blocks.begin) * block_, block_));
    }
    return;
  }
  // Everything that may fail comes before the sums are touched.
  std::array<Page*, kMaxGroup> pages;
  for (std::uint32_t k = 0; k < rotation.k(); ++k) {
    pages[k] = PageFor(index[k]);
    all = all && pages[k] != nullptr;
  }
  if (!all) {
    for (std::uint32_t k = 0; k < rotation.k(); ++k) MissBlocks({index[k], index[k] + 1});
    return;
  }
  // Hash each block, and copy those that are not aligned; then one Apply, and only now the blocks are captured.
  std::array<std::uint32_t, kMaxGroup> which;
  std::array<const std::uint8_t*, kMaxGroup> inputs;
  std::array<std::uint8_t*, kMaxGroup> sums;
  scratch_.Reserve(block_ * rotation.k());
  for (std::uint32_t k = 0; k < rotation.k(); ++k) {
    const std::uint8_t* from = bytes + (index[k] - blocks.begin) * block_;
    std::uint8_t* copy = scratch_.data() + k * block_;
    pages[k]->leaves[index[k] % kPageBlocks] = CopyAligned(index[k], from, copy, inputs[k]);
    which[k] = k;
    Hold(index[k], ByteSpan(from, block_));
  }
  for (std::uint32_t q = 0; q < rotation.m; ++q) sums[q] = Sum(*chunk, row, q);
  plan_.Apply({which.data(), rotation.k()}, inputs.data(), sums.data(), block_, /*accumulate=*/false);
  for (std::uint32_t k = 0; k < rotation.k(); ++k) pages[k]->captured.set(index[k] % kPageBlocks);
  chunk->blocks[SliceInChunk(row)] = rotation.k();
}

// The hash of a block. `use` gets the address where its bytes are aligned: in place, or in `copy`. A copy and its hash
// are one pass over the bytes, but for keyed hashes.
Hash Capture::CopyAligned(std::uint64_t block, const std::uint8_t* from, std::uint8_t* copy,
                          const std::uint8_t*& use) const {
  use = from;
  if (reinterpret_cast<std::uintptr_t>(from) % kAlignment != 0) {
    use = copy;
    if (!key_) return CopyAndHash(HashTag::kDataLeaf, block, ByteSpan(from, block_), copy, CurrentTuning().HashCopy(block_));
    std::copy_n(from, block_, copy);
  }
  return LeafHash(key_.get(), HashTag::kDataLeaf, block, ByteSpan(use, block_));
}

// `bytes`: all of the block, or of the last block what the file has of it. A block that was written before is missed:
// nobody knows in which order two writes reached the file.
void Capture::TakeBlock(std::uint64_t block, ByteSpan bytes) {
  if (!IsUnwritten(block)) return MissBlocks({block, block + 1});
  const Layout::DeviceRow at = layout_.LocateData(0, block);
  Chunk* chunk = ChunkFor(at.row);
  Page* page = chunk == nullptr ? nullptr : PageFor(block);
  if (page == nullptr || chunk->spoiled[SliceInChunk(at.row)]) return MissBlocks({block, block + 1});

  const std::uint8_t* input = bytes.data();
  Hash& leaf = page->leaves[block % kPageBlocks];
  if (bytes.size() == block_) {
    scratch_.Reserve(block_);
    leaf = CopyAligned(block, bytes.data(), scratch_.data(), input);
  } else {  // Finish padded it with zeros, and it is aligned
    leaf = LeafHash(key_.get(), HashTag::kDataLeaf, block, bytes);
  }
  // Hold may throw, so it comes first: a share that is in the sum without its block being captured would spoil it.
  Hold(block, bytes);
  AddToSums(at, *chunk, input);
  page->captured.set(block % kPageBlocks);
}

// Keeps a copy while there is room. Room is never given back, so the first blocks of an epoch are the ones that are
// held.
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
  const Rotation rotation = OnlyRotation(layout_);
  const std::uint32_t which = rotation.PositionOf(layout_.index_in_group(at.device), at.row.unit_row) - rotation.m;
  std::array<std::uint8_t*, kMaxGroup> sums;
  for (std::uint32_t q = 0; q < rotation.m; ++q) sums[q] = Sum(chunk, at.row, q);
  std::uint32_t& blocks = chunk.blocks[SliceInChunk(at.row)];
  plan_.Apply({&which, 1}, &whole, sums.data(), block_, /*accumulate=*/blocks > 0);
  ++blocks;
}

// Its row has a captured block, so the chunk is there (SortRows).
void Capture::AddRead(std::uint64_t block, const std::uint8_t* whole) {
  const std::lock_guard lock(mutex_);
  const Layout::DeviceRow at = layout_.LocateData(0, block);
  AddToSums(at, *ChunkFor(at.row), whole);
}

// Parts that meet make a block. Parts that overlap are a second write, so the block is missed.
void Capture::TakePart(std::uint64_t block, std::uint32_t at, ByteSpan bytes) {
  if (!IsNew(block)) return MissBlocks({block, block + 1});
  auto stitch = stitches_.find(block);
  if (stitch == stitches_.end()) {
    if (!Reserve(StitchBytes())) return MissBlocks({block, block + 1});
    stitch = stitches_.try_emplace(block).first;
    stitch->second.bytes = AlignedBuffer(block_);
  }
  Stitch& parts = stitch->second;
  const Interval part{at, at + bytes.size()};
  if (parts.have.Overlaps(part) || parts.have.intervals().size() >= 16) return MissBlocks({block, block + 1});
  std::copy(bytes.begin(), bytes.end(), parts.bytes.data() + at);
  parts.have.Add(part);
  // Add has run out of memory: then the set is whole, and says nothing.
  if (parts.have.whole()) return MissBlocks({block, block + 1});
  if (parts.have.intervals().front() != Interval{0, block_}) return;
  // The stitch goes first: TakeBlock accepts only a block without parts.
  const Stitch whole = std::move(parts);
  stitches_.erase(stitch);
  used_ -= StitchBytes();
  TakeBlock(block, ByteSpan(whole.bytes.data(), block_));
}

bool Capture::IsCaptured(std::uint64_t block) const {
  const auto page = pages_.find(block / kPageBlocks);
  return page != pages_.end() && page->second->captured.test(block % kPageBlocks);
}

bool Capture::IsNew(std::uint64_t block) const {
  return !IsCaptured(block) && !missed_.Overlaps({block, block + 1});
}

bool Capture::IsUnwritten(std::uint64_t block) const {
  return IsNew(block) && !stitches_.contains(block);
}

// The buffer, and an estimate of what comes with it: nodes of maps, intervals, alignment.
std::uint64_t Capture::StitchBytes() const {
  return std::max<std::uint64_t>(block_, AlignedBuffer::kAlignment) + sizeof(Stitch) + 512;
}

void Capture::MissBlocks(Interval blocks) {
  if (blocks.begin >= blocks.end) return;
  missed_.Add(blocks);
  Forget(blocks);
}

// Forgets what was captured of these blocks, and their parts. Allocates nothing, because Miss must not fail. A share
// cannot be taken out of a sum: over GF(256) one would add it again, but its bytes are gone. So the sum is spoiled.
void Capture::Forget(Interval blocks) {
  for (auto page = pages_.lower_bound(blocks.begin / kPageBlocks);
       page != pages_.end() && page->first * kPageBlocks < blocks.end; ++page) {
    for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
      const std::uint64_t block = page->first * kPageBlocks + i;
      if (block < blocks.begin || block >= blocks.end || !page->second->captured.test(i)) continue;
      page->second->captured.reset(i);
      const RowId row = layout_.LocateData(0, block).row;
      chunks_.at({row.group, row.unit_row, row.slice / chunk_slices_}).spoiled[SliceInChunk(row)] = true;
    }
  }
  held_.erase(held_.lower_bound(blocks.begin), held_.lower_bound(blocks.end));
  for (auto stitch = stitches_.lower_bound(blocks.begin); stitch != stitches_.end() && stitch->first < blocks.end;) {
    stitch = stitches_.erase(stitch);
    used_ -= StitchBytes();
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
  const ChunkKey key{row.group, row.unit_row, row.slice / chunk_slices_};
  const auto at = chunks_.find(key);
  if (at != chunks_.end()) return &at->second;
  const std::uint64_t bytes = layout_.parity() * chunk_slices_ * block_;
  if (!Reserve(sizeof(Chunk) + bytes)) return nullptr;
  Chunk chunk;
  if (bytes > 0) chunk.parity = sums_.Take(bytes);
  chunk.blocks.assign(chunk_slices_, 0);
  chunk.spoiled.assign(chunk_slices_, false);
  return &chunks_.emplace(key, std::move(chunk)).first->second;
}

const Capture::Chunk* Capture::FindChunk(const RowId& row) const {
  const auto at = chunks_.find({row.group, row.unit_row, row.slice / chunk_slices_});
  return at == chunks_.end() ? nullptr : &at->second;
}

std::uint8_t* Capture::Sum(Chunk& chunk, const RowId& row, std::uint32_t q) const {
  return chunk.parity + (std::uint64_t{q} * chunk_slices_ + SliceInChunk(row)) * block_;
}

// Placement is not compared: it says where parity goes, not which blocks make a row.
bool Capture::Fits(const Layout& layout) const {
  const GeometryParameters& a = layout_.parameters();
  const GeometryParameters& b = layout.parameters();
  return a.kind == b.kind && a.block_size == b.block_size && a.unit == b.unit && a.parity == b.parity &&
         a.groups == b.groups;
}

// After this, a block is captured only if its leaf and the sum of its row both count. The order matters: the last
// block and the parts may spoil sums, and the last loop looks at all of them.
void Capture::Finish(std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t last = size / block_;
  const std::uint64_t rest = size % block_;
  // The last block is whole if its parts are [0, rest). If it was captured with all its bytes, the file was cut since.
  if (const auto stitch = stitches_.find(last); stitch != stitches_.end() && rest > 0) {
    const auto& have = stitch->second.have.intervals();
    if (have.size() == 1 && have[0] == Interval{0, rest}) {
      Stitch parts = std::move(stitch->second);
      stitches_.erase(stitch);
      used_ -= StitchBytes();
      std::fill(parts.bytes.data() + rest, parts.bytes.data() + block_, std::uint8_t{0});
      TakeBlock(last, ByteSpan(parts.bytes.data(), rest));
    }
  } else if (rest > 0 && IsCaptured(last)) {
    MissBlocks({last, last + 1});
  }
  // Blocks of which only parts were written are missed. If verify-writes asked for it, the parts themselves are kept.
  if (holds_) parts_ = std::move(stitches_);
  if (holds_) stitches_.clear();
  for (const auto& [block, parts] : parts_) MissBlocks({block, block + 1});
  while (!stitches_.empty()) MissBlocks({stitches_.begin()->first, stitches_.begin()->first + 1});
  // Blocks behind the end were cut off. They are not missed, since the file does not have them.
  Forget({last + (rest > 0), kEverythingBehind});
  // Without its sum, a leaf is of no use: the row is read, and the block with it.
  for (const auto& [number, page] : pages_) {
    for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
      if (!page->captured.test(i)) continue;
      const std::uint64_t block = number * kPageBlocks + i;
      const RowId row = layout_.LocateData(0, block).row;
      if (FindChunk(row)->spoiled[SliceInChunk(row)]) {
        page->captured.reset(i);
        missed_.Add({block, block + 1});
      } else {
        bytes_captured_ += block == last ? rest : block_;
      }
    }
  }
}

// Pages are in the order of blocks, so neighbours in different pages join, too.
std::vector<Interval> Capture::Captured(std::size_t limit) const {
  std::vector<Interval> out;
  for (const auto& [number, page] : pages_) {
    for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
      if (!page->captured.test(i)) continue;
      const std::uint64_t block = number * kPageBlocks + i;
      if (!out.empty() && out.back().end == block) {
        ++out.back().end;
      } else if (out.size() < limit) {
        out.push_back({block, block + 1});
      } else {
        return out;
      }
    }
  }
  return out;
}

std::vector<Interval> Capture::Written(std::size_t limit) const {
  IntervalSet all;
  all.Add(missed_.intervals());
  all.Add(Captured(std::numeric_limits<std::size_t>::max()));
  if (missed_.whole() || all.whole()) return {{0, kEverythingBehind}};
  all.Coarsen(limit);
  return all.intervals();
}

// What was missed, less the blocks whose parts are known.
std::vector<Interval> Capture::Unknown(std::size_t limit) const {
  if (missed_.whole()) return {{0, kEverythingBehind}};
  IntervalSet unknown;
  for (const Interval& missed : missed_.intervals()) {
    std::uint64_t from = missed.begin;
    for (auto part = parts_.lower_bound(missed.begin); part != parts_.end() && part->first < missed.end; ++part) {
      if (part->first > from) unknown.Add({from, part->first});
      from = part->first + 1;
    }
    if (from < missed.end) unknown.Add({from, missed.end});
  }
  unknown.Coarsen(limit);
  return unknown.intervals();
}

const Hash& Capture::leaf(std::uint64_t block) const {
  return pages_.at(block / kPageBlocks)->leaves[block % kPageBlocks];
}

const std::uint8_t* Capture::ParityOf(const RowId& row, std::uint32_t q) const {
  const Chunk* chunk = FindChunk(row);
  if (chunk == nullptr || chunk->blocks[SliceInChunk(row)] == 0 || chunk->spoiled[SliceInChunk(row)]) return nullptr;
  return chunk->parity + (std::uint64_t{q} * chunk_slices_ + SliceInChunk(row)) * block_;
}

}  // namespace lzy
