#include "validated/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace lzy::validated {
namespace {

Announce SomeAnnounce() {
  Announce announce{Kind::kMessage, 123'456'789, 4096, 65536, 1u << 20, {}};
  for (std::size_t i = 0; i < 16; ++i) announce.root.bytes[i] = static_cast<std::uint8_t>(i * 7);
  return announce;
}

std::vector<std::uint8_t> Encoded(const Announce& announce) {
  std::vector<std::uint8_t> bytes(kAnnounceBytes);
  EncodeAnnounce(announce, bytes.data());
  return bytes;
}

// Gives it a right digest, as somebody would who makes such messages.
void Sign(std::vector<std::uint8_t>& message) {
  const Hash digest = HashBytes(HashTag::kTransferMessage, 0, {message.data(), message.size() - 16});
  std::copy(digest.bytes.begin(), digest.bytes.end(), message.end() - 16);
}

TEST(ValidatedWire, AnnouncementsComeBack) {
  for (const Kind kind : {Kind::kMessage, Kind::kInline, Kind::kInPlace, Kind::kRoot, Kind::kWhole}) {
    Announce announce = SomeAnnounce();
    announce.kind = kind;
    if (kind == Kind::kWhole) announce.bytes = announce.first_chunk;
    const auto decoded = DecodeAnnounce(Encoded(announce));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, announce);
  }
}

TEST(ValidatedWire, LayoutIsWhatTheDocumentSays) {
  const auto bytes = Encoded(SomeAnnounce());
  const std::vector<std::uint8_t> begin(bytes.begin(), bytes.begin() + 16);
  EXPECT_EQ(begin, (std::vector<std::uint8_t>{'L', 'Z', 'X', '1', 1, 12, 16, 20, 0x15, 0xcd, 0x5b, 0x07, 0, 0, 0, 0}));
  const auto request = EncodeRequest({Kind::kGetNodes, 3, {7, 0x01020304}});
  const std::vector<std::uint8_t> head(request.begin(), request.begin() + 24);
  EXPECT_EQ(head, (std::vector<std::uint8_t>{'L', 'Z', 'X', '1', 5, 3, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 4, 3, 2, 1}));
  EXPECT_EQ(request.size(), kFrame + 8);
}

template <class Decode>
void ExpectEveryBitCounts(const std::vector<std::uint8_t>& good, const Decode& decode) {
  ASSERT_TRUE(decode(good));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    EXPECT_FALSE(decode(bad)) << "bit " << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)})) << size;
  }
  auto longer = good;
  longer.push_back(0);
  EXPECT_FALSE(decode(longer));
}

using Message = std::vector<std::uint8_t>;

TEST(ValidatedWire, EveryBitOfAMessageCounts) {
  ExpectEveryBitCounts(Encoded(SomeAnnounce()), [](const Message& m) { return DecodeAnnounce(m).has_value(); });
  ExpectEveryBitCounts(EncodeRequest({Kind::kGetLeaves, 0, {0, 1, 5}}), [](const Message& m) { return DecodeRequest(m).has_value(); });
  const std::vector<Hash> hashes(3, Hash{{1, 2, 3}});
  ExpectEveryBitCounts(EncodeNodes(2, hashes), [](const Message& m) { return DecodeNodes(m, 2, 3).has_value(); });
}

TEST(ValidatedWire, FieldsOutOfBoundsAreRefusedEvenWithTheirDigest) {
  const auto refused = [](std::size_t at, std::uint8_t value) {
    auto bytes = Encoded(SomeAnnounce());
    bytes[at] = value;
    Sign(bytes);
    return !DecodeAnnounce(bytes);
  };
  EXPECT_FALSE(refused(4, 3)) << "a kind that there is";
  EXPECT_TRUE(refused(0, 'l'));
  EXPECT_TRUE(refused(4, 0));
  EXPECT_TRUE(refused(4, 5));
  EXPECT_TRUE(refused(5, 3)) << "leaves too short";
  EXPECT_TRUE(refused(5, 21)) << "leaves too long";
  EXPECT_TRUE(refused(5, 200));
  EXPECT_TRUE(refused(6, 11)) << "first chunk shorter than a leaf";
  EXPECT_TRUE(refused(6, 21));
  EXPECT_TRUE(refused(7, 15)) << "longest chunk shorter than the first";
  EXPECT_TRUE(refused(7, 25));
  EXPECT_TRUE(refused(14, 0x80)) << "more bytes than there can be";
  EXPECT_TRUE(refused(4, static_cast<std::uint8_t>(Kind::kWhole))) << "more bytes than in one chunk";
}

TEST(ValidatedWire, RequestsOutOfBoundsAreRefusedEvenWithTheirDigest) {
  const auto refused = [](const Request& request) { return !DecodeRequest(EncodeRequest(request)); };
  EXPECT_FALSE(refused({Kind::kGetNodes, 1, {0}}));
  EXPECT_TRUE(refused({Kind::kGetNodes, 1, {}}));
  EXPECT_TRUE(refused({Kind::kGetNodes, 1, {3, 3}}));
  EXPECT_TRUE(refused({Kind::kGetNodes, 1, {3, 2}}));
  EXPECT_TRUE(refused({Kind::kNodes, 1, {3}}));
  std::vector<std::uint32_t> many(kMostIndices + 1);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::uint32_t>(i);
  EXPECT_TRUE(refused({Kind::kGetLeaves, 0, many}));
  many.pop_back();
  EXPECT_FALSE(refused({Kind::kGetLeaves, 0, many}));
  EXPECT_EQ(EncodeRequest({Kind::kGetLeaves, 0, many}).size(), kMostRequest);
  auto lies = EncodeRequest({Kind::kGetLeaves, 0, {1, 2}});
  StoreLe<std::uint32_t>(lies.data() + 8, 0xffffffff);
  Sign(lies);
  EXPECT_FALSE(DecodeRequest(lies)) << "a count that is not of what is there";
}

TEST(ValidatedWire, RandomBytesAreNothing) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    Message bytes(random() % 200);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    EXPECT_FALSE(DecodeAnnounce(bytes));
    EXPECT_FALSE(DecodeRequest(bytes));
    EXPECT_FALSE(DecodeNodes(bytes, static_cast<std::uint8_t>(random() % 8), random() % 12));
  }
}

TEST(ValidatedWire, RecordsComeBackAndNothingElseDoes) {
  Record record;
  record.bytes = (std::uint64_t{1} << 48) - 3;
  record.note = 0xfedc;
  record.root = HashBytes(HashTag::kTransferLeaf, 3, {});
  Message bytes(kRecordBytes, 7);  // what is behind is payload
  EncodeRecord(record, bytes.data());
  const auto back = DecodeRecord(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->bytes, record.bytes);
  EXPECT_EQ(back->note, record.note);
  EXPECT_EQ(back->root, record.root);
  EXPECT_FALSE(DecodeRecord(ByteSpan(bytes).first(kRecordHeader - 1)));
  for (std::size_t at = 0; at < kRecordHeader; ++at) {
    bytes[at] ^= 0x10;
    EXPECT_FALSE(DecodeRecord(bytes)) << at;
    bytes[at] ^= 0x10;
  }
}

TEST(ValidatedWire, SizesAreBroughtIntoBounds) {
  const Sizes small = SizesFor(1000, {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(small, (Sizes{1, 16, 16, 16, 1, 16}));
  const Sizes large = SizesFor(1000, {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull});
  EXPECT_EQ(large, (Sizes{kMostInline, kMostLeaf, kMostFirstChunk, kMostChunk, kMostFirstChunk, kMostChunk}));
  EXPECT_EQ(SizesFor(0, {100, 5000, 5001, 100, 5000, 9000}), (Sizes{100, 4096, 4096, 4096, 4096, 8192}));
  EXPECT_EQ(SizesFor(std::uint64_t{1} << 40, {}).leaf, kMostLeaf);
  const Sizes gibibyte = SizesFor(std::uint64_t{1} << 31, {});
  EXPECT_LT((std::uint64_t{1} << 31) / gibibyte.leaf, kMostLeaves);
  for (std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 20, std::uint64_t{1} << 33, kMostBytes}) {
    const Sizes sizes = SizesFor(bytes, {});
    EXPECT_TRUE(DecodeAnnounce(Encoded({Kind::kMessage, bytes, sizes.leaf, sizes.first_chunk, sizes.most_chunk, {}}))) << bytes;
  }
}

TEST(ValidatedWire, ChunksDoubleAndCoverEverything) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t at = 0;
  for (Chunks chunk({Kind::kMessage, 1000, 16, 64, 256, {}}); !chunk.done(); chunk.Next()) {
    EXPECT_EQ(chunk.begin(), at);
    sizes.push_back(chunk.size());
    at += chunk.size();
  }
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{64, 128, 256, 256, 256, 40}));
  EXPECT_EQ(at, 1000u);
  EXPECT_TRUE(Chunks({Kind::kMessage, 0, 16, 64, 256, {}}).done());
}

TEST(ValidatedWire, LengthsTellWhatFollows) {
  EXPECT_EQ(KindByLength(kAnnounceBytes), Kind::kMessage);
  EXPECT_EQ(KindByLength(kWholeBytes), Kind::kWhole);
  EXPECT_EQ(KindByLength(kInPlaceBytes), Kind::kInPlace);
  EXPECT_EQ(KindByLength(kInlineHeader), Kind::kInline);
  EXPECT_EQ(KindByLength(kInlineHeader + 1), Kind::kInline);
}

}  // namespace
}  // namespace lzy::validated
