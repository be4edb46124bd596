// The pages of a sidecar by themselves: superblock, info record, intent page.
#include "sidecar/sidecar_format.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

TEST(SuperblockFormat, RoundTrip) {
  Superblock sb = MakeContents(9, 100, 30, 1).superblock;
  sb.spacing = 1 << 20;
  sb.extents = {{ExtentKind::kInfo, 0, 0, 4096, 77, 80}, {ExtentKind::kParity, 0, 12345, 1ull << 40, 5, 6}};
  sb.parity = 200;
  sb.members = sb.largest_group = 255;
  sb.copies = 201;
  for (std::uint32_t copy : {0u, 1u, 200u}) {
    sb.copy = copy;
    const auto page = EncodeSuperblock(sb);
    ASSERT_EQ(page.size(), kSuperblockSize);
    auto back = DecodeSuperblock(page, copy);
    ASSERT_OK(back);
    EXPECT_EQ(EncodeSuperblock(*back), page);
    EXPECT_CODE(DecodeSuperblock(page, copy + 1), Code::kCorrupt) << "a copy in another's place";
  }
}

TEST(NodesFormat, NamesOfDomainsAreNotWrittenTwice) {
  InfoRecord info = MakeContents(2, 100, 30, 1, DatasetKind::kSet).info;
  const auto as_domain = EncodeNodes(info);
  EXPECT_EQ(as_domain.size(), 4 + 4 + sizeof(Hash));
  info.written_on.nodes = {"n1"};
  const auto other = EncodeNodes(info);
  EXPECT_EQ(other.size(), 4 + 4 + 4 + 2 + sizeof(Hash));
  for (const auto& bytes : {as_domain, other}) {
    const auto back = DecodeNodes(bytes, info);
    ASSERT_OK(back);
    EXPECT_EQ(back->count, 3U);
    EXPECT_EQ(back->nodes, std::vector<std::string>{bytes == other ? "n1" : "node7"});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      auto flipped = bytes;
      flipped[i] ^= 1;
      EXPECT_CODE(DecodeNodes(flipped, info), Code::kCorrupt);
      EXPECT_CODE(DecodeNodes(ByteSpan(bytes).first(i), info), Code::kCorrupt);
    }
  }
  // With the right hash, but not of this group.
  info.members.push_back(info.members[0]);
  EXPECT_CODE(DecodeNodes(other, info), Code::kCorrupt);
  info.written_on = {};
  EXPECT_TRUE(EncodeNodes(info).empty());
}

// The seal must not depend on it: an older lzy writes the copies again without the bit.
TEST(SuperblockFormat, TellsThatTheBlockSizeIsAutomatic) {
  Superblock sb = MakeContents(9, 100, 30, 1).superblock;
  const auto fixed = EncodeSuperblock(sb), sealed = SealedPartOf(sb);
  sb.automatic_block_size = true;
  const auto page = EncodeSuperblock(sb);
  EXPECT_EQ(LoadLe<std::uint64_t>(&page[16]), 1u);
  EXPECT_EQ(LoadLe<std::uint64_t>(&fixed[16]), 0u);
  EXPECT_EQ(SealedPartOf(sb), sealed);
  EXPECT_TRUE(DecodeSuperblock(page, 0)->automatic_block_size);
  EXPECT_FALSE(DecodeSuperblock(fixed, 0)->automatic_block_size);
}

TEST(SuperblockFormat, BytesAreWhereTheDocumentSays) {
  Superblock sb;
  sb.generation = 0x1122334455667788;
  sb.copy = 1;
  sb.copies = 3;
  sb.spacing = 16384;
  sb.block_size = 65536;
  sb.unit = 1 << 20;
  sb.parity = 2;
  sb.members = 8;
  sb.largest_group = 8;
  sb.stamp = {0xabcdef, -2, 3, 4};
  sb.data_root.bytes[0] = 0x77;
  const auto page = EncodeSuperblock(sb);
  const auto u32 = [&](std::size_t at) { return LoadLe<std::uint32_t>(&page[at]); };
  const auto u64 = [&](std::size_t at) { return LoadLe<std::uint64_t>(&page[at]); };
  EXPECT_EQ(Bytes(page.begin(), page.begin() + 8), (Bytes{0x89, 0x4C, 0x5A, 0x59, 0x0D, 0x0A, 0x1A, 0x0A}));
  EXPECT_EQ(u32(8), 0x01020304u);
  EXPECT_EQ(u32(12), 1u) << "version 1.0";
  EXPECT_EQ(u64(56), 0x1122334455667788u);
  EXPECT_EQ(u32(64), 1u);
  EXPECT_EQ(u32(68), 3u);
  EXPECT_EQ(u64(72), 16384u);
  EXPECT_EQ(u32(80), 1u);
  EXPECT_EQ(u32(92), 65536u);
  EXPECT_EQ(u64(96), 1u << 20);
  EXPECT_EQ(u32(104), 2u);
  EXPECT_EQ(u32(108), 8u);
  EXPECT_EQ(u32(112), 8u);
  EXPECT_EQ(u64(136), 0xabcdefu);
  EXPECT_EQ(static_cast<std::int64_t>(u64(144)), -2);
  EXPECT_EQ(page[192], 0x77);
  EXPECT_EQ(u32(256), 0u);
}

TEST(InfoFormat, RoundTrip) {
  InfoRecord info = MakeContents(4, 10, 5, 1, DatasetKind::kSet).info;
  info.path.index = 3;
  info.path.leaf_count = 5;
  info.path.bytes = 1ull << 50;
  info.path.pages = {{Hash{}, Hash{}}, {Hash{}}};
  auto back = DecodeInfo(EncodeInfo(info));
  ASSERT_OK(back);
  EXPECT_EQ(EncodeInfo(*back), EncodeInfo(info));
  EXPECT_EQ(back->members[0].domain, "node7");
  EXPECT_EQ(back->path.pages.size(), 2u);
  const Bytes bytes = EncodeInfo(info);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_CODE(DecodeInfo(ByteSpan(bytes).first(length)), Code::kCorrupt) << length;
}

TEST(IntentFormat, RoundTripAndEveryFlip) {
  Intent intent;
  intent.uuid = {9, 8, 7};
  intent.generation = 5;
  intent.flags = kIntentRepair;
  intent.wall_time_ns = -1;
  intent.pid = 4242;
  intent.host = std::string(100, 'h');
  intent.ranges = {{1, 2}, {1ull << 60, 1}};
  auto page = EncodeIntent(intent, 1);
  ASSERT_EQ(page.size(), kIntentPageSize);
  auto back = DecodeIntent(page, 1);
  ASSERT_OK(back);
  EXPECT_EQ(back->ranges, intent.ranges);
  EXPECT_EQ(back->host, std::string(64, 'h')) << "cut to what there is room for";
  EXPECT_EQ(back->pid, 4242u);
  EXPECT_CODE(DecodeIntent(page, 0), Code::kCorrupt) << "a page in another's place";
  for (std::size_t at = 0; at < page.size(); ++at) {
    page[at] ^= 4;
    EXPECT_CODE(DecodeIntent(page, 1), Code::kCorrupt) << at;
    page[at] ^= 4;
  }
}

TEST(PartBytes, CountTheBytesOfTheUnitsOfEachPart) {
  for (std::uint64_t size : {0u, 1u, 511u, 512u, 513u, 5120u, 5121u, 10000u}) {
    for (std::uint32_t parts : {1u, 2u, 3u, 7u, 30u}) {
      std::vector<std::uint64_t> want(parts);
      for (std::uint64_t at = 0; at < size; ++at) ++want[at / 512 % parts];
      for (std::uint32_t part = 0; part < parts; ++part) EXPECT_EQ(PartBytes(size, 512, parts, part), want[part]) << size;
    }
  }
}

}  // namespace
}  // namespace lzy::testing
