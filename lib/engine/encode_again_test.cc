// Parity that was computed wrongly has correct hashes. Only encoding it again finds it. A repair makes it again.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "engine/engine.h"
#include "engine_fixture.h"
#include "sidecar/names.h"
#include "status_matchers.h"
#include "thread_communicator.h"

// The library of this program computes one of this many strips wrongly; 0: none. For the lengths of its proof, it is right
// (erasure/proof.h).
namespace {
std::atomic<unsigned> wrong_one_in{0};
std::atomic<unsigned> strips{0};

bool IsWrong(int length) {
  const unsigned one_in = wrong_one_in;
  return one_in != 0 && length % 512 == 0 && length < 16384 && strips++ % one_in == 0;
}
}  // namespace

extern "C" {
void ec_encode_data_update(int length, int k, int rows, int source, unsigned char* tables, unsigned char* data, unsigned char** coding) {
  static const auto real = reinterpret_cast<decltype(&ec_encode_data_update)>(dlsym(RTLD_NEXT, "ec_encode_data_update"));
  real(length, k, rows, source, tables, data, coding);
  if (IsWrong(length)) coding[rows - 1][length / 2] ^= 1;
}
int xor_gen(int vectors, int length, void** array) {
  static const auto real = reinterpret_cast<decltype(&xor_gen)>(dlsym(RTLD_NEXT, "xor_gen"));
  const int failed = real(vectors, length, array);
  if (IsWrong(length)) static_cast<unsigned char*>(array[vectors - 1])[0] ^= 1;
  return failed;
}
}

namespace lzy::testing {
namespace {

using BlocksOfFiles = std::map<std::string, std::uint64_t>;

class EncodeAgain : public ::testing::TestWithParam<int> {
 protected:
  /// A dataset with some wrong parity: the number of wrong blocks, by sidecar.
  void Make(std::uint64_t round) {
    rng_.seed(SeedOf(static_cast<std::uint64_t>(GetParam()) * 7919 + round));
    sample_ = MakeSample(rng_, scratch_.path(), {.blocks = 60, .bytes = 256u << 10, .members = 9, .kind = GetParam()});
    strips = 0;
    wrong_one_in = 1 + static_cast<unsigned>(Below(rng_, 9));
    const DatasetReport made = Protect(Here(), RefOf(*self_, sample_.path, Resolve::kProtectable), {});
    wrong_one_in = 0;
    ASSERT_OK(made.status);
    right_ = FingerprintOfCopy(sample_, scratch_.path());
    const Fingerprint now = FingerprintOf(sample_.files);
    ASSERT_EQ(now.root, right_.root);
    wrong_.clear();
    for (std::size_t f = 0; f < now.parity.size(); ++f) {
      for (std::size_t i = 0; i < now.parity[f].size(); ++i) {
        if (now.parity[f][i] != right_.parity[f][i]) ++wrong_[SidecarPath(sample_.files[f]).value()];
      }
    }
  }
  Context Here() { return {PosixFileSystem(), *self_, sample_.options}; }

  DatasetReport VerifyBy(int ranks, const VerifyRequest& request) {
    DatasetReport out;
    RunRanks(ranks, [&](Communicator& comm) {
      const DatasetReport report = Verify({PosixFileSystem(), comm, sample_.options}, RefOf(comm, sample_.path), request);
      if (comm.rank() == 0) out = report;
    });
    EXPECT_OK(out.status);
    return out;
  }

  /// The blocks that a report calls wrong parity, by sidecar. Nothing else may be wrong.
  static BlocksOfFiles Found(const DatasetReport& report) {
    BlocksOfFiles found;
    for (const Damage& d : report.damage) {
      EXPECT_EQ(d.part, DamagePart::kParity);
      EXPECT_EQ(d.cause, DamageCause::kEncoding);
      found[d.path] += (d.length + report.block_size - 1) / report.block_size;
    }
    return found;
  }

  Scratch scratch_;
  Rng rng_;
  Sample sample_;
  Fingerprint right_;
  BlocksOfFiles wrong_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
};

TEST_P(EncodeAgain, FindsAndRepairsWrongParityOfRightHashes) {
  std::uint64_t seen = 0;
  const std::uint64_t rounds = RoundsOf(kSanitized ? 5 : 25);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    PutBack(scratch_.path(), {});
    ASSERT_NO_FATAL_FAILURE(Make(round));
    SCOPED_TRACE(sample_.Describe());
    const int ranks = 1 + static_cast<int>(Below(rng_, 3));
    const Image before = ImageOf(scratch_.path());
    EXPECT_EQ(VerifyBy(ranks, {}).state, DatasetState::kIntact);
    const DatasetReport found = VerifyBy(ranks, {.encode = 1});
    EXPECT_EQ(Found(found), wrong_) << Text(found);
    EXPECT_EQ(ExitCodeOf(found), wrong_.empty() ? 0 : 1) << Text(found);
    EXPECT_TRUE(found.parity_compared);
    EXPECT_EQ(found.bytes_encoded, sample_.options.parity == 0 || found.parity == 0 ? 0 : found.bytes);
    EXPECT_EQ(Differences(before, ImageOf(scratch_.path())), "");
    const DatasetReport repaired = VerifyBy(ranks, {.repair = true, .encode = 1});
    EXPECT_EQ(ExitCodeOf(repaired), 0) << Text(repaired);
    ExpectSame(FingerprintOf(sample_.files), right_);
    EXPECT_TRUE(VerifyBy(ranks, {.encode = 1}).damage.empty());
    seen += wrong_.size();
    if (HasFailure()) return;
  }
  if (rounds >= 25) {  // a few samples may have no parity
    EXPECT_GT(seen, 3u);
  }
}

// Encodes a share of each portion again, as lzy-scrub does.
TEST_P(EncodeAgain, TakesAShareOfAPortion) {
  for (std::uint64_t round = 0; round < 5; ++round) {
    PutBack(scratch_.path(), {});
    ASSERT_NO_FATAL_FAILURE(Make(100 + round));
    SCOPED_TRACE(sample_.Describe());
    BlocksOfFiles found;
    Portion last;
    do {
      VerifyRequest request{.encode = 1};
      request.portion = PortionRequest{.first = last.end, .most_bytes = 1, .bytes_at_once = 1};
      const DatasetReport report = VerifyBy(2, request);
      for (const auto& [path, blocks] : Found(report)) found[path] += blocks;
      last = report.portion;
    } while (last.end < last.of && !HasFailure());
    EXPECT_EQ(found, wrong_);
    const DatasetReport half = VerifyBy(2, {.portion = PortionRequest{}, .encode = 0.5});
    EXPECT_LE(half.bytes_encoded, half.bytes);
    EXPECT_FALSE(half.parity_compared);
    for (const auto& [path, blocks] : Found(half)) EXPECT_LE(blocks, wrong_[path]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EncodeAgain, ::testing::Values(1, 2), [](const auto& of) { return of.param == 1 ? "Shared" : "Set"; });

}  // namespace
}  // namespace lzy::testing
