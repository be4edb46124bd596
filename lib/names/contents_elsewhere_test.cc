// Files and sidecars that were moved to another directory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "names/contents.h"
#include "names/lookup.h"
#include "sidecar/names.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kFirstMtime = 1'600'000'000'000'000'000;

class ElsewhereTest : public ::testing::Test {
 protected:
  ElsewhereTest() {
    options_.block_size = 512;
    options_.threads = 1;
    Make("a", 3);
    Make("b", 2);
  }
  // A set of files with times of their own.
  void Make(const std::string& directory, std::uint32_t members) {
    DatasetRef set{DatasetKind::kSet, directory + "/s.%r", {}};
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      set.members[rank] = ExpandPattern(set.path, rank);
      fs_.Put(set.members[rank], RandomBytes(rng_, 1400), kFirstMtime + ++made_ * 1'000'000'000);
    }
    ASSERT_OK(Protect(Context{fs_, *self_, options_}, set, {}).status);
    AddToReach(fs_, directory);
  }
  void Move(const std::string& from, const std::string& to, bool also_sidecar) {
    ASSERT_OK(fs_.Rename(from, to));
    if (also_sidecar) ASSERT_OK(fs_.Rename(*SidecarPath(from), *SidecarPath(to)));
  }
  std::vector<std::string> FormerNames(const std::string& path, Within within) {
    std::vector<std::string> names;
    for (const FormerName& one : CommittedAs(fs_, path, *fs_.Stat(path), "", within)) names.push_back(one.name);
    return names;
  }

  Rng rng_{39};
  MemoryFileSystem fs_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  Options options_;
  std::int64_t made_ = 0;
};

TEST_F(ElsewhereTest, AFileIsKnownByTheSidecarThatItLeftInAnotherDirectory) {
  Move("a/s.1", "b/f", /*also_sidecar=*/false);
  EXPECT_THAT(FormerNames("b/f", Within::kDirectory), IsEmpty());
  EXPECT_THAT(FormerNames("b/f", Within::kReach), ElementsAre("a/s.1"));
  // On another file system the number of an inode says nothing.
  fs_.At("b/f").stat.device = 8;
  EXPECT_THAT(FormerNames("b/f", Within::kReach), IsEmpty());
}

}  // namespace
}  // namespace lzy::testing
