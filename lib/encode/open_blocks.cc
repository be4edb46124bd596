#include "encode/open_blocks.h"

#include <algorithm>
#include <utility>

#include "base/program_memory.h"

namespace lzy {

bool OpenBlocks::IsWhole(std::uint64_t block, std::uint64_t length) const {
  const auto at = blocks_.find(block);
  if (at == blocks_.end()) return false;
  const IntervalSet& have = at->second.have;
  return !have.whole() && have.intervals().size() == 1 && have.intervals()[0] == Interval{0, length};
}

// Nodes of maps, intervals and alignment are added to the buffer.
std::uint64_t OpenBlocks::BytesEach() const {
  return std::max<std::uint64_t>(block_, AlignedBuffer::kAlignment) + sizeof(Block) + 512;
}

// Parts that were written in a known order may overlap: the last one counts. Parts of one write, or of writes that were
// under way at the same time, have no order.
bool OpenBlocks::Put(std::uint64_t block, std::uint64_t at, ByteSpan bytes, std::uint64_t turn) {
  auto found = blocks_.find(block);
  if (found == blocks_.end()) {
    AlignedBuffer room(block_);
    found = blocks_.try_emplace(block).first;
    found->second.bytes = std::move(room);
  }
  Block& open = found->second;
  const Interval part{at, at + bytes.size()};
  const bool ordered = turn > open.turn;
  if (open.have.Overlaps(part) && !ordered) return false;
  if (open.have.intervals().size() >= kMostParts && part != Interval{0, block_}) return false;
  if (!ReadProgramMemory(bytes.data(), {open.bytes.data() + at, bytes.size()})) return false;
  open.have.Add(part);
  // Add ran out of memory: then the set is whole, and useless.
  if (open.have.whole()) return false;
  open.turn = std::max(open.turn, turn);
  open.carried = false;
  if (!open.queued && open.have.intervals().front() == Interval{0, block_}) {
    whole_.push_back(block);
    open.queued = true;
  }
  return true;
}

OpenBlocks::Block OpenBlocks::Take(std::uint64_t block) {
  return std::move(blocks_.extract(block).mapped());
}

void OpenBlocks::Pad(std::uint64_t block, std::uint64_t length) {
  AlignedBuffer& bytes = blocks_.at(block).bytes;
  std::fill(bytes.data() + length, bytes.data() + block_, std::uint8_t{0});
}

std::uint64_t OpenBlocks::Erase(Interval blocks) noexcept {
  std::uint64_t erased = 0;
  for (auto at = blocks_.lower_bound(blocks.begin); at != blocks_.end() && at->first < blocks.end; ++erased) {
    at = blocks_.erase(at);
  }
  return erased;
}

std::uint64_t OpenBlocks::Cut(std::uint64_t size) {
  const std::uint64_t rest = size % block_;
  std::uint64_t erased = Erase({size / block_ + (rest != 0), kEverythingBehind});
  const auto last = blocks_.find(size / block_);
  if (last != blocks_.end()) {
    last->second.have.Clip(rest);
    last->second.queued = false;
    if (last->second.have.empty()) {
      blocks_.erase(last);
      ++erased;
    }
  }
  return erased;
}

// Writes of the last epoch have ended, so writes of the next epoch come after them, whatever their turn.
void OpenBlocks::Carry() {
  whole_.clear();
  for (auto& [block, open] : blocks_) {
    open.turn = 0;
    open.queued = false;
    open.carried = true;
  }
}

std::optional<std::uint64_t> OpenBlocks::OldestWhole(std::size_t keep) {
  while (whole_.size() > keep) {
    const std::uint64_t block = whole_.front();
    whole_.pop_front();
    const auto at = blocks_.find(block);
    if (at == blocks_.end() || !at->second.queued) continue;
    at->second.queued = false;
    if (block != 0 && IsWhole(block, block_)) return block;
  }
  return std::nullopt;
}

}  // namespace lzy
