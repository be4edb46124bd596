#pragma once
// A chunk of a transfer while it is under way (validated/transfer.cc). For use within lib/validated.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/tree.h"

namespace lzy::validated {

using Buffer = std::unique_ptr<std::uint8_t[]>;

inline Buffer MakeBuffer(std::size_t size) {
  return std::make_unique_for_overwrite<std::uint8_t[]>(size);
}

/// A chunk under way, with room for it where the payload has gaps.
struct Slot {
  Slot() { message.SetLong(); }

  Message message;
  Buffer scratch;
  Interval unhashed;  // of a chunk that was sent: hashed when it has left

  std::uint8_t* Scratch(const Payload& payload, std::uint64_t size) {
    if (payload.contiguous() == nullptr && scratch == nullptr) scratch = MakeBuffer(size);
    return scratch.get();
  }
};

/// Hashes whole leaves, and looks after a message now and then: MPI moves it in calls only.
inline void HashBeside(TransferTree& tree, std::uint64_t offset, ByteSpan bytes, Message& moving) {
  const std::uint64_t piece = std::max<std::uint64_t>(tree.leaf_bytes(), 128u << 10);
  for (std::uint64_t at = 0; at < bytes.size(); at += piece) {
    tree.HashLeaves(offset + at, bytes.subspan(at, std::min<std::uint64_t>(piece, bytes.size() - at)));
    (void)moving.Test();
  }
}

}  // namespace lzy::validated
