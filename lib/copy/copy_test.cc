// Copies of one file in memory: the result, healed blocks, proofs, and the files that stay after a failure.
#include "copy/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "memory_files.h"
#include "names/lookup.h"
#include "sidecar/contents.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"

namespace lzy::testing {
namespace {

using Op = MemoryFileSystem::Op;
using Lie = MemoryFileSystem::Lie;

constexpr std::int64_t kLongAgo = 1'600'000'000'000'000'000;
constexpr std::uint32_t kBlock = 4096;

class CopyTest : public ::testing::Test {
 protected:
  CopyTest() {
    options_.block_size = kBlock;
    options_.stripe = 16384;
    options_.group = 4;
    options_.parity = 1;
    options_.threads = 2;
    options_.timeout_seconds = 0;
    request_.read_back = ReadBack::kUncached;
  }

  /// Makes a source of random bytes, protected if `parity` is not 0.
  void Make(std::uint64_t size, std::uint32_t parity = 1) {
    bytes_ = RandomBytes(rng_, size);
    fs_.Put("s/f", bytes_, kLongAgo).stat.mode = 0640;
    if (parity > 0) {
      Options options = options_;
      options.parity = parity;
      const Context context{fs_, *self_, options};
      ASSERT_OK(Protect(context, {DatasetKind::kShared, "s/f", {}}, {}).status);
    }
  }
  CopyReport Copy() { return CopyFile({fs_, *self_, options_, {}, stop_}, "s/f", "d/f", request_); }

  /// Changes a byte of a file as rot does.
  void Flip(const std::string& path, std::uint64_t offset) {
    auto& node = fs_.At(path);
    node.bytes.at(offset) ^= 1;
    if (offset < node.durable.size()) node.durable[offset] ^= 1;
  }
  /// The offset of a block in the row of block 0.
  std::uint64_t SameRow() {
    const auto sidecar = Sidecar::Load(fs_, "s/.LZY.f", OpenMode::kRead);
    const auto layout = LayoutOf((*sidecar)->contents());
    std::uint64_t block = 1;
    while (layout->LocateData(0, block).row != layout->LocateData(0, 0).row) ++block;
    return block * kBlock;
  }
  void ExpectCopied(bool with_sidecar = true) {
    ASSERT_TRUE(fs_.Has("d/f"));
    const auto& node = fs_.At("d/f");
    EXPECT_EQ(node.bytes, bytes_);
    EXPECT_EQ(node.durable, bytes_);
    EXPECT_EQ(node.stat.mtime_ns, kLongAgo);
    EXPECT_EQ(node.stat.mode, 0640u);
    EXPECT_EQ(fs_.Has("d/.LZY.f"), with_sidecar);
    EXPECT_EQ(Temporaries(), std::vector<std::string>());
    if (!with_sidecar) return;
    EXPECT_EQ(fs_.At("d/.LZY.f").bytes, fs_.At("d/.LZY.f").durable);
    const DatasetReport checked = Verify({fs_, *self_, options_}, {DatasetKind::kShared, "d/f", {}}, {});
    EXPECT_OK(checked.status);
    EXPECT_EQ(checked.state, DatasetState::kIntact);
    EXPECT_TRUE(checked.damage.empty());
  }
  std::vector<std::string> Temporaries() const {
    std::vector<std::string> names;
    for (const auto& [path, node] : fs_.nodes()) {
      if (path.starts_with("d/.LZY") && !path.starts_with("d/.LZY.")) names.push_back(path);
    }
    return names;
  }
  static bool IsOfCopy(const std::string& path) { return path == "d/.LZY-copy.f" || path == "d/f"; }

  Rng rng_{SeedOf(21)};
  MemoryFileSystem fs_;
  Options options_;
  CopyRequest request_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  std::function<bool()> stop_;
  Bytes bytes_;
};

TEST_F(CopyTest, IsEqualAndProtectedWithTheSameRoot) {
  for (const std::uint64_t size : {0ull, 1ull, 4096ull, 100'000ull, 3'000'000ull}) {
    for (const ReadBack how : {ReadBack::kNone, ReadBack::kCache, ReadBack::kUncached}) {
      SCOPED_TRACE(::testing::Message() << size << " bytes, read back " << static_cast<int>(how));
      fs_.Restore({});
      Make(size);
      request_.read_back = how;
      const CopyReport report = Copy();
      ASSERT_OK(report.status);
      EXPECT_EQ(ExitCodeOf(report), 0);
      EXPECT_TRUE(report.compared);
      EXPECT_TRUE(report.same_root);
      EXPECT_EQ(report.bytes, size);
      EXPECT_EQ(report.healed + report.reread + report.sent_again, 0u);
      ExpectCopied();
    }
  }
}

TEST_F(CopyTest, OfAnUnprotectedFileIsProtectedByTheOptions) {
  Make(500'000, 0);
  options_.parity = 2;
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_FALSE(report.compared);
  EXPECT_FALSE(report.same_root);
  ExpectCopied();
  auto sidecar = Sidecar::Load(fs_, "d/.LZY.f", OpenMode::kRead);
  ASSERT_OK(sidecar);
  EXPECT_EQ((*sidecar)->contents().superblock.parity, 2u);
}

TEST_F(CopyTest, HasTheSidecarThatProtectWouldMake) {
  Make(777'777, 0);
  ASSERT_OK(Copy().status);
  const Bytes of_copy = fs_.At("d/.LZY.f").bytes;
  const std::string root = Verify({fs_, *self_, options_}, {DatasetKind::kShared, "d/f", {}}, {}).root.Hex();
  ASSERT_OK(Protect({fs_, *self_, options_}, {DatasetKind::kShared, "s/f", {}}, {}).status);
  EXPECT_EQ(Verify({fs_, *self_, options_}, {DatasetKind::kShared, "s/f", {}}, {}).root.Hex(), root);
  EXPECT_EQ(of_copy.size(), fs_.At("s/.LZY.f").bytes.size());
}

TEST_F(CopyTest, KeepsTheGeometryOfTheSourceUnlessOneIsGiven) {
  Make(400'000, 2);
  ASSERT_OK(Copy().status);
  EXPECT_EQ((*Sidecar::Load(fs_, "d/.LZY.f", OpenMode::kRead))->contents().superblock.parity, 2u);
  options_.given.insert("parity");
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_FALSE(report.same_root);
  EXPECT_EQ((*Sidecar::Load(fs_, "d/.LZY.f", OpenMode::kRead))->contents().superblock.parity, 1u);
  ExpectCopied();
}

TEST_F(CopyTest, WithSmallerAndLargerBlocksThanTheSource) {
  Make(333'333);
  options_.given = {"block-size", "stripe"};
  for (const std::uint32_t block : {512u, 65536u}) {
    options_.block_size = block;
    options_.stripe = block * 4;
    Flip("s/f", 200'000);
    const CopyReport report = Copy();
    ASSERT_OK(report.status);
    EXPECT_GE(report.healed, kBlock);
    ExpectCopied();
    Flip("s/f", 200'000);
  }
}

TEST_F(CopyTest, WithoutProtectionLeavesNoSidecar) {
  Make(1'500'000);
  ASSERT_OK(Copy().status);
  ASSERT_TRUE(fs_.Has("d/.LZY.f"));
  request_.protect = false;
  ASSERT_OK(Copy().status);
  ExpectCopied(/*with_sidecar=*/false);
}

TEST_F(CopyTest, HealsRotFromParityAndLeavesTheSourceAlone) {
  Make(1'000'000);
  Flip("s/f", 500'000);
  const auto before = fs_.Copy();
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(report.healed, kBlock);
  EXPECT_TRUE(report.same_root);
  ExpectCopied();
  for (const auto& [path, node] : before) EXPECT_EQ(fs_.At(path).bytes, node.bytes) << path;
}

TEST_F(CopyTest, HealsUnreadableBlocks) {
  Make(1'000'000);
  fs_.At("s/f").unreadable = {{40'960, 100}, {900'000, 1}};
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(report.healed, 2 * kBlock);
  ExpectCopied();
}

TEST_F(CopyTest, ReadsAgainWhatOnlyThePageCacheHasWrong) {
  Make(1'000'000);
  fs_.At("s/f").flaky = {{100, 10}};
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(report.reread, kBlock);
  EXPECT_EQ(report.healed, 0u);
  ExpectCopied();
}

TEST_F(CopyTest, BeyondRepairMakesNoCopyAndTouchesNothing) {
  Make(1'000'000);
  Flip("s/f", 0);
  Flip("s/f", SameRow());
  fs_.Put("d/f", Bytes(10, 7), kLongAgo);
  const CopyReport report = Copy();
  EXPECT_CODE(report.status, Code::kBeyondRepair);
  EXPECT_EQ(ExitCodeOf(report), 2);
  EXPECT_NE(report.status.message().find("are damaged, and cannot be rebuilt"), std::string::npos)
      << report.status.message();
  EXPECT_EQ(fs_.At("d/f").bytes, Bytes(10, 7));
  EXPECT_EQ(Temporaries(), std::vector<std::string>());
  EXPECT_FALSE(fs_.Has("d/.LZY.f"));
}

TEST_F(CopyTest, SalvageCopiesWhatThereIsAndListsIt) {
  Make(1'000'000);
  const std::uint64_t second = SameRow();
  Flip("s/f", 0);
  Flip("s/f", second);
  Flip("s/f", 800'000);  // can be rebuilt
  request_.salvage = true;
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(report.healed, kBlock);
  EXPECT_EQ(report.lost, (std::vector<ByteRange>{{0, kBlock}, {second, kBlock}}));
  EXPECT_FALSE(report.same_root);
  bytes_[0] ^= 1;
  bytes_[second] ^= 1;
  ExpectCopied();
}

TEST_F(CopyTest, SalvageGoesOnBehindUnreadablePagesOfAnUnprotectedFile) {
  Make(1'000'000, 0);
  fs_.At("s/f").unreadable = {{500'000, 10}};
  CopyReport report = Copy();
  EXPECT_CODE(report.status, Code::kUnreadable);
  EXPECT_EQ(ExitCodeOf(report), 6);
  EXPECT_FALSE(fs_.Has("d/f"));
  request_.salvage = true;
  report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(report.lost, (std::vector<ByteRange>{{499'712, 4096}}));
  std::fill_n(bytes_.begin() + 499'712, 4096, std::uint8_t{0});
  ExpectCopied();
}

TEST_F(CopyTest, WritesAgainWhatTheDeviceLost) {
  Make(2'000'000);
  int lost = 0;
  fs_.lie = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t length, bool) -> Lie {
    if (op == Op::kWrite && IsOfCopy(path) && offset <= 1'000'000 && 1'000'000 < offset + length && lost++ < 2)
      return {Lie::Kind::kLost, 0};
    return {};
  };
  const CopyReport report = Copy();
  fs_.lie = nullptr;
  ASSERT_OK(report.status);
  EXPECT_EQ(lost, 3);
  EXPECT_GE(report.sent_again, kBlock);
  EXPECT_LE(report.sent_again, 4 * kCopyChunk);
  ExpectCopied();
}

TEST_F(CopyTest, AWriteThatIsLostAgainAndAgainFailsWithItsRange) {
  for (const bool protect : {true, false}) {
    fs_.Restore({});
    Make(2'000'000);
    request_.protect = protect;
    std::atomic<int> lost = 0;
    fs_.lie = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t length, bool) -> Lie {
      if (op != Op::kWrite || !IsOfCopy(path) || offset > 1'000'000 || 1'000'000 >= offset + length) return {};
      ++lost;
      return {Lie::Kind::kLost, 0};
    };
    const CopyReport report = Copy();
    fs_.lie = nullptr;
    EXPECT_CODE(report.status, Code::kWriteFailed);
    EXPECT_EQ(ExitCodeOf(report), 5);
    EXPECT_EQ(lost, 1 + CopyTarget::kTries);
    EXPECT_NE(report.status.message().find("d/f: bytes "), std::string::npos) << report.status.message();
    EXPECT_FALSE(fs_.Has("d/f"));
    EXPECT_EQ(Temporaries(), std::vector<std::string>());
  }
}

// With --verify none, nothing is read back.
TEST_F(CopyTest, WithoutReadingBackALostWriteIsNotNoticed) {
  Make(2'000'000, 0);
  request_.read_back = ReadBack::kNone;
  std::atomic<int> reads = 0;
  fs_.lie = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t length, bool) -> Lie {
    if (op == Op::kRead && IsOfCopy(path)) ++reads;
    return op == Op::kWrite && IsOfCopy(path) && offset <= 1'000'000 && 1'000'000 < offset + length
               ? Lie{Lie::Kind::kLost, 0}
               : Lie{};
  };
  EXPECT_OK(Copy().status);
  EXPECT_EQ(reads, 0);
  EXPECT_NE(fs_.At("d/f").bytes, bytes_);
}

TEST_F(CopyTest, AFullDiskIsAFailureOfTheCopy) {
  Make(2'000'000);
  fs_.fault = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t) -> Status {
    if (op == Op::kWrite && path.starts_with("d/") && offset > 900'000)
      return {Code::kIo, path + ": No space left on device"};
    return Status::Ok();
  };
  const CopyReport report = Copy();
  fs_.fault = nullptr;
  EXPECT_CODE(report.status, Code::kWriteFailed);
  EXPECT_NE(report.status.message().find("No space left"), std::string::npos);
  EXPECT_FALSE(fs_.Has("d/f"));
  EXPECT_EQ(Temporaries(), std::vector<std::string>());
}

TEST_F(CopyTest, NoRoomForTheSidecarIsAFailureOfTheCopy) {
  Make(2'000'000);
  fs_.fault = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t) -> Status {
    if (op == Op::kWrite && path == "d/.LZY-tmp.0.f") return {Code::kIo, path + ": No space left on device"};
    return Status::Ok();
  };
  EXPECT_CODE(Copy().status, Code::kWriteFailed);
  fs_.fault = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t) -> Status {
    if (op == Op::kRead && path == "s/f") return {Code::kIo, path + ": Stale file handle"};
    return Status::Ok();
  };
  EXPECT_CODE(Copy().status, Code::kIo) << "what cannot be read is no failure of the copy";
  fs_.fault = nullptr;
  EXPECT_FALSE(fs_.Has("d/f"));
  EXPECT_EQ(Temporaries(), std::vector<std::string>());
}

TEST_F(CopyTest, ASourceThatIsEditedMeanwhileIsNotCopied) {
  for (const std::uint32_t parity : {0u, 1u}) {
    fs_.Restore({});
    Make(2'000'000, parity);
    std::atomic<int> writes = 0;
    fs_.lie = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t, bool) -> Lie {
      if (op == Op::kWrite && IsOfCopy(path) && writes++ == 3) fs_.At("s/f").stat.mtime_ns += 1000;
      return {};
    };
    const CopyReport report = Copy();
    fs_.lie = nullptr;
    EXPECT_TRUE(report.changed);
    EXPECT_EQ(ExitCodeOf(report), 9);
    EXPECT_NE(report.status.message().find("s/f: somebody changed it"), std::string::npos) << report.status.message();
    EXPECT_FALSE(fs_.Has("d/f"));
    EXPECT_EQ(Temporaries(), std::vector<std::string>());
  }
}

TEST_F(CopyTest, ATouchedSourceIsComparedNevertheless) {
  for (const std::uint64_t size : {0ull, 300ull, 200'000ull}) {
    fs_.Restore({});
    Make(size);
    fs_.At("s/f").stat.mtime_ns += 5;
    const CopyReport report = Copy();
    ASSERT_OK(report.status);
    EXPECT_EQ(ExitCodeOf(report), 0);
    EXPECT_TRUE(report.compared);
    EXPECT_TRUE(report.same_root);
    EXPECT_TRUE(report.warnings.empty());
    EXPECT_EQ(fs_.At("d/f").bytes, bytes_);
  }
}

// Rot and a new mtime look like an edit. A copy would get a sidecar that proves the rot, and replace a right one.
TEST_F(CopyTest, ASourceThatMayBeEditedOrDamagedDoesNotReplaceACopy) {
  for (const std::uint64_t size : {300ull, 200'000ull}) {
    SCOPED_TRACE(size);
    fs_.Restore({});
    Make(size);
    ASSERT_OK(Copy().status);
    const Bytes sidecar = fs_.At("d/.LZY.f").bytes;
    Flip("s/f", 7);
    fs_.At("s/f").stat.mtime_ns += 5;
    for (const bool protect : {true, false}) {
      request_.protect = protect;
      const CopyReport report = Copy();
      EXPECT_EQ(ExitCodeOf(report), 9);
      EXPECT_TRUE(report.changed);
      const std::string block = size < kBlock ? "bytes 0 to 299" : "bytes 0 to 4095";
      EXPECT_NE(report.status.message().find("s/f: " + block + " differ from its last commit"), std::string::npos)
          << report.status.message();
      EXPECT_NE(report.status.message().find("lzy-verify s/f"), std::string::npos) << report.status.message();
      EXPECT_EQ(fs_.At("d/f").bytes, bytes_);
      EXPECT_EQ(fs_.At("d/.LZY.f").bytes, sidecar);
      EXPECT_EQ(Temporaries(), std::vector<std::string>());
    }
    request_.protect = true;
  }
}

TEST_F(CopyTest, ASourceOfAnotherSizeThanCommittedIsNotCopied) {
  for (const std::uint64_t size : {0ull, 100'000ull, 300'000ull}) {
    SCOPED_TRACE(size);
    fs_.Restore({});
    Make(200'000);
    auto& node = fs_.At("s/f");
    node.bytes.resize(size);
    node.stat.size = size;
    node.stat.mtime_ns += 5;
    const CopyReport report = Copy();
    EXPECT_EQ(ExitCodeOf(report), 9);
    EXPECT_NE(report.status.message().find("its size of"), std::string::npos) << report.status.message();
    EXPECT_FALSE(fs_.Has("d/f"));
    EXPECT_EQ(Temporaries(), std::vector<std::string>());
  }
}

TEST_F(CopyTest, SalvageCopiesAnEditAndListsIt) {
  Make(200'000);
  auto& node = fs_.At("s/f");
  node.bytes.resize(190'000);
  node.stat.size = 190'000;
  node.stat.mtime_ns += 5;
  Flip("s/f", 7);
  request_.salvage = true;
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(ExitCodeOf(report), 2);
  const std::uint64_t last = 190'000 / kBlock * kBlock;
  EXPECT_EQ(report.lost, (std::vector<ByteRange>{{0, kBlock}, {last, 200'000 - last}}));
  EXPECT_EQ(fs_.At("d/f").bytes, node.bytes);
}

TEST_F(CopyTest, ReplacesAnOlderFileAndItsSidecar) {
  Make(100'000);
  ASSERT_OK(Copy().status);
  ASSERT_OK(fs_.Remove("s/.LZY.f"));
  Make(150'000);
  ASSERT_OK(Copy().status);
  ExpectCopied();
}

TEST_F(CopyTest, RefusesItselfSidecarsAndMembersOfSets) {
  Make(10'000);
  const Context context{fs_, *self_, options_};
  CopyReport report = CopyFile(context, "s/f", "s/f", request_);
  EXPECT_CODE(report.status, Code::kInvalidArgument);
  EXPECT_NE(report.status.message().find("are the same file"), std::string::npos);
  report = CopyFile(context, "s/.LZY.f", "d/f", request_);
  EXPECT_CODE(report.status, Code::kInvalidArgument);
  EXPECT_NE(report.status.message().find("lzy's own"), std::string::npos);
  DatasetRef set{DatasetKind::kSet, "d/m.%r", {}};
  for (std::uint32_t r = 0; r < 3; ++r) {
    set.members[r] = ExpandPattern(set.path, r);
    fs_.Put(set.members[r], Bytes(1000, 3), kLongAgo);
  }
  ASSERT_OK(Protect(context, set, {}).status);
  report = CopyFile(context, "s/f", "d/m.1", request_);
  EXPECT_CODE(report.status, Code::kInvalidArgument);
  EXPECT_NE(report.status.message().find("member of a protected set"), std::string::npos);
  EXPECT_EQ(fs_.At("d/m.1").bytes, Bytes(1000, 3));
}

TEST_F(CopyTest, ASealedSourceNeedsItsKeyAndGivesASealedCopy) {
  options_.key = TestKey();
  Make(100'000);
  options_.key = nullptr;
  CopyReport report = Copy();
  EXPECT_CODE(report.status, Code::kInvalidArgument);
  EXPECT_EQ(ExitCodeOf(report), 3);
  EXPECT_FALSE(fs_.Has("d/f"));
  options_.key = TestKey();
  report = Copy();
  ASSERT_OK(report.status);
  EXPECT_TRUE(report.same_root);
  ExpectCopied();
  // With the key, a source without a seal is not trusted.
  ASSERT_OK(fs_.Remove("s/.LZY.f"));
  EXPECT_EQ(ExitCodeOf(Copy()), 4);
}

TEST_F(CopyTest, TwoCopiesToOneNameDoNotMix) {
  Make(100'000);
  auto other = fs_.Open("d/.LZY-copy.f", OpenMode::kCreate);
  ASSERT_OK(other);
  ASSERT_OK((*other)->Lock());
  const CopyReport report = Copy();
  EXPECT_CODE(report.status, Code::kBusy);
  EXPECT_EQ(ExitCodeOf(report), 6);
  EXPECT_TRUE(fs_.Has("d/.LZY-copy.f"));
}

TEST_F(CopyTest, AnInterruptLeavesNothingOfASmallFile) {
  Make(2'000'000);
  stop_ = [] { return true; };
  const CopyReport report = Copy();
  EXPECT_CODE(report.status, Code::kInterrupted);
  EXPECT_FALSE(report.kept);
  EXPECT_EQ(Temporaries(), std::vector<std::string>());
}

// A file of several batches. A failure leaves some of them proven.
class ResumeTest : public CopyTest {
 protected:
  static constexpr std::uint64_t kSize = 100u << 20;  // more than the window: some of it is proven in any case
  void Interrupt(std::uint32_t parity) {
    options_.block_size = 65536;
    options_.stripe = 1u << 20;
    Make(kSize, parity);
    fs_.fault = [&](Op op, const std::string& path, std::uint64_t offset, std::uint64_t) -> Status {
      if (op == Op::kWrite && path == "d/.LZY-copy.f" && offset > (95u << 20))
        return {Code::kIo, path + ": No space left on device"};
      return Status::Ok();
    };
    const CopyReport report = Copy();
    fs_.fault = nullptr;
    EXPECT_CODE(report.status, Code::kWriteFailed);
    EXPECT_TRUE(report.kept);
    EXPECT_EQ(Temporaries(), (std::vector<std::string>{"d/.LZY-copy.f", "d/.LZY-journal.f"}));
    request_.resume = true;
  }
};

TEST_F(ResumeTest, GoesOnWithWhatIsProven) {
  for (const std::uint32_t parity : {0u, 1u}) {
    fs_.Restore({});
    Interrupt(parity);
    std::uint64_t read = 0;
    fs_.fault = [&](Op op, const std::string& path, std::uint64_t, std::uint64_t length) -> Status {
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      if (op == Op::kRead && path == "s/f") read += length;
      return Status::Ok();
    };
    const CopyReport report = Copy();
    fs_.fault = nullptr;
    ASSERT_OK(report.status);
    EXPECT_GE(report.resumed, CopyTarget::kBatch);
    EXPECT_EQ(read, kSize - report.resumed);
    ExpectCopied();
    request_.resume = false;
  }
}

TEST_F(ResumeTest, CopiesAgainWhatIsNotAsProven) {
  Interrupt(0);
  for (std::uint64_t at = 5; at < fs_.At("d/.LZY-copy.f").bytes.size(); at += 20u << 20) Flip("d/.LZY-copy.f", at);
  const CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_GT(report.resumed, 0u);
  ExpectCopied();
}

TEST_F(ResumeTest, BeginsAnewIfTheSourceIsAnotherOrTheJournalIsRuined) {
  Interrupt(0);
  auto saved = fs_.Copy();
  bytes_ = RandomBytes(rng_, kSize);
  fs_.Put("s/f", bytes_, kLongAgo + 1);
  CopyReport report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(report.resumed, 0u);
  EXPECT_EQ(fs_.At("d/f").bytes, bytes_);

  fs_.Restore(saved);
  bytes_ = fs_.At("s/f").bytes;
  Flip("d/.LZY-journal.f", 9);
  report = Copy();
  ASSERT_OK(report.status);
  EXPECT_EQ(report.resumed, 0u);
  ExpectCopied();
}

// A file system like Lustre. On other file systems, a file with a time in whole seconds is another file.
TEST_F(ResumeTest, KnowsACopyOnAFileSystemThatKeepsWholeSeconds) {
  for (const std::uint32_t parity : {0u, 1u}) {
    fs_.Restore({});
    request_.resume = false;
    Make(100'000, parity);
    auto& source = fs_.At("s/f");
    source.stat.mtime_ns += 5;
    if (parity > 0) {
      ASSERT_OK(Protect({fs_, *self_, options_}, {DatasetKind::kShared, "s/f", {}}, {}).status);
    }
    fs_.whole_seconds = true;
    ASSERT_OK(Copy().status);
    ExpectCopied();
    request_.resume = true;
    fs_.At("d/f").stat.ctime_ns = CoarseNowNs() / kNsPerSecond * kNsPerSecond;
    EXPECT_TRUE(Copy().already);
    fs_.At("d/f").stat.ctime_ns += 1;
    EXPECT_FALSE(Copy().already);
    fs_.whole_seconds = false;
  }
}

TEST_F(ResumeTest, SkipsWhatIsThereButNotWhatIsOlder) {
  Make(100'000);
  ASSERT_OK(Copy().status);
  request_.resume = true;
  CopyReport report = Copy();
  EXPECT_TRUE(report.already);
  EXPECT_TRUE(report.same_root);
  ASSERT_OK(fs_.Remove("d/.LZY.f"));
  report = Copy();
  EXPECT_FALSE(report.already);
  ExpectCopied();
  fs_.At("d/f").stat.mtime_ns += 1;
  EXPECT_FALSE(Copy().already);
  ExpectCopied();
}

// After a crash at any operation, the name means the old file or a whole copy. Then the copy can be made again.
TEST_F(CopyTest, CrashesAtEveryOperation) {
  for (const bool replaces : {false, true}) {
    fs_.Restore({});
    Make(60'000);
    const Bytes old(20'000, 9);
    if (replaces) {
      fs_.Put("d/f", old, kLongAgo - 77);
      ASSERT_OK(Protect({fs_, *self_, options_}, {DatasetKind::kShared, "d/f", {}}, {}).status);
    }
    options_.threads = 1;
    const auto before = fs_.Copy();
    bool ended = false;
    for (int point = 0; !ended; ++point) {
      ASSERT_LT(point, 1000);
      SCOPED_TRACE(::testing::Message() << "crash before operation " << point << (replaces ? ", replacing" : ""));
      fs_.Restore(before);
      int done = 0;
      fs_.fault = [&](Op op, const std::string&, std::uint64_t, std::uint64_t) -> Status {
        if (op != Op::kRead && done++ >= point) return {Code::kIo, "crashed"};
        return Status::Ok();
      };
      const CopyReport report = Copy();
      fs_.fault = nullptr;
      ended = report.status.ok();
      fs_.PowerLoss(rng_);
      if (fs_.Has("d/f") && fs_.At("d/f").bytes != old) {
        ASSERT_EQ(fs_.At("d/f").bytes, bytes_);
        // With the old or the new sidecar, the file is never called damaged.
        const DatasetReport found = Verify({fs_, *self_, options_}, {DatasetKind::kShared, "d/f", {}}, {});
        EXPECT_NE(found.state, DatasetState::kDamaged);
        EXPECT_NE(found.state, DatasetState::kUnrepairable);
      } else {
        EXPECT_EQ(fs_.Has("d/f"), replaces);
      }
      request_.resume = point % 2 != 0;
      ASSERT_OK(Copy().status);
      request_.resume = false;
      ExpectCopied();
    }
  }
}

}  // namespace
}  // namespace lzy::testing
