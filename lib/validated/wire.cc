// Encoding and decoding of the messages of docs/exchange.md, "Messages". All numbers are little-endian.

#include "validated/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lzy::validated {
namespace {

constexpr std::uint32_t kMagic = 0x31'58'5a'4c;  // "LZX1"
// Every message with content ends with a digest of all bytes before it. Requests and replies with nodes begin with a
// header of 16 bytes.
constexpr std::size_t kDigest = sizeof(Hash);
constexpr std::size_t kHeader = 16;

// Writes the digest of the first `covered` bytes behind them.
void AppendDigest(std::uint8_t* message, std::size_t covered) {
  const Hash digest = HashBytes(HashTag::kTransferMessage, 0, {message, covered});
  std::memcpy(message + covered, digest.bytes.data(), kDigest);
}

/// Whether the last bytes are the digest of those before.
bool HasItsDigest(ByteSpan bytes) {
  if (bytes.size() < kDigest) return false;
  const ByteSpan covered = bytes.first(bytes.size() - kDigest);
  return std::memcmp(HashBytes(HashTag::kTransferMessage, 0, covered).bytes.data(), covered.data() + covered.size(), kDigest) == 0;
}

// Sizes are powers of two, so one byte is enough, and it can only express powers of two.
std::uint8_t Log2(std::uint64_t size) {
  return static_cast<std::uint8_t>(std::bit_width(size) - 1);
}

// The size for a byte of an announcement, if it is within `least` and `most`. The first test keeps the shift defined.
std::optional<std::uint64_t> SizeFrom(std::uint8_t log2, std::uint64_t least, std::uint64_t most) {
  if (log2 > 62) return std::nullopt;
  const std::uint64_t size = std::uint64_t{1} << log2;
  return size < least || size > most ? std::nullopt : std::optional(size);
}

// Header of a request or reply, with room for `content` bytes and the digest. `count` is the number of items in it.
std::vector<std::uint8_t> Framed(Kind kind, std::uint8_t level, std::size_t count, std::size_t content) {
  std::vector<std::uint8_t> message(kFrame + content);
  StoreLe(message.data(), kMagic);
  message[4] = static_cast<std::uint8_t>(kind);
  message[5] = level;
  StoreLe(message.data() + 8, static_cast<std::uint32_t>(count));
  return message;
}

// The result of Unframed. `content` points into the message.
struct Frame {
  Kind kind{};
  std::uint8_t level = 0;
  std::size_t count = 0;
  ByteSpan content;
};

// Checks digest, magic and the bytes that must be zero. The caller checks kind, level and count.
std::optional<Frame> Unframed(ByteSpan bytes) {
  if (bytes.size() < kFrame || !HasItsDigest(bytes)) return std::nullopt;
  if (LoadLe<std::uint32_t>(bytes.data()) != kMagic || LoadLe<std::uint16_t>(bytes.data() + 6) != 0 ||
      LoadLe<std::uint32_t>(bytes.data() + 12) != 0) {
    return std::nullopt;
  }
  return Frame{static_cast<Kind>(bytes[4]), bytes[5], LoadLe<std::uint32_t>(bytes.data() + 8),
               bytes.subspan(kHeader, bytes.size() - kFrame)};
}

}  // namespace

Sizes SizesFor(std::uint64_t bytes, const Sizes& wanted) {
  Sizes sizes;
  const auto within = [](std::uint64_t size, std::uint64_t least, std::uint64_t most) {
    return std::bit_floor(std::clamp(size, least, most));
  };
  sizes.most_inline = std::min(wanted.most_inline, kMostInline);
  sizes.leaf = within(wanted.leaf, kLeastLeaf, kMostLeaf);
  // Longer leaves rather than more of them: the tree takes 16 bytes for each, on both sides.
  while (sizes.leaf < kMostLeaf && bytes / sizes.leaf >= kMostLeaves) sizes.leaf *= 2;
  // Each size is at least the one before, so that chunks consist of whole leaves.
  sizes.first_chunk = within(wanted.first_chunk, sizes.leaf, kMostFirstChunk);
  sizes.most_chunk = within(wanted.most_chunk, sizes.first_chunk, kMostChunk);
  sizes.most_whole = std::min(wanted.most_whole, sizes.first_chunk);
  sizes.most_block = within(wanted.most_block, sizes.first_chunk, kMostChunk);
  return sizes;
}

void EncodeAnnounce(const Announce& announce, std::uint8_t* to) {
  StoreLe(to, kMagic);
  to[4] = static_cast<std::uint8_t>(announce.kind);
  to[5] = Log2(announce.leaf);
  to[6] = Log2(announce.first_chunk);
  to[7] = Log2(announce.most_chunk);
  StoreLe(to + 8, announce.bytes);
  std::memcpy(to + 16, announce.root.bytes.data(), sizeof(Hash));
  AppendDigest(to, kAnnounceBytes - kDigest);
}

// The digest is compared before any field is read. Then each bound is tested, because a sender with a bug can send anything
// with a right digest.
std::optional<Announce> DecodeAnnounce(ByteSpan bytes) {
  if (bytes.size() != kAnnounceBytes || !HasItsDigest(bytes)) return std::nullopt;
  Announce announce;
  announce.kind = static_cast<Kind>(bytes[4]);
  announce.bytes = LoadLe<std::uint64_t>(bytes.data() + 8);
  std::memcpy(announce.root.bytes.data(), bytes.data() + 16, sizeof(Hash));
  const auto leaf = SizeFrom(bytes[5], kLeastLeaf, kMostLeaf);
  // A missing lower bound counts as 0 here; the combination is refused below.
  const auto first = SizeFrom(bytes[6], leaf.value_or(0), kMostFirstChunk);
  const auto most = SizeFrom(bytes[7], first.value_or(0), kMostChunk);
  const bool whole = announce.kind == Kind::kWhole;
  const bool known = (announce.kind >= Kind::kMessage && announce.kind <= Kind::kRoot) || whole;
  if (LoadLe<std::uint32_t>(bytes.data()) != kMagic || !known || announce.bytes > kMostBytes || !leaf || !first || !most ||
      (whole && announce.bytes > *first)) {
    return std::nullopt;
  }
  announce.leaf = *leaf;
  announce.first_chunk = *first;
  announce.most_chunk = *most;
  return announce;
}

void EncodeRecord(const Record& record, std::uint8_t* to) {
  StoreLe(to, record.word());
  std::memcpy(to + 8, record.root.bytes.data(), sizeof(Hash));
  AppendDigest(to, kRecordHeader - kDigest);
}

// There is no bound to test: any 48 bits are a possible amount. Records::Accept compares a payload within the record with
// its root.
std::optional<Record> DecodeRecord(ByteSpan bytes) {
  if (bytes.size() < kRecordHeader || !HasItsDigest(bytes.first(kRecordHeader))) return std::nullopt;
  Record record;
  record.SetWord(LoadLe<std::uint64_t>(bytes.data()));
  std::memcpy(record.root.bytes.data(), bytes.data() + 8, sizeof(Hash));
  return record;
}

std::vector<std::uint8_t> EncodeRequest(const Request& request) {
  std::vector<std::uint8_t> message = Framed(request.kind, request.level, request.indices.size(), 4 * request.indices.size());
  std::uint8_t* to = message.data() + kHeader;
  for (const std::uint32_t index : request.indices) {
    StoreLe(to, index);
    to += 4;
  }
  AppendDigest(message.data(), message.size() - kDigest);
  return message;
}

// The indices must ascend, so that a request asks for nothing twice and its reply has a bounded length.
std::optional<Request> DecodeRequest(ByteSpan bytes) {
  const auto frame = Unframed(bytes);
  if (!frame || (frame->kind != Kind::kGetNodes && frame->kind != Kind::kGetLeaves) || frame->count == 0 ||
      frame->count > kMostIndices || frame->content.size() != 4 * frame->count) {
    return std::nullopt;
  }
  Request request{frame->kind, frame->level, {}};
  request.indices.reserve(frame->count);
  for (std::size_t i = 0; i < frame->count; ++i) {
    request.indices.push_back(LoadLe<std::uint32_t>(frame->content.data() + 4 * i));
    if (i > 0 && request.indices[i] <= request.indices[i - 1]) return std::nullopt;
  }
  return request;
}

std::vector<std::uint8_t> EncodeNodes(std::uint8_t level, std::span<const Hash> hashes) {
  std::vector<std::uint8_t> message = Framed(Kind::kNodes, level, hashes.size(), sizeof(Hash) * hashes.size());
  if (!hashes.empty()) std::memcpy(message.data() + kHeader, hashes.data(), sizeof(Hash) * hashes.size());
  AppendDigest(message.data(), message.size() - kDigest);
  return message;
}

// The length follows from `count` and is compared first: it is part of the envelope, which is right.
std::optional<std::vector<Hash>> DecodeNodes(ByteSpan bytes, std::uint8_t level, std::size_t count) {
  if (bytes.size() != kFrame + sizeof(Hash) * count) return std::nullopt;
  const auto frame = Unframed(bytes);
  if (!frame || frame->kind != Kind::kNodes || frame->level != level || frame->count != count) return std::nullopt;
  std::vector<Hash> hashes(count);
  if (count > 0) std::memcpy(hashes.data(), frame->content.data(), frame->content.size());
  return hashes;
}

}  // namespace lzy::validated
