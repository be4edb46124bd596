// Compares copies: exactly the bytes that differ, from few pages of metadata; and no result if hashes prove nothing.
#include "diff/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

using ::testing::HasSubstr;
using Op = MemoryFileSystem::Op;

constexpr std::int64_t kLongAgo = 1'600'000'000'000'000'000;
constexpr std::uint32_t kBlock = 512;

class DiffTest : public ::testing::Test {
 protected:
  DiffTest() {
    options_.block_size = kBlock;
    options_.threads = 2;
    options_.timeout_seconds = 0;
  }

  /// Makes a file, protected in groups of `group` with `parity`.
  void Put(const std::string& path, const Bytes& bytes, std::uint32_t group = 4, std::uint32_t parity = 1) {
    const std::string sidecar = SidecarPath(path).value();
    if (fs_.Has(sidecar)) ASSERT_OK(fs_.Remove(sidecar));
    fs_.Put(path, bytes, kLongAgo);
    Options options = options_;
    options.group = group;
    options.parity = parity;
    ASSERT_OK(Protect({fs_, *self_, options}, {DatasetKind::kShared, path, {}}, {}).status);
  }
  DiffReport Run(const std::string& a, const std::string& b, bool deep = false) { return Diff({fs_, *self_, options_}, a, b, deep); }
  /// Compares two files, and expects a result or none.
  FileDiff One(const std::string& a, const std::string& b, bool deep = false) {
    const DiffReport report = Run(a, b, deep);
    EXPECT_OK(report.status);
    if (report.differences.empty()) {
      EXPECT_EQ(report.same, 1U);
      EXPECT_EQ(ExitCodeOf(report), 0);
      FileDiff same;
      same.verdict = DiffVerdict::kSame;
      return same;
    }
    EXPECT_EQ(report.differences.size(), 1U);
    return report.differences[0];
  }
  std::uint64_t HashesAt(const std::string& sidecar, std::uint64_t copy) {
    const auto loaded = Sidecar::Load(fs_, sidecar, OpenMode::kRead).value();
    const Superblock& sb = loaded->contents().superblock;
    return FindExtent(sb.extents, ExtentKind::kDataLevel, 0)->offset + copy * sb.spacing;
  }

  Rng rng_{1};
  MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
};

// Trees of this many leaves have as many levels as those of 1 TiB in blocks of 64 KiB.
TEST_F(DiffTest, ReadsFewPagesOfMetadataAndNoData) {
  const Bytes bytes = RandomBytes(rng_, 70'000 * kBlock + 100);
  Bytes other = bytes;
  for (const std::uint64_t at : {std::uint64_t{700}, std::uint64_t{20'000'000}, bytes.size() - 1}) other[at] ^= 1;
  Put("a/f", bytes, 4, 1);
  Put("b/f", other, 8, 2);
  Put("c/f", bytes, 5, 3);
  const auto before = fs_.Copy();
  std::uint64_t pages = 0, of_data = 0, written = 0;
  fs_.fault = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t length) {
    if (op != Op::kRead) {
      ++written;
    } else if (path.ends_with("/f")) {
      ++of_data;
    } else {
      pages += (offset % 4096 + length + 4095) / 4096;
    }
    return Status::Ok();
  };
  const FileDiff diff = One("a/f", "b/f");
  EXPECT_EQ(diff.verdict, DiffVerdict::kDifferent);
  EXPECT_EQ(diff.block_size, kBlock);
  EXPECT_EQ(diff.ranges, (std::vector<Interval>{{512, 1024}, {19'999'744, 20'000'256}, {70'000 * kBlock, bytes.size()}}));
  EXPECT_GT(pages, 14U);
  EXPECT_LE(pages, 100U);
  // Equal roots are an answer.
  pages = 0;
  EXPECT_EQ(One("a/f", "c/f").verdict, DiffVerdict::kSame);
  EXPECT_LE(pages, 40U);
  EXPECT_EQ(of_data, 0U);
  EXPECT_EQ(written, 0U);
  fs_.fault = {};
  EXPECT_EQ(before.size(), fs_.nodes().size());
  for (const auto& [path, node] : before) EXPECT_EQ(node.bytes, fs_.At(path).bytes);
}

TEST_F(DiffTest, FindsWhatTheDataShow) {
  for (int round = 0; round < 40; ++round) {
    const std::uint64_t size = Below(rng_, 40'000);
    const Bytes bytes = RandomBytes(rng_, size);
    Bytes other = bytes;
    if (OneIn(rng_, 3)) other.resize(Below(rng_, 60'000), 7);
    for (std::uint64_t i = Below(rng_, 4); i > 0 && !other.empty(); --i) other[Below(rng_, other.size())] ^= 1;
    Put("a/f", bytes, 2 + static_cast<std::uint32_t>(Below(rng_, 6)));
    Put("b/f", other, 3 + static_cast<std::uint32_t>(Below(rng_, 6)), 2);
    std::vector<Interval> blocks;
    for (std::uint64_t at = 0; at < std::max(bytes.size(), other.size()); at += kBlock) {
      const auto part = [&](const Bytes& all) {
        const std::uint64_t begin = std::min<std::uint64_t>(at, all.size()), end = std::min<std::uint64_t>(at + kBlock, all.size());
        return Bytes(all.begin() + begin, all.begin() + end);
      };
      if (part(bytes) != part(other)) blocks.push_back({at, std::min<std::uint64_t>(at + kBlock, std::max(bytes.size(), other.size()))});
    }
    if (!blocks.empty()) SortAndJoin(blocks);
    const FileDiff by_trees = One("a/f", "b/f"), by_data = One("a/f", "b/f", /*deep=*/true);
    EXPECT_EQ(by_trees.ranges, blocks);
    EXPECT_EQ(by_trees.verdict, bytes == other ? DiffVerdict::kSame : DiffVerdict::kDifferent);
    EXPECT_EQ(by_data.verdict, by_trees.verdict);
    for (const Interval& range : by_data.ranges) {
      EXPECT_TRUE(range.begin >= bytes.size() || range.begin >= other.size() || bytes[range.begin] != other[range.begin]);
      EXPECT_TRUE(range.end > bytes.size() || range.end > other.size() || bytes[range.end - 1] != other[range.end - 1]);
    }
    for (std::uint64_t i = 0; i < std::max(bytes.size(), other.size()); ++i) {
      const bool differs = i >= bytes.size() || i >= other.size() || bytes[i] != other[i];
      const bool named = std::ranges::any_of(by_data.ranges, [&](const Interval& r) { return r.begin <= i && i < r.end; });
      ASSERT_TRUE(named || !differs) << i;
    }
  }
}

TEST_F(DiffTest, HashesOfAFileThatChangedTellNothing) {
  const Bytes bytes = RandomBytes(rng_, 5000);
  Put("a/f", bytes);
  Put("b/f", bytes);
  fs_.At("b/f").stat.mtime_ns += 1;
  FileDiff diff = One("a/f", "b/f");
  EXPECT_EQ(diff.verdict, DiffVerdict::kUnknown);
  EXPECT_EQ(ExitCodeOf(diff), 9);
  EXPECT_THAT(diff.status.message(), HasSubstr("b/f: it was changed since its last commit"));
  EXPECT_EQ(One("a/f", "b/f", true).verdict, DiffVerdict::kSame);
  // An epoch is open. A program may be writing, whatever the stamp is.
  Put("b/f", bytes);
  EXPECT_EQ(One("a/f", "b/f").verdict, DiffVerdict::kSame);
  ASSERT_OK(BeginEpoch(fs_, options_, "b/f", ""));
  EXPECT_EQ(ExitCodeOf(One("a/f", "b/f")), 9);
  // Files of different sizes differ.
  Bytes longer = bytes;
  longer.push_back(1);
  fs_.Put("b/f", longer);
  diff = One("a/f", "b/f");
  EXPECT_EQ(diff.verdict, DiffVerdict::kDifferent);
  EXPECT_FALSE(diff.ranges_known);
  EXPECT_EQ(ExitCodeOf(diff), 1);
}

TEST_F(DiffTest, WithoutHashesThatCompareOnlyTheDataTell) {
  const Bytes bytes = RandomBytes(rng_, 5000);
  Put("a/f", bytes);
  fs_.Put("b/f", bytes, kLongAgo);
  FileDiff diff = One("a/f", "b/f");
  EXPECT_EQ(ExitCodeOf(diff), 4);
  EXPECT_THAT(diff.status.message(), HasSubstr("b/f: it is not protected"));
  options_.block_size = 2 * kBlock;
  Put("b/f", bytes);
  diff = One("a/f", "b/f");
  EXPECT_EQ(ExitCodeOf(diff), 3);
  EXPECT_THAT(diff.status.message(), HasSubstr("a/f has blocks of 512 bytes, b/f blocks of 1024 bytes"));
  EXPECT_EQ(One("a/f", "b/f", true).verdict, DiffVerdict::kSame);
}

TEST_F(DiffTest, SealedFilesNeedTheirKey) {
  Bytes bytes = RandomBytes(rng_, 5000);
  options_.key = TestKey();
  Put("a/f", bytes);
  bytes[600] ^= 1;
  Put("b/f", bytes);
  EXPECT_EQ(One("a/f", "b/f").ranges, (std::vector<Interval>{{512, 1024}}));
  options_.key = nullptr;
  FileDiff diff = One("a/f", "b/f");
  EXPECT_EQ(ExitCodeOf(diff), 3);
  EXPECT_THAT(diff.status.message(), HasSubstr("give the key with --key"));
  Put("c/f", bytes);
  options_.key = TestKey();
  diff = One("a/f", "c/f");
  EXPECT_EQ(ExitCodeOf(diff), 4);
  EXPECT_THAT(diff.status.message(), HasSubstr("not sealed with key"));
  options_.key = nullptr;
  EXPECT_EQ(One("b/f", "c/f", true).verdict, DiffVerdict::kSame);
}

// The compact form has everything in one page, so these files are larger.
TEST_F(DiffTest, PagesAreTakenFromAnyCopyThatIsRight) {
  const Bytes bytes = RandomBytes(rng_, 300 * kBlock);
  Bytes other = bytes;
  other[1000] ^= 1;
  Put("a/f", bytes);
  Put("b/f", other);
  fs_.At("a/.LZY.f").bytes.at(HashesAt("a/.LZY.f", 0) + 40) ^= 1;
  fs_.At("b/.LZY.f").bytes.at(HashesAt("b/.LZY.f", 1) + 40) ^= 1;
  EXPECT_EQ(One("a/f", "b/f").ranges, (std::vector<Interval>{{512, 1024}}));
  fs_.At("a/.LZY.f").bytes.at(HashesAt("a/.LZY.f", 1) + 40) ^= 1;
  const FileDiff diff = One("a/f", "b/f");
  EXPECT_EQ(diff.verdict, DiffVerdict::kUnknown);
  EXPECT_EQ(ExitCodeOf(diff), 4);
  EXPECT_THAT(diff.status.message(), HasSubstr("a/.LZY.f"));
}

TEST_F(DiffTest, ALostFileIsADifference) {
  Put("a/f", RandomBytes(rng_, 5000));
  Put("b/f", RandomBytes(rng_, 5000));
  ASSERT_OK(fs_.Remove("b/f"));
  FileDiff diff = One("a/f", "b/f");
  EXPECT_EQ(diff.verdict, DiffVerdict::kOnlyA);
  EXPECT_THAT(diff.warnings, ::testing::ElementsAre(HasSubstr("lzy-restore")));
  ASSERT_OK(fs_.Remove("a/f"));
  EXPECT_EQ(ExitCodeOf(One("a/f", "b/f")), 4);
  ASSERT_OK(fs_.Remove("b/.LZY.f"));
  EXPECT_CODE(Run("a/f", "b/f").status, Code::kInvalidArgument);
}

TEST(DiffOfSets, MembersAreComparedByWhoSeesThem) {
  Scratch scratch;
  Rng rng(3);
  Options options;
  options.block_size = kBlock;
  for (const char* set : {"a", "b"}) {
    Rng same(4);
    for (int rank = 0; rank < 5; ++rank) {
      const std::string path = scratch / (std::string(set) + std::to_string(rank));
      WriteFile(path, RandomBytes(same, 3000));
      SetMtime(path, kLongAgo);
    }
  }
  WriteAt(scratch / "b3", 100, {1, 2, 3});
  SetMtime(scratch / "b3", kLongAgo);
  const auto alone = SelfCommunicator();
  for (const char* set : {"a", "b"}) {
    const auto ref = RefOf(*alone, scratch / (std::string(set) + "%r"), Resolve::kProtectable);
    ASSERT_OK(Protect({PosixFileSystem(), *alone, options}, ref, {}).status);
  }
  ASSERT_OK(PosixFileSystem().Remove(scratch / "b1"));
  const Image before = ImageOf(scratch.path());
  RunRanks(3, [&](Communicator& comm) {
    const DiffReport report = Diff({PosixFileSystem(), comm, options}, scratch / "a%r", scratch / "b%r", false);
    ASSERT_OK(report.status);
    EXPECT_EQ(report.same, 3U);
    ASSERT_EQ(report.differences.size(), 2U);
    EXPECT_EQ(report.differences[0].name, "1");
    EXPECT_EQ(report.differences[0].verdict, DiffVerdict::kOnlyA);
    EXPECT_EQ(report.differences[1].name, "3");
    EXPECT_EQ(report.differences[1].ranges, (std::vector<Interval>{{0, 512}}));
    EXPECT_EQ(ExitCodeOf(report), 1);
  });
  EXPECT_EQ(Differences(before, ImageOf(scratch.path())), "");
}

}  // namespace
}  // namespace lzy::testing
