// What one rank fails at by itself must stop all of them, not leave the others waiting. Ranks are threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hooks/epochs/commit.h"
#include "hooks/epochs/epoch.h"
#include "sidecar/sidecar.h"
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
    attempt.request.touched.emplace()[0].AddWhole();
    attempt.request.own_intents.emplace();
    return attempt;
  }

  const std::filesystem::path directory_;
};

TEST_F(CommitTest, AllRanksCommitTogether) {
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

// ---------------------------------------------------------------------------------------------- Whose intent it is

/// A file that this process has open, after its first commit.
class IntentTest : public CommitTest {
 protected:
  IntentTest() {
    file_.path = Path();
    file_.options.threads = 1;
    file_.comm = SelfCommunicator();
    file_.disk = std::make_shared<DiskFile>();
    EXPECT_OK(BeginFirstEpoch(file_));
    Attempt attempt = Whole();
    attempt.request.own_intents->push_back(Set());
    const DatasetReport report = ProtectPatiently(*file_.comm, attempt, Status::Ok());
    EXPECT_OK(report.status);
    EndEpoch(file_, report.generation, report.bytes, false);
  }
  std::unique_ptr<Sidecar> Load(OpenMode mode = OpenMode::kRead) const {
    return std::move(Sidecar::Load(PosixFileSystem(), (directory_ / ".LZY.f").string(), mode)).value();
  }
  Intent Set() const { return Load()->intent().value_or(Intent()); }
  /// As if the process after this one began an epoch.
  Intent SetByAnother(std::int64_t time) {
    Intent intent = IntentOfThisProcess();
    ++intent.pid;
    intent.flags = kIntentWholeFile;
    intent.wall_time_ns = time;
    EXPECT_OK(Load(OpenMode::kReadWrite)->SetIntent(intent));
    return intent;
  }
  void MeetAnother() {
    Intent other = IntentOfThisProcess();
    ++other.pid;
    file_.family.processes.emplace(other.host, other.pid);
  }

  OpenFile file_;
};

TEST_F(IntentTest, AnIntentOfAnotherProgramIsNotReliedOn) {
  const Intent his = SetByAnother(1);
  EnsureEpoch(file_);
  EXPECT_EQ(Set().pid, IntentOfThisProcess().pid);
  ASSERT_TRUE(file_.disk->start->before);
  EXPECT_TRUE(SameWriter(*file_.disk->start->before, his));
}

TEST_F(IntentTest, AnIntentOfTheSameProgramIsReliedOn) {
  MeetAnother();
  const Intent theirs = SetByAnother(1);
  EnsureEpoch(file_);
  EXPECT_TRUE(SameWriter(Set(), theirs));
  EXPECT_TRUE(file_.disk->epoch_open);
}

TEST_F(IntentTest, AfterAFailedCommitOnlyANewOneIsReliedOn) {
  MeetAnother();
  file_.family.intents.push_back(SetByAnother(1));
  Untake(file_);
  EnsureEpoch(file_);
  const Intent mine = Set();
  EXPECT_EQ(mine.pid, IntentOfThisProcess().pid) << "the old one is there, but may be void";
  EXPECT_FALSE(file_.disk->start->before) << "it was the program's own";
  Untake(file_);
  EnsureEpoch(file_);
  EXPECT_FALSE(SameWriter(Set(), mine)) << "nor is its own";
  Untake(file_);
  const Intent theirs = SetByAnother(2);
  EnsureEpoch(file_);
  EXPECT_TRUE(SameWriter(Set(), theirs)) << "somebody has begun anew";
}

}  // namespace
}  // namespace lzy::hooks
