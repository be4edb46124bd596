#pragma once
// A shared file or a set in memory, and what one process says of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "sidecar/names.h"

namespace lzy::testing {

class MemoryDatasetTest : public ::testing::Test {
 protected:
  /// Parity is 2.
  MemoryDatasetTest(std::uint32_t block_size, std::uint64_t stripe, std::uint32_t group) {
    options_.block_size = block_size;
    options_.stripe = stripe;
    options_.group = group;
    options_.parity = 2;
    options_.threads = 1;
    options_.timeout_seconds = 1;
  }

  /// Removes all files, and names those of a set of `members`, or one shared file.
  void NameFiles(std::uint32_t members) {
    fs_.Restore({});
    paths_.clear();
    ref_ = {DatasetKind::kShared, "d/f", {}};
    if (members > 0) ref_ = {DatasetKind::kSet, "d/s.%r", {}};
    for (std::uint32_t r = 0; r < std::max(1u, members); ++r) {
      paths_.push_back(members > 0 ? ExpandPattern(ref_.path, r) : ref_.path);
      if (members > 0) ref_.members[r] = paths_[r];
    }
  }

  Context Here() { return {fs_, *self_, options_}; }
  /// The members of which a file or a sidecar is there.
  DatasetRef Ref() {
    DatasetRef ref = ref_;
    std::erase_if(ref.members, [&](const auto& m) { return !fs_.Has(m.second) && !fs_.Has(*SidecarPath(m.second)); });
    return ref;
  }
  DatasetReport Check() { return Verify(Here(), Ref(), {}); }
  DatasetReport Repair(bool force = false) {
    VerifyRequest request;
    request.repair = true;
    request.force = force;
    return Verify(Here(), Ref(), request);
  }

  Rng rng_{42};
  MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  DatasetRef ref_;
  std::vector<std::string> paths_;
};

}  // namespace lzy::testing
