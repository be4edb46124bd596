// Members that are one file. They would be lost together, and each repair of one would damage the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint32_t kSetOf = 4;

class MembersThatAreOneFile : public ::testing::Test {
 protected:
  MembersThatAreOneFile() {
    options_.block_size = 512;
    options_.threads = 1;
    options_.given = {"block-size"};
    for (std::uint32_t rank = 0; rank < kSetOf; ++rank) {
      WriteFile(Member(rank), RandomBytes(rng_, 5000 + 100 * rank));
      SetMtime(Member(rank), 1'600'000'000'000'000'000);
    }
  }

  std::string Member(std::uint32_t rank) const { return fmt::format("{}/s.{}", scratch_.path(), rank); }
  DatasetRef Ref(Communicator& comm, Resolve what = Resolve::kProtected) const { return RefOf(comm, scratch_ / "s.%r", what); }

  template <class Work>
  std::vector<DatasetReport> On(int ranks, const Work& work) {
    std::vector<DatasetReport> reports(static_cast<std::size_t>(ranks));
    RunRanks(ranks, [&](Communicator& comm) {
      reports[static_cast<std::size_t>(comm.rank())] = work({PosixFileSystem(), comm, options_});
    });
    return reports;
  }

  Rng rng_{SeedOf(20261126)};
  Scratch scratch_;
  Options options_;
};

TEST_F(MembersThatAreOneFile, HardLinksOfEachOtherAreRefused) {
  const auto self = SelfCommunicator();
  const Context alone{PosixFileSystem(), *self, options_};
  ASSERT_OK(Protect(alone, Ref(*self, Resolve::kProtectable), {}).status);
  const Image whole = ImageOf(scratch_.path());
  fs::remove(Member(3));
  fs::create_hard_link(Member(1), Member(3));
  const Image before = ImageOf(scratch_.path());
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    const std::vector<std::function<DatasetReport(const Context&)>> attempts = {
        [&](const Context& c) { return Verify(c, Ref(c.comm), {}); },
        [&](const Context& c) {
          VerifyRequest request;
          request.repair = request.force = true;
          return Verify(c, Ref(c.comm), request);
        },
        [&](const Context& c) { return Restore(c, Ref(c.comm), {}); },
        [&](const Context& c) { return Protect(c, Ref(c.comm, Resolve::kProtectable), {}); },
    };
    for (const auto& attempt : attempts) {
      for (const DatasetReport& report : On(ranks, attempt)) {
        EXPECT_EQ(ExitCodeOf(report), 6) << Text(report);
        EXPECT_THAT(report.status.message(), HasSubstr(fmt::format("{}: it is the same file as {}", Member(3), Member(1))));
      }
      EXPECT_EQ(Differences(before, ImageOf(scratch_.path())), "");
    }
  }
  // As the message says.
  fs::copy_file(Member(3), Member(3) + ".copy");
  fs::rename(Member(3) + ".copy", Member(3));
  VerifyRequest force;
  force.repair = force.force = true;
  EXPECT_EQ(ExitCodeOf(Verify(alone, Ref(*self), force)), 0);
  for (std::uint32_t rank = 0; rank < kSetOf; ++rank) EXPECT_EQ(ReadFile(Member(rank)), whole.at(Member(rank)).bytes) << rank;
}

// A link to a member from outside the set is allowed.
TEST_F(MembersThatAreOneFile, OtherLinksAreLeftAlone) {
  fs::create_hard_link(Member(2), scratch_ / "elsewhere");
  for (const DatasetReport& report : On(2, [&](const Context& c) { return Protect(c, Ref(c.comm, Resolve::kProtectable), {}); })) {
    EXPECT_EQ(ExitCodeOf(report), 0) << Text(report);
  }
}

// Inode and file system ids have a meaning only on their node.
TEST_F(MembersThatAreOneFile, InodesOfOtherNodesMayBeTheSame) {
  MemoryFileSystem nodes[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) nodes[rank].Put(fmt::format("d/s.{}", rank), RandomBytes(rng_, 5000));
  ASSERT_EQ(nodes[0].At("d/s.0").stat.inode, nodes[1].At("d/s.1").stat.inode);
  ASSERT_EQ(nodes[0].At("d/s.0").stat.file_system, nodes[1].At("d/s.1").stat.file_system);
  RunRanks(2, [&](Communicator& comm) {
    const auto rank = static_cast<std::uint32_t>(comm.rank());
    const DatasetRef ref{DatasetKind::kSet, "d/s.%r", {{rank, fmt::format("d/s.{}", rank)}}};
    const DatasetReport made = Protect({nodes[rank], comm, options_}, ref, {});
    EXPECT_EQ(ExitCodeOf(made), 0) << Text(made);
  }, {"n0", "n1"});
}

}  // namespace
}  // namespace lzy::testing
