#include "rows/xor_checks.h"

#include <bit>

#include "merkle/crc32c.h"

namespace lzy {
namespace {

// A pseudo-random number that differs for other ranks and exchanges (the finalizer of SplitMix64). Every rank can compute
// the tags of all.
std::uint32_t TagOf(std::uint64_t rank, std::uint64_t turn) {
  std::uint64_t z = (turn << 24) + rank + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

// The tag is rotated by the block's place in its part, so words of neighbouring blocks cannot be confused. The sum of
// rotated tags is the rotated sum, so Proves needs only the sum.
std::uint64_t Word(std::uint32_t crc, std::uint32_t tag, std::uint64_t place) {
  return std::uint64_t{crc} << 32 | std::rotl(tag, static_cast<int>(place % 32));
}

}  // namespace

void XorChecks::Reserve(std::uint64_t blocks, std::uint32_t block_size, std::size_t ranks) {
  parts_.resize(ranks);
  block_size_ = block_size;
  sent_.resize(blocks);
  sums_.resize(blocks);
}

std::uint32_t XorChecks::Crc(const std::uint8_t* bytes) const {
  return Crc32c(0, ByteSpan(bytes, block_size_));
}

void XorChecks::Note(std::uint64_t i, const std::uint8_t* bytes) {
  sent_[i] = Crc(bytes);
}

// A word for each block: the parts have the same shape as those of the blocks, so each word arrives where its block
// does.
Status XorChecks::Exchange(Communicator& comm, std::span<const std::uint64_t> counts, std::uint64_t turn) {
  std::uint64_t at = 0;
  tags_ = 0;
  const std::uint32_t tag = TagOf(static_cast<std::uint64_t>(comm.rank()), turn);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    tags_ ^= TagOf(rank, turn);
    parts_[rank] = counts[rank] * sizeof(std::uint64_t) / block_size_;
    for (std::uint64_t i = 0; i < parts_[rank]; ++i, ++at) sent_[at] = Word(static_cast<std::uint32_t>(sent_[at]), tag, i);
  }
  return comm.ReduceScatterXor(sent_.data(), sums_.data(), parts_);
}

bool XorChecks::Proves(std::uint64_t i, const std::uint8_t* bytes) const {
  return sums_[i] == Word(Crc(bytes), tags_, i);
}

}  // namespace lzy
