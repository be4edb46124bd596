// Verifies a dataset in portions, as lzy-scrub does. All portions together must find the same as one verification.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "damage_model.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "random_damage.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace lzy::testing {
namespace {

/// Every finding in one line; sorted. Each portion examines metadata and sizes, so the same finding may occur several times.
std::vector<std::string> Lines(std::vector<Damage> damage) {
  MergeDamage(damage);
  const auto within = [](const Damage& a, const Damage& b) {
    return a.path == b.path && a.part == b.part && a.device == b.device && a.cause == b.cause && a.length < b.length &&
           a.offset >= b.offset && a.offset + a.length <= b.offset + b.length;
  };
  const std::vector<Damage> all = damage;
  std::erase_if(damage, [&](const Damage& d) { return std::ranges::any_of(all, [&](const Damage& other) { return within(d, other); }); });
  std::vector<std::string> out;
  for (const Damage& d : damage) {
    out.push_back(fmt::format("{} {} {} {}+{} {} {} {}", d.path, d.device, Name(d.part), d.offset, d.length, Name(d.cause), d.transient,
                              d.beyond_repair));
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// Reads portions of about `rows` rows one after the other, like a scrub that is stopped repeatedly.
std::vector<std::string> InPortions(const Context& context, const DatasetRef& ref, std::uint64_t most_bytes, int& portions) {
  std::vector<Damage> damage;
  Portion last;
  portions = 0;
  do {
    VerifyRequest request;
    request.portion = PortionRequest{.first = last.end, .most_bytes = most_bytes, .bytes_at_once = 1};
    const DatasetReport report = Verify(context, ref, request);
    EXPECT_OK(report.status);
    if (!report.status.ok()) break;
    EXPECT_TRUE(report.portion.whole() || report.portion.begin == last.end) << portions;
    damage.insert(damage.end(), report.damage.begin(), report.damage.end());
    EXPECT_TRUE(last.of == 0 || report.portion.of == last.of);
    last = report.portion;
    ++portions;
  } while (last.end < last.of);
  return Lines(std::move(damage));
}

class Portions : public ::testing::TestWithParam<int> {};

TEST_P(Portions, FindTogetherWhatOneVerificationFinds) {
  Rng rng(SeedOf(static_cast<std::uint64_t>(GetParam()) * 7919 + 5));
  int most_portions = 0;
  for (std::uint64_t round = 0; round < RoundsOf(kSanitized ? 6 : 25); ++round) {
    Scratch scratch;
    const Sample sample = MakeSample(rng, scratch.path(), {.blocks = 60, .bytes = 256u << 10, .members = 6, .kind = GetParam()});
    SCOPED_TRACE(sample.Describe());
    const auto comm = SelfCommunicator();
    const Options options = sample.options;
    const Context context{PosixFileSystem(), *comm, options};
    ASSERT_OK(Protect(context, RefOf(*comm, sample.path, Resolve::kProtectable), {}).status);
    DamageModel model(scratch.path(), sample);
    RandomDamage damage(rng, model);
    damage.Apply(static_cast<int>(Below(rng, 11)));
    SCOPED_TRACE(damage.log());
    const DatasetRef ref = RefOf(*comm, sample.path);
    const DatasetReport whole = Verify(context, ref, {});
    if (!whole.status.ok()) continue;
    int portions = 0;
    EXPECT_EQ(InPortions(context, ref, 1, portions), Lines(whole.damage));
    most_portions = std::max(most_portions, portions);
    if (HasFailure()) return;
  }
  EXPECT_GT(most_portions, 3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Portions, ::testing::Values(1, 2), [](const auto& of) { return of.param == 1 ? "Shared" : "Set"; });

/// A shared file of two hundred rows; some of them have one rotten block.
class PortionTest : public ::testing::Test {
 protected:
  PortionTest() {
    options_.block_size = 4096;
    options_.stripe = 4096;
    options_.group = 4;
    path_ = scratch_ / "f";
    WriteFile(path_, RandomBytes(rng_, 4096 * 600));
    SetMtime(path_, 1'000'000'000);
    EXPECT_OK(Protect(Self(), RefOf(*self_, path_, Resolve::kProtectable), {}).status);
  }
  Context Self() { return {PosixFileSystem(), *self_, options_}; }

  Scratch scratch_;
  Rng rng_{17};
  Options options_;
  std::unique_ptr<Communicator> self_ = SelfCommunicator();
  std::string path_;
};

TEST_F(PortionTest, RanksStopBehindTheSameRowAndFindTheSame) {
  Rot(rng_, path_, 4096 * 30, 1);
  Rot(rng_, path_, 4096 * 500, 1);
  const DatasetReport whole = Verify(Self(), RefOf(*self_, path_), {});
  ASSERT_EQ(whole.damage.size(), 2u);
  RunRanks(3, [&](Communicator& comm) {
    const Context context{PosixFileSystem(), comm, options_};
    int portions = 0;
    EXPECT_EQ(InPortions(context, RefOf(comm, path_), 4096 * 100, portions), Lines(whole.damage));
    EXPECT_GT(portions, 3);
  });
}

TEST_F(PortionTest, StopsWithoutAnErrorAndGoesOnThere) {
  Rot(rng_, path_, 4096 * 500, 1);
  int left = 50;
  Context context = Self();
  context.stop = [&] { return left-- < 0; };
  VerifyRequest request;
  request.portion = PortionRequest{.bytes_at_once = 1};
  const DatasetReport first = Verify(context, RefOf(*self_, path_), request);
  ASSERT_OK(first.status);
  EXPECT_EQ(first.state, DatasetState::kIntact);
  EXPECT_GT(first.portion.end, 3u);
  EXPECT_LT(first.portion.end, first.portion.of);
  request.portion->first = first.portion.end;
  const DatasetReport second = Verify(Self(), RefOf(*self_, path_), request);
  EXPECT_EQ(second.state, DatasetState::kDamaged);
  EXPECT_EQ(second.portion.end, second.portion.of);
  ASSERT_EQ(second.damage.size(), 1u);
  EXPECT_EQ(second.damage[0].offset, 4096u * 500);
}

TEST_F(PortionTest, LossesAreJudgedByTheirWholeRow) {
  // Two blocks of one row with parity 1. One portion finds both, however small it is.
  for (int block = 0; block < 3; ++block) Rot(rng_, path_, static_cast<std::uint64_t>(4096 * (300 + block)), 1);
  const DatasetReport whole = Verify(Self(), RefOf(*self_, path_), {});
  ASSERT_EQ(whole.state, DatasetState::kUnrepairable);
  int portions = 0;
  EXPECT_EQ(InPortions(Self(), RefOf(*self_, path_), 1, portions), Lines(whole.damage));
  EXPECT_GT(portions, 100);
}

TEST_F(PortionTest, WhatAProgramIsWritingIsLeftForLater) {
  auto sidecar = Sidecar::Load(PosixFileSystem(), *SidecarPath(path_), OpenMode::kReadWrite);
  ASSERT_OK(sidecar.status());
  Intent intent;
  intent.flags = kIntentWholeFile;
  ASSERT_OK((*sidecar)->SetIntent(intent));
  Rot(rng_, path_, 0, 4096);
  VerifyRequest request;
  request.leave_written = true;
  const DatasetReport report = Verify(Self(), RefOf(*self_, path_), request);
  ASSERT_OK(report.status);
  EXPECT_TRUE(report.left_for_later);
  EXPECT_EQ(report.bytes_read, 0u);
  EXPECT_TRUE(report.damage.empty());
}

}  // namespace
}  // namespace lzy::testing
