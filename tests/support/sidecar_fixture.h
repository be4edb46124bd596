#pragma once
// Sidecars in memory, with random contents, and commits that are stopped at every operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "any_leaves.h"
#include "memory_files.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::uint32_t kBlock = 512;
inline constexpr char kPath[] = "d/.LZY.f";

/// Contents of a sidecar for a file of `blocks` blocks.
inline SidecarContents MakeContents(std::uint64_t seed, std::uint64_t blocks, std::uint64_t parity_blocks,
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
  if (kind == DatasetKind::kSet) contents.info.written_on = {3, {seed % 2 == 0 ? "node7" : "another"}};
  contents.info.path.leaf_count = 1;
  contents.data_tree = Tree::Build(TreeKind::kData, AnyLeaves(rng, blocks), sb.stamp.size);
  contents.parity_tree = Tree::Build(TreeKind::kParity, AnyLeaves(rng, parity_blocks), sb.parity_size);
  return contents;
}

inline bool SameTree(const Tree& a, const Tree& b) {
  if (a.bytes() != b.bytes() || a.counts() != b.counts()) return false;
  for (std::size_t level = 0; level < a.counts().size(); ++level) {
    if (a.NodesOf(level) != b.NodesOf(level)) return false;
  }
  return true;
}

/// What of contents must survive a round trip, field by field.
inline void ExpectSame(const SidecarContents& a, const SidecarContents& b) {
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
  EXPECT_EQ(EncodeNodes(a.info), EncodeNodes(b.info));
  EXPECT_TRUE(SameTree(a.data_tree, b.data_tree));
  EXPECT_TRUE(SameTree(a.parity_tree, b.parity_tree));
}

inline bool Same(const SidecarContents& a, const SidecarContents& b) {
  return a.superblock.uuid == b.superblock.uuid && a.superblock.generation == b.superblock.generation &&
         a.superblock.stamp == b.superblock.stamp && EncodeInfo(a.info) == EncodeInfo(b.info) &&
         SameTree(a.data_tree, b.data_tree) && SameTree(a.parity_tree, b.parity_tree);
}

/// Runs `commit` again and again, stopping it at every operation there is, with the process crashing or the power
/// failing, and calls `check` on what is left.
template <class Commit, class Check>
void AtEveryCrash(MemoryFileSystem& fs, const Commit& commit, const Check& check) {
  const auto start = fs.Copy();
  std::mt19937_64 rng(99);
  for (int mode = 0; mode < 8; ++mode) {  // 0: the process dies; else: the power fails
    for (std::uint64_t budget = 0;; ++budget) {
      fs.Restore(start);
      std::uint64_t used = 0;
      fs.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
        if (op == MemoryFileSystem::Op::kRead) return Status::Ok();
        return used++ < budget ? Status::Ok() : Status(Code::kIo, path + ": crashed");
      };
      const Status status = commit();
      fs.fault = nullptr;
      if (mode > 0) fs.PowerLoss(rng, 512);
      SCOPED_TRACE("stopped after " + std::to_string(budget) + " operations" + (mode > 0 ? ", power lost" : ""));
      check(status.ok());
      if (::testing::Test::HasFailure() || status.ok()) break;
      ASSERT_LT(budget, 1000u);
    }
  }
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
  void Reseal(std::uint64_t offset, std::uint32_t copy, std::size_t field, const Bytes& value,
              std::size_t hashed = kSuperblockSize - sizeof(Hash)) {
    std::copy(value.begin(), value.end(), File().begin() + static_cast<std::ptrdiff_t>(offset + field));
    const Hash hash = HashBytes(HashTag::kSuperblock, copy, ByteSpan(File()).subspan(offset, hashed));
    std::copy(hash.bytes.begin(), hash.bytes.end(), File().begin() + static_cast<std::ptrdiff_t>(offset + hashed));
  }
  static bool Whole(const Sidecar& sidecar) {
    return sidecar.unknown_data_leaves().empty() && sidecar.unknown_parity_leaves().empty();
  }
  /// Sets an intent, stopped at every operation. If SetIntent returned OK, the intent is there afterwards.
  void ExpectIntentsSurvivePowerLoss(const SidecarContents& contents) {
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return sidecar->SetIntent(NewIntent(kIntentWholeFile));
        },
        [&](bool done) {
          const auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(!done || (*loaded)->intent());
          EXPECT_TRUE(Same((*loaded)->contents(), contents));
        });
  }
  /// Heals the copies of `contents`, stopped at every operation. `check` looks at the sidecar that is left.
  template <class Check>
  void RepairAtEveryCrash(const SidecarContents& contents, const Check& check) {
    AtEveryCrash(
        fs_,
        [&]() -> Status {
          LZY_ASSIGN_OR_RETURN(auto sidecar, Load(OpenMode::kReadWrite));
          return sidecar->WriteAll(sidecar->contents());
        },
        [&](bool done) {
          const auto loaded = Load();
          ASSERT_OK(loaded);
          EXPECT_TRUE(Whole(**loaded));
          EXPECT_TRUE(Same((*loaded)->contents(), contents));
          check(**loaded, done);
        });
  }

  MemoryFileSystem fs_;
};

}  // namespace lzy::testing
