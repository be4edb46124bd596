// Forged sidecars with correct hashes: a user who can write a sidecar can make its hashes match anything.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sys/resource.h>

#include "both_forms.h"
#include "dataset/lock.h"
#include "dataset/view.h"
#include "engine/engine.h"
#include "sidecar/contents.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

constexpr std::uint32_t kBlock = 512;
constexpr std::int64_t kPast = 1'600'000'000'000'000'000;

class ForgedTest : public ::testing::TestWithParam<bool> {
 protected:
  ForgedTest() {
    options_.block_size = kBlock;
    options_.stripe = kBlock;
    options_.group = 4;
    options_.parity = 2;
    options_.threads = 1;
    options_.timeout_seconds = 1;
    options_.compact = GetParam();
  }

  /// Protects a shared file, or a set of `members`.
  void Make(std::uint32_t members) {
    fs_.Restore({});
    paths_.clear();
    ref_ = members > 0 ? DatasetRef{DatasetKind::kSet, "d/s.%r", {}} : DatasetRef{DatasetKind::kShared, "d/f", {}};
    for (std::uint32_t r = 0; r < std::max(1u, members); ++r) {
      paths_.push_back(members > 0 ? ExpandPattern(ref_.path, r) : ref_.path);
      fs_.Put(paths_[r], RandomBytes(rng_, 24 * kBlock - 100 * r - 7), kPast + r);
      if (members > 0) ref_.members[r] = paths_[r];
    }
    ASSERT_OK(Protect(Here(), ref_, {}).status);
  }
  Context Here() { return {fs_, *self_, options_}; }
  DatasetReport Check() { return Verify(Here(), ref_, {}); }
  std::string SidecarOf(std::uint32_t rank) { return *SidecarPath(paths_.at(rank)); }
  /// Changes the contents of all copies of a sidecar.
  template <class Lie>
  void Forge(std::uint32_t rank, const Lie& lie) {
    auto sidecar = Sidecar::Load(fs_, SidecarOf(rank), OpenMode::kReadWrite);
    ASSERT_OK(sidecar);
    SidecarContents contents = (*sidecar)->contents();
    lie(contents);
    ASSERT_OK((*sidecar)->WriteAll(contents));
  }
  /// Overwrites a field of all superblocks and corrects their hashes.
  void ForgeField(std::uint32_t rank, std::size_t offset, std::size_t size, std::uint64_t value) {
    Bytes& file = fs_.At(SidecarOf(rank)).bytes;
    const auto sb = DecodeSuperblock(file, 0);
    ASSERT_OK(sb);
    for (std::uint32_t c = 0; c < sb->copies; ++c) {
      std::uint8_t* page = &file[sb->PlaceOf(c)];
      for (std::size_t i = 0; i < size; ++i) page[offset + i] = static_cast<std::uint8_t>(value >> 8 * i);
      const std::size_t hashed = sb->bytes() - sizeof(Hash);
      const Hash hash = HashBytes(HashTag::kSuperblock, c, ByteSpan(page, hashed));
      std::copy(hash.bytes.begin(), hash.bytes.end(), page + hashed);
    }
  }
  /// The set can be repaired, but the sidecar of `rank` counts as damaged metadata. A restore makes it again.
  void ExpectOnlyTheSidecarIsDamaged(std::uint32_t rank) {
    const DatasetReport found = Check();
    ASSERT_OK(found.status);
    EXPECT_EQ(ExitCodeOf(found), 1);
    bool metadata = false;
    for (const Damage& d : found.damage) {
      EXPECT_EQ(d.path, SidecarOf(rank));
      EXPECT_NE(d.part, DamagePart::kData);
      metadata = metadata || d.part == DamagePart::kMetadata;
    }
    EXPECT_TRUE(metadata);
    EXPECT_EQ(ExitCodeOf(Restore(Here(), ref_, {})), 0);
    EXPECT_EQ(ExitCodeOf(Check()), 0);
  }

  Rng rng_{42};
  MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  DatasetRef ref_;
  std::vector<std::string> paths_;
};

TEST_P(ForgedTest, SidecarsAsWrittenAgreeWithThemselves) {
  for (std::uint32_t members : {0u, 1u, 4u, 7u}) {
    if (members == 1) options_.parity = 0;
    Make(members);
    options_.parity = 2;
    for (std::uint32_t r = 0; r < paths_.size(); ++r) {
      auto sidecar = Sidecar::Load(fs_, SidecarOf(r), OpenMode::kRead);
      ASSERT_OK(sidecar);
      EXPECT_OK(CheckContents((*sidecar)->contents()));
    }
  }
}

TEST_P(ForgedTest, AMemberWhosePathDoesNotLeadToTheDatasetRootIsDamaged) {
  Make(4);
  Forge(1, [](SidecarContents& c) { c.superblock.dataset_root.bytes[0] ^= 1; });
  ExpectOnlyTheSidecarIsDamaged(1);
  Make(4);
  Forge(2, [](SidecarContents& c) { c.info.path.pages[1][0].bytes[3] ^= 1; });
  ExpectOnlyTheSidecarIsDamaged(2);
  Make(4);
  Forge(0, [](SidecarContents& c) { c.info.path.pages.pop_back(); });
  ExpectOnlyTheSidecarIsDamaged(0);
}

TEST_P(ForgedTest, AMemberWithAnotherDatasetRootThanMostIsDamaged) {
  for (std::uint32_t rank : {0u, 3u}) {
    Make(4);
    Forge(rank, [](SidecarContents& c) {
      c.info.path.bytes += 1;
      const auto root = Tree::RootFrom(TreeKind::kDataset, c.info.path, c.data_tree.Root());
      c.superblock.dataset_root = DatasetRootOf(c.superblock, *root);
    });
    ExpectOnlyTheSidecarIsDamaged(rank);
  }
}

TEST_P(ForgedTest, AMemberThatTellsOtherwiseAboutItsGroupIsDamaged) {
  Make(4);
  Forge(0, [](SidecarContents& c) { c.info.members[2].data_root.bytes[0] ^= 1; });
  ExpectOnlyTheSidecarIsDamaged(0);
}

TEST_P(ForgedTest, ASharedFileWithoutItsRootHasNoUsableSidecar) {
  Make(0);
  Forge(0, [](SidecarContents& c) { c.superblock.dataset_root.bytes[0] ^= 1; });
  EXPECT_EQ(ExitCodeOf(Check()), 4);
  Make(0);
  Forge(0, [](SidecarContents& c) { c.info.members[0].parity_root.bytes[0] ^= 1; });
  EXPECT_EQ(ExitCodeOf(Check()), 4);
}

TEST_P(ForgedTest, ASidecarThatContradictsItselfIsReplacedByAnEpochLikeRuins) {
  Make(0);
  Forge(0, [](SidecarContents& c) { c.superblock.dataset_root.bytes[0] ^= 1; });
  EXPECT_CODE(LockSidecar(fs_, SidecarOf(0), nullptr, nullptr, 0), Code::kCorrupt);
  const auto begun = BeginEpoch(fs_, options_, paths_[0], "");
  ASSERT_OK(begun);
  EXPECT_FALSE(begun->had_sidecar);
  const auto made = LockSidecar(fs_, SidecarOf(0), nullptr, nullptr, 0);
  ASSERT_OK(made);
  EXPECT_FALSE((*made)->committed());
}

TEST_P(ForgedTest, UnusableSidecarsAreLockedToo) {
  for (const std::uint32_t members : {0u, 4u}) {
    Make(members);
    const std::uint32_t bad = members / 2;
    Forge(bad, [](SidecarContents& c) { c.superblock.dataset_root.bytes[0] ^= 1; });
    {
      const auto view = OpenDataset(Here(), ref_, {.write = true});
      ASSERT_OK(view);
      EXPECT_CODE(LockSidecar(fs_, SidecarOf(bad), nullptr, nullptr, 0), Code::kBusy);
    }
    EXPECT_CODE(LockSidecar(fs_, SidecarOf(bad), nullptr, nullptr, 0), Code::kCorrupt);
  }
  // A sidecar of an older generation is valid, but does not count.
  options_.compact = false;  // for Forge, which commits in place
  Make(4);
  for (const std::uint32_t r : {0u, 1u, 3u}) Forge(r, [](SidecarContents& c) { ++c.superblock.generation; });
  const auto view = OpenDataset(Here(), ref_, {.write = true});
  ASSERT_OK(view);
  EXPECT_CODE(LockSidecar(fs_, SidecarOf(2), nullptr, nullptr, 0), Code::kBusy);
}

TEST_P(ForgedTest, AnyFieldOfASuperblockMayBeForged) {
  std::vector<std::pair<std::size_t, std::size_t>> fields;
  for (std::size_t at = 64; at < 72; at += 4) fields.emplace_back(at, 4);
  for (std::size_t at = 80; at < 96; at += 4) fields.emplace_back(at, 4);
  for (std::size_t at = 104; at < 120; at += 4) fields.emplace_back(at, 4);
  for (std::size_t at : {56u, 72u, 96u, 120u, 128u, 136u, 144u, 152u, 160u, 168u, 176u, 184u, 192u, 208u, 224u, 240u}) {
    fields.emplace_back(at, 8);
  }
  fields.emplace_back(256, 4);
  for (std::size_t extent = 0; extent < 7; ++extent) {
    fields.emplace_back(264 + 40 * extent, 2);
    fields.emplace_back(266 + 40 * extent, 2);
    for (std::size_t at = 8; at < 40; at += 8) fields.emplace_back(264 + 40 * extent + at, 8);
  }
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  for (std::uint32_t members : {0u, 4u}) {
    Make(members);
    const auto start = fs_.Copy();
    for (const auto& [offset, size] : fields) {
      for (const std::uint64_t value :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{255}, std::uint64_t{1} << 20,
            std::uint64_t{1} << 31, std::uint64_t{0xffffffff}, std::uint64_t{1} << 62, std::uint64_t{1} << 63,
            ~std::uint64_t{0}}) {
        SCOPED_TRACE(fmt::format("{} members, offset {}: {}", members, offset, value));
        fs_.Restore(start);
        ForgeField(0, offset, size, value);
        const int found = ExitCodeOf(Check());
        EXPECT_TRUE(found == 0 || found == 1 || found == 2 || found == 4 || found == 6 || found == 9) << found;
        (void)Info(Here(), ref_);
      }
    }
    // All members record the same false facts.
    for (const auto& [offset, size] : fields) {
      for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{1} << 24, ~std::uint64_t{0}}) {
        fs_.Restore(start);
        for (std::uint32_t r = 0; r < paths_.size(); ++r) ForgeField(r, offset, size, value);
        (void)ExitCodeOf(Check());
      }
    }
  }
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what was freed
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB: something believed a count";
#endif
}

INSTANTIATE_TEST_SUITE_P(Of, ForgedTest, ::testing::Bool(), NameOfForm);

}  // namespace
}  // namespace lzy::testing
