// Sidecars that no release of lzy wrote, but whose hashes are right: other versions, impossible fields, hostile names.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

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

TEST_F(SidecarTest, NamesThatLeadOutOfTheDirectoryAreRefused) {
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

}  // namespace
}  // namespace lzy::testing
