// The functions of a capture that the commit calls (encode/capture.h).

#include "encode/capture.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "encode/coverage.h"

namespace lzy {

// Does not compare the placement: it says where parity goes, not which blocks make a row.
bool Capture::Fits(const Layout& layout) const {
  const GeometryParameters& a = layout_->parameters();
  const GeometryParameters& b = layout.parameters();
  return a.kind == b.kind && a.block_size == b.block_size && a.unit == b.unit && a.parity == b.parity &&
         a.groups == b.groups;
}

// After this, a block is captured or open only if the sum of its row will count. The order matters: the end of the file
// and blocks that are not whole may spoil sums, and DropSpoiled looks at all of them.
bool Capture::Finish(const Layout& layout) {
  const std::lock_guard lock(mutex_);
  // If this fails, the geometry stays as it was, and does not fit.
  if (chunks_.empty() && layout.block_size() == block_ && !Fits(layout)) (void)SetGeometry(layout.parameters());
  const std::uint64_t size = layout.file_size(0);
  const std::uint64_t last = size / block_;
  const std::uint64_t rest = size % block_;
  const Interval behind{last + (rest > 0), kEverythingBehind};
  // Blocks behind the end were cut off. They are not missed, because the file does not have them. The last block may have
  // been captured with more bytes than the file has now. All of these were captured with their whole length.
  PutKnown(behind);
  if (rest > 0 && IsCaptured(last)) MissBlocks({last, last + 1});
  size_ = size;
  Forget(behind);
  if (written_) written_->EndAt(size);
  FinishOpen();
  DropSpoiled();
  return Fits(layout);
}

// Blocks that are not whole are missed. Whole blocks get a place in a page and a sum now, so CloseOpen can capture all
// blocks that coverage gives to this rank.
void Capture::FinishOpen() {
  for (auto at = open_.blocks().begin(); at != open_.blocks().end();) {
    const std::uint64_t block = at++->first;
    const RowId row = layout_->LocateData(0, block).row;
    if (open_.IsWhole(block, LengthOf(block)) && ChunkFor(row) != nullptr && PageFor(block) != nullptr) {
      open_.Pad(block, LengthOf(block));
      continue;
    }
    SetAside(block);
  }
}

// Without the sum of its row, a leaf is useless: the row is read, and the block with it.
void Capture::DropSpoiled() {
  const auto spoiled = [&](std::uint64_t block) {
    const RowId row = layout_->LocateData(0, block).row;
    return FindChunk(row)->slices[SliceInChunk(row)].spoiled;
  };
  for (const auto& [number, page] : pages_) {
    for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
      const std::uint64_t block = number * kPageBlocks + i;
      if (!page->captured.test(i) || !spoiled(block)) continue;
      PutKnown({block, block + 1});
      page->captured.reset(i);
      missed_.Add({block, block + 1});
    }
  }
  for (auto at = open_.blocks().begin(); at != open_.blocks().end();) {
    const std::uint64_t block = at++->first;
    if (spoiled(block)) SetAside(block);
  }
}

namespace {

// Adds a block to ascending intervals of blocks. False if that would make more than `limit` of them.
bool Append(std::vector<Interval>& intervals, std::uint64_t block, std::size_t limit) {
  if (!intervals.empty() && intervals.back().end == block) {
    ++intervals.back().end;
    return true;
  }
  if (intervals.size() >= limit) return false;
  intervals.push_back({block, block + 1});
  return true;
}

}  // namespace

// Pages are in the order of blocks, so neighbours in different pages join, too.
std::vector<Interval> Capture::Captured(std::size_t limit) const {
  std::vector<Interval> out;
  bool room = true;
  ForEachCaptured([&](std::uint64_t block) { room = room && Append(out, block, limit); });
  return out;
}

ByteSpan Capture::FirstBlock() const {
  const auto first = open_.blocks().find(0);
  if (first == open_.blocks().end() || first->second.carried) return {};
  return {first->second.bytes.data(), LengthOf(0)};
}

std::vector<Interval> Capture::Open(std::size_t limit) const {
  std::vector<Interval> out;
  for (const auto& [block, open] : open_.blocks()) {
    if (!Append(out, block, limit)) break;
  }
  return out;
}

std::vector<Interval> Capture::Written(std::size_t limit) const {
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  IntervalSet all;
  all.Add(missed_.intervals());
  all.Add(cut_.intervals());
  all.Add(Captured(kAll));
  all.Add(Open(kAll));
  if (missed_.whole() || cut_.whole() || all.whole()) return {{0, kEverythingBehind}};
  all.Coarsen(limit);
  return all.intervals();
}

// Blocks that were cut are not kept: another process may have written them since, in an unknown order.
std::vector<Interval> Capture::NotKept(std::size_t limit) const {
  IntervalSet kept;
  for (const OpenBlocks* blocks : {&aside_, &open_}) {
    for (const auto& [number, block] : blocks->blocks()) {
      if (!written_ && IsKept(number, block)) kept.Add({number, number + 1});
    }
  }
  IntervalSet rest;
  rest.Add(Without(Written(std::numeric_limits<std::size_t>::max()), kept.intervals()));
  rest.Coarsen(limit);
  std::vector<Interval> bytes = rest.intervals();
  for (Interval& one : bytes) one = {one.begin * block_, one.end >= kEverythingBehind / block_ ? kEverythingBehind : one.end * block_};
  return bytes;
}

ByteSpan Capture::CopyOf(Interval bytes) const {
  if (const ByteSpan part = written_ ? written_->CopyOf(bytes) : ByteSpan(); !part.empty()) return part;
  const ByteSpan block = Held(bytes.begin / block_);
  const std::uint64_t at = bytes.begin % block_, length = bytes.end - bytes.begin;
  return at + length <= block.size() ? block.subspan(at, length) : ByteSpan();
}

const std::uint8_t* Capture::ParityOf(const RowId& row, std::uint32_t q) const {
  const Chunk* chunk = FindChunk(row);
  if (chunk == nullptr) return nullptr;
  const Slice& slice = chunk->slices[SliceInChunk(row)];
  if (slice.blocks == 0 || slice.spoiled) return nullptr;
  return Sum(*chunk, row, q);
}

// Resets the capture to its initial state, except for what is carried. If memory runs out, nothing is carried.
bool Capture::Carry() noexcept {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(carries_, false)) return false;
  used_ -= aside_.Erase({0, kEverythingBehind}) * open_.BytesEach();
  try {
    if (IsSmall()) {
      CarryBytes();
    } else {
      CarrySums();
    }
  } catch (...) {
    return false;
  }
  missed_.Clear();
  cut_.Clear();
  end_ = 0;
  held_.clear();
  room_to_hold_ = setup_.hold;
  size_ = kEverythingBehind;
  return true;
}

// A small file may get another geometry, so only its bytes are useful.
void Capture::CarryBytes() {
  pages_.clear();
  chunks_.clear();
  sums_ = std::make_unique<Arena>();
  for (auto at = closed_.blocks().begin(); at != closed_.blocks().end();) {
    const std::uint64_t block = at++->first;
    open_.Insert(block, closed_.Take(block));
  }
  open_.Carry();
  used_ = 0;
  layout_.reset();
  if (!SetGeometry(setup_.parameters).ok()) throw std::bad_alloc();
  used_ += open_.blocks().size() * open_.BytesEach();
  decided_ = false;
}

// Copies the kept sums, because an arena frees all pieces at once. If the last block is not whole, it gets another leaf
// when the file grows, so its row is not kept.
void Capture::CarrySums() {
  if (size_ % block_ != 0) {
    const RowId row = layout_->LocateData(0, size_ / block_).row;
    const auto chunk = chunks_.find(KeyOf(row));
    if (chunk != chunks_.end()) SliceOf(chunk->second, row).kept = false;
  }
  auto sums = std::make_unique<Arena>();
  const std::uint64_t bytes = layout_->parity() * chunk_slices_ * block_;
  used_ -= chunks_.size() * (sizeof(Chunk) + bytes) + pages_.size() * sizeof(Page);
  for (auto at = chunks_.begin(); at != chunks_.end();) {
    Chunk& chunk = at->second;
    const bool any = std::ranges::any_of(chunk.slices, &Slice::kept);
    if (any && bytes > 0) chunk.parity = std::copy_n(chunk.parity, bytes, sums->Take(bytes)) - bytes;
    for (Slice& slice : chunk.slices) slice = slice.kept ? Slice{.blocks = slice.blocks} : Slice{};
    at = any ? std::next(at) : chunks_.erase(at);
  }
  sums_ = std::move(sums);
  for (auto at = pages_.begin(); at != pages_.end();) {
    Page& page = *at->second;
    for (std::uint64_t i = 0; i < kPageBlocks; ++i) {
      if (!page.captured.test(i)) continue;
      const RowId row = layout_->LocateData(0, at->first * kPageBlocks + i).row;
      const Chunk* chunk = FindChunk(row);
      if (chunk == nullptr || chunk->slices[SliceInChunk(row)].blocks == 0) page.captured.reset(i);
    }
    page.carried = page.captured;
    at = page.captured.any() ? std::next(at) : pages_.erase(at);
  }
  used_ += chunks_.size() * (sizeof(Chunk) + bytes) + pages_.size() * sizeof(Page);
  EraseOpen({0, kEverythingBehind});
}

}  // namespace lzy
