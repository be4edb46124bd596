#pragma once
// The messages of a validated exchange (docs/exchange.md, "Messages"): their fields, limits, encoding and decoding.
// No MPI and no I/O, so fuzz tests can feed every decoder any bytes.
//
// Encoders write their arguments unchecked; the caller must respect the limits below. Decoders take bytes that may be
// damaged in any way. They read a field only after the digest of the message is right, and return nothing unless every
// field is within its bounds. So a caller may use any decoded number as a size or an index.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "merkle/hash.h"

namespace lzy::validated {

/// How the sender cuts a message. The announcement contains it, so the receiver needs no settings of its own. All sizes are
/// in bytes. Those that are sent are powers of two.
struct Sizes {
  /// Longer messages travel in chunks. Not sent.
  std::uint64_t most_inline = 4u << 10;
  /// Length of a leaf, which is hashed and sent again as one piece. SizesFor makes it longer if a message would have more
  /// than kMostLeaves.
  std::uint64_t leaf = 16u << 10;
  /// The first chunk travels with the announcement, before the receiver has answered.
  std::uint64_t first_chunk = 256u << 10;
  /// The longest chunk of a message from one rank to another.
  std::uint64_t most_chunk = 512u << 10;
  /// A message up to this length is hashed first and travels in one chunk. Not sent.
  std::uint64_t most_whole = 32u << 10;
  /// The longest chunk in collective calls: over TCP, shorter ones took a fifth more time.
  std::uint64_t most_block = 4u << 20;

  friend bool operator==(const Sizes&, const Sizes&) = default;
};

/// Limits of the fields of an announcement, in bytes. A decoder refuses anything beyond them.
inline constexpr std::uint64_t kLeastLeaf = 16, kMostLeaf = std::uint64_t{1} << 20;
/// Leaves of one message. A message may have more only if its leaves have kMostLeaf bytes; their numbers still fit 32
/// bits.
inline constexpr std::uint64_t kMostLeaves = std::uint64_t{1} << 18;
inline constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMostFirstChunk = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostInline = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 47;

/// Brings `wanted` within the limits, for a message of `bytes`. In the result, leaf <= first_chunk <= most_chunk, and these
/// three are powers of two. So every chunk begins at a leaf. Both sides compute the leaves of a Record by this function.
Sizes SizesFor(std::uint64_t bytes, const Sizes& wanted);

/// A message without content: its length is its meaning. MPI guarantees the length, the sender and the tag, so a signal
/// cannot arrive wrong. Every other message is longer than kMostSignal. "receiver" and "sender" are the two sides of the
/// payload; the word before the colon is the side that sends the signal.
enum Signal : int {
  kProven = 0,   ///< receiver: every byte has its hash; the end
  kGivenUp = 1,  ///< receiver: some bytes could not be proven; the end
  kTooLong = 2,  ///< receiver: the payload is longer than its buffer; the end
  kGo = 3,       ///< receiver: send the other chunks, then the root
  kAgain = 4,    ///< receiver: send the announcement again as a reply (inline: with the payload)
  kGetRoot = 5,  ///< receiver: send the root again
  kGarbled = 6,  ///< sender: the request was damaged, or asks for something that does not exist
  kRefused = 7,  ///< sender, in a collective call: it has nothing proven to answer from
  /// receiver: send byte i of the word of a record; the signal is kGetWord + i, with i from 0 to 7. The length of the
  /// reply tells the byte (kWordReply).
  kGetWord = 8,
};
inline constexpr int kMostSignal = 15;

/// The kind of a message, for the fault hook of tests (Link::Arrived). kSum is the result of ReduceScatterXor, of which no
/// message is left by then.
enum class MessagePart : std::uint8_t { kAnnounce, kInline, kChunk, kRoot, kRequest, kNodes, kLeaves, kSum };

/// The kind byte of a message with content. These numbers are on the wire.
enum class Kind : std::uint8_t {
  kMessage = 1,   ///< announcement: the payload follows
  kInline = 2,    ///< announcement: the payload is in the same message
  kInPlace = 3,   ///< announcement: the receiver has the payload already
  kRoot = 4,      ///< the announcement again, with the root
  kGetNodes = 5,  ///< request
  kGetLeaves = 6,
  kNodes = 7,  ///< reply to kGetNodes
  kWhole = 8,  ///< announcement: the payload follows in one chunk, the root is known
};

/// The sender's description of a payload, sent before it. Sizes in bytes. A root message (kRoot) has the same fields again,
/// with the root.
struct Announce {
  Kind kind = Kind::kMessage;
  std::uint64_t bytes = 0;
  std::uint64_t leaf = 0, first_chunk = 0, most_chunk = 0;
  /// Zero if the sender does not know it yet.
  Hash root;

  /// True if the first chunk is on its way in any case. It must then be received.
  bool has_chunk() const { return kind == Kind::kMessage || kind == Kind::kWhole; }

  friend bool operator==(const Announce&, const Announce&) = default;
};

inline constexpr std::size_t kAnnounceBytes = 48;
/// The length of an announcement tells what follows, even if its content arrives damaged. kAnnounceBytes: a chunk now, the
/// others on request. kWholeBytes (padded with zeros): one chunk. kInPlaceBytes (padded with zeros): nothing. kInlineHeader
/// and more: the payload is in this message, after the header.
inline constexpr std::size_t kWholeBytes = 52;
inline constexpr std::size_t kInPlaceBytes = 56;
inline constexpr std::size_t kInlineHeader = 64;
/// The kind of a message's announcement, by its length in bytes. Lengths in between do not occur; they count as the
/// next shorter.
inline Kind KindByLength(std::size_t length) {
  return length >= kInlineHeader   ? Kind::kInline
         : length >= kInPlaceBytes ? Kind::kInPlace
         : length >= kWholeBytes   ? Kind::kWhole
                                   : Kind::kMessage;
}

/// Writes kAnnounceBytes, with digest, to `to`.
void EncodeAnnounce(const Announce& announce, std::uint8_t* to);
/// nullopt unless `bytes` has kAnnounceBytes, the digest is right and every field is within its limits.
std::optional<Announce> DecodeAnnounce(ByteSpan bytes);

/// Asks for the children of these nodes of `level` (kGetNodes), or for the bytes of these leaves (kGetLeaves, level
/// 0). `indices` is ascending and has 1 to kMostIndices entries.
struct Request {
  Kind kind = Kind::kGetNodes;
  std::uint8_t level = 0;
  std::vector<std::uint32_t> indices;
};

inline constexpr std::size_t kMostIndices = 4096;
/// The header and the digest around the content of a request or a reply.
inline constexpr std::size_t kFrame = 16 + 16;
inline constexpr std::size_t kMostRequest = kFrame + 4 * kMostIndices;

/// The message for a request within the limits above.
std::vector<std::uint8_t> EncodeRequest(const Request& request);
/// nullopt unless the digest is right, the kind is that of a request, and there are 1 to kMostIndices ascending indices.
/// The caller must still compare level and indices with its tree.
std::optional<Request> DecodeRequest(ByteSpan bytes);

/// The reply to kGetNodes: the hashes of all children of the requested nodes of `level`, in their order.
std::vector<std::uint8_t> EncodeNodes(std::uint8_t level, std::span<const Hash> hashes);
/// nullopt unless the digest is right and the reply has exactly `count` hashes for `level`. This does not prove the hashes:
/// the caller compares them with their parent (Descent::Take).
std::optional<std::vector<Hash>> DecodeNodes(ByteSpan bytes, std::uint8_t level, std::size_t count);

/// The reply to kGetLeaves begins with this many unused bytes, so that it is longer than any signal. The leaves follow.
/// They need no digest, because the receiver has their hashes.
inline constexpr std::size_t kLeavesHeader = 16;

/// The message of a rank in a collective call of lzy itself (proven_records.h), in which ranks send different amounts: the number
/// of bytes, a note, and their root. A short payload is in the same message. Every record message has kRecordBytes, so that
/// MPI can move all of them in one call before the amounts are known.
struct Record {
  std::uint64_t bytes = 0;  ///< less than 2^48
  /// A number chosen by the caller; in a broadcast, the topology.
  std::uint16_t note = 0;
  /// The root of a tree with the leaves of SizesFor(bytes, {}).
  Hash root;

  /// `bytes` in the low 48 bits, `note` in the high 16. All ranks must know the word even if messages are damaged, because
  /// it decides which MPI calls come next. So it can also be requested byte by byte (kGetWord).
  std::uint64_t word() const { return bytes | std::uint64_t{note} << 48; }
  void SetWord(std::uint64_t word) {
    bytes = word & ((std::uint64_t{1} << 48) - 1);
    note = static_cast<std::uint16_t>(word >> 48);
  }
};
/// Word, root, digest.
inline constexpr std::size_t kRecordHeader = 8 + 16 + 16;
inline constexpr std::size_t kRecordBytes = 256;
/// Bytes of a payload that fit into its record.
inline constexpr std::uint64_t kMostInRecord = kRecordBytes - kRecordHeader;
/// Writes kRecordHeader bytes to `to`.
void EncodeRecord(const Record& record, std::uint8_t* to);
/// Reads the first kRecordHeader bytes. nullopt unless the digest is right.
std::optional<Record> DecodeRecord(ByteSpan bytes);
/// The length of a reply to kGetWord is this plus the byte. It is more than any signal, so a refusal cannot be mistaken for
/// a byte.
inline constexpr std::size_t kWordReply = 64;

/// Walks through the chunks of a payload. Sizes double from first_chunk to most_chunk; the last chunk has the rest. Sender
/// and receiver walk in the same way, so chunks need no header: MPI keeps their order.
class Chunks {
 public:
  explicit Chunks(const Announce& announce)
      : bytes_(announce.bytes), next_(announce.first_chunk), most_(announce.most_chunk) {}
  /// True behind the last chunk; at once if the payload has no bytes.
  bool done() const { return at_ == bytes_; }
  /// Offset and length of the current chunk in the payload.
  std::uint64_t begin() const { return at_; }
  std::uint64_t size() const { return next_ < bytes_ - at_ ? next_ : bytes_ - at_; }
  void Next() {
    at_ += size();
    if (next_ < most_) next_ *= 2;
  }

 private:
  std::uint64_t bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t next_;
  std::uint64_t most_;
};

}  // namespace lzy::validated
