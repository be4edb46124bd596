// One file: opening, reading, writing, times, locks.
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "file_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(FileTest, WritesAndReads) {
  const Bytes content = Pattern(10000);
  auto file = Make(dir_ / "f", content);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path(), dir_ / "f");
  Bytes back(content.size());
  auto count = file->ReadAt(0, back);
  ASSERT_OK(count);
  EXPECT_EQ(*count, content.size());
  EXPECT_EQ(back, content);
  ASSERT_OK(file->Sync());

  // Up to the end of the file, past it, and nothing.
  auto tail = file->ReadAt(9990, back);
  ASSERT_OK(tail);
  EXPECT_EQ(*tail, 10u);
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + 10, content.end() - 10));
  auto past = file->ReadAt(20000, back);
  ASSERT_OK(past);
  EXPECT_EQ(*past, 0u);
  auto nothing = file->ReadAt(0, {});
  ASSERT_OK(nothing);
  EXPECT_EQ(*nothing, 0u);
}

TEST_F(FileTest, WritingPastTheEndLeavesZeros) {
  auto file = Make(dir_ / "f", {1, 2});
  ASSERT_OK(file->WriteAt(6, Bytes{9}));
  Bytes back(8, 0xff);
  auto count = file->ReadAt(0, back);
  ASSERT_OK(count);
  EXPECT_EQ(*count, 7u);
  EXPECT_EQ(back, (Bytes{1, 2, 0, 0, 0, 0, 9, 0xff}));
}

// Where it says so; elsewhere there is nothing to be held to.
TEST_F(FileTest, EveryWriteAfterAStatChangesTheMtime) {
  for (const char* parent : {"/tmp", "/dev/shm"}) {
    const TempDir directory(parent);
    auto file = PosixFileSystem().Open(directory.path() + "/f", OpenMode::kCreateNew);
    if (!file.ok() || !(*file)->StampsEveryChange()) continue;
    std::int64_t last = 0;
    for (int i = 0; i < 2000; ++i) {
      ASSERT_OK((*file)->WriteAt(0, Bytes{1}));
      const auto stat = (*file)->Stat();
      ASSERT_OK(stat.status());
      ASSERT_GT(stat->mtime_ns, last) << i << " in " << parent;
      last = stat->mtime_ns;
    }
  }
}

TEST_F(FileTest, TruncateShrinksAndGrows) {
  auto file = Make(dir_ / "f", {1, 2, 3, 4});
  ASSERT_OK(file->Truncate(2));
  ASSERT_OK(file->Truncate(5));
  Bytes back(5, 0xff);
  ASSERT_OK(file->ReadAt(0, back));
  EXPECT_EQ(back, (Bytes{1, 2, 0, 0, 0}));
  auto stat = file->Stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->size, 5u);
}

TEST_F(FileTest, OffsetsBeyondAnyFileAreRefused) {
  auto file = Make(dir_ / "f");
  Bytes one(1);
  for (std::uint64_t offset : {std::uint64_t{1} << 63, ~std::uint64_t{0}, (std::uint64_t{1} << 63) - 1}) {
    EXPECT_CODE(file->ReadAt(offset, one), Code::kInvalidArgument) << offset;
    EXPECT_CODE(file->ReadAtUncached(offset, one), Code::kInvalidArgument) << offset;
    EXPECT_CODE(file->WriteAt(offset, one), Code::kInvalidArgument) << offset;
  }
  EXPECT_CODE(file->Truncate(std::uint64_t{1} << 63), Code::kInvalidArgument);
}

TEST_F(FileTest, OpenModes) {
  const std::string path = dir_ / "f";
  for (OpenMode mode : {OpenMode::kRead, OpenMode::kReadWrite}) {
    auto missing = files_.Open(path, mode);
    EXPECT_CODE(missing, Code::kNotFound);
    EXPECT_THAT(missing.status().message(), StartsWith(path + ": open: "));
  }
  {
    auto made = files_.Open(path, OpenMode::kCreate);
    ASSERT_OK(made);
    ASSERT_OK((*made)->WriteAt(0, Bytes{1, 2, 3}));
  }
  auto kept = files_.Open(path, OpenMode::kCreate);
  ASSERT_OK(kept);
  Bytes back(3);
  ASSERT_OK(ReadExactly(**kept, 0, back));
  EXPECT_EQ(back, (Bytes{1, 2, 3}));
  auto again = files_.Open(path, OpenMode::kCreateNew);
  EXPECT_CODE(again, Code::kIo);
  EXPECT_THAT(again.status().message(), StartsWith(path + ": open: "));

  auto read_only = files_.Open(path, OpenMode::kRead);
  ASSERT_OK(read_only);
  Status refused = (*read_only)->WriteAt(0, Bytes{1});
  EXPECT_CODE(refused, Code::kIo);
  EXPECT_THAT(refused.message(), StartsWith(path + ": write"));
}

TEST_F(FileTest, CreatesWithTheGivenMode) {
  auto file = files_.Open(dir_ / "f", OpenMode::kCreateNew, true, 0400);
  ASSERT_OK(file);
  auto stat = (*file)->Stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->mode, 0400u);
  EXPECT_OK((*file)->WriteAt(0, Bytes{1}));  // the mode binds later opens, not this one
}

TEST_F(FileTest, DescriptorIsBlockingAndClosedOnExec) {
  auto file = Make(dir_ / "f");
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) != dir_ / "f") continue;
    int fd = std::stoi(entry.path().filename().string());
    EXPECT_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ++checked;
  }
  EXPECT_EQ(checked, 1);
}

TEST_F(FileTest, OnlyRegularFilesOpen) {
  ASSERT_EQ(mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((dir_ / "dir").c_str(), 0700), 0);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (dir_ / "socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  for (OpenMode mode : {OpenMode::kRead, OpenMode::kReadWrite, OpenMode::kCreate}) {
    for (const std::string& path : {dir_ / "fifo", dir_ / "dir", dir_ / "socket", std::string("/dev/null")}) {
      auto opened = files_.Open(path, mode);
      EXPECT_CODE(opened, Code::kInvalidArgument) << path;
      EXPECT_THAT(opened.status().message(), HasSubstr(path));
    }
  }
  close(fd);
}

TEST_F(FileTest, SymlinksAreFollowedOnlyWhenAsked) {
  Make(dir_ / "target", {7});
  ASSERT_EQ(symlink("target", (dir_ / "link").c_str()), 0);
  EXPECT_OK(files_.Open(dir_ / "link", OpenMode::kRead));
  for (OpenMode mode : {OpenMode::kRead, OpenMode::kCreate}) {
    auto refused = files_.Open(dir_ / "link", mode, false);
    EXPECT_CODE(refused, Code::kInvalidArgument);
    EXPECT_EQ(refused.status().message(), dir_ / "link" + ": is a symbolic link");
  }
  EXPECT_OK(files_.Open(dir_ / "target", OpenMode::kRead, false));
  auto through = files_.Stat(dir_ / "link");
  ASSERT_OK(through);
  EXPECT_EQ(through->type, FileStat::Type::kRegular);
  auto itself = files_.Stat(dir_ / "link", false);
  ASSERT_OK(itself);
  EXPECT_EQ(itself->type, FileStat::Type::kOther);
}

TEST_F(FileTest, PathsWithNulAreRefused) {
  Make(dir_ / "f");
  EXPECT_CODE(files_.Open(dir_ / "f" + std::string("\0x", 2), OpenMode::kRead), Code::kInvalidArgument);
  EXPECT_CODE(files_.Remove(dir_ / "f" + std::string("\0x", 2)), Code::kInvalidArgument);
  EXPECT_OK(files_.Stat(dir_ / "f"));
}

TEST_F(FileTest, StatSaysTheSameByNameAndByFile) {
  auto file = Make(dir_ / "f", Pattern(123));
  ASSERT_EQ(link((dir_ / "f").c_str(), (dir_ / "g").c_str()), 0);
  auto by_file = file->Stat();
  auto by_name = files_.Stat(dir_ / "g");
  ASSERT_OK(by_file);
  ASSERT_OK(by_name);
  EXPECT_EQ(by_file->size, 123u);
  EXPECT_EQ(by_file->links, 2u);
  EXPECT_EQ(by_file->inode, by_name->inode);
  EXPECT_EQ(by_file->file_system, by_name->file_system);
  EXPECT_EQ(by_file->mtime_ns, by_name->mtime_ns);
  EXPECT_EQ(by_file->uid, getuid());
  constexpr std::int64_t kMinuteNs = 60'000'000'000;  // mtime may be ahead of the coarse clock
  EXPECT_LE(std::abs(by_file->mtime_ns - CoarseNowNs()), kMinuteNs);
  auto directory = files_.Stat(dir_.path());
  ASSERT_OK(directory);
  EXPECT_EQ(directory->type, FileStat::Type::kDirectory);
  auto missing = files_.Stat(dir_ / "none");
  EXPECT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr(dir_ / "none"));
}

TEST_F(FileTest, TimesRoundTripToTheNanosecond) {
  auto file = Make(dir_ / "f");
  for (std::int64_t mtime : {std::int64_t{1'700'000'000'123'456'789}, std::int64_t{1}, std::int64_t{-1},
                             std::int64_t{-1'000'000'000}, std::int64_t{-1'500'000'001}}) {
    const std::int64_t atime = mtime + 1'000'000'007;
    ASSERT_OK(file->SetTimes(atime, mtime));
    auto stat = file->Stat();
    ASSERT_OK(stat);
    EXPECT_EQ(stat->mtime_ns, mtime);
    EXPECT_EQ(stat->atime_ns, atime);
  }
}

TEST_F(FileTest, LockExcludesOthersUntilClosed) {
  auto first = Make(dir_ / "f");
  auto second = files_.Open(dir_ / "f", OpenMode::kReadWrite);
  ASSERT_OK(second);
  ASSERT_OK(first->Lock());
  EXPECT_OK(first->Lock());  // one's own lock is no obstacle
  Status busy = (*second)->Lock();
  EXPECT_CODE(busy, Code::kBusy);
  EXPECT_EQ(busy.message(), dir_ / "f" + ": locked by another process");
  // Neither closing another descriptor of the file nor one for O_DIRECT gives the lock away.
  Bytes byte(1);
  ASSERT_OK(first->ReadAtUncached(0, byte));
  ASSERT_OK(files_.Open(dir_ / "f", OpenMode::kReadWrite));
  EXPECT_CODE((*second)->Lock(), Code::kBusy);
  first.reset();
  EXPECT_OK((*second)->Lock());
  auto read_only = files_.Open(dir_ / "f", OpenMode::kRead);
  ASSERT_OK(read_only);
  EXPECT_CODE((*read_only)->Lock(), Code::kInvalidArgument);
}

// Servers of FUSE file systems keep a descriptor for a while, and with it the lock, as a copy of the descriptor does here.
TEST_F(FileTest, TheLockEndsWithTheFileEvenIfSomebodyKeepsItsDescriptor) {
  auto first = Make(dir_ / "f");
  ASSERT_OK(first->Lock());
  const Descriptor kept(dup(first->SystemDescriptor()));
  ASSERT_TRUE(kept.valid());
  first.reset();
  auto second = files_.Open(dir_ / "f", OpenMode::kReadWrite);
  ASSERT_OK(second);
  EXPECT_OK((*second)->Lock());
}

TEST_F(FileTest, AReaderSeesThatSomebodyHoldsTheLock) {
  auto holder = Make(dir_ / "f");
  auto reader = files_.Open(dir_ / "f", OpenMode::kRead);
  ASSERT_OK(reader);
  EXPECT_FALSE((*reader)->FindLockHolder());
  ASSERT_OK(holder->Lock());
  EXPECT_FALSE(holder->FindLockHolder()) << "one's own lock is none of somebody else";
  const auto found = (*reader)->FindLockHolder();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->process, 0) << "OFD locks have no process";
  holder.reset();
  EXPECT_FALSE((*reader)->FindLockHolder());
  // A lock of the older kind tells its process.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    int fd = -1, locked = -1;
    while ((fd = open((dir_ / "f").c_str(), O_RDWR)) < 0 && errno == EINTR) {}
    while ((locked = fcntl(fd, F_SETLK, &lock)) != 0 && errno == EINTR) {}
    _exit(locked == 0 && raise(SIGSTOP) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto process = (*reader)->FindLockHolder();
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->process, child);
}

TEST_F(FileTest, WritePastTheSizeLimitIsAnErrorAndNoSignal) {
  auto file = Make(dir_ / "f", Bytes(5000));
  auto stat_code = [&](std::uint64_t limit) {
    // In a child, which SIGXFSZ would end.
    pid_t child = fork();
    if (child == 0) {
      rlimit limits{limit, limit};
      setrlimit(RLIMIT_FSIZE, &limits);
      bool right = file->WriteAt(4000, Bytes(96)).ok() && file->WriteAt(4096, Bytes(1)).code() == Code::kIo &&
                   file->Truncate(6000).code() == Code::kIo && file->Truncate(4500).ok();
      _exit(right ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  };
  EXPECT_EQ(stat_code(4096), 0);
}

TEST_F(FileTest, ManyThreadsReadAtOnce) {
  const Bytes content = Pattern(64 * 4096);
  auto file = Make(dir_ / "f", content);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Bytes back(4096);
      for (std::size_t block = t; block < 64; block += 4) {
        auto got = block % 8 < 4 ? file->ReadAtUncached(block * 4096, back) : file->ReadAt(block * 4096, back);
        if (!got.ok() || *got != 4096 || !std::equal(back.begin(), back.end(), content.begin() + block * 4096)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lzy::testing
