#include "names/unprotected.h"

#include "resolve_fixture.h"

namespace lzy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UnprotectedTest : public ResolveTest {
 protected:
  std::vector<std::string> Unprotected(const std::string& directory) {
    const auto found = FindUnprotected(fs_, directory);
    EXPECT_OK(found.status());
    return found.ok() ? *found : std::vector<std::string>();
  }
};

TEST_F(UnprotectedTest, VisibleRegularFilesWithoutASidecar) {
  for (const char* path : {"d/a", "d/e/b", "d/.hidden/c", "d/.hidden2", "d/z", "d/e/plain"}) Write(path);
  ProtectShared("d/a");
  ProtectShared("d/e/b");
  stdfs::create_symlink("z", "d/link");
  EXPECT_THAT(Unprotected("d"), ElementsAre("d/e/plain", "d/z"));
  stdfs::remove("d/.LZY.a");
  EXPECT_THAT(Unprotected("d"), ElementsAre("d/a", "d/e/plain", "d/z"));
  EXPECT_CODE(FindUnprotected(fs_, "absent"), Code::kNotFound);
}

TEST_F(UnprotectedTest, ARenamedFileIsProtectedByItsOldSidecar) {
  Write("d/a");
  ProtectShared("d/a");
  stdfs::rename("d/a", "d/b");
  EXPECT_THAT(Unprotected("d"), IsEmpty());
}

TEST_F(UnprotectedTest, AMemberWithoutItsSidecarBelongsToItsSet) {
  MakeSet("d/s.%r", 3);
  stdfs::remove("d/.LZY.s.1");
  Write("d/s.7");
  EXPECT_THAT(Unprotected("d"), ElementsAre("d/s.7"));
}

}  // namespace
}  // namespace lzy
