// Damaged sidecars: flipped bytes, truncation, lost copies; and what repair makes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

TEST_F(SidecarTest, AnyOneFlippedByteIsTolerated) {
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

TEST_F(SidecarTest, SeveralFlippedBytesCostAtMostUnknownLeaves) {
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

TEST_F(SidecarTest, BytesThatAreNoSidecarAreUnprotected) {
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

TEST_F(SidecarTest, TwoDamagedCopiesTogetherAreWhole) {
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

TEST_F(SidecarTest, TheNewestCopyCounts) {
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

TEST_F(SidecarTest, RepairRewritesTheDamagedCopy) {
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

}  // namespace
}  // namespace lzy::testing
