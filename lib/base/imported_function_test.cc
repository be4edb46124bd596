#include "base/imported_function.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <initializer_list>

// Two libraries that call getpid (tests/support/asks_process.c). One looks the function up at the first call; the table of the
// other one is filled at the start, and write-protected then.
extern "C" {
pid_t asks_process_lazily();
pid_t asks_process_at_start();
}

namespace lzy {
namespace {

using Asks = pid_t (*)();

pid_t Forty() {
  return 40;
}

const link_map& LibraryOf(const char* function) {
  Dl_info info{};
  link_map* map = nullptr;
  EXPECT_NE(dladdr1(dlsym(RTLD_DEFAULT, function), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP), 0);
  return *map;
}

bool Exchange(const char* of, Asks replacement) {
  const ImportedFunction imported(LibraryOf(of), "getpid");
  return imported.found() && imported.Replace(reinterpret_cast<void*>(replacement));
}

TEST(ImportedFunction, IsReplacedForOneLibraryAlone) {
  const pid_t own = getpid();
  const Asks next = getpid;
  for (const bool called_before : {false, true}) {
    if (called_before) {
      EXPECT_EQ(asks_process_lazily(), own);
    }
    ASSERT_TRUE(Exchange("asks_process_lazily", Forty));
    EXPECT_EQ(asks_process_lazily(), 40);
    EXPECT_EQ(asks_process_lazily(), 40) << "looked up again";
    EXPECT_EQ(asks_process_at_start(), own);
    EXPECT_EQ(getpid(), own);
    ASSERT_TRUE(Exchange("asks_process_lazily", next));
  }
}

TEST(ImportedFunction, IsReplacedInAWriteProtectedTable) {
  const pid_t own = getpid();
  ASSERT_TRUE(Exchange("asks_process_at_start", Forty));
  EXPECT_EQ(asks_process_at_start(), 40);
  EXPECT_EQ(asks_process_lazily(), own);
  EXPECT_EQ(getpid(), own);
  ASSERT_TRUE(Exchange("asks_process_at_start", getpid));
  EXPECT_EQ(asks_process_at_start(), own);
}

TEST(ImportedFunction, IsOnlyFoundIfItIsImported) {
  for (const char* library : {"asks_process_lazily", "asks_process_at_start"}) {
    EXPECT_FALSE(ImportedFunction(LibraryOf(library), "getppid").found());
    EXPECT_FALSE(ImportedFunction(LibraryOf(library), "getpi").found());
    EXPECT_FALSE(ImportedFunction(LibraryOf(library), library).found()) << "its own";
  }
}

}  // namespace
}  // namespace lzy
