// Sidecars of sealed datasets.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "sidecar_fixture.h"

namespace lzy::testing {
namespace {

std::shared_ptr<const LeafKey> KeyOf(std::uint8_t byte) {
  return *LeafKey::Make(Bytes(32, byte));
}

TEST_F(SidecarTest, ASealedSidecarIsOpenedOnlyByItsKey) {
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

TEST_F(SidecarTest, ASidecarWithoutASealIsNotOpenedByAKey) {
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
    std::vector<Hash> leaves = (what == 0 ? contents.data_tree : contents.parity_tree).NodesOf(0);
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

}  // namespace
}  // namespace lzy::testing
