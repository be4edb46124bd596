#include "request/deletion_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DeletionRecordTest : public ::testing::Test {
 protected:
  DeletionRecordTest() {
    std::string name = (std::filesystem::temp_directory_path() / "lzy-deletions-XXXXXX").string();
    scratch_ = mkdtemp(name.data());
    catalog_ = scratch_ + "/catalog.sqlite";
    std::ofstream{catalog_} << "x";
  }
  ~DeletionRecordTest() override { std::filesystem::remove_all(scratch_); }
  std::vector<DeletionRecord> Read() { return ReadDeletions(catalog_, getuid()); }

  std::string scratch_, catalog_;
};

TEST_F(DeletionRecordTest, PathsOfAnyBytesComeBack) {
  EXPECT_THAT(Read(), IsEmpty());
  const DeletionRecord plain{7, "/d/a"}, odd{8, "/d/with \\ and\nline\xff"};
  ASSERT_OK(AppendDeletion(catalog_, plain));
  ASSERT_OK(AppendDeletion(catalog_, odd));
  EXPECT_THAT(Read(), ElementsAre(plain, odd));
}

TEST_F(DeletionRecordTest, WithoutACatalogueNothingIsMade) {
  std::filesystem::remove(catalog_);
  ASSERT_OK(AppendDeletion(catalog_, {7, "/d/a"}));
  EXPECT_FALSE(std::filesystem::exists(DeletionsPath(catalog_)));
  ASSERT_OK(AppendDeletion(scratch_ + "/none/catalog.sqlite", {7, "/d/a"}));
  EXPECT_FALSE(std::filesystem::exists(scratch_ + "/none"));
}

TEST_F(DeletionRecordTest, LinesThatNobodyUnderstandsAreNothing) {
  std::ofstream{DeletionsPath(catalog_)} << "\n7\nx /d/a\n-3 /d/a\n9 d/a\n99999999999999999999 /d/a\n12 /d/b\n13 /d/cut";
  EXPECT_THAT(Read(), ElementsAre(DeletionRecord{12, "/d/b"}));
}

TEST_F(DeletionRecordTest, ALinkOrAPipeIsNotRead) {
  std::ofstream{scratch_ + "/other"} << "12 /d/b\n";
  std::filesystem::create_symlink(scratch_ + "/other", DeletionsPath(catalog_));
  EXPECT_THAT(Read(), IsEmpty());
  std::filesystem::remove(DeletionsPath(catalog_));
  ASSERT_EQ(mkfifo(DeletionsPath(catalog_).c_str(), 0600), 0);
  EXPECT_THAT(Read(), IsEmpty());
}

TEST_F(DeletionRecordTest, NotesOfAnotherUserAreNotRead) {
  ASSERT_OK(AppendDeletion(catalog_, {7, "/d/a"}));
  if (getuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(DeletionsPath(catalog_).c_str(), 4711, 0), 0);
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_THAT(ReadDeletions(catalog_, 4711), ElementsAre(DeletionRecord{7, "/d/a"}));
}

TEST_F(DeletionRecordTest, OldNotesAreKeptOnceMoreAndThenGo) {
  const std::string long_path = "/d/" + std::string(4000, 'x');
  for (int i = 0; i < 3000; ++i) ASSERT_OK(AppendDeletion(catalog_, {i, long_path}));
  const auto all = Read();
  EXPECT_LT(all.size(), 2200u);
  EXPECT_GT(all.size(), 1000u);
  EXPECT_EQ(all.back().time, 2999);
}

}  // namespace
}  // namespace lzy
