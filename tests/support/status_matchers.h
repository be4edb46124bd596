#pragma once
// Assertions on lzy::Status and lzy::Result that print the message.
#include <gtest/gtest.h>

#include "base/status.h"

namespace lzy::testing {
inline Status ToStatus(const Status& status) { return status; }
template <class T>
Status ToStatus(const Result<T>& result) { return result.status(); }
}  // namespace lzy::testing

#define ASSERT_OK(expr)                                         \
  do {                                                          \
    ::lzy::Status lzy_s = ::lzy::testing::ToStatus((expr));     \
    ASSERT_TRUE(lzy_s.ok()) << lzy_s.message();                 \
  } while (false)
#define EXPECT_OK(expr)                                         \
  do {                                                          \
    ::lzy::Status lzy_s = ::lzy::testing::ToStatus((expr));     \
    EXPECT_TRUE(lzy_s.ok()) << lzy_s.message();                 \
  } while (false)
#define EXPECT_CODE(expr, expected) EXPECT_EQ(static_cast<int>(::lzy::testing::ToStatus((expr)).code()), static_cast<int>(expected))
