#pragma once
// Proof that what ranks added up by ReduceScatterXor is what they contributed.
//
// CRC-32C is linear over XOR for equal lengths (merkle/copy_hash.h), so the XOR of the CRCs of the blocks that ranks contribute to
// a block (after their multiplication by their coefficients: m for each data block) is the CRC of what is to come out (docs/design.md §3).
// Each contributed block has a check word: its CRC, and a tag of the rank and the exchange, without which a contribution
// that is lost together with its check word would not be missed.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace lzy {

/// The check words of one send buffer, and their sums for what is received.
class XorChecks {
 public:
  /// Makes room for send buffers of up to `blocks` blocks of `block_size` bytes, a multiple of 8, to `ranks` ranks. Throws
  /// std::bad_alloc; the others do not.
  void Reserve(std::uint64_t blocks, std::uint32_t block_size, std::size_t ranks);
  /// Block `i` of the send buffer is at `bytes`. Threads may note different blocks at once.
  void Note(std::uint64_t i, const std::uint8_t* bytes);
  /// It is all zeros, of which the CRC (without inversion, as here) is zero.
  void NoteZeros(std::uint64_t i) { sent_[i] = 0; }
  /// Adds up the words of all ranks, by an exchange like that of the blocks. `counts`: as for the blocks' ReduceScatterXor, in
  /// 64-bit words, whole blocks for each rank. `turn`: another number for each exchange, the same on all ranks. Collective.
  Status Exchange(Communicator& comm, std::span<const std::uint64_t> counts, std::uint64_t turn);
  /// Whether block `i` of those that this rank got, which is at `bytes`, is the sum of all that was noted for it.
  bool Proves(std::uint64_t i, const std::uint8_t* bytes) const;

 private:
  std::uint32_t Crc(const std::uint8_t* bytes) const;

  std::uint32_t block_size_ = 0;
  std::vector<std::uint64_t> sent_;  // by block of the send buffer
  std::vector<std::uint64_t> sums_;  // by block of those received
  std::vector<std::uint64_t> parts_;  // by rank: blocks
  std::uint32_t tags_ = 0;            // of all ranks together
};

}  // namespace lzy
