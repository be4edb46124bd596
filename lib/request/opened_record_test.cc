#include "request/opened_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OpenedRecord, ComesBackAsItWas) {
  std::string scratch = (std::filesystem::temp_directory_path() / "lzy-opened-XXXXXX").string();
  ASSERT_NE(mkdtemp(scratch.data()), nullptr);
  const std::string file = scratch + "/opened";
  const OpenedRecord good{"/d/a\n\xff", ""}, bad{"/d/b", "it is full", true};
  // Only lzy-run makes the file.
  EXPECT_CODE(AppendOpened(file, good), Code::kIo);
  EXPECT_THAT(ReadOpened(file), IsEmpty());
  std::ofstream{file};
  ASSERT_OK(AppendOpened(file, good));
  ASSERT_OK(AppendOpened(file, bad));
  EXPECT_THAT(ReadOpened(file), ElementsAre(good, bad));
  std::ofstream(file, std::ios::app) << "/cut short";
  EXPECT_THAT(ReadOpened(file), ElementsAre(good, bad));
  std::filesystem::remove_all(scratch);
}

}  // namespace
}  // namespace lzy
