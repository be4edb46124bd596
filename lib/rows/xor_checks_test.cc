// Sums that arrive wrong: what proves them, and that commits and repairs go by no other.
#include "rows/xor_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "rows/retry.h"
#include "rows/rows.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"
#include "wrong_sums.h"

namespace lzy::testing {
namespace {

using Words = std::vector<std::uint64_t>;
constexpr std::uint32_t kBlock = 512;
constexpr std::uint64_t kWords = kBlock / 8;

/// One exchange of random blocks among three ranks, `spoil`ed; the blocks that are not proven, by rank.
class Exchanged {
 public:
  static constexpr int kRanks = 3;

  explicit Exchanged(Rng& rng, std::uint64_t turn = 1) : turn_(turn) {
    for (int r = 0; r < kRanks; ++r) blocks_.push_back(Below(rng, 4));
    blocks_[0] += 1;
    for (int r = 0; r < kRanks; ++r) {
      Words& send = sends_.emplace_back(kWords * (blocks_[0] + blocks_[1] + blocks_[2]));
      for (std::uint64_t& word : send) word = rng();
    }
  }
  /// `who` leaves out its share, in blocks and check words alike (as a message that is lost twice would).
  std::vector<std::set<std::uint64_t>> Run(const ThreadCommunicator::Spoil& spoil, int who = -1) {
    std::vector<std::set<std::uint64_t>> unproven(kRanks);
    RunRanks(
        kRanks,
        [&](Communicator& comm) {
          const auto self = static_cast<std::size_t>(comm.rank());
          Words counts;
          for (const std::uint64_t blocks : blocks_) counts.push_back(blocks * kWords);
          Words& send = sends_[self];
          XorChecks checks;
          checks.Reserve(send.size() / kWords, kBlock, kRanks);
          if (comm.rank() == who) std::fill(send.begin(), send.end(), 0);
          for (std::uint64_t i = 0; i < send.size() / kWords; ++i) checks.Note(i, BytesOf(send, i));
          Words received(counts[self]);
          ASSERT_OK(comm.ReduceScatterXor(send.data(), received.data(), counts));
          // Whoever takes no part in the second exchange, with the tag of another: the same as none at all.
          ASSERT_OK(checks.Exchange(comm, counts, comm.rank() == who ? turn_ + 1 : turn_));
          for (std::uint64_t i = 0; i < blocks_[self]; ++i) {
            if (!checks.Proves(i, BytesOf(received, i))) unproven[self].insert(i);
          }
        },
        {}, spoil);
    return unproven;
  }
  const std::vector<std::uint64_t>& blocks() const { return blocks_; }

 private:
  static const std::uint8_t* BytesOf(const Words& words, std::uint64_t block) {
    return reinterpret_cast<const std::uint8_t*>(words.data() + block * kWords);
  }
  std::vector<std::uint64_t> blocks_;
  std::vector<Words> sends_;
  std::uint64_t turn_;
};

TEST(XorChecks, ProveWhatArrivesRight) {
  Rng rng(1);
  for (int i = 0; i < 50; ++i) {
    for (const auto& unproven : Exchanged(rng).Run(nullptr)) EXPECT_TRUE(unproven.empty());
  }
}

TEST(XorChecks, ZerosNeedNotBeLookedAt) {
  const Words zeros(kWords);
  RunRanks(1, [&](Communicator& comm) {
    for (const bool looked : {true, false}) {
      XorChecks checks;
      checks.Reserve(1, kBlock, 1);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(zeros.data());
      looked ? checks.Note(0, bytes) : checks.NoteZeros(0);
      ASSERT_OK(checks.Exchange(comm, std::vector<std::uint64_t>{kWords}, 1));
      EXPECT_TRUE(checks.Proves(0, bytes));
      Words other(kWords);
      other[3] = 1;
      EXPECT_FALSE(checks.Proves(0, reinterpret_cast<const std::uint8_t*>(other.data())));
    }
  });
}

TEST(XorChecks, FindTheWrongBlock) {
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    Exchanged exchange(rng);
    const std::uint64_t block = Below(rng, exchange.blocks()[0]);
    const bool in_check = OneIn(rng, 3);
    const std::uint64_t length = OneIn(rng, 2) ? 1 : kWords;  // a bit, or all of it
    const std::uint64_t word = length == 1 ? Below(rng, kWords) : 0, flip = length == 1 ? 1ull << Below(rng, 64) : rng();
    int call = 0;
    const auto unproven = exchange.Run([&](int rank, std::span<std::uint64_t> received) {
      if (rank != 0) return;
      const bool check = call++ == 1;
      if (check && in_check) received[block] ^= flip;
      if (!check && !in_check) {
        for (std::uint64_t w = 0; w < length; ++w) received[block * kWords + word + w] ^= flip;
      }
    });
    EXPECT_EQ(unproven[0], std::set<std::uint64_t>{block}) << i;
    EXPECT_TRUE(unproven[1].empty() && unproven[2].empty());
  }
}

TEST(XorChecks, DetectAShareThatIsLostWithItsCheckWords) {
  Rng rng(3);
  for (int who = 0; who < Exchanged::kRanks; ++who) {
    Exchanged exchange(rng);
    const auto unproven = exchange.Run(nullptr, who);
    for (std::size_t r = 0; r < unproven.size(); ++r) EXPECT_EQ(unproven[r].size(), exchange.blocks()[r]) << who;
  }
}

TEST(XorChecks, TellTheSumsOfTwoExchangesApart) {
  Rng rng(4);
  std::vector<Words> before(Exchanged::kRanks * 2);
  std::vector<int> call(Exchanged::kRanks, 0);
  Exchanged exchange(rng);
  exchange.Run([&](int rank, std::span<std::uint64_t> received) {
    const auto at = static_cast<std::size_t>(rank * 2 + call[static_cast<std::size_t>(rank)]++);
    before[at].assign(received.begin(), received.end());
  });
  Exchanged next(rng = Rng(4), 2);  // other data would be told by their CRC
  std::fill(call.begin(), call.end(), 0);
  const auto unproven = next.Run([&](int rank, std::span<std::uint64_t> received) {
    const Words& old = before[static_cast<std::size_t>(rank * 2 + call[static_cast<std::size_t>(rank)]++)];
    std::copy(old.begin(), old.end(), received.begin());
  });
  EXPECT_EQ(unproven[0].size(), next.blocks()[0]);
}

// ------------------------------------------------------------------------------------------------------ in commits

template <class Fn>
std::vector<DatasetReport> OnRanks(int ranks, const Sample& sample, WrongSums& noise, const Fn& fn) {
  std::vector<DatasetReport> reports(static_cast<std::size_t>(ranks));
  std::vector<std::string> names;
  for (int r = 0; r < ranks; ++r) names.push_back("node" + std::to_string(r));
  RunRanks(
      ranks,
      [&](Communicator& comm) {
        reports[static_cast<std::size_t>(comm.rank())] = fn(Context{.fs = PosixFileSystem(), .comm = comm, .options = sample.options, .share_page_cache = false});
      },
      names, [&](int, std::span<std::uint64_t> received) { noise(received); });
  for (const DatasetReport& report : reports) EXPECT_EQ(report.status.code(), reports[0].status.code());
  return reports;
}

Sample SetOf(Rng& rng, const Scratch& scratch, std::uint32_t members) {
  SampleLimits limits;
  limits.kind = static_cast<int>(DatasetKind::kSet);
  limits.fixed_members = members;
  limits.bytes = 64u << 10;
  Sample sample = MakeSample(rng, scratch.path(), limits);
  sample.options.group = members;
  sample.options.parity = 1 + static_cast<std::uint32_t>(Below(rng, 2));
  return sample;
}

TEST(WrongSumsTest, AreMadeAgainInCommitsAndRestores) {
  const std::uint64_t seed = SeedOf(815);
  std::uint64_t faults = 0, told = 0;
  for (std::uint64_t i = 0; i < RoundsOf(60) && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Rng rng(seed + i);
    Scratch scratch;
    constexpr int kRanks = 4;
    const Sample sample = SetOf(rng, scratch, kRanks);
    WrongSums noise(seed + i, 8);
    const auto made = OnRanks(kRanks, sample, noise, [&](const Context& context) {
      return Protect(context, RefOf(context.comm, sample.path, Resolve::kProtectable), {});
    });
    // Four times in a row by chance: then nothing was made, and that was told.
    if (made[0].status.code() == Code::kMpi) continue;
    ASSERT_OK(made[0].status);
    told += made[0].warnings.empty() ? 0 : 1;
    ExpectSame(FingerprintOf(sample.files), FingerprintOfCopy(sample, scratch.path()));
    faults += noise.faults;
    const std::string lost = sample.files[Below(rng, kRanks)];
    const Bytes before = ReadFile(lost);
    ASSERT_OK(PosixFileSystem().Remove(lost));
    ASSERT_OK(PosixFileSystem().Remove(*SidecarPath(lost)));
    const auto restored = OnRanks(kRanks, sample, noise, [&](const Context& context) {
      return Restore(context, RefOf(context.comm, sample.path), {});
    });
    if (restored[0].status.code() == Code::kMpi) {
      EXPECT_FALSE(Exists(lost));
      continue;
    }
    ASSERT_OK(restored[0].status);
    EXPECT_EQ(ReadFile(lost), before);
    ExpectSame(FingerprintOf(sample.files), FingerprintOfCopy(sample, scratch.path()));
  }
  EXPECT_GT(faults, RoundsOf(60) / 4) << "this proves little";
  EXPECT_GT(told, 0u);
}

TEST(WrongSumsTest, ThatStayWrongAreAnErrorAndLeaveWhatWas) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    Rng rng(seed);
    Scratch scratch;
    const Sample sample = SetOf(rng, scratch, 3);
    WrongSums none(seed, UINT64_MAX), all(seed, 1);
    const auto protect = [&](WrongSums& noise) {
      return OnRanks(3, sample, noise, [&](const Context& context) {
        return Protect(context, RefOf(context.comm, sample.path, Resolve::kProtectable), {});
      });
    };
    ASSERT_OK(protect(none)[0].status);
    WriteAt(sample.files[1], 0, RandomBytes(rng, ReadFile(sample.files[1]).size() + 100));
    const Image before = ImageOf(scratch.path());
    const auto failed = protect(all);
    EXPECT_CODE(failed[0].status, Code::kMpi);
    EXPECT_EQ(Differences(before, ImageOf(scratch.path())), "");
    ASSERT_OK(protect(none)[0].status);
    ExpectSame(FingerprintOf(sample.files), FingerprintOfCopy(sample, scratch.path()));
  }
}

// A rank that brings no right sums is no trouble of messages.
TEST(WrongSumsTest, OutOfMemoryIsNotTakenForMessagesThatErr) {
  RunRanks(3, [&](Communicator& comm) {
    const std::vector<RowRun> runs(1);
    const auto again = GatherWrong(comm, runs, {{0, 0}}, comm.rank() == 1);
    ASSERT_OK(again);
    EXPECT_TRUE(again->empty());
    const auto sound = GatherWrong(comm, runs, {{0, 0}}, false);
    ASSERT_OK(sound);
    EXPECT_EQ(sound->size(), 1u);
  });
}

}  // namespace
}  // namespace lzy::testing
