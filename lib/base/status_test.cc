#include "base/status.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "status_matchers.h"

namespace lzy {
namespace {

TEST(NoThrow, MakesAStatusOfWhateverIsThrown) {
  EXPECT_OK(NoThrow([] {}));
  EXPECT_CODE(NoThrow([] { return Status(Code::kIo, "disk"); }), Code::kIo);
  EXPECT_CODE(NoThrow([]() -> Status { throw std::bad_alloc(); }), Code::kNoMemory);
  EXPECT_CODE(NoThrow([]() -> Status { throw StatusError(Status(Code::kUnreadable, "disk")); }), Code::kUnreadable);
  static_assert(!std::is_base_of_v<std::bad_alloc, StatusError>, "a failure to read is no lack of memory");
  EXPECT_CODE(
      NoThrow([] { throw std::runtime_error("a text that needs memory to be copied, more than fits beside it"); }),
      Code::kInternal);
  EXPECT_CODE(NoThrow([] { throw 5; }), Code::kInternal);
}

}  // namespace
}  // namespace lzy
