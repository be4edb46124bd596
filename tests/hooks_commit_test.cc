// What one rank fails at by itself must stop all of them, not leave the others waiting. Ranks are threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "commit.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::hooks {
namespace {

class CommitTest : public ::testing::Test {
 protected:
  CommitTest() : directory_(std::filesystem::temp_directory_path() / ("lzy-commit-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(directory_);
    std::ofstream(Path()) << std::string(100000, 'x');
  }
  ~CommitTest() override { std::filesystem::remove_all(directory_); }
  std::string Path() const { return (directory_ / "f").string(); }
  Attempt Whole() const {
    Attempt attempt;
    attempt.options.threads = 1;
    attempt.dataset = {.kind = DatasetKind::kShared, .path = Path(), .members = {}};
    attempt.request.touched.emplace()[0] = Touched{};
    attempt.request.own_intents.emplace();
    return attempt;
  }

  const std::filesystem::path directory_;
};

TEST_F(CommitTest, IsMadeTogether) {
  testing::RunRanks(3, [&](Communicator& comm) {
    Attempt attempt = Whole();
    const DatasetReport report = ProtectPatiently(comm, attempt, Status::Ok());
    EXPECT_OK(report.status);
    EXPECT_EQ(report.generation, 1u);
  });
}

TEST_F(CommitTest, ARankThatIsNotPreparedStopsAll) {
  testing::RunRanks(3, [&](Communicator& comm) {
    Attempt attempt;
    const Status prepared = NoThrow([&] {
      if (comm.rank() == 1) throw std::bad_alloc();
      attempt = Whole();
    });
    EXPECT_CODE(ProtectPatiently(comm, attempt, prepared).status, Code::kNoMemory);
  });
  EXPECT_FALSE(std::filesystem::exists(directory_ / ".LZY.f"));
}

TEST_F(CommitTest, AllRanksGiveUpTogetherWhereSomebodyHoldsTheLock) {
  const auto begun = BeginEpoch(PosixFileSystem(), {}, Path(), "");
  ASSERT_OK(begun);
  auto sidecar = PosixFileSystem().Open((directory_ / ".LZY.f").string(), OpenMode::kReadWrite);
  ASSERT_OK(sidecar);
  ASSERT_OK((*sidecar)->Lock());
  testing::RunRanks(3, [&](Communicator& comm) {
    Attempt attempt = Whole();
    attempt.options.timeout_seconds = 1 + static_cast<std::uint32_t>(comm.rank());
    EXPECT_CODE(ProtectPatiently(comm, attempt, Status::Ok()).status, Code::kBusy);
    EXPECT_OK(comm.Barrier());  // nobody is left in an attempt
  });
}

}  // namespace
}  // namespace lzy::hooks
