// What the hooks see of a sidecar at a glance is what loading it gives.
#include <gtest/gtest.h>

#include "both_forms.h"
#include "engine/engine.h"
#include "hooks/disk/commit_state.h"
#include "memory_files.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::hooks {
namespace {

class PeekTest : public ::testing::Test {
 protected:
  explicit PeekTest(bool compact = false) {
    options_.block_size = 512;
    options_.stripe = 512;
    options_.threads = 1;
    options_.compact = compact;
    fs_.Put("d/f", std::vector<std::uint8_t>(20000, 7), 1'600'000'000'000'000'000);
    EXPECT_OK(Protect(Here(), {DatasetKind::kShared, "d/f", {}}, {}).status);
  }
  Context Here() { return {fs_, *self_, options_}; }
  std::unique_ptr<Sidecar> Load(OpenMode mode = OpenMode::kRead) {
    auto sidecar = Sidecar::Load(fs_, "d/.LZY.f", mode);
    EXPECT_OK(sidecar);
    return std::move(sidecar).value();
  }
  void ExpectAsLoaded(std::uint64_t generation, bool intent) {
    const auto state = ReadCommitState(fs_, "d/f");
    ASSERT_TRUE(state);
    const auto sidecar = Load();
    EXPECT_EQ(state->version.uuid, sidecar->contents().superblock.uuid);
    EXPECT_EQ(state->version.generation, sidecar->generation());
    EXPECT_EQ(state->version.generation, generation);
    EXPECT_EQ(state->whole_file_intent.has_value(), intent);
    ASSERT_EQ(state->whole_file_intent.has_value(), sidecar->intent().has_value());
    if (intent) {
      EXPECT_TRUE(SameWriter(*state->whole_file_intent, *sidecar->intent()));
    }
  }
  SidecarContents Next() {
    SidecarContents next = Load()->contents();
    ++next.superblock.generation;
    return next;
  }
  void SpoilCopy(std::uint32_t copy) {
    fs_.At("d/.LZY.f").bytes[Load()->contents().superblock.PlaceOf(copy) + 100] ^= 1;
  }

  testing::MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
};

class PeekInBothForms : public PeekTest, public ::testing::WithParamInterface<bool> {
 protected:
  PeekInBothForms() : PeekTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Of, PeekInBothForms, ::testing::Bool(), testing::NameOfForm);

TEST_P(PeekInBothForms, SeesVersionAndIntent) {
  ExpectAsLoaded(1, false);
  ASSERT_OK(BeginEpoch(fs_, options_, "d/f", ""));
  ExpectAsLoaded(1, true);
  EXPECT_FALSE(ReadCommitState(fs_, "d/nothing"));
}

TEST_P(PeekInBothForms, ReadsLittleWhileAllCopiesAgree) {
  std::uint64_t bytes = 0;
  fs_.fault = [&](testing::MemoryFileSystem::Op op, const std::string&, std::uint64_t, std::uint64_t length) {
    if (op == testing::MemoryFileSystem::Op::kRead) bytes += length;
    return Status::Ok();
  };
  ASSERT_TRUE(ReadCommitState(fs_, "d/f"));
  EXPECT_LE(bytes, 4 * 4096u);  // two superblocks, two intent pages
}

TEST_P(PeekInBothForms, AnotherCopyReplacesADamagedFirstOne) {
  SpoilCopy(0);
  ExpectAsLoaded(1, false);
  ASSERT_OK(BeginEpoch(fs_, options_, "d/f", ""));
  ExpectAsLoaded(1, true);
}

TEST_F(PeekTest, TheNewestWholeGenerationCounts) {
  ASSERT_OK(BeginEpoch(fs_, options_, "d/f", ""));
  // Broken off before copy 0, which is still of the generation before: the commit has happened, and the intent is void.
  const std::vector<std::uint8_t> first(fs_.At("d/.LZY.f").bytes.begin(), fs_.At("d/.LZY.f").bytes.begin() + 4096);
  ASSERT_OK(Load(OpenMode::kReadWrite)->WriteAll(Next()));
  ExpectAsLoaded(2, false);
  std::copy(first.begin(), first.end(), fs_.At("d/.LZY.f").bytes.begin());
  ExpectAsLoaded(2, false);
}

TEST_F(PeekTest, WhatIsOnlyPreparedDoesNotCount) {
  ASSERT_OK(Load(OpenMode::kReadWrite)->Prepare(Next()));
  ExpectAsLoaded(1, false);
}

}  // namespace
}  // namespace lzy::hooks
