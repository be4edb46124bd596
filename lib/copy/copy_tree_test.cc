// Copies of trees on a real file system. tests/cli/cli_copy.py tests what users see.
#include "copy/copy_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "engine_fixture.h"
#include "passing_files.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

class TreeTest : public ::testing::Test {
 protected:
  TreeTest() {
    options_.threads = 2;
    std::filesystem::create_directories(scratch_ / "s/sub");
    WriteFile(scratch_ / "s/f", bytes_);
    WriteFile(scratch_ / "s/sub/g", bytes_);
  }
  std::map<std::string, CopyReport> Copy(const std::vector<std::string>& sources, const std::string& to,
                                         bool resume = true) {
    std::map<std::string, CopyReport> reports;
    const auto plan = PlanCopy(fs_, sources, to, resume);
    EXPECT_OK(plan);
    if (!plan.ok()) return reports;
    CopyRequest request;
    request.resume = resume;
    EXPECT_OK(CopyAll({fs_, *self_, options_}, *plan, request,
                      [&](CopyReport report) { reports[report.to] = std::move(report); }));
    return reports;
  }

  Rng rng_{SeedOf(5)};
  const Bytes bytes_ = RandomBytes(rng_, 100'000), old_ = RandomBytes(rng_, 10);
  Scratch scratch_;
  FileSystem& fs_ = PosixFileSystem();
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
};

/// A directory has a second name, by a bind mount.
class Mounted final : public PassingFileSystem {
 public:
  Mounted(FileSystem& fs, std::string at, std::string what) : PassingFileSystem(fs), at_(std::move(at)), what_(std::move(what)) {}
  Result<FileStat> Stat(const std::string& path, bool follow) override {
    return fs_.Stat(path == at_ ? what_ : path, follow);
  }

 private:
  std::string at_, what_;
};

// Even with the file system that follows links.
TEST_F(TreeTest, FollowsNoLinkBelowTheDestination) {
  std::filesystem::create_directories(scratch_ / "d");
  std::filesystem::create_directories(scratch_ / "outside");
  WriteFile(scratch_ / "outside/f", old_);
  std::filesystem::create_symlink(scratch_ / "outside/f", scratch_ / "d/f");
  std::filesystem::create_symlink(scratch_ / "outside", scratch_ / "d/sub");
  const auto reports = Copy({scratch_ / "s"}, scratch_ / "d");
  EXPECT_EQ(ReadFile(scratch_ / "outside/f"), old_);
  EXPECT_FALSE(Exists(scratch_ / "outside/g"));
  EXPECT_EQ(ReadFile(scratch_ / "d/f"), bytes_);
  EXPECT_FALSE(std::filesystem::is_symlink(scratch_ / "d/f"));
  EXPECT_CODE(reports.at(scratch_ / "d/sub").status, Code::kWriteFailed);
  EXPECT_EQ(reports.count(scratch_ / "d/sub/g"), 0u);
}

TEST_F(TreeTest, FollowsTheDestinationItself) {
  std::filesystem::create_directories(scratch_ / "d");
  std::filesystem::create_directory_symlink(scratch_ / "d", scratch_ / "link");
  Copy({scratch_ / "s"}, scratch_ / "link");
  EXPECT_EQ(ReadFile(scratch_ / "d/sub/g"), bytes_);
  EXPECT_TRUE(std::filesystem::is_symlink(scratch_ / "link"));
}

// With the file system of programs. tests/cli tests that of the tools.
TEST_F(TreeTest, FollowsTheSourceItself) {
  std::filesystem::create_directory_symlink(scratch_ / "s", scratch_ / "link");
  Copy({scratch_ / "link"}, scratch_ / "d");
  EXPECT_EQ(ReadFile(scratch_ / "d/sub/g"), bytes_);
  EXPECT_FALSE(std::filesystem::is_symlink(scratch_ / "d"));
}

// A copy over a mounted directory of the source would write to the source.
TEST_F(TreeTest, WritesNoDirectoryOfTheSource) {
  std::filesystem::create_directories(scratch_ / "d/sub");
  Mounted fs(fs_, scratch_ / "d/sub", scratch_ / "s");
  const auto plan = PlanCopy(fs, {scratch_ / "s"}, scratch_ / "d", /*resume=*/true);
  ASSERT_OK(plan);
  std::map<std::string, CopyReport> reports;
  EXPECT_OK(CopyAll({fs, *self_, options_}, *plan, {}, [&](CopyReport report) { reports[report.to] = std::move(report); }));
  EXPECT_OK(reports.at(scratch_ / "d/f").status);
  EXPECT_CODE(reports.at(scratch_ / "d/sub").status, Code::kWriteFailed);
  EXPECT_EQ(reports.count(scratch_ / "d/sub/g"), 0u);
}

TEST_F(TreeTest, MeansTheSameWhenItIsRepeated) {
  for (const auto& [to, report] : Copy({scratch_ / "s"}, scratch_ / "d")) EXPECT_OK(report.status);
  const auto again = Copy({scratch_ / "s"}, scratch_ / "d");
  ASSERT_EQ(again.size(), 2u);
  for (const auto& [to, report] : again) EXPECT_TRUE(report.already) << to << report.status.message();
  EXPECT_FALSE(Exists(scratch_ / "d/s"));
  EXPECT_CODE(PlanCopy(fs_, {scratch_ / "s"}, scratch_ / "d", /*resume=*/false), Code::kInvalidArgument);
  EXPECT_OK(PlanCopy(fs_, {scratch_ / "s"}, (scratch_ / "d") + "/", /*resume=*/false));
}

TEST_F(TreeTest, CopiesAttributesWhereTheFileSystemHasThem) {
  auto file = fs_.Open(scratch_ / "s/f", OpenMode::kReadWrite);
  ASSERT_OK(file);
  ASSERT_OK((*file)->SetUserAttributes({{"user.origin", "run 42"}}));
  const auto set = (*file)->UserAttributes();
  ASSERT_OK(set);
  if (set->empty()) GTEST_SKIP() << "no extended attributes of users in " << scratch_.path();
  Copy({scratch_ / "s/f"}, scratch_ / "g");
  auto copy = fs_.Open(scratch_ / "g", OpenMode::kRead);
  ASSERT_OK(copy);
  EXPECT_EQ(*(*copy)->UserAttributes(), *set);

  const FileStat before = *fs_.Stat(scratch_ / "s/sub");
  ASSERT_OK(fs_.SetDirectory(scratch_ / "s/sub", before, {{"user.of", "a directory"}}));
  Copy({scratch_ / "s"}, scratch_ / "d");
  EXPECT_EQ(*fs_.DirectoryAttributes(scratch_ / "d/sub"), (Attributes{{"user.of", "a directory"}}));
  EXPECT_EQ(*fs_.DirectoryAttributes(scratch_ / "d"), Attributes());
  EXPECT_EQ(fs_.Stat(scratch_ / "d/sub")->mtime_ns, before.mtime_ns);

  // Files that are there already are not written again, and a file that cannot be written does not prevent the rest.
  ASSERT_OK(fs_.SetDirectory(scratch_ / "d/sub", before, {{"user.of", "a directory"}}));
  EXPECT_CODE(fs_.SetDirectory(scratch_ / "d", before, {{"user.large", std::string(1 << 20, 'x')}}), Code::kIo);
  EXPECT_EQ(fs_.Stat(scratch_ / "d")->mtime_ns, before.mtime_ns);
}

// The file in the directory may be open to all, and exists long before its directory is finished.
TEST_F(TreeTest, ADirectoryIsClosedFromTheStart) {
  using std::filesystem::perms;
  std::filesystem::permissions(scratch_ / "s/sub", perms::owner_all);
  std::uint32_t most = 0;
  class Watched final : public PassingFileSystem {
   public:
    Watched(FileSystem& fs, std::string directory, std::uint32_t& most) : PassingFileSystem(fs), directory_(std::move(directory)), most_(most) {}
    Status Rename(const std::string& from, const std::string& to) override {
      if (DirectoryOf(to) == directory_) most_ |= fs_.Stat(directory_)->mode;
      return fs_.Rename(from, to);
    }
    Status SetDirectory(const std::string& path, const FileStat& like, const Attributes& attributes) override {
      return fs_.SetDirectory(path, like, attributes);
    }

   private:
    const std::string directory_;
    std::uint32_t& most_;
  } watched(fs_, scratch_ / "d/sub", most);
  const auto plan = PlanCopy(watched, {scratch_ / "s"}, scratch_ / "d", /*resume=*/false);
  ASSERT_OK(plan);
  const Status done = CopyAll({watched, *self_, options_}, *plan, {}, [](const CopyReport& one) { EXPECT_OK(one.status); });
  EXPECT_OK(done);
  EXPECT_EQ(most, 0700u);
  EXPECT_EQ(fs_.Stat(scratch_ / "d/sub")->mode, 0700u);
}

TEST_F(TreeTest, LinksHaveTheirTimesAndOwners) {
  const timespec times[2] = {{1'000'000'000, 5}, {1'100'000'000, 7}};
  std::filesystem::create_symlink("nowhere", scratch_ / "s/link");
  ASSERT_EQ(utimensat(AT_FDCWD, (scratch_ / "s/link").c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  const bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(lchown((scratch_ / "s/link").c_str(), 4321, 8765), 0);
  }
  Copy({scratch_ / "s"}, scratch_ / "d");
  const auto link = fs_.Stat(scratch_ / "d/link", /*follow=*/false);
  ASSERT_OK(link);
  EXPECT_EQ(link->mtime_ns, 1'100'000'000'000'000'007);
  if (root) {
    EXPECT_EQ(link->uid, 4321u);
    EXPECT_EQ(link->gid, 8765u);
  }
  // One that is there gets them, too.
  std::filesystem::remove(scratch_ / "d/link");
  std::filesystem::create_symlink("nowhere", scratch_ / "d/link");
  Copy({scratch_ / "s"}, scratch_ / "d");
  EXPECT_EQ(fs_.Stat(scratch_ / "d/link", /*follow=*/false)->mtime_ns, 1'100'000'000'000'000'007);
}

TEST_F(TreeTest, RefusesADestinationInsideBySecondName) {
  std::filesystem::create_directories(scratch_ / "mount/new");
  const std::string mount = std::filesystem::canonical(scratch_ / "mount");
  for (const char* what : {"s", "s/sub"}) {
    Mounted fs(fs_, mount, scratch_ / what);
    const auto plan = PlanCopy(fs, {scratch_ / "s"}, scratch_ / "mount/new/copy", /*resume=*/false);
    EXPECT_CODE(plan, Code::kInvalidArgument);
    EXPECT_NE(plan.status().message().find("is inside"), std::string::npos) << plan.status().message();
  }
  Mounted elsewhere(fs_, mount, mount);
  EXPECT_OK(PlanCopy(elsewhere, {scratch_ / "s"}, scratch_ / "mount/new/copy", /*resume=*/false));
}

}  // namespace
}  // namespace lzy::testing
