// What is left of an ACL without it, and access that is taken over from another file or from a record.
#include "base/acl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "file_fixture.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using ::testing::IsEmpty;

enum Tag : std::uint16_t { kOwner = 0x01, kUser = 0x02, kOwnGroup = 0x04, kGroup = 0x08, kMask = 0x10, kOther = 0x20 };
using Entry = std::tuple<Tag, std::uint16_t, std::uint32_t>;
constexpr std::uint32_t kNoId = 0xffffffff;

Acl MakeAcl(const std::vector<Entry>& entries) {
  ByteWriter acl;
  acl.Put<std::uint32_t>(2);
  for (const auto& [tag, permissions, id] : entries) {
    acl.Put<std::uint16_t>(tag);
    acl.Put(permissions);
    acl.Put(id);
  }
  return acl.bytes();
}

/// Owner rw, the list, group and mask and others as given.
Acl With(const std::vector<Entry>& list, std::uint16_t group, std::uint16_t mask, std::uint16_t others) {
  std::vector<Entry> entries = {{kOwner, 6, kNoId}};
  for (const Entry& one : list) {
    if (std::get<0>(one) == kUser) entries.push_back(one);
  }
  entries.emplace_back(kOwnGroup, group, kNoId);
  for (const Entry& one : list) {
    if (std::get<0>(one) == kGroup) entries.push_back(one);
  }
  entries.emplace_back(kMask, mask, kNoId);
  entries.emplace_back(kOther, others, kNoId);
  return MakeAcl(entries);
}

TEST(AclTest, WithoutItNobodyGetsMore) {
  struct Case {
    const char* what;
    Acl acl;
    std::uint32_t mode;  // as stat tells it: the group bits are the mask
    std::uint32_t narrowed;
  };
  const Case kCases[] = {
      {"none", {}, 0754, 0754},
      {"the mask is not the group's right", With({{kUser, 4, 65534}}, 0, 4, 0), 0640, 0600},
      {"the mask limits the group", With({{kUser, 4, 65534}}, 6, 4, 0), 0640, 0640},
      {"a user who may write", With({{kUser, 6, 65534}}, 4, 6, 4), 0664, 0644},
      {"a denied user may be in the group, and is one of the others", With({{kUser, 0, 65534}}, 6, 6, 4), 0664, 0600},
      {"a denied group", With({{kGroup, 0, 7}}, 6, 6, 4), 0664, 0660},
      {"a group that may only read", With({{kGroup, 4, 7}}, 6, 6, 6), 0666, 0664},
      {"special bits stay", With({{kGroup, 4, 7}}, 5, 5, 5), 04755, 04754},
      {"an unknown entry", MakeAcl({{kOwner, 6, kNoId}, {static_cast<Tag>(0x40), 7, 1}}), 0664, 0600},
      {"a version of the future", {3, 0, 0, 0}, 0664, 0600},
      {"cut", {2, 0, 0, 0, 1}, 0664, 0600},
  };
  for (const Case& one : kCases) {
    EXPECT_EQ(NarrowedMode(one.mode, one.acl), one.narrowed) << one.what;
    EXPECT_EQ(RecordedMode(one.mode, one.acl), one.narrowed | (one.acl.empty() ? 0 : kModeHadAcl)) << one.what;
  }
}

TEST(AclTest, MembersOfTheGroupAreOthersOfAnotherGroup) {
  EXPECT_EQ(ModeForOtherGroup(0664), 0644u);
  EXPECT_EQ(ModeForOtherGroup(0604), 0600u) << "the group had been denied";
  EXPECT_EQ(ModeForOtherGroup(07751), 05711u);
}

TEST(AclTest, ExecuteOnlyForWhoGotTheRest) {
  EXPECT_EQ(WithExecute(0644, 0755), 0755u);
  EXPECT_EQ(WithExecute(0600, 0755), 0700u);
  EXPECT_EQ(WithExecute(0640, 06754), 06750u);
}

class RecordedAccessTest : public FileTest {
 protected:
  std::uint32_t ModeOf(File& file) { return file.Stat()->mode; }
};

// Its mask would open the file to the user in the list, and the group gets what the list says.
TEST_F(RecordedAccessTest, AnAclFromTheDirectoryGoes) {
  const Acl inherited = With({{kUser, 6, 65534}}, 6, 6, 0);
  if (setxattr(dir_.path().c_str(), kDefaultAcl, inherited.data(), inherited.size(), 0) != 0) {
    GTEST_SKIP() << "no ACLs on this file system";
  }
  auto fresh = files_.Open(dir_ / "fresh", OpenMode::kCreateNew, true, 0600);
  ASSERT_OK(fresh);
  ASSERT_FALSE((*fresh)->AccessAcl()->empty());
  FileStat want = *(*fresh)->Stat();
  want.mode = 0640;
  AccessOf like("record", want, {});
  ASSERT_OK((*fresh)->CopyAccess(like));
  EXPECT_THAT(*(*fresh)->AccessAcl(), IsEmpty());
  EXPECT_EQ(ModeOf(**fresh), 0640u);

  // The same for directories, which have a default ACL as well.
  ASSERT_OK(files_.MakeDirectories(dir_ / "below"));
  EXPECT_EQ(files_.DirectoryAttributes(dir_ / "below")->count(kDefaultAcl), 1u);
  FileStat of_directory = *files_.Stat(dir_ / "below");
  of_directory.mode = 0750;
  ASSERT_OK(files_.SetDirectory(dir_ / "below", of_directory, {}));
  EXPECT_THAT(*files_.DirectoryAttributes(dir_ / "below"), IsEmpty());
  EXPECT_EQ(files_.Stat(dir_ / "below")->mode, 0750u);
}

// As on a file system without ACLs. The kernel refuses this one, which has no mask.
TEST_F(RecordedAccessTest, WithoutItsAclAFileGetsANarrowedMode) {
  auto file = FileTest::Make(dir_ / "file");
  FileStat want = *file->Stat();
  for (const auto& [user, expected] : {std::pair(std::uint16_t{0}, 0600u), {std::uint16_t{4}, 0644u}}) {
    want.mode = 0664;
    AccessOf like("like", want, MakeAcl({{kOwner, 6, kNoId}, {kUser, user, 65534}, {kOwnGroup, 4, kNoId}, {kOther, 4, kNoId}}));
    ASSERT_OK(file->CopyAccess(like));
    EXPECT_EQ(ModeOf(*file), expected);
    EXPECT_THAT(*file->AccessAcl(), IsEmpty());
  }
}

// Members of a group that may do less than others do not get what others get.
TEST_F(RecordedAccessTest, WhereTheGroupCannotBeSetItsMembersGetNoMore) {
  if (geteuid() != 0) GTEST_SKIP() << "needs privilege to make a foreign file";
  auto file = FileTest::Make(dir_ / "file");
  ASSERT_EQ(chown((dir_ / "file").c_str(), 4321, 4321), 0);
  for (const auto& [recorded, expected] : {std::pair(0604u, 0600u), {0664u, 0644u}, {0640u, 0600u}}) {
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(4321) != 0 || setuid(4321) != 0) _exit(2);
      _exit(file->SetAccess(recorded, 4321, 2345).ok() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(ModeOf(*file), expected) << std::oct << recorded;
  }
}

TEST_F(RecordedAccessTest, DirectoriesKeepTheirAcls) {
  const Acl acl = With({{kUser, 4, 65534}}, 0, 4, 0), inherit = With({{kUser, 6, 65534}}, 0, 6, 0);
  ASSERT_OK(files_.MakeDirectories(dir_ / "from"));
  ASSERT_OK(files_.MakeDirectories(dir_ / "to"));
  for (const auto& [name, value] : {std::pair(kAccessAcl, acl), {kDefaultAcl, inherit}}) {
    if (setxattr((dir_ / "from").c_str(), name, value.data(), value.size(), 0) != 0) GTEST_SKIP() << "no ACLs here";
  }
  const FileStat like = *files_.Stat(dir_ / "from");
  const Attributes attributes = *files_.DirectoryAttributes(dir_ / "from");
  ASSERT_EQ(attributes.size(), 2u);
  ASSERT_OK(files_.SetDirectory(dir_ / "to", like, attributes));
  EXPECT_EQ(*files_.DirectoryAttributes(dir_ / "to"), attributes);
  EXPECT_EQ(files_.Stat(dir_ / "to")->mode, like.mode);
  // One that cannot be stored leaves nobody with more.
  ASSERT_OK(files_.SetDirectory(dir_ / "to", like, {{kAccessAcl, "nonsense"}}));
  EXPECT_EQ(files_.Stat(dir_ / "to")->mode, like.mode & 0700);
}

}  // namespace
}  // namespace lzy::testing
