// Several writers of one file: by calls or by mapped pages, the bytes and the errors are the same.
#include "base/shared_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/file_posix.h"
#include "base/many_writers.h"
#include "file_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// True if this process has mapped a file whose name ends with `name`.
bool IsMapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with("/" + name)) return true;
  }
  return false;
}

/// A file without a name. Signals interrupt calls in tests/trouble.
int OpenNew(const std::string& directory) {
  return posix::Retry([&] { return open(directory.c_str(), O_TMPFILE | O_RDWR, 0600); });
}

class SharedPagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (memory_.path().empty()) GTEST_SKIP() << "no /dev/shm";
    ASSERT_EQ(unsetenv("LZY_PARITY_WRITES"), 0);
  }
  /// A file of `size` bytes as tools open it.
  std::unique_ptr<File> Make(const TempDir& dir, std::uint64_t size) {
    fs_ = GuardedFileSystem({dir.path()});
    auto file = fs_->Open(dir / "f", OpenMode::kCreateNew);
    EXPECT_OK(file);
    EXPECT_OK((*file)->Truncate(size));
    return std::move(*file);
  }
  static Bytes Content(File& file, std::size_t size) {
    Bytes bytes(size);
    const auto got = file.ReadAt(0, bytes);
    EXPECT_OK(got);
    bytes.resize(got.ok() ? *got : 0);
    return bytes;
  }

  TempDir memory_{"/dev/shm"};
  TempDir disk_{"/var/tmp"};
  std::unique_ptr<FileSystem> fs_;
};

TEST_F(SharedPagesTest, AreTakenFromThreeWritersOnInAToolsFileOfATmpfs) {
  const auto file = Make(memory_, 8 * kMiB);
  for (const auto& [here, elsewhere, mapped] : {std::tuple{1u, 0u, false}, {2u, 0u, false}, {1u, 1u, false}, {3u, 0u, true},
                                                {1u, 2u, true}, {4u, 0u, true}, {2u, 0u, false}, {16u, 0u, true}}) {
    ExpectWriters(*file, here, elsewhere);
    EXPECT_EQ(IsMapped("f"), mapped) << here << " " << elsewhere;
  }
}

TEST_F(SharedPagesTest, AreNotTakenInAProgramOnADiskOrForShortFiles) {
  Make(memory_, 8 * kMiB);
  const auto programs = PosixFileSystem().Open(memory_ / "f", OpenMode::kReadWrite);
  ASSERT_OK(programs);
  ExpectWriters(**programs, 16, 16);
  EXPECT_FALSE(IsMapped("f"));
  const auto tools = fs_->Open(memory_ / "f", OpenMode::kReadWrite);
  ASSERT_OK((*tools)->Truncate(kMiB));
  ExpectWriters(**tools, 16, 16);
  EXPECT_FALSE(IsMapped("f"));
  const Descriptor disk(OpenNew(disk_.path()));
  const Descriptor memory(OpenNew(memory_.path()));
  EXPECT_FALSE(disk.valid() && posix::PagesBeatCalls(disk.get(), 8 * kMiB, 16));
  EXPECT_TRUE(posix::PagesBeatCalls(memory.get(), 8 * kMiB, 16));
}

TEST(ManyWriters, OfOtherProcessesAreThoseOfOneFile) {
  EXPECT_EQ(WritersElsewhere(4, 1, 1), 0u);
  EXPECT_EQ(WritersElsewhere(4, 3, 1), 8u);
  EXPECT_EQ(WritersElsewhere(1, 16, 8), 1u);
  EXPECT_EQ(WritersElsewhere(1, 8, 8), 0u);
  EXPECT_EQ(WritersElsewhere(2, 4, 0), 6u);
}

TEST_F(SharedPagesTest, CanBeChosenForMeasurements) {
  const auto file = Make(memory_, 8 * kMiB);
  ASSERT_EQ(setenv("LZY_PARITY_WRITES", "pages", 1), 0);
  ExpectWriters(*file, 1, 0);
  EXPECT_TRUE(IsMapped("f"));
  ASSERT_EQ(setenv("LZY_PARITY_WRITES", "calls", 1), 0);
  ExpectWriters(*file, 16, 0);
  EXPECT_FALSE(IsMapped("f"));
  ASSERT_EQ(unsetenv("LZY_PARITY_WRITES"), 0);
}

// Random pieces at random places, with holes between them and a size that is no multiple of a page. Threads share pages at
// the ends of their pieces.
TEST_F(SharedPagesTest, WriteTheSameBytesAsCalls) {
  std::mt19937_64 rng(40);
  for (int round = 0; round < 12; ++round) {
    const std::size_t size = 5 * kMiB + rng() % (3 * kMiB);
    const Bytes content = Pattern(size, static_cast<unsigned>(round) + 1);
    Bytes want(size, 0);
    struct Piece {
      std::size_t offset, length;
    };
    std::vector<Piece> pieces;
    for (std::size_t at = rng() % 5000; at < size;) {
      const std::size_t length = std::min<std::size_t>(size - at, rng() % 4 == 0 ? 1 + rng() % 9000 : 60000 + rng() % 300000);
      pieces.push_back({at, length});
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(at), length, want.begin() + static_cast<std::ptrdiff_t>(at));
      at += length + (rng() % 3 == 0 ? rng() % 40000 : 0);
    }
    std::ranges::shuffle(pieces, rng);
    const TempDir dir("/dev/shm");
    const auto file = Make(dir, size);
    ExpectWriters(*file, 4, round % 2);  // alone, one thread writes by calls meanwhile
    ASSERT_TRUE(IsMapped("f"));
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < pieces.size(); i += 4) {
          EXPECT_OK(file->WriteAt(pieces[i].offset, ByteSpan(content).subspan(pieces[i].offset, pieces[i].length)));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(Content(*file, size + 1) == want) << "round " << round;
  }
}

// The pages hold bytes that no call has written: without this test, a way that always falls back to calls would do.
TEST_F(SharedPagesTest, WriteWithoutACall) {
  const Descriptor fd(OpenNew(memory_.path()));
  ASSERT_EQ(posix::Retry([&] { return ftruncate(fd.get(), 4 * kMiB); }), 0);
  const auto pages = posix::SharedPages::Map(fd.get(), 4 * kMiB);
  ASSERT_NE(pages, nullptr);
  const Bytes content = Pattern(kMiB);
  ASSERT_TRUE(pages->Write(12345, content));
  Bytes got(kMiB);
  for (std::size_t done = 0; done < got.size();) {
    const ssize_t more = posix::Retry([&] { return pread(fd.get(), got.data() + done, got.size() - done, static_cast<off_t>(12345 + done)); });
    ASSERT_GT(more, 0);
    done += static_cast<std::size_t>(more);
  }
  EXPECT_TRUE(got == content);
  EXPECT_FALSE(pages->Write(4 * kMiB - 10, content)) << "past the end of the mapping";
  EXPECT_FALSE(pages->Write(8 * kMiB, content));
}

TEST_F(SharedPagesTest, SetTheTimeOfTheFile) {
  constexpr std::int64_t kLongAgo = 1'000'000'000'000'000'000;
  const auto file = Make(memory_, 8 * kMiB);
  ExpectWriters(*file, 1, 3);
  for (int round = 0; round < 2; ++round) {  // the pages are new, and then they exist
    ASSERT_OK(file->SetTimes(kLongAgo, kLongAgo));
    const std::int64_t before = CoarseNowNs();
    ASSERT_OK(file->WriteAt(kMiB, Pattern(kMiB)));
    const auto stat = file->Stat();
    ASSERT_OK(stat);
    EXPECT_GE(stat->mtime_ns, before);
    EXPECT_LE(stat->mtime_ns, WallClockNs());
  }
}

// Somebody cuts the file while it is written: no SIGBUS, and what a call would have done. If the piece ends in the page in
// which the file was cut, this page takes all bytes, but the file does not have them.
TEST_F(SharedPagesTest, ExtendAFileThatWasCutMeanwhileAsCallsDo) {
  for (const std::size_t left : {std::size_t{0}, std::size_t{4096}, 2 * kMiB, 2 * kMiB + 1000}) {
    const TempDir dir("/dev/shm");
    const auto file = Make(dir, 8 * kMiB);
    ExpectWriters(*file, 1, 3);
    ASSERT_EQ(posix::Retry([&] { return truncate((dir / "f").c_str(), static_cast<off_t>(left)); }), 0);
    const Bytes content = Pattern(100000);
    constexpr std::size_t kOffset = 2 * kMiB + 3000 - 100000;
    ASSERT_OK(file->WriteAt(kOffset, content));
    Bytes want(kOffset, 0);
    want.insert(want.end(), content.begin(), content.end());
    ASSERT_TRUE(Content(*file, 9 * kMiB) == want) << left;
  }
}

// The status of writing 8 MiB in pieces, by four threads, to a tmpfs of 6 MiB. The child of a fork gets the tmpfs.
int WriteToAFullTmpfs(const std::string& directory) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 2;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 2;
  if (mount("lzy-test", directory.c_str(), "tmpfs", 0, "size=6m") != 0) return 2;
  const auto fs = GuardedFileSystem({directory});
  const auto file = fs->Open(directory + "/f", OpenMode::kCreateNew);
  if (!file.ok() || !(*file)->Truncate(8 * kMiB).ok()) return 3;
  ExpectWriters(**file, 1, 3);
  if (!IsMapped("f")) return 4;
  std::vector<Status> results(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < 32 && results[t].ok(); i += 4) results[t] = (*file)->WriteAt(i * kMiB / 4, Bytes(kMiB / 4, 7));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& one : results) {
    if (one.message().find("No space left on device (make room there") != std::string::npos) return 0;
  }
  return 5;
}

TEST_F(SharedPagesTest, ReportAFullFileSystemAsCallsDo) {
  const pid_t child = fork();
  if (child == 0) _exit(WriteToAFullTmpfs(memory_.path()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(SharedPagesTest, ObeyTheLimitOfFileSizes) {
  const auto file = Make(memory_, 8 * kMiB);
  ExpectWriters(*file, 1, 3);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit now = before;
  now.rlim_cur = 2 * kMiB;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
  const Status written = file->WriteAt(3 * kMiB, Bytes(kMiB, 1));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(written.code(), Code::kIo);
  EXPECT_NE(written.message().find("File too large"), std::string::npos) << written.message();
}

// A file that was opened for reading cannot be mapped for writing.
TEST_F(SharedPagesTest, LeaveErrorsToCalls) {
  Make(memory_, 8 * kMiB);
  const auto file = fs_->Open(memory_ / "f", OpenMode::kRead);
  ASSERT_OK(file);
  ExpectWriters(**file, 1, 3);
  EXPECT_EQ((*file)->WriteAt(0, Bytes(kMiB, 1)).code(), Code::kIo);
}

}  // namespace
}  // namespace lzy::testing
