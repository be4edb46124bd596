// The queue of commits in the background: order, bounds, results, and its end. Its commits make no MPI calls here.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hooks/background/background.h"
#include "hooks/files/registry.h"
#include "status_matchers.h"

namespace lzy::hooks {
namespace {

using namespace std::chrono_literals;

class BackgroundTest : public ::testing::Test {
 protected:
  BackgroundTest() : directory_(std::filesystem::temp_directory_path() / ("lzy-background-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(directory_);
  }
  ~BackgroundTest() override {
    queue_->Finish(false);
    std::filesystem::remove_all(directory_);
  }
  std::shared_ptr<OpenFile> MakeFile(const std::string& name) {
    auto file = std::make_shared<OpenFile>();
    file->path = (std::filesystem::canonical(directory_) / name).string();
    file->comm = SelfCommunicator();
    return file;
  }
  bool Begin(const std::shared_ptr<OpenFile>& file, std::function<Status()> commit) {
    return queue_->Begin(file, CommitTimes::Clock::now(), std::move(commit));
  }

  const std::filesystem::path directory_;
  /// A queue of its own for each test: Finish is the end of one.
  std::unique_ptr<Background> queue_ = std::make_unique<Background>();
};

TEST_F(BackgroundTest, ALaneKeepsTheOrderAndHoldsTwo) {
  std::latch go(1);
  std::vector<int> order;  // only the lane's thread writes to it, one after the other
  std::atomic<int> begun{0};
  std::thread program([&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(Begin(MakeFile("f" + std::to_string(i)), [&, i] {
        go.wait();
        order.push_back(i);
        return Status::Ok();
      }));
      ++begun;
    }
  });
  while (begun < 2) std::this_thread::yield();
  std::this_thread::sleep_for(100ms);  // the third would come in this time
  EXPECT_EQ(begun, 2);
  go.count_down();
  program.join();
  queue_->AwaitAll();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

// As two ranks whose threads close two files in different orders: each commit needs its other half.
TEST_F(BackgroundTest, LanesDoNotWaitForEachOther) {
  std::latch a(2), b(2);
  const auto meet = [](std::latch& at) {
    return [&at] {
      at.arrive_and_wait();
      return Status::Ok();
    };
  };
  std::thread one([&] { EXPECT_TRUE(Begin(MakeFile("a1"), meet(a)) && Begin(MakeFile("b1"), meet(b))); });
  std::thread two([&] { EXPECT_TRUE(Begin(MakeFile("b2"), meet(b))); });
  std::thread three([&] { EXPECT_TRUE(Begin(MakeFile("a2"), meet(a))); });
  one.join();
  two.join();
  three.join();
  queue_->AwaitAll();
}

TEST_F(BackgroundTest, OneFileIsNotCommittedByTwoLanes) {
  const auto file = MakeFile("f");
  std::atomic<int> inside{0}, most{0};
  const auto commit = [&] {
    most = std::max(most.load(), ++inside);
    std::this_thread::sleep_for(20ms);
    --inside;
    return Status::Ok();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(Begin(file, commit)); });
  for (std::thread& thread : threads) thread.join();
  queue_->AwaitFile(*file);
  EXPECT_EQ(file->commits_pending, 0);
  EXPECT_EQ(most, 1);
}

TEST_F(BackgroundTest, ItsThreadsAreNicerAndTakeNoSignals) {
  const int own = getpriority(PRIO_PROCESS, 0);
  std::atomic<int> theirs{0};
  std::atomic<bool> blocked{false};
  EXPECT_TRUE(Begin(MakeFile("f"), [&] {
    theirs = getpriority(PRIO_PROCESS, 0);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    blocked = sigismember(&mask, SIGUSR1) == 1;
    return Status::Ok();
  }));
  queue_->AwaitAll();
  EXPECT_EQ(theirs, std::min(own + 5, 19));
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), own);
  EXPECT_TRUE(blocked);
}

TEST_F(BackgroundTest, ResultsAreToldOnce) {
  const auto good = MakeFile("good"), bad = MakeFile("bad");
  bad->options.fail_on_error = true;
  EXPECT_TRUE(Begin(good, [] { return Status::Ok(); }));
  EXPECT_TRUE(Begin(bad, []() -> Status { throw std::bad_alloc(); }));
  EXPECT_OK(queue_->AwaitResult(good->path, std::nullopt));
  EXPECT_CODE(queue_->AwaitResult("", std::nullopt), Code::kNoMemory);
  EXPECT_OK(queue_->AwaitResult(bad->path, std::nullopt));
  EXPECT_TRUE(queue_->TakeFailure());
  EXPECT_FALSE(queue_->TakeFailure());
}

TEST_F(BackgroundTest, WaitingHasALimit) {
  std::latch go(1);
  const auto file = MakeFile("f");
  EXPECT_TRUE(Begin(file, [&] {
    go.wait();
    return Status::Ok();
  }));
  EXPECT_CODE(queue_->AwaitResult(file->path, 10ms), Code::kTimeout);
  EXPECT_OK(queue_->AwaitResult("/another", 0s));
  go.count_down();
  EXPECT_OK(queue_->AwaitResult(file->path, std::nullopt));
}

TEST_F(BackgroundTest, OnlyOpensThatTakeSomethingAwayWait) {
  std::latch go(1);
  const auto file = MakeFile("f");
  const auto path = [&](const char* name) { return (directory_ / name).string(); };
  std::ofstream(path("empty"));
  std::ofstream(path("old")) << "old";
  EXPECT_TRUE(Begin(file, [&] {
    go.wait();
    return Status::Ok();
  }));
  queue_->AwaitBeforeOpen(path("new"));  // would hang
  queue_->AwaitBeforeOpen(path("empty"));
  std::atomic<int> opened{0};
  std::vector<std::thread> programs;
  for (const char* name : {"old", "f"}) {
    programs.emplace_back([&, name] {
      queue_->AwaitBeforeOpen(path(name));
      ++opened;
    });
  }
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(opened, 0);
  go.count_down();
  for (std::thread& program : programs) program.join();
}

TEST_F(BackgroundTest, AfterTheEndNothingIsTaken) {
  std::atomic<bool> done{false};
  EXPECT_TRUE(Begin(MakeFile("f"), [&] {
    std::this_thread::sleep_for(50ms);
    done = true;
    return Status::Ok();
  }));
  queue_->Finish(false);
  EXPECT_TRUE(done);
  EXPECT_FALSE(Begin(MakeFile("g"), [] { return Status::Ok(); }));
  EXPECT_FALSE(queue_->IsPossible());
}

}  // namespace
}  // namespace lzy::hooks
