#pragma once
// A chunk of a message under way, and hashing while it travels. Used by send.cc, receive.cc, broadcast.cc and
// all_gather.cc; for use within lib/validated only.
//
// A chunk lies in the user's buffer if the payload is contiguous there. Otherwise it lies in a scratch buffer, and is
// copied from or to its places. Both sides cut a payload into the same chunks (Chunks in wire.h).

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/transfer_tree.h"
#include "validated/wire.h"

namespace lzy::validated {

/// Uninitialised memory; a vector would fill it with zeros first.
using Buffer = std::unique_ptr<std::uint8_t[]>;

inline Buffer MakeBuffer(std::size_t size) {
  return std::make_unique_for_overwrite<std::uint8_t[]>(size);
}

/// One place in the window of chunks under way. It is reused for a later chunk when its message is done. The scratch buffer
/// is allocated for the first chunk that needs it, and kept.
struct Slot {
  /// A chunk takes longer than a signal, so a waiting task keeps the processor for longer (Pump::RunUntil).
  Slot() { message.SetLong(); }

  Message message;
  Buffer scratch;
  /// Bytes of a chunk that was sent but not hashed yet. They are hashed when the chunk has left. Empty if there are none.
  Interval unhashed;

  /// The scratch buffer if `payload` has gaps; null if it is contiguous. `size` counts in the first call only, so it must
  /// be that of the longest chunk that this slot will hold.
  std::uint8_t* Scratch(const Payload& payload, std::uint64_t size) {
    if (payload.contiguous() == nullptr && scratch == nullptr) scratch = MakeBuffer(size);
    return scratch.get();
  }
  /// The address of the bytes from `begin` on in `payload`, or the scratch buffer, which the caller copies from or to.
  std::uint8_t* Place(const Payload& payload, std::uint64_t begin, std::uint64_t size) {
    return payload.contiguous() != nullptr ? payload.contiguous() + begin : Scratch(payload, size);
  }
};

/// Hashes whole leaves at byte `offset` of the payload. Between pieces of 128 KiB it tests `moving`, because MPI moves a
/// message only during calls: otherwise the next chunk would not move while this one is hashed.
inline void HashBeside(TransferTree& tree, std::uint64_t offset, ByteSpan bytes, Message& moving) {
  const std::uint64_t piece = std::max<std::uint64_t>(tree.leaf_bytes(), 128u << 10);
  for (std::uint64_t at = 0; at < bytes.size(); at += piece) {
    tree.HashLeaves(offset + at, bytes.subspan(at, std::min<std::uint64_t>(piece, bytes.size() - at)));
    (void)moving.Test();
  }
}

/// Hashes all of `payload` in the chunks of `announce`, and builds the tree. If `copy` is not null, also copies the bytes
/// there, so that they are read only once.
inline void HashAll(const Payload& payload, const Announce& announce, TransferTree& tree,
                    const Payload* copy = nullptr) {
  Slot slot;
  for (Chunks chunk(announce); !chunk.done(); chunk.Next()) {
    std::uint8_t* place = slot.Place(payload, chunk.begin(), announce.most_chunk);
    if (payload.contiguous() == nullptr) payload.CopyOut(chunk.begin(), {place, chunk.size()});
    if (copy != nullptr) copy->CopyIn(chunk.begin(), {place, chunk.size()});
    tree.HashLeaves(chunk.begin(), {place, chunk.size()});
  }
  tree.Build();
}

}  // namespace lzy::validated
