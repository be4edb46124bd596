#include "merkle/copy_hash.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "merkle/xxh3.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace lzy {
namespace {

constexpr std::size_t kLine = 64;  // bytes of a cache line

#if defined(__x86_64__)
// Stores whole lines at once, so the processor need not read them first. Bytes before and behind whole lines are copied
// as usual.
void StorePastCache(std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  const std::size_t head = std::min(count, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= count; at += kLine) {
    __m128i part[4];
    for (int i = 0; i < 4; ++i) part[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at) + i);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, part[i]);
  }
  std::memcpy(to + at, from + at, count - at);
}
// Stores past the cache are weakly ordered. Without the fence another thread could see a later write before them.
void EndStoresPastCache() {
  _mm_sfence();
}
#else
void StorePastCache(std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  std::memcpy(to, from, count);
}
void EndStoresPastCache() {}
#endif

// Copies `piece_bytes` at a time and calls `digest` with each piece, at the address where it is in the cache: the
// copy, or the original if the copy bypasses the cache. Does nothing if `from` is empty.
template <class Digest>
void CopyPieces(ByteSpan from, std::uint8_t* to, std::size_t piece_bytes, bool non_temporal, const Digest& digest) {
  std::size_t end = piece_bytes;
  // Pieces end where a line of the destination ends, so that no line is stored in two parts.
  if (end > kLine && end < from.size()) end -= (reinterpret_cast<std::uintptr_t>(to) + end) % kLine;
  for (std::size_t at = 0; at < from.size(); at = end, end += piece_bytes) {
    const ByteSpan piece = from.subspan(at, std::min(end, from.size()) - at);
    if (non_temporal) {
      digest(piece);
      StorePastCache(to + at, piece.data(), piece.size());
    } else {
      std::memcpy(to + at, piece.data(), piece.size());
      digest(ByteSpan(to + at, piece.size()));
    }
  }
  if (non_temporal) EndStoresPastCache();
}

struct StateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// One state for each thread: the library must allocate it, with an alignment of its own. Null if memory ran out.
XXH3_state_t* ThreadsState() {
  thread_local const std::unique_ptr<XXH3_state_t, StateDeleter> state(XXH3_createState());
  return state.get();
}

}  // namespace

Hash CopyAndHash(HashTag tag, std::uint64_t index, ByteSpan from, std::uint8_t* to, const CopyMethod& method) {
  if (from.empty()) return HashBytes(tag, index, from);
  XXH3_state_t* state = from.size() <= method.piece_bytes ? nullptr : ThreadsState();
  if (state == nullptr) {  // hashing in one go costs less, and needs no memory
    Hash hash;
    CopyPieces(from, to, from.size(), method.non_temporal, [&](ByteSpan all) { hash = HashBytes(tag, index, all); });
    return hash;
  }
  XXH3_128bits_reset_withSeed(state, SeedOf(tag, index));
  CopyPieces(from, to, method.piece_bytes, method.non_temporal,
             [&](ByteSpan piece) { LZY_XXH3_128_UPDATE(state, piece.data(), piece.size()); });
  return StoredForm(XXH3_128bits_digest(state));
}

std::uint32_t Crc32c(std::uint32_t seed, ByteSpan bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // ISA-L takes an int
  for (std::size_t at = 0; at < bytes.size(); at += kMost) {
    const ByteSpan part = bytes.subspan(at, std::min(kMost, bytes.size() - at));
    // ISA-L does not change the bytes, but its parameter is not const.
    seed = crc32_iscsi(const_cast<std::uint8_t*>(part.data()), static_cast<int>(part.size()), seed);
  }
  return seed;
}

// ISA-L 2.30 fuses copy and CRC instruction by instruction only for the CRC of T10. So pieces are used here, too.
std::uint32_t CopyAndCrc32c(std::uint32_t seed, ByteSpan from, std::uint8_t* to, const CopyMethod& method) {
  CopyPieces(from, to, method.piece_bytes, method.non_temporal, [&](ByteSpan piece) { seed = Crc32c(seed, piece); });
  return seed;
}

}  // namespace lzy
