// The fuzz targets without a fuzzer: their seeds, what fuzzers found once (corpus/), and some thousand mutations of
// both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "engine_fixture.h"
#include "fuzz/targets.h"
#include "sidecar/sidecar_format.h"

namespace lzy::testing {
namespace {

using fuzz::Input;

std::vector<Input> CorpusOf(const fuzz::Target& target) {
  std::vector<Input> inputs = target.seeds();
  const std::filesystem::path directory = std::filesystem::path(LZY_FUZZ_CORPUS) / target.name;
  if (!std::filesystem::is_directory(directory)) return inputs;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

/// A few changes of the kinds that files suffer and fuzzers make.
Input Mutated(Rng& rng, Input input) {
  constexpr std::uint8_t kOdd[] = {0, 1, 0x7f, 0x80, 0xff};
  for (std::uint64_t count = 1 + Below(rng, 4); count > 0 && !input.empty(); --count) {
    // Most of a sidecar is hashes and parity: fields lie at the beginning of its pages.
    std::size_t at = Below(rng, input.size());
    if (OneIn(rng, 2)) at = std::min<std::size_t>(input.size() - 1, at / 4096 * 4096 + 1 + Below(rng, 600));
    switch (Below(rng, 5)) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1u << Below(rng, 8));
        break;
      case 1:
        input[at] = kOdd[Below(rng, std::size(kOdd))];
        break;
      case 2:
        std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(8, input.size() - at),
                    kOdd[Below(rng, std::size(kOdd))]);
        break;
      case 3:
        input.resize(OneIn(rng, 8) ? at : input.size());
        break;
      default:
        input.front() = static_cast<std::uint8_t>(rng());
    }
  }
  return input;
}

class FuzzTargets : public ::testing::TestWithParam<const fuzz::Target*> {};

TEST_P(FuzzTargets, ReturnForAnyInput) {
  const fuzz::Target& target = *GetParam();
  const std::vector<Input> corpus = CorpusOf(target);
  ASSERT_FALSE(corpus.empty());
  for (const Input& input : corpus) target.run(input.data(), input.size());
  Rng rng(SeedOf(42));
  for (std::uint64_t i = 0; i < RoundsOf(3000); ++i) {
    const Input input = Mutated(rng, corpus[Below(rng, corpus.size())]);
    target.run(input.data(), input.size());
  }
}

// Else mutations would be of committed sidecars alone.
TEST(FuzzSeeds, HaveEveryStateAndIntent) {
  std::set<std::uint32_t> states, flags;
  std::set<bool> compact;
  for (const Input& seed : fuzz::kSidecar.seeds()) {
    for (std::size_t at = 1; at + kSuperblockSize <= seed.size(); at += kSuperblockSize) {
      const ByteSpan page = ByteSpan(seed).subspan(at, kSuperblockSize);
      for (std::uint32_t number = 0; number < 4; ++number) {
        if (const auto superblock = DecodeSuperblock(page, number); superblock.ok()) {
          states.insert(static_cast<std::uint32_t>(superblock->state));
          compact.insert(superblock->compact);
        }
        if (const auto intent = DecodeIntent(page, number); intent.ok()) flags.insert(intent->flags);
      }
    }
  }
  EXPECT_THAT(states, ::testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(compact, ::testing::ElementsAre(false, true));
  EXPECT_THAT(flags, ::testing::ElementsAre(0, kIntentWholeFile, kIntentRepair, kIntentDecided));
}

// What fuzzers found: small, so that it can be kept.
TEST(FuzzCorpus, IsThereAndSmall) {
  std::uintmax_t bytes = 0;
  for (const fuzz::Target* target : fuzz::kTargets) {
    const auto directory = std::filesystem::path(LZY_FUZZ_CORPUS) / target->name;
    ASSERT_TRUE(std::filesystem::is_directory(directory)) << directory;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) bytes += entry.file_size();
  }
  EXPECT_LT(bytes, 300u << 10);
}

INSTANTIATE_TEST_SUITE_P(Of, FuzzTargets, ::testing::ValuesIn(fuzz::kTargets),
                         [](const auto& test) { return test.param->name; });

}  // namespace
}  // namespace lzy::testing
