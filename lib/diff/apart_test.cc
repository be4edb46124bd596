// Two copies, where no rank sees both: the results are the same as on one node, and hashes travel instead of data.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diff/diff.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kCommittedThen = 1'600'000'000'000'000'000;
constexpr std::uint32_t kSmallBlock = 512;

/// Two nodes with files of their own, and one node that has all files. By chance, inodes are the same on all.
class DiffApart : public ::testing::Test {
 protected:
  DiffApart() {
    options_.block_size = kSmallBlock;
    options_.stripe = 2048;
    options_.threads = 2;
    options_.timeout_seconds = 0;
  }
  /// Makes a protected file on `node`, and on the node that has all.
  void Put(std::size_t node, const std::string& path, const Bytes& bytes, std::uint32_t group = 4, std::uint32_t parity = 1) {
    for (MemoryFileSystem* fs : {&nodes_[node], &both_}) {
      fs->Put(path, bytes, kCommittedThen);
      Options options = options_;
      options.group = group;
      options.parity = parity;
      ASSERT_OK(Protect({*fs, *self_, options}, {DatasetKind::kShared, path, {}}, {}).status);
    }
  }
  DiffReport Together(const std::string& a, const std::string& b, bool deep = false) { return Diff({both_, *self_, options_}, a, b, deep); }
  DiffReport Apart(const std::string& a, const std::string& b, bool deep = false) {
    std::array<DiffReport, 2> reports;
    traffic_.calls = traffic_.answer_bytes = 0;
    RunRanks(2, [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      reports[rank] = Diff({nodes_[rank], comm, options_}, a, b, deep);
    }, {"n0", "n1"}, nullptr, &traffic_);
    EXPECT_EQ(EncodeRecord(reports[0]), EncodeRecord(reports[1])) << "all ranks must tell the same";
    return reports[0];
  }
  void ExpectSameAnswer(const std::string& a, const std::string& b, bool deep) {
    DiffReport together = Together(a, b, deep);
    const DiffReport apart = Apart(a, b, deep);
    std::erase(together.warnings, "a and b are one and the same");  // directories in memory have no inodes
    EXPECT_OK(apart.status);
    EXPECT_EQ(ExitCodeOf(apart), ExitCodeOf(together));
    EXPECT_THAT(Words(apart), ::testing::ElementsAreArray(Words(together))) << a << " " << b << " " << deep;
    EXPECT_EQ(EncodeRecord(apart), EncodeRecord(together)) << a << " " << b << " " << deep;
  }
  /// The text of a report, to compare its words.
  static std::vector<std::string> Words(const DiffReport& report) {
    std::vector<std::string> words = report.warnings;
    for (const FileDiff& diff : report.differences) {
      words.push_back(fmt::format("{} {} {} {} {} {} {}", diff.name, static_cast<int>(diff.verdict), diff.bytes_a, diff.bytes_b, diff.ranges_known,
                                  diff.DifferentBytes(), diff.status.message()));
      words.insert(words.end(), diff.warnings.begin(), diff.warnings.end());
    }
    return words;
  }
  static std::set<std::string> Contents(const MemoryFileSystem& fs) {
    std::set<std::string> all;
    for (const auto& [path, node] : fs.nodes()) all.insert(path + " " + std::string(node->bytes.begin(), node->bytes.end()));
    return all;
  }

  Rng rng_{1};
  std::array<MemoryFileSystem, 2> nodes_;
  MemoryFileSystem both_;
  Options options_;
  CallTraffic traffic_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
};

TEST_F(DiffApart, FewPagesAndNoDataTravel) {
  const Bytes bytes = RandomBytes(rng_, 70'000 * kSmallBlock + 100);
  Bytes other = bytes;
  for (const std::uint64_t at : {std::uint64_t{700}, std::uint64_t{20'000'000}, bytes.size() - 1}) other[at] ^= 1;
  Put(0, "a/f", bytes, 4, 1);
  Put(1, "b/f", other, 8, 2);
  Put(1, "c/f", bytes, 5, 3);
  const auto before = Contents(nodes_[1]);
  std::atomic<std::uint64_t> pages = 0, of_data = 0, written = 0;
  for (MemoryFileSystem& fs : nodes_) {
    fs.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t offset, std::uint64_t length) {
      if (op != MemoryFileSystem::Op::kRead) {
        ++written;
      } else if (path.ends_with("/f")) {
        ++of_data;
      } else {
        pages += (offset % 4096 + length + 4095) / 4096;
      }
      return Status::Ok();
    };
  }
  const DiffReport report = Apart("a/f", "b/f");
  ASSERT_OK(report.status);
  EXPECT_EQ(ExitCodeOf(report), 1);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].ranges, (std::vector<Interval>{{512, 1024}, {19'999'744, 20'000'256}, {70'000 * kSmallBlock, bytes.size()}}));
  EXPECT_GT(pages, 14U);
  EXPECT_LE(pages, 100U);
  EXPECT_LE(traffic_.calls, 60U);
  EXPECT_GT(traffic_.answer_bytes, 5 * 4096U);  // a path through three levels, three times, with pages in common
  EXPECT_LE(traffic_.answer_bytes, 50 * 4096U);
  // Equal roots are an answer.
  EXPECT_EQ(Apart("a/f", "c/f").same, 1U);
  EXPECT_LE(traffic_.answer_bytes, 20 * 4096U);
  EXPECT_EQ(of_data, 0U);
  EXPECT_EQ(written, 0U);
  EXPECT_EQ(Contents(nodes_[1]), before);
}

TEST_F(DiffApart, AnswersAreThoseOfOneNode) {
  for (int round = 0; round < 25; ++round) {
    const std::uint64_t size = Below(rng_, 40'000);
    const Bytes bytes = RandomBytes(rng_, size);
    Bytes other = bytes;
    if (OneIn(rng_, 3)) other.resize(Below(rng_, 60'000), 7);
    for (std::uint64_t i = Below(rng_, 4); i > 0 && !other.empty(); --i) other[Below(rng_, other.size())] ^= 1;
    const std::string a = "a/f" + std::to_string(round), b = "b/f" + std::to_string(round);
    Put(0, a, bytes, 2 + static_cast<std::uint32_t>(Below(rng_, 6)));
    Put(1, b, other, 3 + static_cast<std::uint32_t>(Below(rng_, 6)), 2);
    for (const bool deep : {false, true}) {
      ExpectSameAnswer(a, b, deep);
      ExpectSameAnswer(b, a, deep);
    }
  }
}

TEST_F(DiffApart, DeepLetsHashesTravelAndWhatDiffers) {
  const Bytes bytes = RandomBytes(rng_, 20'000'000);
  Bytes other = bytes;
  for (std::uint64_t at = 5'000'000; at < 5'050'000; ++at) other[at] ^= 1;
  other[19'999'999] ^= 1;
  for (MemoryFileSystem* fs : {&nodes_[0], &both_}) fs->Put("a/f", bytes);
  for (MemoryFileSystem* fs : {&nodes_[1], &both_}) fs->Put("b/f", other);
  ExpectSameAnswer("a/f", "b/f", true);
  EXPECT_GT(traffic_.answer_bytes, 50'000U);
  EXPECT_LE(traffic_.answer_bytes, 100'000U);
}

TEST_F(DiffApart, Directories) {
  const Bytes bytes = RandomBytes(rng_, 5000);
  Bytes changed = bytes;
  changed[100] ^= 1;
  for (const std::size_t node : {0, 1}) {
    const std::string tree = node == 0 ? "a/" : "b/";
    Put(node, tree + "same", bytes);
    Put(node, tree + "changed", node == 0 ? bytes : changed);
    Put(node, tree + "longer", node == 0 ? bytes : RandomBytes(rng_, 6000));
    Put(node, tree + "lost", bytes);
    Put(node, tree + "only " + tree[0], bytes);
  }
  for (MemoryFileSystem* fs : {&nodes_[1], &both_}) {
    ASSERT_OK(fs->Remove("b/lost"));
  }
  for (const bool deep : {false, true}) ExpectSameAnswer("a", "b", deep);
  EXPECT_EQ(Apart("a", "b").differences.size(), 5U);
  // A file, and the one of its name in a directory.
  ExpectSameAnswer("a/changed", "b", false);
  ExpectSameAnswer("a", "b/changed", true);
  ExpectSameAnswer("a/lost", "b", false);
  ExpectSameAnswer("a/lost", "b/lost", false);
}

TEST_F(DiffApart, SetsOnDisksOfTheirNodes) {
  for (int rank = 0; rank < 5; ++rank) {
    Bytes bytes = RandomBytes(rng_, 20'000);
    const auto number = std::to_string(rank);
    Put(static_cast<std::size_t>(rank % 2), "a/s." + number, bytes);
    if (rank == 3) bytes[700] ^= 1;
    if (rank != 4) Put(static_cast<std::size_t>(rank / 2 % 2), "b/s." + number, bytes);
  }
  for (const bool deep : {false, true}) {
    ExpectSameAnswer("a/s.%r", "b/s.%r", deep);
    const DiffReport report = Apart("a/s.%r", "b/s.%r", deep);
    EXPECT_EQ(report.same, 3U);
    ASSERT_EQ(report.differences.size(), 2U);
    EXPECT_EQ(report.differences[0].ranges.size(), 1U);
    EXPECT_EQ(report.differences[1].verdict, DiffVerdict::kOnlyA);
  }
}

// A node was away, and has a member of an older commit beside a copy of the present one.
TEST_F(DiffApart, OldMembersDoNotCount) {
  const Bytes now = RandomBytes(rng_, 20'000);
  Put(0, "a/s.0", RandomBytes(rng_, 20'000));
  Put(1, "a/s.0", now);
  Put(0, "b/s.0", now);
  for (const char* name : {"a/s.1", "b/s.1"}) Put(1, name, now);
  const DiffReport report = Apart("a/s.%r", "b/s.%r");
  EXPECT_OK(report.status);
  EXPECT_EQ(report.same, 2U);
  EXPECT_EQ(report.differences.size(), 0U);
}

TEST_F(DiffApart, PathsThatNobodySees) {
  Put(0, "a/f", RandomBytes(rng_, 1000));
  for (const auto& [a, b] : {std::pair("a/f", "b/none"), std::pair("b/none", "a/f"), std::pair("b/none", "b/none either")}) {
    const DiffReport report = Apart(a, b);
    EXPECT_CODE(report.status, Code::kInvalidArgument);
    EXPECT_THAT(report.status.message(), HasSubstr("b/none: there is no such file or directory"));
    EXPECT_EQ(ExitCodeOf(report), 3);
  }
  // As the user named it, whatever the other path is.
  EXPECT_THAT(Apart("a", "none").status.message(), HasSubstr("rank 0: none: there is no such"));
  EXPECT_THAT(Together("none", "a").status.message(), HasSubstr("none: there is no such"));
}

// A rank that sees both compares, whatever others see.
TEST_F(DiffApart, WhoSeesBothCompares) {
  const Bytes bytes = RandomBytes(rng_, 5000);
  Put(0, "a/f", RandomBytes(rng_, 5000));
  Put(1, "a/f", bytes);
  Put(1, "b/f", bytes);
  nodes_[0].At("a/f").stat.mtime_ns += 1;
  const DiffReport report = Apart("a/f", "b/f");
  EXPECT_OK(report.status);
  EXPECT_EQ(report.same, 1U);
  EXPECT_EQ(traffic_.calls, 0U);
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("a/f: ranks 1 and 0 see different files there; what rank 1 sees was compared")));
}

TEST_F(DiffApart, WhatCannotBeReadThereIsToldHere) {
  const Bytes bytes = RandomBytes(rng_, 5000);
  Put(0, "a/f", bytes);
  Put(1, "b/f", bytes);
  nodes_[1].At("b/f").unreadable = {{100, 1}};
  DiffReport report = Apart("a/f", "b/f", true);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].verdict, DiffVerdict::kUnknown);
  EXPECT_THAT(report.differences[0].status.message(), HasSubstr("b/f"));
  // A file that is not protected, or was changed.
  nodes_[1].At("b/f").stat.mtime_ns += 1;
  EXPECT_EQ(ExitCodeOf(Apart("a/f", "b/f")), 9);
  ASSERT_OK(nodes_[1].Remove("b/.LZY.f"));
  report = Apart("a/f", "b/f");
  EXPECT_EQ(ExitCodeOf(report), 4);
  EXPECT_THAT(report.differences.at(0).status.message(), HasSubstr("b/f: it is not protected"));
}

}  // namespace
}  // namespace lzy::testing
