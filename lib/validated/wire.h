#pragma once
// What crosses in a validated exchange (docs/exchange.md, "Messages"): encoding, and decoding of bytes that are hostile
// until their digest says otherwise. Pure: no MPI.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "merkle/hash.h"

namespace lzy::validated {

/// Chosen by who sends, and told in its announcement. All sizes are powers of two, in bytes.
struct Sizes {
  std::uint64_t most_inline = 4u << 10;  ///< what is longer travels in chunks; not on the wire
  std::uint64_t leaf = 16u << 10;        ///< the least; more where there would be more than kMostLeaves
  std::uint64_t first_chunk = 256u << 10;
  std::uint64_t most_chunk = 512u << 10;  ///< of a message from one rank to another
  std::uint64_t most_whole = 32u << 10;   ///< longest that travels in one chunk after its root; not on the wire
  std::uint64_t most_block = 4u << 20;    ///< longest chunk in collective calls

  friend bool operator==(const Sizes&, const Sizes&) = default;
};

inline constexpr std::uint64_t kLeastLeaf = 16, kMostLeaf = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostLeaves = std::uint64_t{1} << 18;  // unless leaves would be longer than kMostLeaf
inline constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMostFirstChunk = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostInline = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 47;

/// `wanted` brought into these bounds, for a message of `bytes`: what an announcement of it can say.
Sizes SizesFor(std::uint64_t bytes, const Sizes& wanted);

/// Messages whose content is nothing: their number is their length, which MPI vouches for as it does for the sender and
/// the tag, so that nothing in them can be wrong. Everything else is longer than the longest of them.
enum Signal : int {
  kProven = 0,   ///< receiver: every byte has its hash. The end
  kGivenUp = 1,  ///< receiver: that could not be reached. The end
  kTooLong = 2,  ///< receiver: more than its buffer holds. The end
  kGo = 3,       ///< receiver: send what is left, then the root
  kAgain = 4,    ///< receiver: the announcement again (with the payload, where it is inline)
  kGetRoot = 5,  ///< receiver: the root, again
  kGarbled = 6,  ///< sender: the request was damaged
  kRefused = 7,  ///< sender, of a collective call: it has nothing proven to answer from
  kGetWord = 8,  ///< receiver, and the seven after it: this byte of the word of a record; the reply's length says it
};
inline constexpr int kMostSignal = 15;

/// Where a message stands in the exchange; kSum: what ReduceScatterXor gave, of which no message is left.
enum class Part : std::uint8_t { kAnnounce, kInline, kChunk, kRoot, kRequest, kNodes, kLeaves, kSum };

enum class Kind : std::uint8_t {
  kMessage = 1,   ///< announcement: the payload follows
  kInline = 2,    ///< announcement: the payload is in the same message
  kInPlace = 3,   ///< announcement: the receiver has the payload already
  kRoot = 4,      ///< what was announced, with its root
  kGetNodes = 5,  ///< request
  kGetLeaves = 6,
  kNodes = 7,  ///< reply to kGetNodes
  kWhole = 8,  ///< announcement: the payload follows in one chunk, the root is known
};

struct Announce {
  Kind kind = Kind::kMessage;
  std::uint64_t bytes = 0;
  std::uint64_t leaf = 0, first_chunk = 0, most_chunk = 0;
  Hash root;  ///< zero where it is not known yet

  /// Whether the first chunk is on its way with it.
  bool has_chunk() const { return kind == Kind::kMessage || kind == Kind::kWhole; }

  friend bool operator==(const Announce&, const Announce&) = default;
};

inline constexpr std::size_t kAnnounceBytes = 48;
/// By its length it is known what follows an announcement even where it cannot be read: nothing with it, a chunk, and more
/// when that is asked for; zeros up to kWholeBytes, one chunk; zeros up to kInPlaceBytes, nothing; zeros up to
/// kInlineHeader, the payload in the same message.
inline constexpr std::size_t kWholeBytes = 52;
inline constexpr std::size_t kInPlaceBytes = 56;
inline constexpr std::size_t kInlineHeader = 64;
/// What an announcement of `length` bytes says, if it says anything.
inline Kind KindByLength(std::size_t length) {
  return length >= kInlineHeader   ? Kind::kInline
         : length >= kInPlaceBytes ? Kind::kInPlace
         : length >= kWholeBytes   ? Kind::kWhole
                                   : Kind::kMessage;
}

void EncodeAnnounce(const Announce& announce, std::uint8_t* to);  ///< kAnnounceBytes
/// None unless the digest is right and every field is within its bounds.
std::optional<Announce> DecodeAnnounce(ByteSpan bytes);

/// Asks for the children of nodes of a level (kGetNodes) or for the bytes of leaves (kGetLeaves, level 0).
struct Request {
  Kind kind = Kind::kGetNodes;
  std::uint8_t level = 0;
  std::vector<std::uint32_t> indices;
};

inline constexpr std::size_t kMostIndices = 4096;
inline constexpr std::size_t kFrame = 16 + 16;  // header and digest around what a request or a reply has in it
inline constexpr std::size_t kMostRequest = kFrame + 4 * kMostIndices;

std::vector<std::uint8_t> EncodeRequest(const Request& request);
/// None unless the digest is right, the kind is one of a request, and there are 1 to kMostIndices indices, ascending.
std::optional<Request> DecodeRequest(ByteSpan bytes);

/// Reply to kGetNodes: `hashes`, those of all nodes asked for.
std::vector<std::uint8_t> EncodeNodes(std::uint8_t level, std::span<const Hash> hashes);
/// None unless the digest is right and there are `count` hashes of children of `level`.
std::optional<std::vector<Hash>> DecodeNodes(ByteSpan bytes, std::uint8_t level, std::size_t count);

/// Reply to kGetLeaves: this many bytes that nobody reads, then the leaves, which have their hashes.
inline constexpr std::size_t kLeavesHeader = 16;

/// What a rank brings to a collective call of lzy's own, where amounts differ: how many bytes, a number that goes with them, and their
/// root; the bytes themselves where they fit. Every record is as long.
struct Record {
  std::uint64_t bytes = 0;  ///< less than 2^48
  std::uint16_t note = 0;
  Hash root;  ///< in leaves of SizesFor(bytes, {})

  /// Both numbers in one.
  std::uint64_t word() const { return bytes | std::uint64_t{note} << 48; }
  void SetWord(std::uint64_t word) {
    bytes = word & ((std::uint64_t{1} << 48) - 1);
    note = static_cast<std::uint16_t>(word >> 48);
  }
};
inline constexpr std::size_t kRecordHeader = 8 + 16 + 16;
inline constexpr std::size_t kRecordBytes = 256;
inline constexpr std::uint64_t kMostInRecord = kRecordBytes - kRecordHeader;
void EncodeRecord(const Record& record, std::uint8_t* to);  ///< kRecordHeader bytes
/// None unless the digest is right.
std::optional<Record> DecodeRecord(ByteSpan bytes);
/// Length of a reply to kGetWord that says 0; that of another byte is longer by it.
inline constexpr std::size_t kWordReply = 64;

/// How a payload is cut: chunks that double from the first to the longest; the last is what is left.
class Chunks {
 public:
  explicit Chunks(const Announce& announce)
      : bytes_(announce.bytes), next_(announce.first_chunk), most_(announce.most_chunk) {}
  bool done() const { return at_ == bytes_; }
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
