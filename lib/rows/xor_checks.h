#pragma once
// Proves that the sum that ReduceScatterXor delivers is the sum of what the ranks contributed.
//
// CRC-32C is linear over XOR for equal lengths (merkle/crc32c.h). Ranks contribute to a block after they multiplied
// by their coefficients. So the XOR of the CRCs of the contributions is the CRC of the result (docs/design/overview.md §3,
// "Proof of sums"). Each contributed block has a check word of 64 bits: its CRC, and a tag of the rank and the
// exchange. Without the tag, a contribution that is lost together with its check word would not be missed.
//
// Use, for each exchange: Note or NoteZeros for every block of the send buffer; ReduceScatterXor of the blocks;
// Exchange; then Proves for every block that arrived. The row pipeline and encode/encode_captured.cc do this.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace lzy {

/// The check words of one send buffer, and their sums for the received blocks. Can be reused for the next buffer.
class XorChecks {
 public:
  /// Makes room for send buffers of up to `blocks` blocks of `block_size` bytes (a multiple of 8), and for `ranks`
  /// ranks. Throws std::bad_alloc; the other functions do not.
  void Reserve(std::uint64_t blocks, std::uint32_t block_size, std::size_t ranks);
  /// Computes the CRC of block `i` of the send buffer, which is at `bytes`. Threads may note different blocks at once.
  void Note(std::uint64_t i, const std::uint8_t* bytes);
  /// Records that block `i` is all zeros. Its CRC is zero, because CRCs are not inverted here.
  void NoteZeros(std::uint64_t i) { sent_[i] = 0; }
  /// Adds up the words of all ranks, by an exchange like that of the blocks. `counts`: as for the ReduceScatterXor of the
  /// blocks, in 64-bit words; whole blocks for each rank. `turn`: a different number for each exchange, the same on all
  /// ranks. Consumes the noted CRCs. Collective.
  Status Exchange(Communicator& comm, std::span<const std::uint64_t> counts, std::uint64_t turn);
  /// True if the received block `i`, which is at `bytes`, is the sum of all contributions to it. A block with random errors
  /// passes with a probability of about 2^-32. Thread-safe.
  bool Proves(std::uint64_t i, const std::uint8_t* bytes) const;

 private:
  std::uint32_t Crc(const std::uint8_t* bytes) const;

  std::uint32_t block_size_ = 0;
  std::vector<std::uint64_t> sent_;   // by block of the send buffer: CRCs, then (in Exchange) words
  std::vector<std::uint64_t> sums_;   // by received block
  std::vector<std::uint64_t> parts_;  // by rank: number of blocks, and thus of words
  std::uint32_t tags_ = 0;            // XOR of the tags of all ranks
};

}  // namespace lzy
