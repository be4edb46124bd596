// Which file systems keep in memory what was written. Others than these are pretended in tests/hooks/idioms_test.py.
#include "hooks/disk/page_cache.h"

#include <gtest/gtest.h>

namespace lzy::hooks {
namespace {

TEST(PagesStay, UnlessTheFileSystemIsKnownNotToKeepThem) {
  EXPECT_TRUE(PagesStay("/dev/shm"));
  EXPECT_TRUE(PagesStay("/proc/self/no such file"));
}

}  // namespace
}  // namespace lzy::hooks
