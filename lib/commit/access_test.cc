// Owner and mode that commits record, and when. Files are in memory; ACLs are in tests/cli/cli_access.py.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "engine/engine.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

constexpr std::int64_t kProtectedThen = 1'600'000'000'000'000'000;

/// Both forms of sidecars, one that is updated in place and one that is made anew; of a shared file, and of a set.
class RecordedAccess : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  RecordedAccess() {
    options_.compact = std::get<0>(GetParam());
    options_.block_size = 512;
    options_.stripe = 512;
    options_.threads = 1;
    options_.timeout_seconds = 0;
    ref_ = {DatasetKind::kShared, "d/f", {}};
    if (std::get<1>(GetParam())) {
      ref_ = {DatasetKind::kSet, "d/s.%r", {}};
      for (std::uint32_t r = 0; r < 3; ++r) ref_.members[r] = ExpandPattern(ref_.path, r);
    }
    path_ = ref_.members.empty() ? ref_.path : ref_.members.at(1);
    std::mt19937_64 rng(7);
    const auto put = [&](const std::string& path) {
      std::vector<std::uint8_t> bytes(9'000);
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
      fs_.Put(path, std::move(bytes), kProtectedThen).stat.mode = 0644;
    };
    if (ref_.members.empty()) put(ref_.path);
    for (const auto& [rank, path] : ref_.members) put(path);
  }

  Context Here() { return {fs_, *self_, options_}; }
  void Change() {
    FileStat& stat = fs_.At(path_).stat;
    stat.mode = 0600;
    stat.gid = 7;
  }
  /// What each sidecar of the dataset says of the file.
  std::vector<MemberRecord> Recorded() {
    std::vector<MemberRecord> found;
    const auto look = [&](const std::string& path, std::size_t entry) {
      const auto sidecar = Sidecar::Load(fs_, *SidecarPath(path), OpenMode::kRead);
      ASSERT_OK(sidecar);
      found.push_back((*sidecar)->contents().info.members.at(entry));
    };
    if (ref_.members.empty()) look(ref_.path, 0);
    for (const auto& [rank, path] : ref_.members) look(path, 1);
    return found;
  }
  void ExpectRecorded(std::uint32_t mode, std::uint32_t gid) {
    for (const MemberRecord& record : Recorded()) {
      EXPECT_EQ(record.mode, mode);
      EXPECT_EQ(record.gid, gid);
    }
  }
  std::uint64_t Generation() {
    const auto sidecar = Sidecar::Load(fs_, *SidecarPath(path_), OpenMode::kRead);
    return sidecar.ok() ? (*sidecar)->generation() : 0;
  }

  MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  DatasetRef ref_;
  std::string path_;
};

TEST_P(RecordedAccess, WhoeverSeesAChangeRecordsIt) {
  const std::pair<const char*, std::function<DatasetReport()>> kTools[] = {
      {"lzy-protect", [&] { return Protect(Here(), ref_, {}); }},
      {"lzy-verify --repair", [&] { return Verify(Here(), ref_, {.repair = true}); }},
      {"lzy-scrub --repair", [&] { return Verify(Here(), ref_, {.portion = PortionRequest(), .record_access = true}); }},
      {"lzy-restore", [&] { return Restore(Here(), ref_, {}); }},
      {"a program's commit", [&] {
         ProtectRequest request;
         request.touched.emplace();
         return Protect(Here(), ref_, request);
       }}};
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  ExpectRecorded(0644, 0);
  const auto before = fs_.Copy();
  for (const auto& [name, run] : kTools) {
    SCOPED_TRACE(name);
    fs_.Restore(before);
    Change();
    ASSERT_OK(run().status);
    ExpectRecorded(0600, 7);
    EXPECT_EQ(fs_.At(*SidecarPath(path_)).stat.mode, 0600u);
    EXPECT_EQ(Verify(Here(), ref_, {}).state, DatasetState::kIntact);
  }
}

// Whatever else there is to see belongs to whoever asks for it.
TEST_P(RecordedAccess, NothingElseIsCommitted) {
  ASSERT_OK(Protect(Here(), ref_, {}).status);
  const std::uint64_t before = Generation();
  ProtectRequest request;
  request.only_access = true;
  ASSERT_OK(Protect(Here(), ref_, request).status);
  EXPECT_EQ(Generation(), before) << "nothing changed";

  Change();
  ASSERT_OK(Verify(Here(), ref_, {}).status);
  EXPECT_EQ(Generation(), before) << "verify writes nothing";

  auto& node = fs_.At(path_);
  const auto bytes = node.bytes;
  node.bytes[100] ^= 1;
  node.stat.mtime_ns += 1;  // an edit
  ASSERT_OK(Protect(Here(), ref_, request).status);
  EXPECT_EQ(Generation(), before);
  EXPECT_EQ(Verify(Here(), ref_, {}).state, DatasetState::kStale);

  // Rot stays rot.
  node.stat.mtime_ns -= 1;
  (void)Protect(Here(), ref_, request);
  EXPECT_EQ(Verify(Here(), ref_, {}).state, DatasetState::kDamaged);
  ASSERT_OK(Verify(Here(), ref_, {.repair = true}).status);
  EXPECT_EQ(fs_.At(path_).bytes, bytes);
}

INSTANTIATE_TEST_SUITE_P(Of, RecordedAccess, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& param_info) {
                           return std::string(std::get<0>(param_info.param) ? "Compact" : "Ordinary") + (std::get<1>(param_info.param) ? "Set" : "Shared");
                         });

}  // namespace
}  // namespace lzy::testing
