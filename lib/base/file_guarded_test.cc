#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/file.h"
#include "status_matchers.h"

namespace lzy {
namespace {

namespace stdfs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uid_t kStranger = 65534;

/// Works in a directory of its own: d/f, d/sub/g, and what is not for everybody in outside/.
class Guarded : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lzy-guarded-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = stdfs::canonical(name);
    stdfs::current_path(root_);
    for (const char* path : {"d/f", "d/sub/g", "outside/f", "outside/sub/g"}) {
      stdfs::create_directories(stdfs::path(path).parent_path());
      Write(path, path);
    }
  }
  void TearDown() override {
    stdfs::current_path("/");
    stdfs::remove_all(root_);
  }

  static void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// What is in the file that `fs` opens there.
  static std::string Opened(FileSystem& fs, const std::string& path) {
    auto file = fs.Open(path, OpenMode::kRead);
    if (!file.ok()) return file.status().message();
    std::string text(100, '\0');
    const auto got = (*file)->ReadAt(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return got.ok() ? text.substr(0, *got) : got.status().message();
  }

  std::string root_;
};

TEST_F(Guarded, AllOperationsWorkBelowNamedPaths) {
  const auto fs = GuardedFileSystem({"d/f", "d/sub"});
  EXPECT_EQ(Opened(*fs, "d/f"), "d/f");
  EXPECT_EQ(Opened(*fs, root_ + "/d/sub/g"), "d/sub/g");
  EXPECT_EQ(Opened(*fs, "./d//sub/./g"), "d/sub/g");
  const auto names = fs->List("d");
  ASSERT_OK(names);
  EXPECT_THAT(*names, ElementsAre("f", "sub"));
  ASSERT_OK(fs->MakeDirectories("d/a/b/c/"));
  ASSERT_OK(fs->MakeDirectories("d/a/b"));
  ASSERT_OK(fs->Open("d/a/b/new", OpenMode::kCreateNew).status());
  EXPECT_CODE(fs->Open("d/a/b/new", OpenMode::kCreateNew), Code::kIo);
  ASSERT_OK(fs->Rename("d/a/b/new", "d/moved"));
  const auto moved = fs->RenameIfAbsent("d/moved", "d/f");
  ASSERT_OK(moved);
  EXPECT_FALSE(*moved);
  ASSERT_OK(fs->Remove("d/moved"));
  EXPECT_CODE(fs->Remove("d/moved"), Code::kNotFound);
  EXPECT_CODE(fs->Open("d/none/x", OpenMode::kRead), Code::kNotFound);
  EXPECT_CODE(fs->Stat("d/none/x"), Code::kNotFound);
  ASSERT_OK(fs->SyncDirectory("d"));
  for (const auto& [path, real] :
       {std::pair<std::string, std::string>{"d/f", "/d/f"}, {"d", "/d"}, {".", ""}, {"d/none", "/d/none"}}) {
    const auto is = fs->RealPath(path);
    ASSERT_OK(is);
    EXPECT_EQ(*is, root_ + real);
  }
  for (const auto& [path, type] : {std::pair{"d", FileStat::Type::kDirectory},
                                   {"d/f", FileStat::Type::kRegular},
                                   {"d/..", FileStat::Type::kDirectory},
                                   {"/", FileStat::Type::kDirectory}}) {
    const auto stat = GuardedFileSystem({path})->Stat(path);
    ASSERT_OK(stat);
    EXPECT_EQ(stat->type, type) << path;
  }
}

TEST_F(Guarded, FollowsLinksInNamedPathsAndNoOthers) {
  stdfs::create_symlink("outside", "to_outside");
  stdfs::create_symlink("../to_outside/f", "d/link");
  stdfs::create_symlink("f", "d/other");
  stdfs::create_directory_symlink("../outside", "d/away");
  for (const char* path : {"d/link", "to_outside/f", "d/away/f"}) {
    const auto fs = GuardedFileSystem({path});
    EXPECT_EQ(Opened(*fs, path), "outside/f");
    const auto real = fs->RealPath(path);
    ASSERT_OK(real);
    EXPECT_EQ(*real, root_ + "/outside/f");
    EXPECT_EQ(Opened(*fs, *real), "outside/f");
    EXPECT_THAT(Opened(*fs, "d/other"), HasSubstr("d/other: is a symbolic link"));
    EXPECT_CODE(fs->Open("d/other", OpenMode::kReadWrite), Code::kIo);
    EXPECT_CODE(fs->Open("d/other", OpenMode::kCreate, /*follow=*/false), Code::kIo);
  }
  const auto fs = GuardedFileSystem({"d"});
  const auto stat = fs->Stat("d/link");
  ASSERT_OK(stat);
  EXPECT_EQ(stat->type, FileStat::Type::kOther);
  const auto real = fs->RealPath("d/link");
  ASSERT_OK(real);
  EXPECT_EQ(*real, root_ + "/d/link");
}

TEST_F(Guarded, LinksToDirectoriesThatTheUserOwnsAreFollowed) {
  stdfs::create_directory_symlink("../outside", "d/away");
  const auto as = [&](uid_t uid, const std::string& path) {
    if (geteuid() == 0 && uid != 0) {
      stdfs::permissions(root_, stdfs::perms::group_all | stdfs::perms::others_all, stdfs::perm_options::add);
      EXPECT_EQ(lchown("d/away", uid, uid), 0);
      EXPECT_EQ(seteuid(uid), 0);
    }
    const auto fs = GuardedFileSystem({"d"});
    std::string said = Opened(*fs, path);
    if (getuid() == 0) {
      EXPECT_EQ(seteuid(0), 0);
    }
    return said;
  };
  // By root only where nobody else can move them.
  if (geteuid() == 0) {
    EXPECT_EQ(as(0, "d/away/f"), "outside/f");
    for (const char* path : {"d", "."}) {
      const auto before = stdfs::status(path).permissions();
      EXPECT_EQ(chown(path, kStranger, kStranger), 0);
      EXPECT_THAT(as(0, "d/away/f"), HasSubstr("d/away: is a symbolic link"));
      EXPECT_EQ(chown(path, 0, 0), 0);
      stdfs::permissions(path, stdfs::perms::group_write, stdfs::perm_options::add);
      EXPECT_THAT(as(0, "d/away/f"), HasSubstr("d/away: is a symbolic link"));
      stdfs::permissions(path, before);
    }
    EXPECT_EQ(as(0, "d/away/f"), "outside/f");
  }
  EXPECT_EQ(as(kStranger, "d/away/f"), "outside/f");
}

TEST_F(Guarded, ADirectoryThatIsReplacedByALinkIsStillUsed) {
  const auto fs = GuardedFileSystem({"d/f"});
  EXPECT_EQ(Opened(*fs, "d/sub/g"), "d/sub/g");
  stdfs::rename("d/sub", "d/was");
  stdfs::create_directory_symlink("../outside/sub", "d/sub");
  EXPECT_EQ(Opened(*fs, "d/sub/g"), "d/sub/g");
  ASSERT_OK(fs->Open("d/sub/new", OpenMode::kCreateNew).status());
  stdfs::rename("d", "e");
  stdfs::create_directory_symlink("outside", "d");
  ASSERT_OK(fs->Rename("d/sub/new", "d/renamed"));
  ASSERT_OK(fs->MakeDirectories("d/made"));
  EXPECT_TRUE(stdfs::exists("e/renamed") && stdfs::exists("e/made"));
  EXPECT_EQ(Opened(*fs, "d/f"), "d/f");
  EXPECT_FALSE(stdfs::exists("outside/renamed") || stdfs::exists("outside/made") || stdfs::exists("outside/sub/new"));
}

TEST_F(Guarded, ANamedLinkThatIsReplacedStillLeadsToItsFirstTarget) {
  stdfs::create_symlink("d/f", "link");
  const auto fs = GuardedFileSystem({"link", "d/sub/g"});
  EXPECT_EQ(Opened(*fs, "link"), "d/f");
  EXPECT_EQ(Opened(*fs, "d/sub/g"), "d/sub/g");
  stdfs::remove("link");
  stdfs::create_symlink("outside/f", "link");
  stdfs::remove("d/sub/g");
  stdfs::create_symlink("../../outside/f", "d/sub/g");
  EXPECT_EQ(Opened(*fs, "link"), "d/f");
  EXPECT_THAT(Opened(*fs, "d/sub/g"), HasSubstr("is a symbolic link"));
}

TEST_F(Guarded, ManyDirectoriesAreNotAllHeldOpen) {
  const auto fs = GuardedFileSystem({"d"});
  for (int i = 0; i < 200; ++i) {
    const std::string path = "d/n" + std::to_string(i);
    ASSERT_OK(fs->MakeDirectories(path));
    Write(path + "/f", path);
    ASSERT_EQ(Opened(*fs, path + "/f"), path);
  }
  EXPECT_LT(std::distance(stdfs::directory_iterator("/proc/self/fd"), {}), 150);
  EXPECT_EQ(Opened(*fs, "d/n0/f"), "d/n0");
}

TEST_F(Guarded, RefusesPathsThatLeadOutside) {
  const auto fs = GuardedFileSystem({"d/f"});
  for (const char* path : {"d/sub/../../outside/f", "d/../outside/f", "d/sub/../f"}) {
    EXPECT_CODE(fs->Open(path, OpenMode::kRead), Code::kInvalidArgument) << path;
    EXPECT_CODE(fs->MakeDirectories(std::string(path) + "/x"), Code::kInvalidArgument) << path;
  }
  EXPECT_CODE(fs->Open(std::string("d/f\0x", 5), OpenMode::kRead), Code::kInvalidArgument);
  EXPECT_CODE(fs->Rename("d/f", std::string("d/f\0x", 5)), Code::kInvalidArgument);
  // What the user wrote himself may.
  EXPECT_EQ(Opened(*GuardedFileSystem({"d/../outside/f"}), "d/../outside/f"), "outside/f");
  stdfs::create_symlink("two", "one");
  stdfs::create_symlink("one", "two");
  EXPECT_CODE(GuardedFileSystem({"one/f"})->Open("one/f", OpenMode::kRead), Code::kIo);
  EXPECT_CODE(GuardedFileSystem({"one"})->Open("one", OpenMode::kRead), Code::kIo);
}

TEST_F(Guarded, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(mkfifo("d/fifo", 0600), 0);
  const auto fs = GuardedFileSystem({"d", "d/fifo"});
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kReadWrite, OpenMode::kCreate}) {
    for (const char* path : {"d/fifo", "d/sub"}) EXPECT_CODE(fs->Open(path, mode), Code::kInvalidArgument) << path;
  }
}

/// What needs files of two users.
class GuardedRoot : public Guarded {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root makes files of others";
    Guarded::SetUp();
    ASSERT_EQ(chown("d", kStranger, kStranger), 0);
    ASSERT_EQ(chown("d/f", kStranger, kStranger), 0);
  }
  static void Link(const std::string& target, const std::string& path) {
    stdfs::create_symlink(target, path);
    ASSERT_EQ(lchown(path.c_str(), kStranger, kStranger), 0);
  }
};

TEST_F(GuardedRoot, ALinkOfAnotherUserLeadsOnlyToFilesOfThatUser) {
  Link("f", "d/fine");
  Link("../outside/f", "d/foul");
  Link("../outside", "d/away");
  Link("away/f", "d/twice");
  Link("../outside/none", "d/dangling");
  Link("none", "d/lost");
  EXPECT_EQ(Opened(*GuardedFileSystem({"d/fine"}), "d/fine"), "d/f");
  for (const char* path : {"d/foul", "d/away/f", "d/twice", "d/dangling"}) {
    const auto fs = GuardedFileSystem({path});
    EXPECT_THAT(Opened(*fs, path), HasSubstr("root does not follow it")) << path;
    EXPECT_CODE(fs->Open(path, OpenMode::kCreate), Code::kIo) << path;
    EXPECT_CODE(fs->RealPath(path), Code::kIo) << path;
  }
  EXPECT_CODE(GuardedFileSystem({"d/lost"})->Open("d/lost", OpenMode::kRead), Code::kNotFound);
  EXPECT_FALSE(stdfs::exists("outside/none"));
}

TEST_F(GuardedRoot, OtherDirectoriesAreAllowedOnlyIfTheSameUserOwnsThem) {
  stdfs::create_directories("his");
  stdfs::create_directories("d/inner");
  ASSERT_EQ(chown("his", kStranger, kStranger), 0);
  for (const auto& named : {std::vector<std::string>{"d/f"}, {"d"}}) {
    const auto fs = GuardedFileSystem(named);
    ASSERT_OK(fs->Stat("d/f"));
    EXPECT_CODE(fs->Open("outside/f", OpenMode::kRead), Code::kIo);
    EXPECT_CODE(fs->Open("outside/new", OpenMode::kCreate), Code::kIo);
    EXPECT_CODE(fs->Rename("d/f", "outside/new"), Code::kIo);
    EXPECT_CODE(fs->Remove("outside/f"), Code::kIo);
    EXPECT_CODE(fs->MakeDirectories("beside"), Code::kIo);
    EXPECT_CODE(fs->MakeDirectories("outside/beside"), Code::kIo);
    ASSERT_OK(fs->Open("his/new", OpenMode::kCreate).status());
    ASSERT_OK(fs->Open("d/inner/new", OpenMode::kCreate).status());  // below it, whosever it is
  }
  EXPECT_FALSE(stdfs::exists("beside"));
}

// Under MPI, a process may have nothing to look at in what was named.
TEST_F(GuardedRoot, OwnersOfWhatWasNamedAreKnownWhateverWasLookedAtBefore) {
  stdfs::create_directories("his");
  ASSERT_EQ(chown("his", kStranger, kStranger), 0);
  Write("his/f", "his/f");
  for (const auto& named : {std::vector<std::string>{"d/f"}, {"d"}, {"d/none"}, {"away/f", "d/f"}}) {
    EXPECT_EQ(Opened(*GuardedFileSystem(named), "his/f"), "his/f");
    EXPECT_CODE(GuardedFileSystem(named)->Open("outside/f", OpenMode::kRead), Code::kIo);
  }
  EXPECT_EQ(Opened(*GuardedFileSystem({"outside/f"}), "outside/sub/g"), "outside/sub/g");
  EXPECT_CODE(GuardedFileSystem({"outside/f"})->Open("his/f", OpenMode::kRead), Code::kIo);
}

TEST_F(GuardedRoot, HardLinksThatOthersMayHaveMadeAreNotWritten) {
  const auto open = [&](const char* path, OpenMode mode) {
    return GuardedFileSystem({path})->Open(path, mode).status();
  };
  ASSERT_EQ(link("outside/f", "d/linked"), 0);
  ASSERT_EQ(link("d/f", "d/own"), 0);
  EXPECT_CODE(open("d/linked", OpenMode::kReadWrite), Code::kInvalidArgument);
  EXPECT_CODE(open("d/linked", OpenMode::kCreate), Code::kInvalidArgument);
  EXPECT_OK(open("d/linked", OpenMode::kRead));
  EXPECT_OK(open("outside/f", OpenMode::kReadWrite));  // in a directory of root's
  EXPECT_OK(open("d/own", OpenMode::kReadWrite));
  stdfs::permissions("d", stdfs::perms::group_write, stdfs::perm_options::add);
  EXPECT_CODE(open("d/own", OpenMode::kReadWrite), Code::kInvalidArgument);
  stdfs::permissions("outside", stdfs::perms::others_all | stdfs::perms::sticky_bit, stdfs::perm_options::add);
  EXPECT_CODE(open("outside/f", OpenMode::kReadWrite), Code::kInvalidArgument);
}

}  // namespace
}  // namespace lzy
