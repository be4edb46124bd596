// What one rank fails at by itself must stop all of them, not leave the others waiting. Ranks are threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "dataset/view.h"
#include "engine/engine.h"
#include "hooks/epochs/commit.h"
#include "hooks/epochs/file_epoch.h"
#include "hooks/files/registry.h"
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

// ------------------------------------------------------------------------------------ What the next epoch goes on with

/// One process, that calls `before_gather` before each Gather: a commit has read the file by then.
class Interrupted : public Communicator {
 public:
  explicit Interrupted(std::function<void()> before_gather) : before_gather_(std::move(before_gather)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string ProcessorName() const override { return self_->ProcessorName(); }
  Status Barrier() override { return self_->Barrier(); }
  Status Broadcast(Bytes& bytes, int root) override { return self_->Broadcast(bytes, root); }
  Result<std::vector<Bytes>> AllGather(ByteSpan mine) override { return self_->AllGather(mine); }
  Result<std::vector<Bytes>> Gather(ByteSpan mine, int root) override {
    before_gather_();
    return self_->Gather(mine, root);
  }
  Result<std::uint64_t> AllReduceMax(std::uint64_t value) override { return self_->AllReduceMax(value); }
  Result<std::uint64_t> AllReduceSum(std::uint64_t value) override { return self_->AllReduceSum(value); }
  Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive,
                          std::span<const std::uint64_t> counts) override {
    return self_->ReduceScatterXor(send, receive, counts);
  }
  Result<std::unique_ptr<Communicator>> Split(int color) override { return self_->Split(color); }
  Status RunWithCalls(const CallHandler& handler, const std::function<void(Caller&)>& work) override {
    return self_->RunWithCalls(handler, work);
  }

 private:
  const std::unique_ptr<Communicator> self_ = SelfCommunicator();
  const std::function<void()> before_gather_;
};

/// A file that this process writes and captures.
class CarryTest : public CommitTest {
 protected:
  void SetUp() override {
    file_ = std::make_shared<OpenFile>();
    file_->path = Path();
    file_->options.threads = 1;
    file_->options.block_size = 4096;
    file_->options.stripe = 4096;
    file_->comm = std::make_unique<Interrupted>([this] {
      if (auto edit = std::exchange(edit_, {})) edit();
    });
    Registry::Get().Insert(1, file_, 0, 0);
    ASSERT_OK(BeginFirstEpoch(*file_));
  }
  void TearDown() override { (void)Registry::Get().Take(1); }
  void Put(std::uint64_t offset, const std::string& bytes) {
    std::fstream out(Path(), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset));
    out << bytes;
  }
  /// As the hooks do it.
  void Write(std::uint64_t offset, const std::string& bytes) {
    file_->touched.Add({offset, offset + bytes.size()});
    EnsureEpoch(*file_);
    Put(offset, bytes);
    if (!file_->capture) {
      auto made = Capture::Create({.parameters = SharedGeometry(file_->options, 100000),
                                   .certain_from = std::uint64_t{1} << 30,
                                   .memory = std::uint64_t{16} << 20});
      ASSERT_OK(made);
      file_->capture = std::move(*made);
    }
    const ByteSpan span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    file_->capture->Take(offset, span, ++file_->writes_begun);
  }
  std::string State() const {
    const auto self = SelfCommunicator();
    const Context context{.fs = PosixFileSystem(), .comm = *self, .options = file_->options};
    return Name(Verify(context, {.kind = DatasetKind::kShared, .path = Path(), .members = {}}, {}).state);
  }

  std::shared_ptr<OpenFile> file_;
  std::function<void()> edit_;  // made once, by somebody else, while the next commit is made
};

TEST_F(CarryTest, ASyncKeepsWhatItCommitted) {
  Write(0, std::string(100000, 'a'));
  ASSERT_OK(CommitShared(*file_, Moment::kSync, true));
  EXPECT_TRUE(file_->capture) << "the test below would prove nothing";
  Write(0, std::string(4096, 'b'));
  ASSERT_OK(CommitShared(*file_, Moment::kSync, true));
  EXPECT_EQ(State(), "intact");
}

TEST_F(CarryTest, NothingIsKeptIfTheFileChangedDuringTheCommit) {
  Write(0, std::string(100000, 'a'));
  edit_ = [this] { Put(50000, "edited"); };
  ASSERT_OK(CommitShared(*file_, Moment::kSync, true));
  EXPECT_FALSE(edit_) << "nobody has edited it";
  EXPECT_FALSE(file_->capture) << "it has what was there before the edit";
  EXPECT_EQ(State(), "intact");
  Write(0, std::string(4096, 'b'));
  ASSERT_OK(CommitShared(*file_, Moment::kSync, true));
  EXPECT_EQ(State(), "intact");
}

}  // namespace
}  // namespace lzy::hooks
