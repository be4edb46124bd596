// Epochs of several writers of one file, who know nothing of each other but what the sidecar says; and of a file that
// is renamed in one. Files are in memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "both_forms.h"
#include "dataset/lock.h"
#include "dataset/view.h"
#include "engine/engine.h"
#include "names/lookup.h"
#include "memory_files.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

constexpr std::uint32_t kBlock = 512;
constexpr std::uint64_t kBlocks = 24;
constexpr std::int64_t kPast = 1'600'000'000'000'000'000;

class EpochTest : public ::testing::TestWithParam<bool> {
 protected:
  EpochTest() {
    options_.block_size = kBlock;
    options_.stripe = kBlock;
    options_.group = 4;
    options_.threads = 1;
    options_.compact = GetParam();
    options_.timeout_seconds = 1;
  }

  /// Files of random bytes, committed: one that is shared, or the members of a set.
  void Make(std::uint32_t members) {
    fs_.Restore({});
    ref_ = {DatasetKind::kShared, "d/f", {}};
    paths_ = {ref_.path};
    if (members > 0) {
      paths_.clear();
      ref_ = {DatasetKind::kSet, "d/s.%r", {}};
      for (std::uint32_t r = 0; r < members; ++r) paths_.push_back(ref_.members[r] = ExpandPattern(ref_.path, r));
    }
    for (const std::string& path : paths_) fs_.Put(path, Random(kBlocks * kBlock), kPast);
    ASSERT_OK(Protect(Here(), ref_, {}).status);
  }
  std::vector<std::uint8_t> Random(std::size_t size) {
    std::vector<std::uint8_t> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng_());
    return bytes;
  }

  Context Here() { return {fs_, *self_, options_}; }
  std::string Pattern() const { return ref_.kind == DatasetKind::kSet ? ref_.path : ""; }
  EpochStart Begin(const std::string& path) {
    auto start = BeginEpoch(fs_, options_, path, Pattern());
    EXPECT_OK(start);
    return start.ok() ? *start : EpochStart();
  }
  void Write(const std::string& path, std::uint64_t block) {
    auto file = fs_.Open(path, OpenMode::kReadWrite);
    ASSERT_OK(file);
    ASSERT_OK((*file)->WriteAt(block * kBlock, Random(kBlock)));
  }
  /// As by a program that set `own` and wrote one block of the first file.
  DatasetReport Commit(std::uint64_t block, const std::vector<Intent>& own) {
    ProtectRequest request;
    request.touched.emplace();
    (*request.touched)[0].Add({block * kBlock, (block + 1) * kBlock});
    request.own_intents = own;
    DatasetReport report = Protect(Here(), ref_, request);
    EXPECT_OK(report.status);
    return report;
  }
  std::optional<Intent> IntentOf(const std::string& path) {
    const auto sidecar = Sidecar::Load(fs_, *SidecarPath(path), OpenMode::kRead);
    EXPECT_OK(sidecar);
    return sidecar.ok() ? (*sidecar)->intent() : std::nullopt;
  }
  std::string StateNow() { return Name(Verify(Here(), ref_, {}).state); }

  std::mt19937_64 rng_{42};
  MemoryFileSystem fs_;
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  DatasetRef ref_;
  std::vector<std::string> paths_;
};

TEST_P(EpochTest, ANewFilesIntentIsTwoSyncsAndALookAtNoOtherSidecar) {
  Make(3);
  ref_ = {DatasetKind::kShared, "d/new", {}};
  paths_ = {ref_.path};
  ASSERT_OK(fs_.Open("d/new", OpenMode::kCreateNew));
  std::vector<std::string> syncs, others;
  fs_.fault = [&](MemoryFileSystem::Op op, const std::string& path, std::uint64_t, std::uint64_t) {
    if (op == MemoryFileSystem::Op::kSync) syncs.push_back(path);
    if (path.find(".LZY.s.") != std::string::npos) others.push_back(path);
    return Status::Ok();
  };
  const EpochStart start = Begin("d/new");
  EXPECT_EQ(syncs.size(), 2u) << "the sidecar with its intent, and its name";
  EXPECT_FALSE(start.before);
  Write("d/new", 3);
  Commit(3, {start.intent});
  EXPECT_EQ(others, std::vector<std::string>());
  fs_.fault = nullptr;
  EXPECT_EQ(StateNow(), "intact");
}

// A commit of the compact form builds a new file. That needs fewer syncs than a commit in place.
TEST_P(EpochTest, SyncsOfAnEpoch) {
  Make(0);
  int sidecar = 0, names = 0;
  fs_.record = [&](const testing::StorageOp& op) {
    sidecar += op.kind == testing::StorageOp::Kind::kSync && op.path != paths_[0] ? 1 : 0;
    names += op.kind == testing::StorageOp::Kind::kSyncDirectory ? 1 : 0;
  };
  const EpochStart start = Begin(paths_[0]);
  EXPECT_EQ(std::pair(sidecar, names), std::pair(1, 0));
  sidecar = 0;
  Write(paths_[0], 3);
  Commit(3, {start.intent});
  fs_.record = nullptr;
  EXPECT_EQ(std::pair(sidecar, names), options_.compact ? std::pair(2, 1) : std::pair(6, 0));
  EXPECT_EQ(StateNow(), "intact");
}

// Its inode alone does not make a sidecar without a commit that of a file: the one that had it may be gone.
TEST_P(EpochTest, ARenamedFileWithAReusedInodeKeepsItsOwnSidecar) {
  Make(0);
  fs_.Put("d/g", {});
  Begin("d/g");  // and never comes to commit
  fs_.At("d/f").stat.inode = fs_.At("d/g").stat.inode;
  fs_.At("d/f").stat.birth_ns = fs_.At("d/g").stat.birth_ns + CoarseGranularityNs();
  ASSERT_OK(fs_.Remove("d/g"));
  ASSERT_OK(Protect(Here(), ref_, {}).status);  // as if it had been made with that inode
  ASSERT_OK(fs_.Rename("d/f", "d/g"));
  ref_.path = "d/g";
  EXPECT_EQ(StateNow(), "intact");
}

TEST_P(EpochTest, ACommitCoversTheWritesOfAnotherWriterAndKeepsItsIntent) {
  for (const std::uint32_t members : {0u, 3u}) {
    SCOPED_TRACE(members);
    Make(members);
    const EpochStart mine = Begin(paths_[0]);
    const EpochStart his = Begin(paths_[0]);
    ASSERT_TRUE(his.before && SameWriter(*his.before, mine.intent));
    Write(paths_[0], 3);
    Write(paths_[0], 20);  // his; nobody tells the commit
    const DatasetReport report = Commit(3, {mine.intent});
    EXPECT_EQ(report.generation, 2u);
    EXPECT_TRUE(report.kept_intents.contains(0));
    ASSERT_TRUE(IntentOf(paths_[0])) << "he writes on without an intent";
    EXPECT_TRUE(SameWriter(*IntentOf(paths_[0]), his.intent));
    EXPECT_EQ(IntentOf(paths_[0])->generation, 2u);
    EXPECT_EQ(StateNow(), "intact") << "what he wrote was not hashed";
    Write(paths_[0], 9);
    EXPECT_EQ(StateNow(), "at-risk");
    EXPECT_TRUE(Commit(9, {his.intent}).kept_intents.empty());
    EXPECT_FALSE(IntentOf(paths_[0]));
    EXPECT_EQ(StateNow(), "intact");
  }
}

// It was damage before the repair, and is none of the program's doing.
TEST_P(EpochTest, DamageThatABrokenRepairLeftIsNotCommitted) {
  for (const std::uint32_t members : {0u, 3u}) {
    SCOPED_TRACE(members);
    Make(members);
    const auto right = fs_.At(paths_[0]).bytes;
    fs_.At(paths_[0]).bytes[5 * kBlock] ^= 1;
    {
      auto sidecar = Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kReadWrite);
      ASSERT_OK(sidecar);
      ASSERT_OK((*sidecar)->SetIntent(NewIntent(kIntentRepair | kIntentWholeFile)));
    }
    fs_.At(paths_[0]).stat.mtime_ns = kPast + 1;  // it had not come to that
    EXPECT_EQ(StateNow(), "damaged");
    const EpochStart start = Begin(paths_[0]);
    EXPECT_FALSE(start.changed_behind);
    Write(paths_[0], 20);
    const auto written = fs_.At(paths_[0]).bytes;
    const DatasetReport report = Commit(20, {start.intent});
    EXPECT_TRUE(report.kept_intents.empty());
    EXPECT_EQ(StateNow(), "damaged");
    EXPECT_EQ(ExitCodeOf(Verify(Here(), ref_, {.repair = true})), 0);
    EXPECT_TRUE(std::equal(right.begin(), right.begin() + 20 * kBlock, fs_.At(paths_[0]).bytes.begin()));
    EXPECT_TRUE(std::equal(written.begin() + 20 * kBlock, written.end(), fs_.At(paths_[0]).bytes.begin() + 20 * kBlock));
  }
}

TEST_P(EpochTest, OwnIntentsEndWithACommit) {
  for (const std::uint32_t members : {0u, 3u}) {
    Make(members);
    const EpochStart first = Begin(paths_[0]);
    const EpochStart second = Begin(paths_[0]);  // another rank of this program
    Write(paths_[0], 3);
    const DatasetReport report = Commit(3, {first.intent, second.intent});
    EXPECT_TRUE(report.kept_intents.empty());
    EXPECT_FALSE(IntentOf(paths_[0]));
    // One process does for all members here, which makes a new set of them.
    if (members == 0 && !options_.compact) {
      EXPECT_LT(report.bytes_encoded, kBlocks * kBlock) << "nobody else wrote: no need to cover it all";
    }
  }
}

// A thread of the program writes after the ranks have told what they touched: its block would look like rot.
TEST_P(EpochTest, AWriteThatTheRequestDoesNotKnowOfEndsTheCommit) {
  for (const std::uint32_t members : {0u, 3u}) {
    Make(members);
    const EpochStart start = Begin(paths_[0]);
    Write(paths_[0], 3);
    const auto generation = [&] { return (*Sidecar::Load(fs_, *SidecarPath(paths_[0]), OpenMode::kRead))->generation(); };
    const std::uint64_t before = generation();
    ProtectRequest request;
    request.touched.emplace();
    (*request.touched)[0].Add({3 * kBlock, 4 * kBlock});
    for (std::uint32_t r = 1; r < members; ++r) (*request.touched)[r].Add({0, kBlock});
    request.own_intents = {start.intent};
    Write(paths_[0], 9);
    request.written_since = [] { return true; };
    EXPECT_EQ(Protect(Here(), ref_, request).status.code(), Code::kBusy);
    EXPECT_EQ(generation(), before);
    EXPECT_TRUE(IntentOf(paths_[0]));
    // As the layer does then. It need not be asked, because nothing of the file is taken for unwritten.
    for (auto& [rank, touched] : *request.touched) touched.AddWhole();
    ASSERT_OK(Protect(Here(), ref_, request).status);
    EXPECT_EQ(StateNow(), "intact");
  }
}

TEST_P(EpochTest, ACommitKeepsTheIntentOfAnotherWriterAtEveryStep) {
  Make(0);
  const EpochStart mine = Begin(paths_[0]);
  const EpochStart his = Begin(paths_[0]);
  Write(paths_[0], 3);
  int looked = 0;
  bool looking = false;
  fs_.fault = [&](MemoryFileSystem::Op, const std::string&, std::uint64_t, std::uint64_t) {
    if (looking) return Status::Ok();
    looking = true;
    const auto now = IntentOf(paths_[0]);
    EXPECT_TRUE(now && SameWriter(*now, his.intent));
    ++looked;
    looking = false;
    return Status::Ok();
  };
  Commit(3, {mine.intent});
  fs_.fault = nullptr;
  EXPECT_GT(looked, 10);
}

TEST_P(EpochTest, AbandoningKeepsTheIntentOfAnotherWriter) {
  Make(0);
  const EpochStart mine = Begin(paths_[0]);
  const EpochStart his = Begin(paths_[0]);
  ASSERT_OK(AbandonEpoch(fs_, options_, paths_[0], mine));
  ASSERT_TRUE(IntentOf(paths_[0]));
  EXPECT_TRUE(SameWriter(*IntentOf(paths_[0]), his.intent));
  // He found mine, which counts again when he takes his back.
  ASSERT_OK(AbandonEpoch(fs_, options_, paths_[0], his));
  ASSERT_TRUE(IntentOf(paths_[0]));
  EXPECT_TRUE(SameWriter(*IntentOf(paths_[0]), mine.intent));
  ASSERT_OK(AbandonEpoch(fs_, options_, paths_[0], mine));
  EXPECT_FALSE(IntentOf(paths_[0]));
}

TEST_P(EpochTest, AbandoningAfterACommitDoesNotRestoreOldIntents) {
  Make(0);
  const EpochStart mine = Begin(paths_[0]);
  const EpochStart his = Begin(paths_[0]);
  Write(paths_[0], 3);
  Commit(3, {mine.intent});
  ASSERT_OK(AbandonEpoch(fs_, options_, paths_[0], his));
  EXPECT_FALSE(IntentOf(paths_[0])) << "mine was for the generation before";
}

TEST_P(EpochTest, ASidecarOfIntentsAloneIsRemovedWithTheLastIntent) {
  fs_.Put("d/f", Random(1000), kPast);
  const EpochStart mine = Begin("d/f");
  const EpochStart his = Begin("d/f");
  ASSERT_OK(AbandonEpoch(fs_, options_, "d/f", his));
  ASSERT_TRUE(fs_.Has("d/.LZY.f")) << "mine was in it";
  ASSERT_OK(AbandonEpoch(fs_, options_, "d/f", mine));
  EXPECT_FALSE(fs_.Has("d/.LZY.f"));
  EXPECT_OK(AbandonEpoch(fs_, options_, "d/f", mine));
}

TEST_P(EpochTest, AbandoningAnEpochNeedsTheLock) {
  Make(0);
  const EpochStart mine = Begin(paths_[0]);
  auto sidecar = fs_.Open(*SidecarPath(paths_[0]), OpenMode::kReadWrite);
  ASSERT_OK(sidecar);
  ASSERT_OK((*sidecar)->Lock());
  EXPECT_CODE(AbandonEpoch(fs_, options_, paths_[0], mine), Code::kBusy);
  EXPECT_TRUE(IntentOf(paths_[0]));
}

// ------------------------------------------------------------------------------------------------------------- Renames

TEST_P(EpochTest, TheSidecarFollowsAFileRenamedInAnEpoch) {
  Make(0);
  const EpochStart mine = Begin("d/f");
  Write("d/f", 3);
  ASSERT_OK(fs_.Rename("d/f", "d/g"));
  ASSERT_OK(FollowRename(fs_, options_, "d/f", "d/g", {mine.intent}));
  EXPECT_FALSE(fs_.Has("d/.LZY.f"));
  ref_.path = paths_[0] = "d/g";
  ASSERT_TRUE(IntentOf("d/g"));
  EXPECT_EQ(StateNow(), "at-risk");
  EXPECT_EQ(Commit(3, {mine.intent}).generation, 2u);
  EXPECT_OK(FollowRename(fs_, options_, "d/f", "d/g", {mine.intent}));  // it is there already
}

TEST_P(EpochTest, ACrashWhileItFollowsLosesNoSidecar) {
  for (int survives = 0;; ++survives) {
    Make(0);
    const EpochStart mine = Begin("d/f");
    ASSERT_OK(fs_.Rename("d/f", "d/g"));
    int left = survives;
    fs_.fault = [&](MemoryFileSystem::Op op, const std::string&, std::uint64_t, std::uint64_t) {
      if (op == MemoryFileSystem::Op::kRead || left-- > 0) return Status::Ok();
      return Status(Code::kIo, "crashed");
    };
    const Status done = FollowRename(fs_, options_, "d/f", "d/g", {mine.intent});
    fs_.fault = nullptr;
    const std::string where = fs_.Has("d/.LZY.g") ? "d/g" : "d/f";
    const auto sidecar = Sidecar::Load(fs_, *SidecarPath(where), OpenMode::kRead);
    ASSERT_OK(sidecar);
    EXPECT_TRUE((*sidecar)->committed());
    EXPECT_TRUE((*sidecar)->intent());
    if (done.ok()) break;
    ASSERT_LT(survives, 100);
  }
}

TEST_P(EpochTest, ASidecarThatIsAnotherFilesStays) {
  Make(0);
  const EpochStart mine = Begin("d/f");
  Write("d/f", 3);
  ASSERT_OK(fs_.Rename("d/f", "d/g"));
  fs_.Put("d/f", Random(1000));  // takes the name, and its writer the sidecar
  const EpochStart his = Begin("d/f");
  ASSERT_OK(FollowRename(fs_, options_, "d/f", "d/g", {mine.intent}));
  ASSERT_TRUE(fs_.Has("d/.LZY.f"));
  EXPECT_TRUE(SameWriter(*IntentOf("d/f"), his.intent));
}

TEST_P(EpochTest, AnotherWritersIntentUnderTheNewNameStays) {
  Make(0);
  const EpochStart mine = Begin("d/f");
  ASSERT_OK(fs_.Rename("d/f", "d/g"));
  // He has begun, and has not written yet, when this program comes to look after its sidecar.
  auto renamed = fs_.Open("d/g", OpenMode::kRead);
  ASSERT_OK(renamed);
  const EmptySidecar empty = NewSidecar(options_, DatasetKind::kShared, "g", 0);
  auto his = LockSidecar(fs_, "d/.LZY.g", renamed->get(), &empty, 1);
  ASSERT_OK(his);
  ASSERT_OK((*his)->SetIntent(NewIntent(kIntentWholeFile)));
  const Intent set = *(*his)->intent();
  his->reset();
  ASSERT_OK(FollowRename(fs_, options_, "d/f", "d/g", {mine.intent}));
  EXPECT_TRUE(SameWriter(*IntentOf("d/g"), set));
}

TEST_P(EpochTest, AFileThatReplacedAnotherIsKnownByItselfAndNothingUnknownPassesForAHash) {
  for (const bool unknown : {false, true}) {
    SCOPED_TRACE(unknown);
    Make(0);
    const std::string path = *SidecarPath(ref_.path);
    if (unknown) {  // the hashes of the data, in all copies
      const auto sidecar = Sidecar::Load(fs_, path, OpenMode::kRead);
      ASSERT_OK(sidecar);
      const auto leaf = (*sidecar)->contents().data_tree.leaf(0).bytes;
      auto& bytes = fs_.At(path).bytes;
      int found = 0;
      for (auto at = bytes.begin(); (at = std::search(at, bytes.end(), leaf.begin(), leaf.end())) != bytes.end(); ++at) {
        *at ^= 1;
        ++found;
      }
      ASSERT_GT(found, 1);
    }
    fs_.Put("d/new", Random(kBlocks * kBlock));
    ASSERT_OK(fs_.Rename("d/new", ref_.path));
    Begin(ref_.path);
    const auto sidecar = Sidecar::Load(fs_, path, OpenMode::kRead);
    ASSERT_OK(sidecar);
    const auto now = fs_.Stat(ref_.path);
    ASSERT_OK(now);
    EXPECT_EQ(MayBe(*now, (*sidecar)->contents().superblock.stamp), !unknown);
    EXPECT_EQ((*sidecar)->knows_all_leaves(), !unknown);
    EXPECT_TRUE((*sidecar)->intent());
    EXPECT_EQ((*sidecar)->generation(), 1u);
  }
}

TEST_P(EpochTest, TheSidecarOfAFileThatWasOverwrittenIsReplacedAndOthersFollowTheirs) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept);
    Make(0);
    fs_.Put("d/g", Random(5 * kBlock), kPast);
    ASSERT_OK(Protect(Here(), {DatasetKind::kShared, "d/g", {}}, {}).status);
    const auto others = (*Sidecar::Load(fs_, "d/.LZY.g", OpenMode::kRead))->contents().superblock.uuid;
    const EpochStart mine = Begin("d/f");
    Write("d/f", 3);
    if (kept) ASSERT_OK(fs_.Rename("d/g", "d/g.old"));
    ASSERT_OK(fs_.Rename("d/f", "d/g"));
    ASSERT_OK(FollowRename(fs_, options_, "d/f", "d/g", {mine.intent}));
    EXPECT_FALSE(fs_.Has("d/.LZY.f"));
    ASSERT_TRUE(IntentOf("d/g"));
    EXPECT_TRUE(SameWriter(*IntentOf("d/g"), mine.intent));
    ASSERT_EQ(fs_.Has("d/.LZY.g.old"), kept);
    if (kept) {
      EXPECT_EQ((*Sidecar::Load(fs_, "d/.LZY.g.old", OpenMode::kRead))->contents().superblock.uuid, others);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, EpochTest, ::testing::Bool(), NameOfForm);

}  // namespace
}  // namespace lzy::testing
