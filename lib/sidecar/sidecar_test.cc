// The sidecar against every small misfortune: flipped bytes, truncation, foreign contents, crashes and loss of power at
// every step of a commit. Files are in memory.
#include "sidecar/sidecar.h"

#include <gtest/gtest.h>

#include <random>

#include "every_crash.h"
#include "memory_files.h"
#include "status_matchers.h"

namespace lzy {
namespace {

using testing::AtEveryCrash;
using testing::MemoryFileSystem;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kBlock = 512;
const char kPath[] = "d/.LZY.f";

Hash AnyHash(std::mt19937_64& rng) {
  Hash hash;
  for (auto& byte : hash.bytes) byte = static_cast<std::uint8_t>(rng());
  return hash;
}

std::vector<Hash> AnyLeaves(std::mt19937_64& rng, std::uint64_t count) {
  std::vector<Hash> leaves(count);
  for (Hash& leaf : leaves) leaf = AnyHash(rng);
  return leaves;
}

/// Contents of a sidecar for a file of `blocks` blocks.
SidecarContents MakeContents(std::uint64_t seed, std::uint64_t blocks, std::uint64_t parity_blocks,
                             std::uint32_t parity = 1, DatasetKind kind = DatasetKind::kShared,
                             std::uint64_t generation = 1) {
  std::mt19937_64 rng(seed);
  SidecarContents contents;
  Superblock& sb = contents.superblock;
  sb.uuid = {1, 2, 3, 4, 5};
  sb.generation = generation;
  sb.kind = kind;
  sb.placement = kind == DatasetKind::kSet ? ParityPlacement::kPerDevice : ParityPlacement::kPooled;
  sb.block_size = kBlock;
  sb.unit = kBlock;
  sb.parity = parity;
  sb.members = kind == DatasetKind::kSet ? 5 : 4;
  sb.largest_group = 4;
  sb.rank = kind == DatasetKind::kSet ? 3 : 0;
  sb.commit_clock_ns = 123456789;
  sb.wall_time_ns = -5;
  sb.stamp = {blocks == 0 ? 0 : blocks * kBlock - 100, -77, 11, 12};
  sb.parity_size = parity_blocks * kBlock;
  sb.parity_stride = kBlock;
  sb.dataset_root = AnyHash(rng);
  contents.info.name = kind == DatasetKind::kSet ? "state.%r" : "f";
  contents.info.groups = {{0, 1, 2, 3}};
  contents.info.members.push_back(
      {3, 0640, 1, 2, -77, sb.stamp.size, AnyHash(rng), sb.parity_size, AnyHash(rng), "node7"});
  contents.info.path.leaf_count = 1;
  contents.data_tree = Tree::Build(TreeKind::kData, AnyLeaves(rng, blocks), sb.stamp.size);
  contents.parity_tree = Tree::Build(TreeKind::kParity, AnyLeaves(rng, parity_blocks), sb.parity_size);
  return contents;
}

bool SameTree(const Tree& a, const Tree& b) {
  return a.bytes() == b.bytes() &&
         std::equal(a.levels().begin(), a.levels().end(), b.levels().begin(), b.levels().end());
}

/// What of contents must survive a round trip, field by field.
void ExpectSame(const SidecarContents& a, const SidecarContents& b) {
  EXPECT_EQ(a.superblock.uuid, b.superblock.uuid);
  EXPECT_EQ(a.superblock.generation, b.superblock.generation);
  EXPECT_EQ(a.superblock.kind, b.superblock.kind);
  EXPECT_EQ(a.superblock.placement, b.superblock.placement);
  EXPECT_EQ(a.superblock.block_size, b.superblock.block_size);
  EXPECT_EQ(a.superblock.unit, b.superblock.unit);
  EXPECT_EQ(a.superblock.parity, b.superblock.parity);
  EXPECT_EQ(a.superblock.members, b.superblock.members);
  EXPECT_EQ(a.superblock.largest_group, b.superblock.largest_group);
  EXPECT_EQ(a.superblock.rank, b.superblock.rank);
  EXPECT_EQ(a.superblock.commit_clock_ns, b.superblock.commit_clock_ns);
  EXPECT_EQ(a.superblock.wall_time_ns, b.superblock.wall_time_ns);
  EXPECT_EQ(a.superblock.stamp, b.superblock.stamp);
  EXPECT_EQ(a.superblock.parity_size, b.superblock.parity_size);
  EXPECT_EQ(a.superblock.parity_stride, b.superblock.parity_stride);
  EXPECT_EQ(a.superblock.first_row, b.superblock.first_row);
  EXPECT_EQ(a.superblock.dataset_root, b.superblock.dataset_root);
  EXPECT_EQ(EncodeInfo(a.info), EncodeInfo(b.info));
  EXPECT_TRUE(SameTree(a.data_tree, b.data_tree));
  EXPECT_TRUE(SameTree(a.parity_tree, b.parity_tree));
}

bool Same(const SidecarContents& a, const SidecarContents& b) {
  return a.superblock.uuid == b.superblock.uuid && a.superblock.generation == b.superblock.generation &&
         a.superblock.stamp == b.superblock.stamp && EncodeInfo(a.info) == EncodeInfo(b.info) &&
         SameTree(a.data_tree, b.data_tree) && SameTree(a.parity_tree, b.parity_tree);
}

class SidecarTest : public ::testing::Test {
 protected:
  SidecarTest() { fs_.Put("d/f", Bytes(10)); }

  std::unique_ptr<Sidecar> Create(const SidecarContents& contents) {
    auto like = fs_.Open("d/f", OpenMode::kRead);
    auto sidecar = Sidecar::Create(fs_, kPath, contents, **like);
    EXPECT_OK(sidecar);
    EXPECT_OK((*sidecar)->WriteAll(contents));
    return std::move(*sidecar);
  }
  Result<std::unique_ptr<Sidecar>> Load(OpenMode mode = OpenMode::kRead, bool prepared = false) {
    return Sidecar::Load(fs_, kPath, mode, prepared);
  }
  Bytes& File() { return fs_.At(kPath).bytes; }
  /// Changes a superblock and gives it its right hash again.
  void Reseal(std::uint64_t offset, std::uint32_t copy, std::size_t field, const Bytes& value) {
    std::copy(value.begin(), value.end(), File().begin() + static_cast<std::ptrdiff_t>(offset + field));
    const Hash hash = HashBytes(HashTag::kSuperblock, copy, ByteSpan(File()).subspan(offset, 4080));
    std::copy(hash.bytes.begin(), hash.bytes.end(), File().begin() + static_cast<std::ptrdiff_t>(offset + 4080));
  }
  static bool Whole(const Sidecar& sidecar) {
    return sidecar.unknown_data_leaves().empty() && sidecar.unknown_parity_leaves().empty();
  }

  MemoryFileSystem fs_;
};

TEST(PartBytes, AreThoseOfTheUnitsDealtToAPart) {
  for (std::uint64_t size : {0u, 1u, 511u, 512u, 513u, 5120u, 5121u, 10000u}) {
    for (std::uint32_t parts : {1u, 2u, 3u, 7u, 30u}) {
      std::vector<std::uint64_t> want(parts);
      for (std::uint64_t at = 0; at < size; ++at) ++want[at / 512 % parts];
      for (std::uint32_t part = 0; part < parts; ++part) EXPECT_EQ(PartBytes(size, 512, parts, part), want[part]) << size;
    }
  }
}

TEST_F(SidecarTest, RoundTrip) {
  for (const auto kind : {DatasetKind::kShared, DatasetKind::kSet}) {
    for (std::uint64_t blocks : {0u, 1u, 2u, 256u, 257u, 1000u}) {
      for (std::uint32_t parity : {0u, 1u, 3u}) {
        const SidecarContents contents = MakeContents(blocks, blocks, parity * blocks / 3, parity, kind);
        Create(contents);
        auto loaded = Load();
        ASSERT_OK(loaded);
        ExpectSame((*loaded)->contents(), contents);
        EXPECT_TRUE((*loaded)->damage().empty());
        EXPECT_TRUE(Whole(**loaded));
        EXPECT_FALSE((*loaded)->intent());
        EXPECT_EQ((*loaded)->contents().superblock.copies, kind == DatasetKind::kSet ? 2 : std::max(2u, parity + 1));
        EXPECT_EQ((*loaded)->file_size(), File().size());
        EXPECT_EQ(fs_.At(kPath).durable, File()) << "durable when written";
      }
    }
  }
}

TEST_F(SidecarTest, AnyOneByteMayFlip) {
  const SidecarContents contents = MakeContents(1, 3, 2, 1);
  Create(contents);
  const Bytes good = File();
  const std::uint64_t parity_at = (*Load())->ParityFileOffset(0);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (std::uint8_t mask : {std::uint8_t{0x01}, std::uint8_t{0xff}}) {
      File()[at] ^= mask;
      auto loaded = Load();
      ASSERT_TRUE(loaded.ok()) << "byte " << at << ": " << loaded.status().message();
      EXPECT_TRUE(Same((*loaded)->contents(), contents)) << "byte " << at;
      EXPECT_TRUE(Whole(**loaded)) << "byte " << at;
      EXPECT_LE((*loaded)->damage().size(), 1u) << "byte " << at;
      for (const MetadataDamage& d : (*loaded)->damage()) {
        EXPECT_TRUE(at >= d.offset && at < d.offset + d.length)
            << "byte " << at << ": " << d.what << " at " << d.offset;
        EXPECT_LT(at, parity_at);
      }
      File()[at] = good[at];
    }
  }
}

TEST_F(SidecarTest, AnyTwoBytesMayFlipWithoutHarmBeyondUnknownLeaves) {
  std::mt19937_64 rng(7);
  for (const auto& contents :
       {MakeContents(1, 3, 2, 1), MakeContents(2, 600, 300, 2), MakeContents(3, 40, 0, 0, DatasetKind::kSet)}) {
    Create(contents);
    const Bytes good = File();
    for (int i = 0; i < 1500; ++i) {
      for (std::uint64_t flips = 2 + rng() % 4; flips > 0; --flips)
        File()[rng() % good.size()] ^= static_cast<std::uint8_t>(1 + rng() % 255);
      auto loaded = Load();
      if (loaded.ok()) {
        const SidecarContents& got = (*loaded)->contents();
        EXPECT_EQ(EncodeInfo(got.info), EncodeInfo(contents.info));
        EXPECT_EQ(got.superblock.generation, contents.superblock.generation);
        const auto& unknown = (*loaded)->unknown_data_leaves();
        for (std::uint64_t leaf = 0; leaf < contents.data_tree.leaf_count(); ++leaf) {
          if (!std::binary_search(unknown.begin(), unknown.end(), leaf)) {
            EXPECT_EQ(got.data_tree.leaf(leaf), contents.data_tree.leaf(leaf));
          }
        }
      } else {
        const Code code = loaded.status().code();
        EXPECT_TRUE(code == Code::kUnprotected || code == Code::kNewerFormat) << loaded.status().message();
      }
      File() = good;
    }
  }
}

TEST_F(SidecarTest, TruncationAtEveryLength) {
  const SidecarContents contents = MakeContents(1, 3, 2, 1);
  Create(contents);
  const Bytes good = File();
  // Copy 0: superblock, info, leaves. As long as it is there all is known.
  for (std::size_t length = good.size(); length-- > 0;) {
    File().resize(length);
    auto loaded = Load();
    if (length >= 8192) {
      ASSERT_TRUE(loaded.ok()) << length << ": " << loaded.status().message();
    }
    if (loaded.ok()) {
      EXPECT_TRUE(Same((*loaded)->contents(), contents) || !Whole(**loaded)) << length;
    } else {
      EXPECT_CODE(loaded, Code::kUnprotected) << length;
    }
  }
}

TEST_F(SidecarTest, WhatIsNoSidecarIsUnprotected) {
  EXPECT_CODE(Load(), Code::kNotFound);
  for (const Bytes& bytes : {Bytes(), Bytes(1), Bytes(100000), Bytes(100000, 0xff)}) {
    fs_.Put(kPath, bytes);
    EXPECT_CODE(Load(), Code::kUnprotected);
  }
  std::mt19937_64 rng(3);
  Bytes noise(100000);
  for (auto& byte : noise) byte = static_cast<std::uint8_t>(rng());
  fs_.Put(kPath, noise);
  EXPECT_CODE(Load(), Code::kUnprotected);
}

TEST_F(SidecarTest, ForeignByteOrderAndNewerVersionsAreRefusedAsSuch) {
  const std::vector<std::pair<std::size_t, Bytes>> newer = {
      {8, {0x01, 0x02, 0x03, 0x04}}, {12, {3, 0}}, {12, {0xff, 0xff}}, {32, {8}}, {39, {0x80}}};
  for (const auto& [field, value] : newer) {
    Create(MakeContents(1, 3, 2, 1));
    for (std::uint32_t c = 0; c < 2; ++c) Reseal(c * 8192, c, field, value);
    EXPECT_CODE(Load(), Code::kNewerFormat) << "field " << field;
    EXPECT_CODE(Load(OpenMode::kReadWrite), Code::kNewerFormat) << "field " << field;
  }
}

TEST_F(SidecarTest, NewerMinorVersionsAndCompatibleFeaturesAreRead) {
  for (const std::size_t field : {std::size_t{14}, std::size_t{16}}) {
    Create(MakeContents(1, 3, 2, 1));
    for (std::uint32_t c = 0; c < 2; ++c) Reseal(c * 8192, c, field, {0x40});
    EXPECT_OK(Load());
    EXPECT_OK(Load(OpenMode::kReadWrite));
  }
}

TEST_F(SidecarTest, ReadOnlyCompatibleFeaturesForbidWriting) {
  Create(MakeContents(1, 3, 2, 1));
  for (std::uint32_t c = 0; c < 2; ++c) Reseal(c * 8192, c, 24, {0x01});
  EXPECT_OK(Load());
  EXPECT_CODE(Load(OpenMode::kReadWrite), Code::kNewerFormat);
}

TEST_F(SidecarTest, HostileSuperblocksWithRightHashesDoNoHarm) {
  std::mt19937_64 rng(11);
  for (const auto& contents :
       {MakeContents(1, 3, 2, 1), MakeContents(2, 300, 100, 2), MakeContents(3, 40, 10, 1, DatasetKind::kSet)}) {
    Create(contents);
    const Bytes good = File();
    const std::uint64_t spacing = (*Load())->contents().superblock.spacing;
    const std::uint32_t copies = (*Load())->contents().superblock.copies;
    for (int i = 0; i < 1500; ++i) {
      for (std::uint32_t c = 0; c < copies; ++c) {
        if (c > 0 && rng() % 3 == 0) continue;
        std::size_t field = rng() % 3 == 0 ? 40 + rng() % 224 : 256 + rng() % 300;
        Bytes value(1 + rng() % 8);
        for (auto& byte : value) byte = rng() % 2 == 0 ? 0xff : static_cast<std::uint8_t>(rng());
        Reseal(c * spacing, c, field, value);
      }
      for (const bool prepared : {false, true}) (void)Load(OpenMode::kRead, prepared).ok();
      File() = good;
    }
  }
}

/// A field of a superblock (docs/format.md §4) and what can never stand there.
struct ImpossibleField {
  const char* name;
  std::size_t offset;
  std::size_t size;
  std::vector<std::uint64_t> values;
};

TEST_F(SidecarTest, ImpossibleFieldsAreRefusedWhateverTheirHash) {
  const std::uint64_t huge = ~std::uint64_t{0};
  const std::uint64_t e = 264;  // the first extent: offset at +16, length at +24, capacity at +32
  const std::vector<ImpossibleField> fields = {
      {"generation", 56, 8, {0, huge}},
      {"copy", 64, 4, {2, 255, huge}},
      {"copies", 68, 4, {0, 1, 3, 256, huge}},
      {"spacing", 72, 8, {0, 1, 4096, 8191, huge, 1ull << 63}},
      {"state", 80, 4, {0, 4, huge}},
      {"kind", 84, 4, {0, 3, huge}},
      {"placement", 88, 4, {0, 2, 4, 5, huge}},
      {"block size", 92, 4, {0, 1, 256, 513, 1u << 31, huge}},
      {"unit", 96, 8, {0, 1, 256, 513, 1ull << 31, huge}},
      {"parity", 104, 4, {0, 2, 4, 255, huge}},
      {"members", 108, 4, {0, 1, huge}},
      {"largest group", 112, 4, {0, 1, 5, 256, huge}},
      {"rank", 116, 4, {1, huge}},
      {"file size", 136, 8, {(1ull << 62) + 1, huge}},
      {"parity size", 168, 8, {0, 1, (1ull << 62) + 1, huge}},
      {"parity stride", 176, 8, {0, 513, huge}},
      {"first row", 184, 8, {huge}},
      {"extents", 256, 4, {91, huge}},
      {"extent offset", e + 16, 8, {0, 100, 8192, huge, huge - 4096}},
      {"extent length", e + 24, 8, {huge, 1ull << 62}},
      {"extent capacity", e + 32, 8, {0, 1ull << 40, huge}},
  };
  Create(MakeContents(1, 300, 100, 1));
  const Bytes good = File();
  const std::uint64_t spacing = (*Load())->contents().superblock.spacing;
  for (const ImpossibleField& field : fields) {
    for (const std::uint64_t value : field.values) {
      SCOPED_TRACE(std::string(field.name) + " " + std::to_string(value));
      Bytes raw(field.size);
      for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::uint8_t>(value >> 8 * i);
      for (std::uint32_t c = 0; c < 2; ++c) Reseal(c * spacing, c, field.offset, raw);
      for (const bool prepared : {false, true}) EXPECT_CODE(Load(OpenMode::kRead, prepared), Code::kUnprotected);
      File() = good;
    }
  }
}

// The format knows one stretch of parity: a second one, or one of another length, is refused.
TEST_F(SidecarTest, ParityIsOneExtent) {
  const SidecarContents contents = MakeContents(1, 30, 10, 1);
  Create(contents);
  const Superblock sb = (*Load())->contents().superblock;
  ASSERT_OK(CheckExtents(sb));
  for (int change = 0; change < 4; ++change) {
    Superblock bad = sb;
    Extent& parity = bad.extents.back();
    ASSERT_EQ(parity.kind, ExtentKind::kParity);
    if (change == 0) bad.extents.pop_back();
    if (change == 1) parity.logical = 512;
    if (change == 2) parity.length -= 1;
    if (change == 3) {
      Extent second = parity;
      parity.length = parity.capacity = parity.length / 2;
      second.logical = second.length = second.capacity = sb.parity_size - parity.length;
      second.offset += second.length;
      bad.extents.push_back(second);
    }
    EXPECT_CODE(CheckExtents(bad), Code::kCorrupt) << change;
  }
}

TEST_F(SidecarTest, HostileInfoRecordsDoNoHarm) {
  std::mt19937_64 rng(12);
  const Bytes good = EncodeInfo(MakeContents(1, 3, 2, 1, DatasetKind::kSet).info);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = good;
    for (std::uint64_t flips = 1 + rng() % 3; flips > 0; --flips)
      bytes[rng() % bytes.size()] = rng() % 2 ? 0xff : static_cast<std::uint8_t>(rng());
    if (rng() % 4 == 0) bytes.resize(rng() % bytes.size());
    (void)DecodeInfo(bytes).ok();
  }
}

TEST_F(SidecarTest, NamesThatLeadOutAreRefused) {
  for (const char* name : {"", "/x", "../x", "a/../../x", "a/..", "..", "/"}) {
    InfoRecord info = MakeContents(1, 3, 2, 1).info;
    info.name = name;
    EXPECT_CODE(DecodeInfo(EncodeInfo(info)), Code::kCorrupt) << name;
  }
  InfoRecord info = MakeContents(1, 3, 2, 1).info;
  info.name = std::string("a\0b", 3);
  EXPECT_CODE(DecodeInfo(EncodeInfo(info)), Code::kCorrupt);
  for (const char* name : {"..x", "x..", "a..b/c", "...", "%04r/state"}) {
    info.name = name;
    EXPECT_TRUE(DecodeInfo(EncodeInfo(info)).ok()) << name;
  }
  // Both copies name it, with right hashes: the sidecar as a whole is refused.
  info.name = "f";
  SidecarContents contents = MakeContents(1, 3, 2, 1);
  contents.info.name = "../f";
  Create(contents);
  EXPECT_FALSE(Load().ok());
}

TEST_F(SidecarTest, CopiesTogetherMakeWhatNoneHasAlone) {
  const SidecarContents contents = MakeContents(5, 3 * kPageFanout, 2 * kPageFanout, 1);
  Create(contents);
  std::vector<Superblock> sb;
  const std::uint64_t spacing = (*Load())->contents().superblock.spacing;
  for (std::uint32_t c = 0; c < 2; ++c) sb.push_back(*DecodeSuperblock(ByteSpan(File()).subspan(c * spacing), c));
  auto spoil = [&](std::uint32_t copy, ExtentKind kind, std::uint64_t page) {
    for (const Extent& e : sb[copy].extents) {
      if (e.kind == kind && e.level == 0) File()[e.offset + page * 4096] ^= 1;
    }
  };
  spoil(0, ExtentKind::kDataLevel, 0);
  spoil(1, ExtentKind::kDataLevel, 2);
  spoil(0, ExtentKind::kInfo, 0);
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_TRUE(Same((*loaded)->contents(), contents));
  EXPECT_TRUE(Whole(**loaded));
  EXPECT_EQ((*loaded)->damage().size(), 3u);

  // The same page in both: its leaves are unknown, and only those.
  spoil(1, ExtentKind::kDataLevel, 0);
  spoil(0, ExtentKind::kParityLevel, 1);
  spoil(1, ExtentKind::kParityLevel, 1);
  loaded = Load();
  ASSERT_OK(loaded);
  ASSERT_EQ((*loaded)->unknown_data_leaves().size(), kPageFanout);
  EXPECT_EQ((*loaded)->unknown_data_leaves().front(), 0u);
  ASSERT_EQ((*loaded)->unknown_parity_leaves().size(), kPageFanout);
  EXPECT_EQ((*loaded)->unknown_parity_leaves().front(), kPageFanout);
  for (std::uint64_t i = kPageFanout; i < 3 * kPageFanout; ++i)
    EXPECT_EQ((*loaded)->contents().data_tree.leaf(i), contents.data_tree.leaf(i));

  // The info record in both: nothing to go by.
  spoil(1, ExtentKind::kInfo, 0);
  EXPECT_CODE(Load(), Code::kUnprotected);
}

TEST_F(SidecarTest, HealingRewritesTheDamagedCopy) {
  for (std::uint32_t parity : {1u, 3u}) {
    const SidecarContents contents = MakeContents(5, 700, 300, parity);
    Create(contents);
    const Bytes good = File();
    const std::uint64_t spacing = (*Load())->contents().superblock.spacing;
    for (std::uint32_t spared = 0; spared <= parity; ++spared) {
      for (std::uint32_t c = 0; c <= parity; ++c) {
        if (c == spared) continue;
        std::fill_n(File().begin() + static_cast<std::ptrdiff_t>(c * spacing), spacing, std::uint8_t{0x5a});
      }
      auto loaded = Load(OpenMode::kReadWrite);
      ASSERT_OK(loaded);
      EXPECT_TRUE(Same((*loaded)->contents(), contents));
      EXPECT_FALSE((*loaded)->damage().empty());
      ASSERT_OK((*loaded)->WriteAll((*loaded)->contents()));
      loaded = Load();
      ASSERT_OK(loaded);
      EXPECT_TRUE((*loaded)->damage().empty());
      EXPECT_TRUE(Same((*loaded)->contents(), contents));
      File() = good;
    }
  }
}

TEST_F(SidecarTest, WrittenInPlaceIsAsWrittenAfresh) {
  for (std::uint64_t blocks : {1u, 255u, 256u, 257u, 300u}) {
    SidecarContents first = MakeContents(1, 280, 100, 1);
    SidecarContents second = MakeContents(2, blocks, blocks / 3, 1, DatasetKind::kShared, 2);
    auto sidecar = Create(first);
    ASSERT_TRUE(sidecar->Fits(second));
    ASSERT_OK(sidecar->WriteAll(second));
    auto loaded = Load();
    ASSERT_OK(loaded);
    ExpectSame((*loaded)->contents(), second);
    EXPECT_TRUE((*loaded)->damage().empty());
    EXPECT_EQ(sidecar->file_size(), File().size());
    EXPECT_EQ((*loaded)->ParityFileOffset(0) + second.superblock.parity_size, File().size());
  }
}

TEST_F(SidecarTest, FitsOnlyWhatHasTheSameGeometryAndRoom) {
  auto sidecar = Create(MakeContents(1, 100, 30, 1));
  EXPECT_TRUE(sidecar->Fits(MakeContents(1, 110, 30, 1)));
  EXPECT_FALSE(sidecar->Fits(MakeContents(1, 10000, 30, 1))) << "no room";
  EXPECT_FALSE(sidecar->Fits(MakeContents(1, 100, 30, 2))) << "other parity";
  EXPECT_FALSE(sidecar->Fits(MakeContents(1, 100, 30, 1, DatasetKind::kSet))) << "other kind";
  SidecarContents other = MakeContents(1, 100, 30, 1);
  other.superblock.unit = 1024;
  EXPECT_FALSE(sidecar->Fits(other));
  other = MakeContents(1, 100, 30, 1);
  other.info.groups = {{0, 1}, {2, 3}};
  EXPECT_FALSE(sidecar->Fits(other));
}

// --------------------------------------------------------------------------------------------------------- two phases

TEST_F(SidecarTest, PreparedDoesNotCountUntilFinished) {
  const SidecarContents before = MakeContents(1, 100, 30, 1, DatasetKind::kSet);
  const SidecarContents after = MakeContents(2, 110, 40, 1, DatasetKind::kSet, 2);
  auto sidecar = Create(before);
  ASSERT_OK(sidecar->Prepare(after));
  EXPECT_EQ(fs_.At(kPath).durable, File()) << "prepared means durable";
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_TRUE(Same((*loaded)->contents(), before));
  EXPECT_TRUE(Whole(**loaded));
  EXPECT_EQ((*loaded)->prepared_generation(), 2u);
  loaded = Load(OpenMode::kRead, /*prepared=*/true);
  ASSERT_OK(loaded);
  EXPECT_TRUE(Same((*loaded)->contents(), after));
  ASSERT_OK(sidecar->FinishPrepared());
  loaded = Load();
  ASSERT_OK(loaded);
  ExpectSame((*loaded)->contents(), after);
  EXPECT_EQ((*loaded)->prepared_generation(), 0u);
  EXPECT_TRUE((*loaded)->damage().empty());
  EXPECT_CODE(sidecar->FinishPrepared(), Code::kInternal);
}

TEST_F(SidecarTest, AnAbandonedPreparationCanBeReplaced) {
  const SidecarContents before = MakeContents(1, 100, 30, 1, DatasetKind::kSet);
  auto sidecar = Create(before);
  ASSERT_OK(sidecar->Prepare(MakeContents(2, 110, 40, 1, DatasetKind::kSet, 2)));
  sidecar.reset();
  auto loaded = Load(OpenMode::kReadWrite);
  ASSERT_OK(loaded);
  const SidecarContents again = MakeContents(3, 90, 20, 1, DatasetKind::kSet, 2);
  ASSERT_OK((*loaded)->Prepare(again));
  ASSERT_OK((*loaded)->FinishPrepared());
  loaded = Load();
  ASSERT_OK(loaded);
  ExpectSame((*loaded)->contents(), again);
}

// ------------------------------------------------------------------------------------------------------------- crashes

TEST_F(SidecarTest, ACommitInPlaceIsAllOrNothingWhereverItStops) {
  for (std::uint32_t parity : {1u, 2u}) {
    const SidecarContents before = MakeContents(1, 300, 100, parity);
    // A level less than before: places of other sizes.
    const SidecarContents after = MakeContents(2, 170, 120, parity, DatasetKind::kShared, 2);
    Create(before);
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return sidecar->WriteAll(after);
        },
        [&](bool done) {
          auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Whole(**loaded));
          const bool is_new = Same((*loaded)->contents(), after);
          EXPECT_TRUE(is_new || Same((*loaded)->contents(), before));
          if (done) {
            EXPECT_TRUE(is_new);
          }
          // And it goes on from there.
          loaded = Load(OpenMode::kReadWrite);
          ASSERT_OK(loaded);
          const SidecarContents next = MakeContents(3, 280, 110, parity, DatasetKind::kShared, 3);
          ASSERT_OK((*loaded)->WriteAll(next));
          loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Same((*loaded)->contents(), next));
          EXPECT_TRUE((*loaded)->damage().empty());
        });
  }
}

TEST_F(SidecarTest, ATwoPhaseCommitIsAllOrNothingWhereverItStops) {
  const SidecarContents before = MakeContents(1, 300, 100, 1, DatasetKind::kSet);
  const SidecarContents after = MakeContents(2, 170, 120, 1, DatasetKind::kSet, 2);
  Create(before);
  bool prepared = false;
  AtEveryCrash(
      fs_,
      [&]() -> Status {
        prepared = false;
        LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
        LZY_RETURN_IF_ERROR(sidecar->Prepare(after));
        prepared = true;
        return sidecar->FinishPrepared();
      },
      [&](bool done) {
        auto loaded = Load();
        if (!loaded.ok()) {
          // The one page that makes it count was torn. The member has it prepared, for when another has it committed.
          EXPECT_TRUE(prepared && !done) << loaded.status().message();
          loaded = Load(OpenMode::kRead, /*prepared=*/true);
          ASSERT_OK(loaded);
          EXPECT_TRUE(Same((*loaded)->contents(), after));
          EXPECT_TRUE(Whole(**loaded));
          return;
        }
        EXPECT_TRUE(Whole(**loaded));
        const bool is_new = Same((*loaded)->contents(), after);
        EXPECT_TRUE(is_new || Same((*loaded)->contents(), before));
        if (done) {
          EXPECT_TRUE(is_new);
        }
        if (!prepared) {
          EXPECT_FALSE(is_new) << "nobody may have it before all have it prepared";
        }
        if (prepared && !is_new) {
          // Another member may have it committed by now, so here it must be to be had.
          EXPECT_EQ((*loaded)->prepared_generation(), 2u);
          auto rolled = Load(OpenMode::kRead, /*prepared=*/true);
          ASSERT_OK(rolled);
          EXPECT_TRUE(Same((*rolled)->contents(), after));
          EXPECT_TRUE(Whole(**rolled));
        }
      });
}

// A write that fails (once, or from then on) is another matter than a crash: the caller goes on, relying on the generation
// before and on its intent.
TEST_F(SidecarTest, AFailedCommitLeavesTheGenerationBeforeAndItsIntent) {
  for (const auto kind : {DatasetKind::kShared, DatasetKind::kSet}) {
    for (const bool once : {true, false}) {
      const SidecarContents before = MakeContents(1, 300, 100, 1, kind);
      const SidecarContents after = MakeContents(2, 170, 120, 1, kind, 2);
      ASSERT_OK(Create(before)->SetIntent(NewIntent(kIntentWholeFile)));
      const auto start = fs_.Copy();
      for (std::uint64_t fails = 0;; ++fails) {
        SCOPED_TRACE(std::to_string(fails) + (once ? " once" : " for good"));
        ASSERT_LT(fails, 100u);
        fs_.Restore(start);
        auto sidecar = Load(OpenMode::kReadWrite);
        ASSERT_OK(sidecar);
        std::uint64_t used = 0;
        bool first_page_unsynced = false;
        fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t offset, std::uint64_t) {
          if (op == MemoryFileSystem::Op::kRead) return Status::Ok();
          const bool failing = once ? used == fails : used >= fails;
          ++used;
          if (op == MemoryFileSystem::Op::kWrite && offset == 0) first_page_unsynced = true;
          if (op == MemoryFileSystem::Op::kSync && !failing) first_page_unsynced = false;
          return failing ? Status(Code::kIo, path + ": failed") : Status::Ok();
        };
        const bool failed = !(*sidecar)->WriteAll(after).ok();
        fs_.fault = nullptr;
        auto loaded = Load();
        ASSERT_OK(loaded);
        EXPECT_TRUE(Whole(**loaded));
        const bool is_new = Same((*loaded)->contents(), after);
        if (failed && once) {
          EXPECT_FALSE(is_new);
          EXPECT_FALSE(first_page_unsynced) << "which generation counts is decided for good";
        }
        if (!failed) {
          EXPECT_TRUE(is_new);
        }
        EXPECT_EQ((*loaded)->intent().has_value(), !is_new);
        EXPECT_TRUE(is_new || Same((*loaded)->contents(), before));
        // What is left is as good a start as any, on the same object (unless it was told of failure) and on a fresh one.
        if (!failed) {
          ASSERT_OK((*sidecar)->WriteAll(MakeContents(4, 200, 90, 1, kind, 3)));
        }
        loaded = Load(OpenMode::kReadWrite);
        ASSERT_OK(loaded);
        const SidecarContents next = MakeContents(3, 280, 110, 1, kind, 4);
        ASSERT_OK((*loaded)->WriteAll(next));
        loaded = Load();
        ASSERT_OK(loaded);
        EXPECT_TRUE(Same((*loaded)->contents(), next));
        EXPECT_TRUE((*loaded)->damage().empty());
        if (used <= fails || HasFailure()) break;
      }
    }
  }
}

// A commit that stops just after it began to count leaves copy 0 with copy 1's metadata: the next one must not begin by
// overwriting these.
TEST_F(SidecarTest, ACommitAfterABrokenOneIsAllOrNothingToo) {
  const SidecarContents first = MakeContents(1, 300, 100, 1);
  const SidecarContents second = MakeContents(2, 170, 120, 1, DatasetKind::kShared, 2);
  const SidecarContents third = MakeContents(3, 280, 110, 1, DatasetKind::kShared, 3);
  Create(first);
  const auto start = fs_.Copy();
  for (std::uint64_t stop = 0; !HasFailure(); ++stop) {
    SCOPED_TRACE(stop);
    fs_.Restore(start);
    std::uint64_t used = 0;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      return op == MemoryFileSystem::Op::kRead || used++ < stop ? Status::Ok() : Status(Code::kIo, path + ": crashed");
    };
    {
      auto sidecar = Load(OpenMode::kReadWrite);
      (void)(*sidecar)->WriteAll(second).ok();
    }
    fs_.fault = nullptr;
    auto left = Load();
    ASSERT_OK(left);
    const SidecarContents middle = (*left)->contents();
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return sidecar->WriteAll(third);
        },
        [&](bool) {
          auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Whole(**loaded));
          EXPECT_TRUE(Same((*loaded)->contents(), third) || Same((*loaded)->contents(), middle));
        });
    if (used <= stop) break;
  }
}

// What was prepared may have fewer levels than what is in copy 0.
TEST_F(SidecarTest, APreparedGenerationOfAnotherShapeIsCompleted) {
  for (const auto& [blocks, more] : {std::pair<std::uint64_t, std::uint64_t>{300, 170}, {170, 300}}) {
    Create(MakeContents(1, blocks, blocks / 3, 1, DatasetKind::kSet));
    const SidecarContents after = MakeContents(2, more, more / 3, 1, DatasetKind::kSet, 2);
    {
      auto sidecar = Load(OpenMode::kReadWrite);
      ASSERT_OK(sidecar);
      if (!(*sidecar)->Fits(after)) continue;
      ASSERT_OK((*sidecar)->Prepare(after));
    }
    auto loaded = Load(OpenMode::kReadWrite, /*prepared=*/true);
    ASSERT_OK(loaded);
    ASSERT_OK((*loaded)->CompletePrepared());
    loaded = Load();
    ASSERT_OK(loaded);
    ExpectSame((*loaded)->contents(), after);
    EXPECT_TRUE((*loaded)->damage().empty());
  }
}

TEST_F(SidecarTest, HealingIsSafeWhereverItStops) {
  const SidecarContents contents = MakeContents(1, 300, 100, 1);
  Create(contents);
  const std::uint64_t spacing = (*Load())->contents().superblock.spacing;
  for (std::uint32_t lost : {0u, 1u}) {
    Create(contents);
    std::fill_n(File().begin() + static_cast<std::ptrdiff_t>(lost * spacing), spacing, std::uint8_t{0});
    fs_.At(kPath).durable = File();
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return sidecar->WriteAll(sidecar->contents());
        },
        [&](bool) {
          auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Whole(**loaded));
          EXPECT_TRUE(Same((*loaded)->contents(), contents));
        });
  }
}

TEST_F(SidecarTest, OneCopyIsOldTheOthersAreNew) {
  const SidecarContents before = MakeContents(1, 300, 100, 2);
  const SidecarContents after = MakeContents(2, 300, 100, 2, DatasetKind::kShared, 2);
  auto sidecar = Create(before);
  const Bytes old = File();
  ASSERT_OK(sidecar->WriteAll(after));
  const Bytes now = File();
  const std::uint64_t spacing = sidecar->contents().superblock.spacing;
  for (std::uint32_t mix = 0; mix < 8; ++mix) {
    for (std::uint32_t c = 0; c < 3; ++c) {
      const Bytes& from = (mix >> c & 1) != 0 ? now : old;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(c * spacing), spacing,
                  File().begin() + static_cast<std::ptrdiff_t>(c * spacing));
    }
    auto loaded = Load();
    ASSERT_OK(loaded);
    EXPECT_TRUE(Same((*loaded)->contents(), mix == 0 ? before : after))
        << "the newest counts; copies that are new: " << mix;
    EXPECT_EQ((*loaded)->damage().empty(), mix == 0 || mix == 7);
  }
}

// -------------------------------------------------------------------------------------------------------------- intent

TEST_F(SidecarTest, IntentIsSetDurablyAndTakenBack) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  const std::vector<ByteRange> ranges = {{0, 512}, {4096, 1}};
  ASSERT_OK(sidecar->SetIntent(NewIntent(0, ranges)));
  EXPECT_EQ(fs_.At(kPath).durable, File());
  auto loaded = Load();
  ASSERT_OK(loaded);
  ASSERT_TRUE((*loaded)->intent());
  EXPECT_EQ((*loaded)->intent()->ranges, ranges);
  EXPECT_EQ((*loaded)->intent()->flags, 0u);
  EXPECT_TRUE((*loaded)->damage().empty());
  loaded = Load(OpenMode::kReadWrite);
  ASSERT_OK((*loaded)->ClearIntent());
  EXPECT_EQ(fs_.At(kPath).durable, File());
  loaded = Load();
  EXPECT_FALSE((*loaded)->intent());
  EXPECT_TRUE((*loaded)->damage().empty());
}

TEST_F(SidecarTest, TooManyRangesAreTheWholeFile) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  std::vector<ByteRange> ranges(240, {1, 1});
  ASSERT_OK(sidecar->SetIntent(NewIntent(0, ranges)));
  EXPECT_EQ((*Load())->intent()->ranges.size(), 240u);
  ranges.push_back({5, 5});
  ASSERT_OK(sidecar->SetIntent(NewIntent(0, ranges)));
  EXPECT_EQ((*Load())->intent()->flags, kIntentWholeFile);
}

TEST_F(SidecarTest, ACommitVoidsTheIntent) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  ASSERT_OK(sidecar->WriteAll(MakeContents(2, 30, 10, 1, DatasetKind::kShared, 2)));
  EXPECT_FALSE(sidecar->intent());
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_FALSE((*loaded)->intent());
  EXPECT_TRUE((*loaded)->damage().empty());
}

TEST_F(SidecarTest, OneIntentPageIsEnough) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  const std::size_t at = 2 * 8192;
  for (std::size_t page : {0u, 1u}) {
    Bytes good = File();
    for (std::size_t i = 0; i < 4096; ++i) File()[at + page * 4096 + i] ^= 0xa5;
    auto loaded = Load();
    ASSERT_OK(loaded);
    EXPECT_TRUE((*loaded)->intent()) << "page " << page << " torn";
    File() = good;
  }
}

TEST_F(SidecarTest, AnIntentThatWasReturnedAsSetSurvivesPowerLoss) {
  Create(MakeContents(1, 30, 10, 1));
  AtEveryCrash(
      fs_,
      [&]() -> Status {
        LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
        return sidecar->SetIntent(NewIntent(kIntentWholeFile));
      },
      [&](bool done) {
        auto loaded = Load();
        ASSERT_OK(loaded);
        if (done) {
          EXPECT_TRUE((*loaded)->intent());
        }
        EXPECT_TRUE(Same((*loaded)->contents(), MakeContents(1, 30, 10, 1)));
      });
}

TEST_F(SidecarTest, IntentOfAnotherGenerationOrDatasetIsVoid) {
  auto sidecar = Create(MakeContents(1, 30, 10, 1));
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  const Intent set = *(*Load())->intent();
  for (int which = 0; which < 2; ++which) {
    Intent other = set;
    if (which == 0) other.generation += 1;
    if (which == 1) other.uuid[3] ^= 1;
    for (std::uint32_t page = 0; page < 2; ++page) {
      const auto bytes = EncodeIntent(other, page);
      std::copy(bytes.begin(), bytes.end(), File().begin() + 2 * 8192 + page * 4096);
    }
    EXPECT_FALSE((*Load())->intent());
  }
}

TEST_F(SidecarTest, NeverCommittedHoldsOnlyItsIntent) {
  SidecarContents empty;
  empty.superblock.state = SidecarState::kNeverCommitted;
  empty.superblock.generation = 0;
  empty.superblock.block_size = kBlock;
  empty.superblock.unit = kBlock;
  empty.superblock.members = empty.superblock.largest_group = 1;
  empty.info.name = "f";
  auto sidecar = Create(empty);
  EXPECT_FALSE(sidecar->committed());
  ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_FALSE((*loaded)->committed());
  EXPECT_TRUE((*loaded)->intent());
  EXPECT_FALSE((*loaded)->Fits(MakeContents(1, 1, 0, 0)));
}

TEST_F(SidecarTest, FullDiskLeavesTheCommittedStateAlone) {
  const SidecarContents before = MakeContents(1, 300, 100, 1);
  Create(before);
  fs_.fault = [](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    return op == MemoryFileSystem::Op::kWrite ? Status(Code::kIo, path + ": No space left on device") : Status::Ok();
  };
  auto loaded = Load(OpenMode::kReadWrite);
  ASSERT_OK(loaded);
  EXPECT_CODE((*loaded)->WriteAll(MakeContents(2, 300, 100, 1, DatasetKind::kShared, 2)), Code::kIo);
  EXPECT_CODE((*loaded)->SetIntent(NewIntent(kIntentWholeFile)), Code::kIo);
  fs_.fault = nullptr;
  loaded = Load();
  ASSERT_OK(loaded);
  ExpectSame((*loaded)->contents(), before);
}

// --------------------------------------------------------------------------------------------------------------- seals

std::shared_ptr<const LeafKey> KeyOf(std::uint8_t byte) {
  return *LeafKey::Make(Bytes(32, byte));
}

TEST_F(SidecarTest, ASealedOneIsOpenedByItsKeyAlone) {
  SidecarContents contents = MakeContents(1, 300, 100);
  contents.key = KeyOf(1);
  Create(contents);
  for (const auto kind : {0, 1, 2}) {
    auto loaded = Load(OpenMode::kReadWrite);
    ASSERT_OK(loaded);
    EXPECT_TRUE((*loaded)->contents().superblock.sealed());
    EXPECT_EQ((*loaded)->contents().superblock.key_id, contents.key->id());
    if (kind == 0) {
      EXPECT_CODE((*loaded)->Unseal(nullptr), Code::kInvalidArgument);
    } else if (kind == 1) {
      EXPECT_CODE((*loaded)->Unseal(KeyOf(2)), Code::kInvalidArgument);
    } else {
      EXPECT_OK((*loaded)->Unseal(KeyOf(1)));
    }
    // What is written again is sealed again, or not written at all.
    SidecarContents next = (*loaded)->contents();
    next.superblock.stamp.mtime_ns += kind;
    EXPECT_EQ((*loaded)->WriteAll(next).ok(), kind == 2);
  }
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_EQ((*loaded)->contents().superblock.stamp.mtime_ns, contents.superblock.stamp.mtime_ns + 2);
  EXPECT_OK((*loaded)->Unseal(KeyOf(1)));
}

TEST_F(SidecarTest, OneWithoutASealIsNotOpenedByAKey) {
  Create(MakeContents(1, 300, 100));
  auto loaded = Load();
  ASSERT_OK(loaded);
  EXPECT_CODE((*loaded)->Unseal(KeyOf(1)), Code::kUnprotected);
  EXPECT_OK((*loaded)->Unseal(nullptr));
}

TEST_F(SidecarTest, TwoPhaseCommitsAreSealed) {
  SidecarContents contents = MakeContents(1, 300, 100, 1, DatasetKind::kSet);
  contents.key = KeyOf(1);
  auto sidecar = Create(contents);
  SidecarContents next = MakeContents(2, 300, 100, 1, DatasetKind::kSet, 2);
  next.key = KeyOf(1);
  ASSERT_OK(sidecar->Prepare(next));
  // Both generations have their seal, and whoever completes the commit needs no key for it.
  auto before = Load();
  ASSERT_OK(before);
  EXPECT_EQ((*before)->generation(), 1u);
  EXPECT_OK((*before)->Unseal(KeyOf(1)));
  auto prepared = Load(OpenMode::kReadWrite, /*prepared=*/true);
  ASSERT_OK(prepared);
  EXPECT_EQ((*prepared)->generation(), 2u);
  EXPECT_OK((*prepared)->Unseal(KeyOf(1)));
  prepared = Load(OpenMode::kReadWrite, /*prepared=*/true);
  ASSERT_OK((*prepared)->CompletePrepared());
  auto after = Load();
  ASSERT_OK(after);
  EXPECT_EQ((*after)->generation(), 2u);
  EXPECT_OK((*after)->Unseal(KeyOf(1)));
}

// Every byte of all superblocks, with their hashes made right again; and every byte of info record and leaves, where that gives
// something that is whole.
TEST_F(SidecarTest, WhatIsSealedCannotBeChanged) {
  SidecarContents contents = MakeContents(1, 3, 2);
  contents.key = KeyOf(1);
  Create(contents);
  const Bytes whole = File();
  const auto first = DecodeSuperblock(whole, 0);
  ASSERT_OK(first);
  const auto sealed = SealedPartOf(*first);
  int refused = 0;
  for (std::size_t field = 0; field < 4080; ++field) {
    File() = whole;
    for (std::uint32_t c = 0; c < first->copies; ++c) {
      const std::uint64_t at = c * first->spacing;
      Reseal(at, c, field, {static_cast<std::uint8_t>(whole[at + field] ^ 0x01)});
    }
    auto loaded = Load();
    if (!loaded.ok()) continue;
    if (!(*loaded)->Unseal(KeyOf(1)).ok()) {
      ++refused;
      continue;
    }
    EXPECT_EQ(SealedPartOf((*loaded)->contents().superblock), sealed) << "byte " << field;
    ExpectSame((*loaded)->contents(), contents);
  }
  EXPECT_GT(refused, 100);
}

TEST_F(SidecarTest, LeavesAndInfoAreSealed) {
  SidecarContents contents = MakeContents(1, 300, 100);
  contents.key = KeyOf(1);
  Create(contents);
  const Seal seal = (*Load())->contents().superblock.seal;
  for (const int what : {0, 1, 2}) {
    SidecarContents forged = contents;
    std::vector<Hash> leaves = (what == 0 ? contents.data_tree : contents.parity_tree).levels()[0];
    std::swap(leaves[7], leaves[8]);
    if (what == 0) forged.data_tree = Tree::Build(TreeKind::kData, leaves, contents.data_tree.bytes());
    if (what == 1) forged.parity_tree = Tree::Build(TreeKind::kParity, leaves, contents.parity_tree.bytes());
    if (what == 2) forged.info.members[0].mode ^= 0111;
    forged.key = KeyOf(2);
    Create(forged);
    const std::uint32_t copies = (*Load())->contents().superblock.copies;
    const std::uint64_t spacing = (*Load())->contents().superblock.spacing;
    for (std::uint32_t c = 0; c < copies; ++c) {
      Reseal(c * spacing, c, 3864, Bytes(contents.key->id().begin(), contents.key->id().end()));
      Reseal(c * spacing, c, 3880, Bytes(seal.begin(), seal.end()));
    }
    auto loaded = Load();
    ASSERT_OK(loaded);
    EXPECT_TRUE((*loaded)->damage().empty());
    EXPECT_CODE((*loaded)->Unseal(KeyOf(1)), Code::kCorrupt) << what;
  }
}

// -------------------------------------------------------------------------------------------------------------- pieces

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

}  // namespace
}  // namespace lzy
