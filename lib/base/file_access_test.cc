// Access rights that a file takes from another one: mode, owner, ACL.
#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "file_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using ::testing::IsEmpty;

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
  const std::pair<mode_t, std::uint32_t> kCases[] = {{0660, 0600}, {0664, 0644}, {0646, 0644}, {0604, 0600}};
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

}  // namespace
}  // namespace lzy::testing
