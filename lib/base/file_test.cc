#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Bytes = std::vector<std::uint8_t>;

/// A directory of its own, below a parent that decides the file system under test; removed at the end.
class TempDir {
 public:
  explicit TempDir(const std::string& parent = "/tmp") {
    std::string name = parent + "/lzy_file_test.XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

Bytes Pattern(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (auto& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

class FileTest : public ::testing::Test {
 protected:
  FileSystem& files_ = PosixFileSystem();
  TempDir dir_;

  std::unique_ptr<File> Make(const std::string& path, const Bytes& content = {}) {
    auto file = files_.Open(path, OpenMode::kCreateNew);
    EXPECT_OK(file);
    if (!file.ok()) return nullptr;
    EXPECT_OK((*file)->WriteAt(0, content));
    return std::move(*file);
  }
};

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
TEST_F(FileTest, StampsEveryChangeAfterALook) {
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
    EXPECT_CODE(file->ReadAtFromDevice(offset, one), Code::kInvalidArgument) << offset;
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
  EXPECT_EQ(by_file->device, by_name->device);
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
  ASSERT_OK(first->ReadAtFromDevice(0, byte));
  ASSERT_OK(files_.Open(dir_ / "f", OpenMode::kReadWrite));
  EXPECT_CODE((*second)->Lock(), Code::kBusy);
  first.reset();
  EXPECT_OK((*second)->Lock());
  auto read_only = files_.Open(dir_ / "f", OpenMode::kRead);
  ASSERT_OK(read_only);
  EXPECT_CODE((*read_only)->Lock(), Code::kInvalidArgument);
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
        auto got = block % 8 < 4 ? file->ReadAtFromDevice(block * 4096, back) : file->ReadAt(block * 4096, back);
        if (!got.ok() || *got != 4096 || !std::equal(back.begin(), back.end(), content.begin() + block * 4096)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- reading past the page cache, on a file system with O_DIRECT and on one that may be without ----

class DeviceReadTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (dir_.path().empty()) GTEST_SKIP() << GetParam() << " is not writable here";
  }
  TempDir dir_{GetParam()};
};

TEST_P(DeviceReadTest, EqualsPlainReadAtAnyOffsetAndLength) {
  constexpr std::size_t kSize =
      5 * (std::size_t{1} << 20) + 1234;  // more than one bounce buffer, and ends in mid-sector
  const Bytes content = Pattern(kSize);
  auto file = PosixFileSystem().Open(dir_ / "f", OpenMode::kCreateNew);
  ASSERT_OK(file);
  ASSERT_OK((*file)->WriteAt(0, content));  // not synced: the device must still be read as written
  for (std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{4096}, std::size_t{4097},
                             (std::size_t{4} << 20) - 1, kSize - 4096, kSize - 1, kSize, kSize + 1, kSize + 10000}) {
    for (std::size_t length :
         {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{8193}, kSize, (std::size_t{4} << 20)}) {
      Bytes plain(length, 0xaa);
      auto plain_count = (*file)->ReadAt(offset, plain);
      ASSERT_OK(plain_count);
      // Where the destination is aligned it is read to directly; what is behind the end of the file may then be anything.
      const std::unique_ptr<std::uint8_t, decltype(&std::free)> memory(
          static_cast<std::uint8_t*>(std::aligned_alloc(4096, length / 4096 * 4096 + 8192)), &std::free);
      for (const std::size_t shift : {std::size_t{0}, std::size_t{16}}) {
        const MutableByteSpan device(memory.get() + shift, length);
        auto device_count = (*file)->ReadAtFromDevice(offset, device);
        ASSERT_OK(device_count);
        ASSERT_EQ(*plain_count, *device_count) << offset << " " << length;
        ASSERT_EQ(*device_count, offset >= kSize ? 0 : std::min(length, kSize - offset));
        ASSERT_TRUE(std::equal(device.begin(), device.begin() + static_cast<std::ptrdiff_t>(*device_count), plain.begin()))
            << offset << " " << length << " " << shift;
      }
    }
  }
}

TEST_P(DeviceReadTest, SeesLaterWritesAndWorksOnARemovedFileOpenedForReading) {
  auto writer = PosixFileSystem().Open(dir_ / "f", OpenMode::kCreateNew);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->WriteAt(0, Pattern(10000)));
  auto reader = PosixFileSystem().Open(dir_ / "f", OpenMode::kRead);
  ASSERT_OK(reader);
  ASSERT_OK(PosixFileSystem().Remove(dir_ / "f"));
  for (unsigned seed : {1u, 2u, 3u}) {
    const Bytes content = Pattern(10000, seed);
    ASSERT_OK((*writer)->WriteAt(0, content));
    Bytes back(10000);
    auto count = (*reader)->ReadAtFromDevice(0, back);
    ASSERT_OK(count);
    EXPECT_EQ(*count, 10000u);
    EXPECT_TRUE(back == content) << seed;
  }
}

TEST_P(DeviceReadTest, FallsBackWithoutDirectAccess) {
  const Bytes content = Pattern(10000);
  auto file = PosixFileSystem().Open(dir_ / "f", OpenMode::kCreateNew);
  ASSERT_OK(file);
  ASSERT_OK((*file)->WriteAt(0, content));
  // No second descriptor is to be had, as if the file system refused O_DIRECT.
  rlimit limits{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limits), 0);
  const rlimit none{0, limits.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Bytes back(5000, 0xaa);
  auto whole = (*file)->ReadAtFromDevice(4099, back);
  const Bytes expected(content.begin() + 4099, content.begin() + 9099);
  Bytes end(5000);
  auto at_end = (*file)->ReadAtFromDevice(9999, end);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limits), 0);
  ASSERT_OK(whole);
  EXPECT_EQ(*whole, 5000u);
  EXPECT_TRUE(back == expected);
  ASSERT_OK(at_end);
  EXPECT_EQ(*at_end, 1u);
  EXPECT_EQ(end[0], content[9999]);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, DeviceReadTest, ::testing::Values("/tmp", "/dev/shm"),
                         [](const auto& test) { return std::string(test.param) == "/tmp" ? "tmp" : "shm"; });

// ---- access rights ----

/// A POSIX ACL as system.posix_acl_access holds it (linux/posix_acl_xattr.h): owner rw, user `who` with `permissions`,
/// group r, mask as given, others nothing.
Bytes Acl(std::uint32_t who, std::uint16_t permissions, std::uint16_t mask) {
  constexpr std::uint32_t kNobody = 0xffffffff;
  ByteWriter acl;
  acl.Put<std::uint32_t>(2);
  auto entry = [&](std::uint16_t tag, std::uint16_t allowed, std::uint32_t id) {
    acl.Put(tag);
    acl.Put(allowed);
    acl.Put(id);
  };
  entry(0x01, 6, kNobody);
  entry(0x02, permissions, who);
  entry(0x04, 4, kNobody);
  entry(0x10, mask, kNobody);
  entry(0x20, 0, kNobody);
  return acl.bytes();
}

bool SetAcl(const std::string& path, const Bytes& acl, const char* name = "system.posix_acl_access") {
  return setxattr(path.c_str(), name, acl.data(), acl.size(), 0) == 0;
}

class AccessTest : public FileTest {
 protected:
  void SetUp() override {
    like_ = Make(dir_ / "like");
    file_ = Make(dir_ / "file");
    ASSERT_TRUE(like_ && file_);
  }
  std::uint32_t ModeOf(File& file) {
    auto stat = file.Stat();
    EXPECT_OK(stat);
    return stat.ok() ? stat->mode : 0;
  }
  std::unique_ptr<File> like_;
  std::unique_ptr<File> file_;
};

TEST_F(AccessTest, CopiesTheModeWithoutExecuteAndSpecialBits) {
  const std::pair<mode_t, std::uint32_t> kCases[] = {{0600, 0600}, {0640, 0640},  {0644, 0644}, {0666, 0666},
                                                     {0755, 0644}, {06777, 0666}, {0444, 0444}, {0000, 0000}};
  for (auto [like, expected] : kCases) {
    for (mode_t before : {mode_t{0600}, mode_t{0666}, mode_t{0000}}) {
      ASSERT_EQ(chmod((dir_ / "like").c_str(), like), 0);
      ASSERT_EQ(chmod((dir_ / "file").c_str(), before), 0);
      ASSERT_OK(file_->CopyAccess(*like_));
      EXPECT_EQ(ModeOf(*file_), expected) << std::oct << like << " over " << before;
      EXPECT_EQ(ModeOf(*like_), like);
    }
  }
}

TEST_F(AccessTest, CopiesTheOwnerWhenPrivileged) {
  if (geteuid() != 0) GTEST_SKIP() << "needs privilege";
  ASSERT_EQ(chown((dir_ / "like").c_str(), 1234, 2345), 0);
  ASSERT_EQ(chmod((dir_ / "like").c_str(), 0660), 0);
  ASSERT_OK(file_->CopyAccess(*like_));
  auto stat = file_->Stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->uid, 1234u);
  EXPECT_EQ(stat->gid, 2345u);
  EXPECT_EQ(stat->mode, 0660u);
}

TEST_F(AccessTest, WithoutPrivilegeTheForeignGroupIsKeptOut) {
  if (geteuid() != 0) GTEST_SKIP() << "needs privilege to make a foreign file";
  ASSERT_EQ(chown((dir_ / "like").c_str(), 1234, 2345), 0);
  ASSERT_EQ(chown((dir_ / "file").c_str(), 4321, 4321), 0);
  const std::pair<mode_t, std::uint32_t> kCases[] = {{0660, 0600}, {0664, 0604}, {0646, 0604}, {0604, 0600}};
  for (auto [like, expected] : kCases) {
    ASSERT_EQ(chmod((dir_ / "like").c_str(), like), 0);
    // CopyAccess as user 4321, in a child: credentials are not to be had back easily.
    pid_t child = fork();
    if (child == 0) {
      if (setgid(4321) != 0 || setuid(4321) != 0) _exit(2);
      _exit(file_->CopyAccess(*like_).ok() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    auto stat = file_->Stat();
    ASSERT_OK(stat);
    EXPECT_EQ(stat->mode, expected) << std::oct << like;
    EXPECT_EQ(stat->uid, 4321u);
    EXPECT_EQ(stat->gid, 4321u);
  }
}

TEST_F(AccessTest, CopiesTheAclAndNotItsMaskAsGroupBits) {
  const Bytes acl = Acl(1234, 7, 7);
  if (!SetAcl(dir_ / "like", acl)) GTEST_SKIP() << "no ACLs on this file system";
  EXPECT_EQ(ModeOf(*like_), 0670u) << "the mask shows as group bits";
  ASSERT_OK(file_->CopyAccess(*like_));
  auto copied = file_->AccessAcl();
  ASSERT_OK(copied);
  EXPECT_EQ(*copied, Acl(1234, 6, 6)) << "without execute";
  EXPECT_EQ(ModeOf(*file_), 0660u);
  ASSERT_OK(file_->CopyAccess(*like_));
  EXPECT_EQ(file_->AccessAcl().value(), Acl(1234, 6, 6));

  // And away again when there is none to copy.
  auto plain = Make(dir_ / "plain");
  EXPECT_THAT(plain->AccessAcl().value(), IsEmpty());
  ASSERT_OK(file_->CopyAccess(*plain));
  EXPECT_THAT(file_->AccessAcl().value(), IsEmpty());
  EXPECT_EQ(ModeOf(*file_), 0600u);
}

TEST_F(AccessTest, AnAclInheritedFromTheDirectoryIsRemoved) {
  if (!SetAcl(dir_.path(), Acl(1234, 7, 7), "system.posix_acl_default")) GTEST_SKIP() << "no ACLs on this file system";
  auto inherited = files_.Open(dir_ / "inherited", OpenMode::kCreateNew, true, 0660);
  ASSERT_OK(inherited);
  ASSERT_FALSE((*inherited)->AccessAcl().value().empty());
  ASSERT_OK((*inherited)->CopyAccess(*like_));
  EXPECT_THAT((*inherited)->AccessAcl().value(), IsEmpty());
  EXPECT_EQ(ModeOf(**inherited), 0600u);
}

// ---- directories ----

TEST_F(FileTest, ListIsSorted) {
  for (const char* name : {"b", "a", ".hidden", "B", "a10", "a9"}) Make(dir_ / name);
  auto names = files_.List(dir_.path());
  ASSERT_OK(names);
  EXPECT_THAT(*names, ElementsAre(".hidden", "B", "a", "a10", "a9", "b"));
  auto missing = files_.List(dir_ / "none");
  EXPECT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr(dir_ / "none"));
  EXPECT_CODE(files_.List(dir_ / "a"), Code::kIo);
}

TEST_F(FileTest, RenameIfAbsentNeverReplaces) {
  ASSERT_OK(files_.Open(dir_ / "old", OpenMode::kCreateNew));
  auto old_stat = files_.Stat(dir_ / "old");
  auto renamed = files_.RenameIfAbsent(dir_ / "old", dir_ / "new");
  ASSERT_OK(renamed);
  EXPECT_TRUE(*renamed);
  EXPECT_CODE(files_.Stat(dir_ / "old"), Code::kNotFound);
  ASSERT_OK(files_.Open(dir_ / "other", OpenMode::kCreateNew));
  renamed = files_.RenameIfAbsent(dir_ / "other", dir_ / "new");
  ASSERT_OK(renamed);
  EXPECT_FALSE(*renamed);
  EXPECT_OK(files_.Stat(dir_ / "other"));
  EXPECT_EQ(files_.Stat(dir_ / "new")->inode, old_stat->inode);
  EXPECT_CODE(files_.RenameIfAbsent(dir_ / "old", dir_ / "newer"), Code::kNotFound);
}

TEST_F(FileTest, RenameReplacesAndRemoveRemoves) {
  Make(dir_ / "old", {1});
  Make(dir_ / "new", {2});
  ASSERT_OK(files_.Rename(dir_ / "old", dir_ / "new"));
  ASSERT_OK(files_.SyncDirectory(dir_.path()));
  EXPECT_THAT(files_.List(dir_.path()).value(), ElementsAre("new"));
  auto file = files_.Open(dir_ / "new", OpenMode::kRead);
  ASSERT_OK(file);
  Bytes back(1);
  ASSERT_OK(ReadExactly(**file, 0, back));
  EXPECT_EQ(back[0], 1);
  Status missing = files_.Rename(dir_ / "old", dir_ / "newer");
  EXPECT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr(dir_ / "old"));
  EXPECT_THAT(missing.message(), HasSubstr(dir_ / "newer"));
  ASSERT_OK(files_.Remove(dir_ / "new"));
  Status gone = files_.Remove(dir_ / "new");
  EXPECT_CODE(gone, Code::kNotFound);
  EXPECT_THAT(gone.message(), StartsWith(dir_ / "new"));
}

TEST_F(FileTest, SyncDirectoryWantsADirectory) {
  Make(dir_ / "f");
  EXPECT_CODE(files_.SyncDirectory(dir_ / "f"), Code::kIo);
  EXPECT_CODE(files_.SyncDirectory(dir_ / "none"), Code::kNotFound);
}

TEST_F(FileTest, MakesDirectoriesWithTheirParents) {
  ASSERT_OK(files_.MakeDirectories(dir_ / "a/b/c"));
  ASSERT_OK(files_.MakeDirectories(dir_ / "a/b/c"));
  ASSERT_OK(files_.MakeDirectories(dir_ / "a//d/"));
  EXPECT_THAT(files_.List(dir_ / "a").value(), ElementsAre("b", "d"));
  EXPECT_OK(files_.MakeDirectories("/"));
  ASSERT_EQ(symlink("a", (dir_ / "link").c_str()), 0);
  EXPECT_OK(files_.MakeDirectories(dir_ / "link"));
  Make(dir_ / "f");
  for (const char* name : {"f", "f/below"}) {
    Status refused = files_.MakeDirectories(dir_ / name);
    EXPECT_CODE(refused, Code::kIo);
    EXPECT_THAT(refused.message(), StartsWith(dir_ / name));
  }
  EXPECT_FALSE(files_.MakeDirectories("").ok());
}

TEST_F(FileTest, RealPathResolvesAllButAMissingName) {
  auto base = files_.RealPath(dir_.path());
  ASSERT_OK(base);
  Make(dir_ / "f");
  ASSERT_EQ(mkdir((dir_ / "d").c_str(), 0700), 0);
  ASSERT_EQ(symlink("d", (dir_ / "to_d").c_str()), 0);
  ASSERT_EQ(symlink("../f", (dir_ / "d/to_f").c_str()), 0);
  ASSERT_EQ(symlink("d/nothing", (dir_ / "dangling").c_str()), 0);
  ASSERT_EQ(symlink("loop", (dir_ / "loop").c_str()), 0);
  const std::pair<std::string, std::string> kCases[] = {
      {"f", "/f"},
      {"d/../f", "/f"},
      {"to_d/to_f", "/f"},
      {"to_d/new", "/d/new"},
      {"missing", "/missing"},
      {"to_d/../new", "/new"},
      {"dangling", "/d/nothing"},
  };
  for (const auto& [path, expected] : kCases) {
    auto real = files_.RealPath(dir_ / path);
    ASSERT_OK(real);
    EXPECT_EQ(*real, *base + expected) << path;
  }
  auto missing = files_.RealPath(dir_ / "none/f");
  EXPECT_CODE(missing, Code::kNotFound);
  EXPECT_THAT(missing.status().message(), StartsWith(dir_ / "none/f"));
  EXPECT_CODE(files_.RealPath(dir_ / "loop"), Code::kIo);
  auto relative = files_.RealPath("lzy_file_test_no_such_file");
  ASSERT_OK(relative);
  EXPECT_EQ(*relative, JoinPath(std::filesystem::current_path(), "lzy_file_test_no_such_file"));
}

}  // namespace
}  // namespace lzy
