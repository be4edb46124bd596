#pragma once
// Stops work at every operation on storage that it makes.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "memory_files.h"

namespace lzy::testing {

/// Runs `commit` again and again, stopping it at every operation there is, with the process crashing or the power
/// failing, and calls `check` on what is left.
template <class Commit, class Check>
void AtEveryCrash(MemoryFileSystem& fs, const Commit& commit, const Check& check) {
  const auto start = fs.Copy();
  std::mt19937_64 rng(99);
  for (int mode = 0; mode < 8; ++mode) {  // 0: the process dies; else: the power fails
    for (std::uint64_t budget = 0;; ++budget) {
      fs.Restore(start);
      std::uint64_t used = 0;
      fs.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
        if (op == MemoryFileSystem::Op::kRead) return Status::Ok();
        return used++ < budget ? Status::Ok() : Status(Code::kIo, path + ": crashed");
      };
      const Status status = commit();
      fs.fault = nullptr;
      if (mode > 0) fs.PowerLoss(rng, 512);
      SCOPED_TRACE("stopped after " + std::to_string(budget) + " operations" + (mode > 0 ? ", power lost" : ""));
      check(status.ok());
      if (::testing::Test::HasFailure() || status.ok()) break;
      ASSERT_LT(budget, 1000u);
    }
  }
}

}  // namespace lzy::testing
