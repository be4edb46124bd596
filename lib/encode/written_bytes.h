#pragma once
// Option verify-writes: keeps what one process has written in parts, byte by byte, to compare it with the storage
// (commit/check_written.h).
//
// A capture knows whole blocks (encode/capture.h). This class has what the capture cannot follow: incomplete blocks, blocks
// that were written again, and blocks of useless sums. MPI defines the content of the file after several writes of one
// process: the last one counts. So parts may overlap any number of times.
//
// Memory is bounded. Parts are kept as copies, which can also be written again. If there is no room for more copies, parts
// become hashes. If there is no room for hashes either, the bytes are unknown. Bytes that cannot be compared are counted,
// with the reason.
//
// Invariant: every byte that was passed to Put or Lose is in one part, or in lost(). Parts are disjoint.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "merkle/leaf_key.h"
#include "request/uncompared.h"

namespace lzy {

/// What a rank wrote of one block of the file, and the commit reads back: a byte range of the file, and its hash.
struct WrittenPart {
  Interval bytes;
  Hash hash;
  LZY_FIELDS(bytes, hash)
  /// The hash of a part with these bytes.
  static Hash HashOf(const LeafKey* key, Interval part, ByteSpan bytes) {
    return LeafHash(key, HashTag::kDataLeaf, part.begin, bytes);
  }
};

/// Not thread-safe, local. Offsets are those of the file. Functions that change it may throw std::bad_alloc; then the
/// caller calls LoseEverything.
class WrittenBytes {
 public:
  /// A part of a block. `copy` has its bytes; empty if only `hash` is known, or nothing.
  struct Fragment {
    Interval bytes;
    ByteSpan copy;
    const std::uint8_t* hash = nullptr;  ///< a Hash; null if there is a copy, or if the part is unknown
  };

  /// `room`: bytes that may be kept; reduced by use and increased by freeing. `give_room` frees more memory; false if it
  /// cannot.
  WrittenBytes(std::uint64_t block_size, std::shared_ptr<const LeafKey> key, std::uint64_t& room,
               std::function<bool()> give_room);

  /// Records a write of [offset, offset + bytes.size()), which may span several blocks. `bytes`: the program's memory
  /// (base/program_memory.h). `turn`: as in Capture::Take. If two writes overlap and their order is not known, the bytes
  /// are unknown.
  void Put(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn);
  /// The same for bytes in memory of this process, in one block.
  void PutOwn(std::uint64_t offset, ByteSpan bytes, std::uint64_t turn);
  /// The same for a part with known HashOf, in one block.
  void PutHash(Interval bytes, const Hash& hash, std::uint64_t turn);
  /// Records an unknown write to `bytes`, with the reason.
  void Lose(Interval bytes, Uncompared why);
  /// Forgets everything: something may have been written anywhere.
  void LoseEverything(Uncompared why) noexcept;
  /// Forgets these bytes: they are known elsewhere, or are gone.
  void Erase(Interval bytes);
  /// Call it if the file ends at `size` for an unknown reason. Bytes behind the end cannot be compared.
  void EndAt(std::uint64_t size);

  bool HasBlock(std::uint64_t block) const { return blocks_.contains(block); }
  /// True if some of `bytes` are unknown.
  bool IsUnknownIn(Interval bytes) const;
  /// True if LoseEverything was called.
  bool knows_nothing() const { return lost_.whole(); }
  /// The hash of a part. For a whole block this is its leaf.
  Hash HashOf(std::uint64_t block, ByteSpan bytes) const {
    return LeafHash(key_.get(), HashTag::kDataLeaf, block, bytes);
  }
  /// Calls fn(block, parts) for all blocks with known parts, in ascending order, with the known parts. Returns at the first
  /// Status that is not ok.
  template <class Fn>
  Status ForEachBlock(const Fn& fn) const {
    std::vector<Fragment> parts;
    for (const auto& [block, entries] : blocks_) {
      parts.clear();
      for (const Entry& entry : entries.parts) {
        if (entry.kind != Kind::kUnknown) parts.push_back(PartOf(block, entry));
      }
      if (!parts.empty()) LZY_RETURN_IF_ERROR(fn(block, parts));
    }
    return Status::Ok();
  }
  /// The copy of `bytes`, which lie in one part; empty if there is none.
  ByteSpan CopyOf(Interval bytes) const;
  /// Adds the bytes of `range` that were written, or may have been, to `found`.
  void AddWritten(Interval range, IntervalSet& found) const;
  /// Number of unknown bytes, by reason.
  UncomparedBytes Unknown() const;

 private:
  enum class Kind : std::uint8_t { kCopy, kHash, kUnknown };
  struct Entry {  // bytes [begin, end) of a block
    std::uint32_t begin = 0, end = 0;
    std::uint32_t at = 0;  // offset of the copy or hash in Block::kept
    Kind kind = Kind::kUnknown;
    Uncompared why = Uncompared::kMemory;
    std::uint32_t length() const { return end - begin; }
    std::uint32_t kept() const { return kind == Kind::kCopy ? length() : kind == Kind::kHash ? sizeof(Hash) : 0; }
  };
  struct Block {
    std::vector<Entry> parts;  // ascending, disjoint
    std::vector<std::uint8_t> kept;
    std::uint64_t turn = 0;  // the largest turn of a write to it
  };

  /// Adds a part of one block. `kept`: its copy or hash. `replaces`: it is newer than all others, whatever its turn.
  void Add(std::uint64_t block, Entry entry, ByteSpan kept, std::uint64_t turn, bool replaces);
  void Insert(Block& block, const Entry& fresh, bool ordered);
  static Entry Slice(const Entry& entry, std::uint32_t begin, std::uint32_t end);
  Fragment PartOf(std::uint64_t block, const Entry& entry) const;
  bool HasRoom(std::uint64_t bytes, bool take_held);
  /// Makes room for `bytes` more by turning copies into hashes. False if there is none.
  bool MakeRoom(std::uint64_t bytes);
  static std::uint64_t GrowthOf(const Block& block, std::size_t bytes);
  void TurnIntoHashes(std::uint64_t number, Block& block);
  /// Drops copies and hashes of parts that were replaced.
  static void Compact(Block& block);
  static std::uint64_t SizeOf(const Block& block);
  /// Updates room_ after a block grew or shrank from `before` to `after` bytes.
  void Charge(std::uint64_t before, std::uint64_t after);

  const std::uint64_t block_;
  const std::shared_ptr<const LeafKey> key_;
  std::uint64_t& room_;
  std::map<std::uint64_t, Block> blocks_;
  const std::function<bool()> give_room_;
  std::uint64_t debt_ = 0;          // bytes used beyond room_
  std::uint64_t next_to_hash_ = 0;  // where MakeRoom continues
  bool has_copies_ = false;         // there may be copies that can become hashes
  IntervalSet lost_{4096};          // bytes in no part, because memory ran out
  UncomparedBytes lost_bytes_;      // number of these bytes
  Uncompared why_lost_ = Uncompared::kUnseen;  // reason, if everything is lost
  std::vector<std::uint8_t> scratch_;
};

}  // namespace lzy
