// The compact form of sidecars (docs/format.md §14): where its parts are, and what damage, crashes and a full disk
// leave of it. Files are in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "base/numbers.h"
#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

struct Shape {
  std::uint64_t size = 5;         ///< of the data file
  std::uint64_t parity_size = 5;  ///< of the parity region
  std::uint32_t parity = 1;
  std::uint32_t block = 4096;
  std::uint32_t devices = 8;
  bool wish = true;
  std::size_t name = 1;  ///< bytes
};

SidecarContents ContentsOf(const Shape& shape) {
  SidecarContents contents;
  Superblock& sb = contents.superblock;
  sb.compact = shape.wish;
  sb.uuid = {9, 8, 7};
  sb.generation = 1;
  sb.block_size = shape.block;
  sb.unit = shape.block;
  sb.parity = shape.parity;
  sb.members = sb.largest_group = shape.devices;
  sb.stamp = {shape.size, 77, 11, 12, 13};
  sb.parity_size = shape.parity_size;
  sb.parity_stride = std::min<std::uint64_t>(shape.block, std::max<std::uint64_t>(1, shape.size));
  contents.info.name = std::string(shape.name, 'f');
  contents.info.groups.resize(1);
  for (std::uint32_t d = 0; d < shape.devices; ++d) contents.info.groups[0].push_back(d);
  contents.info.members.push_back({0, 0640, 1, 2, 77, shape.size, {}, shape.parity_size, {}, ""});
  contents.info.path.leaf_count = 1;
  std::mt19937_64 rng(1);
  const auto leaves = [&](std::uint64_t bytes) { return AnyLeaves(rng, CeilDiv(bytes, shape.block)); };
  contents.data_tree = Tree::Build(TreeKind::kData, leaves(shape.size), shape.size);
  contents.parity_tree = Tree::Build(TreeKind::kParity, leaves(shape.parity_size), shape.parity_size);
  return contents;
}

class CompactTest : public SidecarTest {
 protected:
  /// With parity of bytes 0xa0, as if encoding had put it there.
  std::unique_ptr<Sidecar> Create(const Shape& shape = {}) {
    const SidecarContents contents = ContentsOf(shape);
    auto like = fs_.Open("d/f", OpenMode::kRead);
    auto sidecar = Sidecar::Create(fs_, kPath, contents, **like);
    EXPECT_OK(sidecar);
    if (shape.parity_size > 0) {
      EXPECT_OK((*sidecar)->file().WriteAt((*sidecar)->ParityFileOffset(0), Bytes(shape.parity_size, 0xa0)));
    }
    EXPECT_OK((*sidecar)->WriteAll(contents));
    return std::move(*sidecar);
  }
  Superblock Loaded() { return (*Load())->contents().superblock; }
  void Fill(std::uint64_t at, std::uint64_t length, std::uint8_t byte) {
    std::fill_n(File().begin() + static_cast<std::ptrdiff_t>(at), length, byte);
  }
  void ResealBoth(std::size_t field, const Bytes& value) {
    constexpr std::size_t kHashed = kCompactSuperblockSize - sizeof(Hash);
    const std::uint64_t second = Loaded().PlaceOf(1);
    Reseal(second, 1, field, value, kHashed);
    Reseal(0, 0, field, value, kHashed);
  }
};

std::uint64_t Pages(std::uint64_t bytes) {
  return CeilDiv(bytes, 4096);
}

// What the form is for: one page beyond the parity, and no page that two copies share.
TEST_F(CompactTest, MetadataTakeOnePageBeyondTheParity) {
  for (std::uint64_t parity = 0; parity <= 70'000; parity += parity < 5000 ? 97 : 997) {
    SCOPED_TRACE(parity);
    Create({std::max<std::uint64_t>(1, std::min<std::uint64_t>(parity, 65536)), parity, parity == 0 ? 0u : 1u});
    ASSERT_TRUE(Loaded().compact);
    EXPECT_EQ(Pages(File().size()), std::max<std::uint64_t>(2, Pages(parity) + 1));
    EXPECT_EQ(File().size() % 4096, 0u);
  }
}

TEST_F(CompactTest, NoTwoCopiesShareAPage) {
  for (const std::uint32_t parity : {1u, 2u, 3u, 7u}) {
    for (const std::uint64_t size : std::initializer_list<std::uint64_t>{5, 2049, 4096, 60'000}) {
      SCOPED_TRACE(std::to_string(parity) + " " + std::to_string(size));
      Create({size, size * parity, parity, 65536});
      const Superblock sb = Loaded();
      ASSERT_TRUE(sb.compact);
      std::set<std::uint64_t> pages;
      for (std::uint32_t c = 0; c < sb.copies; ++c) {
        const auto copy = DecodeSuperblock(ByteSpan(File()).subspan(sb.PlaceOf(c)), c);
        ASSERT_OK(copy);
        std::uint64_t end = sb.PlaceOf(c) + sb.bytes();
        for (const Extent& e : copy->extents) {
          if (e.kind != ExtentKind::kIntent && e.kind != ExtentKind::kParity) end = std::max(end, e.offset + e.length);
          if (e.kind == ExtentKind::kParity && parity > 1) {
            EXPECT_EQ(e.offset % 4096, 0u);
          }
        }
        for (std::uint64_t page = sb.PlaceOf(c) / 4096; page <= (end - 1) / 4096; ++page) {
          EXPECT_TRUE(pages.insert(page).second) << "page " << page;
        }
      }
    }
  }
}

TEST_F(CompactTest, OnlySmallFilesHaveIt) {
  const auto compact = [&](const Shape& shape) { return Create(shape), Loaded().compact; };
  EXPECT_TRUE(compact({65536, 65536, 1, 65536}));
  EXPECT_FALSE(compact({65537, 65536, 1, 65536})) << "the file is too large";
  EXPECT_FALSE(compact({5, 5, 1, 4096, 8, false})) << "nobody wishes it";
  EXPECT_TRUE(compact({40'000, 6000, 1, 512})) << "a copy needs a whole page";
  EXPECT_FALSE(compact({65536, 65536, 1, 512})) << "the hashes do not fit";
  EXPECT_TRUE(compact({5, 5, 1, 4096, 255}));
  EXPECT_FALSE(compact({5, 5, 1, 4096, 8, true, 3000})) << "the info record does not fit";
  EXPECT_FALSE(compact({65536, 65536 * 20, 20, 65536, 30})) << "the parity is too large";
}

TEST_F(CompactTest, BytesAreWhereTheDocumentSays) {
  Create({4096, 4096});
  const Bytes& file = File();
  ASSERT_EQ(file.size(), 8192u);
  for (const std::uint64_t at : {0u, 6144u}) {
    EXPECT_EQ(LoadLe<std::uint16_t>(&file[at + 12]), 2u);
    EXPECT_EQ(LoadLe<std::uint64_t>(&file[at + 32]), 4u);
    EXPECT_EQ(LoadLe<std::uint64_t>(&file[at + 72]), 6144u);
    EXPECT_EQ(LoadLe<std::uint64_t>(&file[at + 840]), 13u) << "time of birth";
    const Hash hash = HashBytes(HashTag::kSuperblock, at == 0 ? 0 : 1, ByteSpan(file).subspan(at, 1008));
    EXPECT_TRUE(std::ranges::equal(hash.bytes, ByteSpan(file).subspan(at + 1008, sizeof(Hash))));
  }
  EXPECT_TRUE(std::all_of(file.begin() + 2048, file.begin() + 6144, [](auto b) { return b == 0xa0; }));
}

TEST_F(CompactTest, AnyByteMayChangeAndAnyPageBeLost) {
  for (const Shape& shape : {Shape{}, Shape{4096, 4096}, Shape{60'000, 24'000, 2}}) {
    const SidecarContents contents = ContentsOf(shape);
    Create(shape);
    const Bytes good = File();
    for (std::size_t at = 0; at < good.size(); at += at % 2048 < 1500 ? 1 : 37) {
      File()[at] ^= 0x10;
      const auto loaded = Load();
      ASSERT_TRUE(loaded.ok() && Same((*loaded)->contents(), contents)) << "byte " << at;
      File()[at] ^= 0x10;
    }
    for (std::size_t page = 0; page < good.size(); page += 4096) {
      Fill(page, 4096, 0x5a);
      auto loaded = Load(OpenMode::kReadWrite);
      ASSERT_OK(loaded);
      EXPECT_TRUE(Same((*loaded)->contents(), contents)) << "page " << page;
      // Repair brings back the copy, byte for byte. Parity is not its concern.
      ASSERT_OK((*loaded)->WriteAll((*loaded)->contents()));
      EXPECT_TRUE((*Load())->damage().empty());
      const std::uint64_t parity = (*loaded)->ParityFileOffset(0);
      std::copy_n(good.begin() + static_cast<std::ptrdiff_t>(parity), shape.parity_size,
                  File().begin() + static_cast<std::ptrdiff_t>(parity));
      // What lies between the parts means nothing.
      for (std::size_t at = 0; at < good.size(); ++at) {
        if (File()[at] == 0x5a && good[at] == 0) File()[at] = 0;
      }
      EXPECT_TRUE(File() == good) << "page " << page;
      File() = good;
    }
  }
}

TEST_F(CompactTest, TruncationAtEveryLength) {
  const Shape shape{60'000, 20'000};
  const SidecarContents contents = ContentsOf(shape);
  Create(shape);
  const Bytes good = File();
  std::size_t loads = 0;
  for (std::size_t length = 0; length < good.size(); length += 61) {
    File() = Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
    const auto loaded = Load();
    if (!loaded.ok()) continue;
    EXPECT_TRUE(Same((*loaded)->contents(), contents) || !(*loaded)->knows_all_leaves()) << length;
    ++loads;
  }
  EXPECT_GT(loads, 300u);
}

// A superblock of another sidecar may lie in the parity. It counts for nothing, not even if copy 0 is lost.
TEST_F(CompactTest, SuperblocksInTheParityAreNotTaken) {
  Create({4096, 4096});
  const Bytes other = File();
  const Shape shape{12'288, 12'288, 1, 4096, 7};
  const SidecarContents contents = ContentsOf(shape);
  Create(shape);
  for (std::uint64_t at = 0; at + other.size() <= shape.parity_size; at += 2048) {
    std::copy(other.begin(), other.end(), File().begin() + static_cast<std::ptrdiff_t>(2048 + at));
    Fill(0, 1024, 0);
    const auto loaded = Load();
    ASSERT_OK(loaded);
    EXPECT_TRUE(Same((*loaded)->contents(), contents)) << at;
    Create(shape);
  }
}

TEST_F(CompactTest, NoCommitGoesInPlace) {
  auto sidecar = Create({4096, 4096});
  const Bytes good = File();
  SidecarContents next = ContentsOf({4096, 4096});
  EXPECT_FALSE(sidecar->Fits(next));
  ++next.superblock.generation;
  EXPECT_CODE(sidecar->WriteAll(next), Code::kInternal);
  EXPECT_CODE(sidecar->Prepare(next), Code::kInternal);
  EXPECT_CODE(sidecar->FinishPrepared(), Code::kInternal);
  EXPECT_TRUE(File() == good);
}

TEST_F(CompactTest, AnIntentIsAppendedAndCutOff) {
  for (const Shape& shape : {Shape{}, Shape{4096, 4096}, Shape{5000, 10'000, 2}, Shape{1, 0, 0}}) {
    auto sidecar = Create(shape);
    const Bytes good = File();
    ASSERT_OK(sidecar->SetIntent(NewIntent(kIntentWholeFile)));
    EXPECT_EQ(File().size(), good.size() + 8192);
    EXPECT_EQ(fs_.At(kPath).durable, File());
    EXPECT_TRUE(std::equal(good.begin(), good.end(), File().begin()));
    ASSERT_TRUE((*Load())->intent());
    for (const std::size_t torn : {0u, 1u}) {
      const Bytes set = File();
      Fill(good.size() + torn * 4096, 2048, 0);
      EXPECT_TRUE((*Load())->intent()) << "page " << torn;
      File() = set;
    }
    // A second one replaces it; repair keeps it.
    ASSERT_OK(sidecar->SetIntent(NewIntent(0, {{0, 1}})));
    ASSERT_OK(sidecar->WriteAll(sidecar->contents()));
    auto loaded = Load(OpenMode::kReadWrite);
    ASSERT_TRUE((*loaded)->intent());
    EXPECT_EQ((*loaded)->intent()->ranges, (std::vector<ByteRange>{{0, 1}}));
    ASSERT_OK((*loaded)->ClearIntent());
    EXPECT_TRUE(File() == good);
    EXPECT_EQ(fs_.At(kPath).durable, File());
    EXPECT_FALSE((*Load())->intent());
  }
}

TEST_F(CompactTest, AnIntentThatWasReturnedAsSetSurvivesPowerLoss) {
  Create({4096, 4096});
  ExpectIntentsSurvivePowerLoss(ContentsOf({4096, 4096}));
}

TEST_F(CompactTest, ClearingAnIntentIsSafeWhereverItStops) {
  Create({4096, 4096});
  ASSERT_OK((*Load(OpenMode::kReadWrite))->SetIntent(NewIntent(kIntentWholeFile)));
  AtEveryCrash(
      fs_,
      [&]() -> Status {
        LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
        return sidecar->ClearIntent();
      },
      [&](bool done) {
        const auto loaded = Load();
        ASSERT_OK(loaded);
        EXPECT_TRUE(!done || !(*loaded)->intent());
        EXPECT_TRUE(Same((*loaded)->contents(), ContentsOf({4096, 4096})));
        // A torn page is void.
        for (const MetadataDamage& damage : (*loaded)->damage()) EXPECT_EQ(damage.what, "intent page");
      });
}

TEST_F(CompactTest, RepairIsSafeWhereverItStops) {
  for (const std::uint32_t parity : {1u, 2u}) {
    const Shape shape{4096, 4096u * parity, parity};
    const SidecarContents contents = ContentsOf(shape);
    for (std::uint32_t lost = 0; lost <= parity; ++lost) {
      Create(shape);
      Fill(Loaded().PlaceOf(lost), 1500, 0);
      fs_.At(kPath).durable = File();
      RepairAtEveryCrash(contents, [&](const Sidecar& left, bool done) {
        EXPECT_TRUE(!done || left.damage().empty());
        // Parity in the same page keeps its bytes.
        const ByteSpan kept = ByteSpan(File()).subspan(left.ParityFileOffset(0), shape.parity_size);
        EXPECT_TRUE(std::ranges::all_of(kept, [](auto b) { return b == 0xa0; }));
      });
    }
  }
}

TEST_F(CompactTest, AFullDiskLeavesItAsItWas) {
  Create({4096, 4096});
  const Bytes good = File();
  for (int pages = 0; pages < 2; ++pages) {  // none, or one of the two
    int written = 0;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
      const bool full = op == MemoryFileSystem::Op::kWrite && written++ == pages;
      return full ? Status(Code::kIo, path + ": No space left on device") : Status::Ok();
    };
    EXPECT_CODE((*Load(OpenMode::kReadWrite))->SetIntent(NewIntent(kIntentWholeFile)), Code::kIo);
    fs_.fault = nullptr;
    EXPECT_TRUE(File() == good) << pages;
    EXPECT_FALSE((*Load())->intent());
  }
}

TEST_F(CompactTest, NewerVersionsAreRefusedAsSuch) {
  const std::vector<std::pair<std::size_t, Bytes>> newer = {
      {8, {0x01, 0x02, 0x03, 0x04}}, {12, {3, 0}}, {12, {0xff, 0xff}}, {32, {12}}, {39, {0x80}}};
  for (const auto& [field, value] : newer) {
    Create();
    ResealBoth(field, value);
    EXPECT_CODE(Load(), Code::kNewerFormat) << "field " << field;
  }
}

TEST_F(CompactTest, ImpossibleFieldsAreRefusedWhateverTheirHash) {
  const std::vector<std::pair<std::size_t, Bytes>> impossible = {
      {12, {1, 0}},                            // of the ordinary form
      {72, {0, 8, 0, 0}},                      // copy 1 in the page of copy 0
      {72, {0, 0x11, 0, 0}},                   // no multiple of 2048
      {72, {0, 8, 0x10, 0}},                   // too far away
      {80, {2, 0, 0, 0}}, {80, {3, 0, 0, 0}},  // prepared, never committed
      {88, {3, 0, 0, 0}},                      // striped
      {256, {14, 0, 0, 0}},                    // extents
      {400, {0, 0x22, 0, 0}},                  // intent pages not at a page
      {400, {0, 0x18, 0, 0}},                  // in a gap, and not last
  };
  for (const auto& [field, value] : impossible) {
    Create();
    ResealBoth(field, value);
    EXPECT_FALSE(Load().ok()) << "field " << field;
  }
}

// So a sealed dataset stays sealed when its file outgrows the form, and a forger gains nothing by changing it.
TEST_F(CompactTest, TheSealDoesNotDependOnTheForm) {
  Superblock sb = ContentsOf({}).superblock;
  sb.key_id = {1, 2, 3};
  sb.compact = false;
  const auto ordinary = SealedPartOf(sb);
  sb.compact = true;
  sb.spacing = 6144;
  EXPECT_EQ(SealedPartOf(sb), ordinary);
  ++sb.generation;
  EXPECT_NE(SealedPartOf(sb), ordinary);
}

}  // namespace
}  // namespace lzy::testing
