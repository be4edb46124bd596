#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "engine_fixture.h"

namespace lzy::testing {

/// For what a process settles once: runs `holds` in a process of its own (EXPECT_EXIT, "threadsafe"), and expects true. It gets
/// the directory for caches (XDG_CACHE_HOME), which is not there yet.
inline void ExpectInFreshProcess(const std::function<bool(const std::string& cache)>& holds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [&] {
    const Scratch scratch;
    setenv("XDG_CACHE_HOME", (scratch / "cache").c_str(), 1);
    return holds(scratch / "cache");
  };
  EXPECT_EXIT(std::exit(run() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace lzy::testing
