#include "encode/written_bytes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/program_memory.h"

namespace lzy {
namespace {

// Shorter copies stay copies, because a hash would not be much shorter.
constexpr std::uint32_t kWorthHashing = 2 * sizeof(Hash);
// The estimated memory of a node of the map, with its allocations.
constexpr std::uint64_t kNode = 160;
// Up to this many blocks are marked as lost one by one; a longer range means the whole file.
constexpr std::uint64_t kMostLost = 1u << 22;
// One write to a block adds at most this many parts, if it does not overlap several others.
constexpr std::size_t kMostNew = 4;

// The capacity that a vector gets for `more` elements.
template <class T>
std::size_t GrownCapacity(const std::vector<T>& vector, std::size_t more) {
  const std::size_t size = vector.size() + more;
  return size <= vector.capacity() ? vector.capacity() : std::max(size, vector.capacity() + vector.capacity() / 2);
}

}  // namespace

WrittenBytes::WrittenBytes(std::uint64_t block_size, std::shared_ptr<const LeafKey> key, std::uint64_t& room,
                           std::function<bool()> give_room)
    : block_(block_size), key_(std::move(key)), room_(room), give_room_(std::move(give_room)) {}

void WrittenBytes::Put(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn) {
  while (!bytes.empty()) {
    const auto here = bytes.first(std::min<std::uint64_t>(block_ - offset % block_, bytes.size()));
    scratch_.resize(here.size());
    if (ReadProgramMemory(here.data(), scratch_)) {
      PutOwn(offset, scratch_, turn);
    } else {
      Lose({offset, offset + here.size()}, Uncompared::kUnseen);
    }
    offset += here.size();
    bytes = bytes.subspan(here.size());
  }
}

// Room for parts is made by dropping copies of whole blocks in the capture: these have a hash as well.
void WrittenBytes::PutOwn(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn) {
  const std::uint64_t block = offset / block_;
  const auto begin = static_cast<std::uint32_t>(offset % block_);
  Entry entry{begin, begin + static_cast<std::uint32_t>(bytes.size()), 0, Kind::kCopy, {}};
  const std::uint64_t most = kNode + kMostNew * sizeof(Entry) + 2 * bytes.size();
  if (bytes.size() >= kWorthHashing && !HasRoom(most, bytes.size() < block_)) {
    const Hash hash = HashOf(block, bytes);
    entry.kind = Kind::kHash;
    return Add(block, entry, hash.bytes, turn, /*replaces=*/false);
  }
  Add(block, entry, bytes, turn, /*replaces=*/false);
}

void WrittenBytes::PutHash(Interval bytes, const Hash& hash, std::uint64_t turn) {
  const auto begin = static_cast<std::uint32_t>(bytes.begin % block_);
  const auto length = static_cast<std::uint32_t>(bytes.end - bytes.begin);
  Add(bytes.begin / block_, {begin, begin + length, 0, Kind::kHash, {}}, hash.bytes, turn, /*replaces=*/false);
}

void WrittenBytes::Lose(Interval bytes, Uncompared why) {
  if ((bytes.end - bytes.begin) / block_ > kMostLost) return LoseEverything(why);
  while (bytes.begin < bytes.end) {
    const auto begin = static_cast<std::uint32_t>(bytes.begin % block_);
    const auto length = static_cast<std::uint32_t>(std::min(block_ - begin, bytes.end - bytes.begin));
    Add(bytes.begin / block_, {begin, begin + length, 0, Kind::kUnknown, why}, {}, 0, /*replaces=*/true);
    bytes.begin += length;
  }
}

// Frees memory, and needs none.
void WrittenBytes::LoseEverything(Uncompared why) noexcept {
  for (const auto& [block, entries] : blocks_) {
    for (const Entry& entry : entries.parts) lost_bytes_[why] += entry.length();
    Charge(SizeOf(entries), 0);
  }
  blocks_.clear();
  lost_.AddWhole();
  why_lost_ = why;
}

void WrittenBytes::Add(std::uint64_t number, Entry entry, ByteSpan kept, std::uint64_t turn, bool replaces) {
  if (lost_.whole()) {
    lost_bytes_[why_lost_] += entry.length();
    return;
  }
  auto found = blocks_.find(number);
  const bool is_new = found == blocks_.end();
  if (is_new && !MakeRoom(kNode + kMostNew * sizeof(Entry) + kept.size())) {
    lost_bytes_[entry.kind == Kind::kUnknown ? entry.why : Uncompared::kMemory] += entry.length();
    return lost_.Add({number * block_ + entry.begin, number * block_ + entry.end});
  }
  if (is_new) found = blocks_.try_emplace(number).first;
  Block& block = found->second;
  if (block.kept.size() + kept.size() > 2 * block_) Compact(block);
  // This may turn copies of the same block into hashes. Without room, the part is kept as unknown, so that the bytes it
  // replaces do not count as known.
  if (!MakeRoom(GrowthOf(block, kept.size()))) {
    entry.kind = Kind::kUnknown;
    entry.why = Uncompared::kMemory;
    kept = {};
  }
  const std::uint64_t before = is_new ? 0 : SizeOf(block);
  block.parts.reserve(GrownCapacity(block.parts, kMostNew));
  block.kept.reserve(GrownCapacity(block.kept, kept.size()));
  entry.at = static_cast<std::uint32_t>(block.kept.size());
  block.kept.insert(block.kept.end(), kept.begin(), kept.end());
  if (entry.kind == Kind::kCopy && kept.size() >= kWorthHashing) has_copies_ = true;
  Insert(block, entry, replaces || turn > block.turn);
  block.turn = std::max(block.turn, turn);
  Charge(before, SizeOf(block));
}

std::uint64_t WrittenBytes::GrowthOf(const Block& block, std::size_t bytes) {
  return (GrownCapacity(block.parts, kMostNew) - block.parts.capacity()) * sizeof(Entry) + GrownCapacity(block.kept, bytes) -
         block.kept.capacity();
}

WrittenBytes::Entry WrittenBytes::Slice(const Entry& entry, std::uint32_t begin, std::uint32_t end) {
  Entry slice = entry;
  slice.begin = begin;
  slice.end = end;
  if (slice.length() == entry.length()) return slice;
  if (entry.kind == Kind::kCopy) slice.at += begin - entry.begin;
  if (entry.kind == Kind::kHash) slice.kind = Kind::kUnknown;  // there was no room for a copy (kMemory)
  return slice;
}

// Merges in the order of the file: the remains of older parts, and the fresh one. If the order of writes is not known,
// overlapping bytes are unknown. A write that was not seen may still be under way, so its bytes stay unknown.
void WrittenBytes::Insert(Block& block, const Entry& fresh, bool ordered) {
  std::vector<Entry>& parts = block.parts;
  const auto first = std::ranges::upper_bound(parts, fresh.begin, {}, &Entry::end);
  auto after = first;
  if (first == parts.end() || first->begin >= fresh.end) {
    // Most writes continue where the last one ended.
    Entry* const last = first == parts.begin() ? nullptr : &*std::prev(first);
    const bool goes_on = last != nullptr && last->kind == Kind::kCopy && fresh.kind == Kind::kCopy && last->end == fresh.begin &&
                         last->at + last->length() == fresh.at;
    if (goes_on) {
      last->end = fresh.end;
    } else {
      parts.insert(first, fresh);
    }
    return;
  }
  std::vector<Entry> now;
  std::uint32_t from = fresh.begin;
  for (; after != parts.end() && after->begin < fresh.end; ++after) {
    if (after->begin < fresh.begin) now.push_back(Slice(*after, after->begin, fresh.begin));
    const bool unseen = after->kind == Kind::kUnknown && after->why == Uncompared::kUnseen;
    if (ordered && !unseen) continue;
    const std::uint32_t begin = std::max(after->begin, fresh.begin), end = std::min(after->end, fresh.end);
    if (from < begin) now.push_back(Slice(fresh, from, begin));
    now.push_back({begin, end, 0, Kind::kUnknown, unseen ? Uncompared::kUnseen : Uncompared::kOverlap});
    from = end;
  }
  if (from < fresh.end) now.push_back(Slice(fresh, from, fresh.end));
  const Entry& last = *std::prev(after);
  if (last.end > fresh.end) now.push_back(Slice(last, fresh.end, last.end));
  parts.insert(parts.erase(first, after), now.begin(), now.end());
}

void WrittenBytes::Erase(Interval bytes) {
  for (auto at = blocks_.lower_bound(bytes.begin / block_); at != blocks_.end() && at->first * block_ < bytes.end;) {
    Block& block = at->second;
    const std::uint64_t base = at->first * block_;
    const auto begin = static_cast<std::uint32_t>(std::max(bytes.begin, base) - base);
    const auto end = static_cast<std::uint32_t>(std::min(bytes.end, base + block_) - base);
    const std::uint64_t before = SizeOf(block);
    if (std::ranges::any_of(block.parts, [&](const Entry& one) { return one.begin < end && begin < one.end; })) {
      std::vector<Entry> left;
      for (const Entry& one : block.parts) {
        if (one.begin < begin) left.push_back(Slice(one, one.begin, std::min(one.end, begin)));
        if (one.end > end) left.push_back(Slice(one, std::max(one.begin, end), one.end));
      }
      block.parts = std::move(left);
    }
    const bool empty = block.parts.empty();
    Charge(before, empty ? 0 : SizeOf(block));
    at = empty ? blocks_.erase(at) : std::next(at);
  }
}

void WrittenBytes::EndAt(std::uint64_t size) {
  for (auto at = blocks_.lower_bound(size / block_); at != blocks_.end(); ++at) {
    for (const Entry& entry : at->second.parts) {
      const std::uint64_t begin = std::max(at->first * block_ + entry.begin, size), end = at->first * block_ + entry.end;
      const bool known = entry.kind != Kind::kUnknown;
      if (begin < end) lost_bytes_[known ? Uncompared::kCut : entry.why] += end - begin;
    }
  }
  Erase({size, kEverythingBehind});
}

bool WrittenBytes::IsUnknownIn(Interval bytes) const {
  if (lost_.whole() || lost_.Overlaps(bytes)) return true;
  for (auto at = blocks_.lower_bound(bytes.begin / block_); at != blocks_.end() && at->first * block_ < bytes.end; ++at) {
    for (const Entry& entry : at->second.parts) {
      const std::uint64_t base = at->first * block_;
      if (entry.kind == Kind::kUnknown && base + entry.begin < bytes.end && bytes.begin < base + entry.end) return true;
    }
  }
  return false;
}

WrittenBytes::Fragment WrittenBytes::PartOf(std::uint64_t number, const Entry& entry) const {
  const Block& block = blocks_.at(number);
  Fragment part{{number * block_ + entry.begin, number * block_ + entry.end}, {}, nullptr};
  if (entry.kind == Kind::kCopy) part.copy = ByteSpan(block.kept).subspan(entry.at, entry.length());
  if (entry.kind == Kind::kHash) part.hash = block.kept.data() + entry.at;
  return part;
}

ByteSpan WrittenBytes::CopyOf(Interval bytes) const {
  const auto found = blocks_.find(bytes.begin / block_);
  if (found == blocks_.end()) return {};
  const auto begin = static_cast<std::uint32_t>(bytes.begin % block_);
  const auto& parts = found->second.parts;
  const auto entry = std::ranges::upper_bound(parts, begin, {}, &Entry::end);
  if (entry == parts.end() || entry->begin > begin || entry->kind != Kind::kCopy) return {};
  const Fragment part = PartOf(found->first, *entry);
  if (bytes.end > part.bytes.end) return {};
  return part.copy.subspan(bytes.begin - part.bytes.begin, bytes.end - bytes.begin);
}

void WrittenBytes::AddWritten(Interval range, IntervalSet& found) const {
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    begin = std::max(begin, range.begin);
    end = std::min(end, range.end);
    if (begin < end) found.Add({begin, end});
  };
  if (lost_.whole()) return add(0, kEverythingBehind);
  for (const Interval& one : lost_.intervals()) add(one.begin, one.end);
  for (auto at = blocks_.lower_bound(range.begin / block_); at != blocks_.end() && at->first * block_ < range.end; ++at) {
    for (const Entry& entry : at->second.parts) add(at->first * block_ + entry.begin, at->first * block_ + entry.end);
  }
}

UncomparedBytes WrittenBytes::Unknown() const {
  UncomparedBytes unknown = lost_bytes_;
  for (const auto& [number, block] : blocks_) {
    for (const Entry& entry : block.parts) {
      if (entry.kind == Kind::kUnknown) unknown[entry.why] += entry.length();
    }
  }
  return unknown;
}

std::uint64_t WrittenBytes::SizeOf(const Block& block) {
  return kNode + block.parts.capacity() * sizeof(Entry) + block.kept.capacity();
}

void WrittenBytes::Charge(std::uint64_t before, std::uint64_t after) {
  if (after > before) {
    const std::uint64_t more = after - before;
    debt_ += more - std::min(more, room_);
    room_ -= std::min(more, room_);
  } else {
    const std::uint64_t less = before - after;
    room_ += less - std::min(less, debt_);
    debt_ -= std::min(less, debt_);
  }
}

bool WrittenBytes::HasRoom(std::uint64_t bytes, bool take_held) {
  while (room_ < bytes && take_held && give_room_()) {
  }
  return room_ >= bytes;
}

bool WrittenBytes::MakeRoom(std::uint64_t bytes) {
  if (HasRoom(bytes, /*take_held=*/true)) return true;
  // One pass over all blocks. Blocks without copies cost little.
  for (std::size_t i = 0; has_copies_ && room_ < bytes && i < blocks_.size(); ++i) {
    auto at = blocks_.lower_bound(next_to_hash_);
    if (at == blocks_.end()) at = blocks_.begin();
    next_to_hash_ = at->first + 1;
    TurnIntoHashes(at->first, at->second);
  }
  has_copies_ = has_copies_ && room_ >= bytes;
  return room_ >= bytes;
}

void WrittenBytes::TurnIntoHashes(std::uint64_t number, Block& block) {
  const std::uint64_t before = SizeOf(block);
  for (Entry& entry : block.parts) {
    if (entry.kind != Kind::kCopy || entry.length() < kWorthHashing) continue;
    std::uint8_t* const copy = block.kept.data() + entry.at;
    const Hash hash = HashOf(number, {copy, entry.length()});
    std::ranges::copy(hash.bytes, copy);  // in place, for Compact
    entry.kind = Kind::kHash;
  }
  Compact(block);
  Charge(before, SizeOf(block));
}

void WrittenBytes::Compact(Block& block) {
  std::vector<std::uint8_t> kept;
  std::size_t size = 0;
  for (const Entry& entry : block.parts) size += entry.kept();
  kept.reserve(size);
  for (Entry& entry : block.parts) {
    const auto from = block.kept.begin() + entry.at;
    entry.at = static_cast<std::uint32_t>(kept.size());
    kept.insert(kept.end(), from, from + entry.kept());
  }
  block.kept = std::move(kept);
}

}  // namespace lzy
