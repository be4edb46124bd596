#include "erasure/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "status_matchers.h"

namespace lzy {
namespace {

using ::testing::HasSubstr;
using Positions = std::vector<std::uint32_t>;

// GF(256) from its definition, sharing neither tables nor code with ISA-L.
std::uint8_t Multiply(std::uint8_t a, std::uint8_t b) {
  unsigned product = 0;
  for (unsigned bit = 0; bit < 8; ++bit) {
    if ((b >> bit) & 1) product ^= static_cast<unsigned>(a) << bit;
  }
  for (unsigned bit = 15; bit >= 8; --bit) {
    if ((product >> bit) & 1) product ^= 0x11dU << (bit - 8);
  }
  return static_cast<std::uint8_t>(product);
}

std::uint8_t Inverse(std::uint8_t a) {
  for (unsigned b = 1; b < 256; ++b) {
    if (Multiply(a, static_cast<std::uint8_t>(b)) == 1) return static_cast<std::uint8_t>(b);
  }
  return 0;
}

// The formula that codec.h and docs/format.md document.
std::uint8_t ParityCoefficient(std::uint32_t n, std::uint32_t m, std::uint32_t q, std::uint32_t j) {
  return m == 1 ? 1 : Inverse(static_cast<std::uint8_t>((n - m + q) ^ j));
}

// Bytes at an address aligned to 32 but not to 64, with guards close around them that tell when someone wrote outside.
class Buffer {
 public:
  explicit Buffer(std::size_t size, std::uint8_t fill = 0) : size_(size), storage_(size + 3 * 64, kGuard) {
    void* start = storage_.data() + 64;
    std::size_t space = size + 2 * 64;
    data_ = static_cast<std::uint8_t*>(std::align(64, size + 64, start, space)) + 32;
    std::memset(data_, fill, size);
  }
  Buffer(const Buffer&) = delete;
  Buffer(Buffer&& other) = default;  // a moved vector keeps its storage, so data_ stays right

  std::uint8_t* data() { return data_; }
  const std::uint8_t* data() const { return data_; }
  std::vector<std::uint8_t> bytes() const { return {data_, data_ + size_}; }
  bool GuardsIntact() const {
    const auto is_guard = [](std::uint8_t byte) { return byte == kGuard; };
    const std::uint8_t* begin = data_;
    const std::uint8_t* end = begin + size_;
    return std::all_of(storage_.data(), begin, is_guard) &&
           std::all_of(end, storage_.data() + storage_.size(), is_guard);
  }

 private:
  static constexpr std::uint8_t kGuard = 0xA5;
  std::size_t size_;
  std::vector<std::uint8_t> storage_;
  std::uint8_t* data_;
};

void FillRandom(Buffer& buffer, std::size_t size, std::mt19937& random) {
  for (std::size_t i = 0; i < size; ++i) buffer.data()[i] = static_cast<std::uint8_t>(random());
}

// A codeword: n buffers by position, data random, parity computed with the arithmetic above.
std::vector<Buffer> ReferenceCodeword(std::uint32_t n, std::uint32_t m, std::size_t length, std::mt19937& random) {
  std::vector<Buffer> symbols;
  for (std::uint32_t p = 0; p < n; ++p) symbols.emplace_back(length);
  for (std::uint32_t p = m; p < n; ++p) FillRandom(symbols[p], length, random);
  for (std::uint32_t q = 0; q < m; ++q) {
    for (std::uint32_t j = 0; j < n - m; ++j) {
      const std::uint8_t c = ParityCoefficient(n, m, q, j);
      for (std::size_t i = 0; i < length; ++i) symbols[q].data()[i] ^= Multiply(c, symbols[m + j].data()[i]);
    }
  }
  return symbols;
}

// Applies `plan` to the sources `which` (positions in the plan), looked up in `symbols` by `sources`.
std::vector<Buffer> Apply(const Plan& plan, const Positions& which, const std::vector<Buffer>& symbols,
                          const Positions& sources, std::size_t length, bool accumulate = false,
                          std::uint8_t fill = 0xEE) {
  std::vector<const std::uint8_t*> inputs;
  for (const std::uint32_t s : which) inputs.push_back(symbols[sources[s]].data());
  std::vector<Buffer> outputs;
  std::vector<std::uint8_t*> pointers;
  for (std::size_t t = 0; t < plan.targets(); ++t) outputs.emplace_back(length, fill);
  for (Buffer& output : outputs) pointers.push_back(output.data());
  plan.Apply(which, inputs.data(), pointers.data(), length, accumulate);
  for (const Buffer& output : outputs) EXPECT_TRUE(output.GuardsIntact());
  return outputs;
}

Positions Range(std::uint32_t first, std::uint32_t last) {
  Positions range(last - first);
  std::iota(range.begin(), range.end(), first);
  return range;
}

Positions Complement(std::uint32_t n, const Positions& positions) {
  Positions rest;
  for (std::uint32_t p = 0; p < n; ++p) {
    if (std::find(positions.begin(), positions.end(), p) == positions.end()) rest.push_back(p);
  }
  return rest;
}

// Loses `lost` (at most m) positions of a reference codeword and rebuilds them from k of the others.
void CheckRebuild(std::uint32_t n, std::uint32_t m, const Positions& lost, std::size_t length, std::mt19937& random) {
  const Codec codec = Codec::Create(n, m).value();
  const std::vector<Buffer> symbols = ReferenceCodeword(n, m, length, random);
  Positions sources = Complement(n, lost);
  std::shuffle(sources.begin(), sources.end(), random);
  sources.resize(codec.k());
  auto plan = codec.MakePlan(sources, lost);
  ASSERT_OK(plan);
  const auto rebuilt = Apply(*plan, Range(0, codec.k()), symbols, sources, length);
  for (std::size_t t = 0; t < lost.size(); ++t) {
    ASSERT_EQ(rebuilt[t].bytes(), symbols[lost[t]].bytes()) << "n " << n << " m " << m << " position " << lost[t];
  }
}

TEST(Codec, EncodesByTheDocumentedFormula) {
  std::mt19937 random(1);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> codes = {
      {2, 1}, {5, 1}, {255, 1}, {3, 2}, {6, 2}, {10, 4}, {16, 7}, {20, 13}, {255, 2}, {255, 20}, {255, 254}};
  for (const auto& [n, m] : codes) {
    const Codec codec = Codec::Create(n, m).value();
    const Plan plan = codec.EncodePlan().value();
    ASSERT_EQ(plan.sources(), n - m);
    ASSERT_EQ(plan.targets(), m);
    for (std::uint32_t q = 0; q < m; ++q) {
      for (std::uint32_t j = 0; j < n - m; ++j) {
        ASSERT_EQ(plan.coefficient(q, j), ParityCoefficient(n, m, q, j)) << n << " " << m;
      }
    }
    const std::size_t length = 333;
    const auto symbols = ReferenceCodeword(n, m, length, random);
    const auto parity = Apply(plan, Range(0, n - m), symbols, Range(m, n), length);
    for (std::uint32_t q = 0; q < m; ++q) ASSERT_EQ(parity[q].bytes(), symbols[q].bytes()) << n << " " << m << " " << q;
  }
}

TEST(Codec, RebuildsEveryCombinationOfLosses) {
  std::mt19937 random(2);
  for (std::uint32_t n = 1; n <= 6; ++n) {
    for (std::uint32_t m = 0; m < n; ++m) {
      for (std::uint32_t mask = 0; mask < (1U << n); ++mask) {
        if (std::popcount(mask) > static_cast<int>(m)) continue;
        Positions lost;
        for (std::uint32_t p = 0; p < n; ++p) {
          if ((mask >> p) & 1) lost.push_back(p);
        }
        CheckRebuild(n, m, lost, 97, random);
      }
    }
  }
}

TEST(Codec, RebuildsRandomLossesOfWideCodes) {
  std::mt19937 random(3);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> codes = {{255, 1},   {255, 2}, {255, 20}, {255, 127},
                                                                      {255, 254}, {64, 4},  {33, 16},  {100, 3}};
  for (const auto& [n, m] : codes) {
    Positions lost = Range(0, n);
    std::shuffle(lost.begin(), lost.end(), random);
    lost.resize(m);
    CheckRebuild(n, m, lost, 130, random);
  }
}

TEST(Codec, HandlesEveryLength) {
  std::mt19937 random(4);
  std::vector<std::size_t> lengths(201);
  std::iota(lengths.begin(), lengths.end(), std::size_t{0});
  for (const std::size_t odd : {255, 257, 511, 1000, 4095, 4097, 16383, 16384, 16385, 40001, 65536, 65537}) {
    lengths.push_back(odd);
  }
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> codes = {{2, 1}, {3, 1}, {9, 1},  {4, 2},
                                                                      {7, 3}, {9, 4}, {12, 5}, {15, 9}};
  for (const auto& [n, m] : codes) {
    const Codec codec = Codec::Create(n, m).value();
    const Plan plan = codec.EncodePlan().value();
    const auto symbols = ReferenceCodeword(n, m, lengths.back(), random);
    for (const std::size_t length : lengths) {
      for (const bool accumulate : {false, true}) {
        const auto parity = Apply(plan, Range(0, n - m), symbols, Range(m, n), length, accumulate, 0x3C);
        for (std::uint32_t q = 0; q < m; ++q) {
          const std::uint8_t before = accumulate ? 0x3C : 0;
          for (std::size_t i = 0; i < length; ++i) {
            ASSERT_EQ(parity[q].data()[i], symbols[q].data()[i] ^ before)
                << "n " << n << " m " << m << " length " << length << " byte " << i;
          }
        }
      }
    }
  }
}

TEST(Codec, PartialResultsAddUpToTheWhole) {
  std::mt19937 random(5);
  const std::size_t length = 1500;
  for (const auto& [n, m] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{6, 1}, {9, 3}, {24, 8}}) {
    const Codec codec = Codec::Create(n, m).value();
    const auto symbols = ReferenceCodeword(n, m, length, random);
    for (int round = 0; round < 20; ++round) {
      Positions positions = Range(0, n);
      std::shuffle(positions.begin(), positions.end(), random);
      const Positions sources(positions.begin(), positions.begin() + codec.k());
      const Positions targets(positions.begin() + codec.k(), positions.end());
      auto plan = codec.MakePlan(sources, targets);
      ASSERT_OK(plan);

      // Three processes hold some sources each, perhaps none; their outputs are XORed as MPI_BXOR would.
      std::array<Positions, 3> held;
      Positions order = Range(0, codec.k());
      std::shuffle(order.begin(), order.end(), random);
      for (const std::uint32_t s : order) held[random() % 3].push_back(s);
      std::vector<std::vector<std::uint8_t>> sums(m, std::vector<std::uint8_t>(length));
      for (const Positions& which : held) {
        const auto part = Apply(*plan, which, symbols, sources, length);
        for (std::uint32_t t = 0; t < m; ++t) {
          for (std::size_t i = 0; i < length; ++i) sums[t][i] ^= part[t].data()[i];
        }
      }
      for (std::uint32_t t = 0; t < m; ++t) ASSERT_EQ(sums[t], symbols[targets[t]].bytes());
    }
  }
}

TEST(Codec, AnEmptySubsetZeroesOrLeavesTheOutputs) {
  for (const std::uint32_t m : {1U, 3U}) {
    const Plan plan = Codec::Create(8, m).value().EncodePlan().value();
    for (const bool accumulate : {false, true}) {
      const auto outputs = Apply(plan, {}, {}, {}, 100, accumulate, 0x77);
      for (const Buffer& output : outputs) {
        EXPECT_EQ(output.bytes(), std::vector<std::uint8_t>(100, accumulate ? 0x77 : 0));
      }
    }
  }
}

TEST(Codec, ASourceAsTargetIsCopied) {
  std::mt19937 random(6);
  const std::size_t length = 777;
  for (const std::uint32_t m : {0U, 1U, 2U}) {
    const std::uint32_t n = 6;
    const Codec codec = Codec::Create(n, m).value();
    const auto symbols = ReferenceCodeword(n, m, length, random);
    const Positions sources = Range(0, codec.k());
    const Positions targets = {2, n - 1, 0, 2};  // two sources, a position to compute (for m > 0), one twice
    auto plan = codec.MakePlan(sources, targets);
    ASSERT_OK(plan);
    for (std::uint32_t s = 0; s < codec.k(); ++s) EXPECT_EQ(plan->coefficient(0, s), s == 2 ? 1 : 0);
    const auto outputs = Apply(*plan, Range(0, codec.k()), symbols, sources, length);
    for (std::size_t t = 0; t < targets.size(); ++t) EXPECT_EQ(outputs[t].bytes(), symbols[targets[t]].bytes());
  }
}

TEST(Codec, OneParityNeedsOnlyOnes) {
  const Codec codec = Codec::Create(7, 1).value();
  auto plan = codec.MakePlan(Positions{6, 0, 1, 2, 5, 4}, Positions{3});
  ASSERT_OK(plan);
  for (std::size_t s = 0; s < 6; ++s) EXPECT_EQ(plan->coefficient(0, s), 1);
}

TEST(Codec, WithoutParityThereIsNothingToEncode) {
  const Codec codec = Codec::Create(4, 0).value();
  EXPECT_EQ(codec.k(), 4U);
  const Plan plan = codec.EncodePlan().value();
  EXPECT_EQ(plan.targets(), 0U);
  EXPECT_EQ(plan.sources(), 4U);
  plan.Apply({}, nullptr, nullptr, 100, false);
}

TEST(Codec, NoTargetsMakeAnEmptyPlan) {
  auto plan = Codec::Create(5, 2).value().MakePlan(Positions{0, 2, 4}, {});
  ASSERT_OK(plan);
  EXPECT_EQ(plan->targets(), 0U);
}

TEST(Codec, PlansServeSeveralThreads) {
  std::mt19937 random(7);
  const std::size_t length = 50000;
  const auto symbols = ReferenceCodeword(10, 3, length, random);
  const Plan plan = Codec::Create(10, 3).value().EncodePlan().value();
  std::array<bool, 4> right{};
  std::vector<std::thread> threads;
  for (bool& mine : right) {
    threads.emplace_back([&] {
      mine = true;
      for (int round = 0; round < 20; ++round) {
        const auto parity = Apply(plan, Range(0, 7), symbols, Range(3, 10), length);
        for (std::uint32_t q = 0; q < 3; ++q) mine = mine && parity[q].bytes() == symbols[q].bytes();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, ::testing::Each(true));
}

TEST(Codec, RefusesImpossibleCodes) {
  for (const auto& [n, m] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 0}, {3, 3}, {3, 4}, {256, 2}}) {
    const auto codec = Codec::Create(n, m);
    EXPECT_CODE(codec, Code::kInvalidArgument);
    EXPECT_THAT(codec.status().message(), HasSubstr("n = " + std::to_string(n) + ", m = " + std::to_string(m)));
  }
}

TEST(Codec, RefusesImpossiblePlans) {
  const Codec codec = Codec::Create(6, 2).value();
  const auto message = [&](const Positions& sources, const Positions& targets) {
    const auto plan = codec.MakePlan(sources, targets);
    EXPECT_CODE(plan, Code::kInvalidArgument);
    return plan.status().message();
  };
  EXPECT_THAT(message({0, 1, 2}, {5}), HasSubstr("3 source positions given; n = 6, m = 2 needs exactly 4"));
  EXPECT_THAT(message({0, 1, 2, 3, 4}, {5}), HasSubstr("5 source positions given"));
  EXPECT_THAT(message({0, 1, 2, 1}, {5}), HasSubstr("source position 1 is given twice"));
  EXPECT_THAT(message({0, 1, 2, 6}, {5}), HasSubstr("source position 6: the last one is 5"));
  EXPECT_THAT(message({0, 1, 2, 3}, {6}), HasSubstr("target position 6: the last one is 5"));
}

#if defined(__x86_64__)
// ISA-L does not document that the destination may be a source too, as accumulation has it: held to it kernel by
// kernel, because the one that runs depends on the machine.
TEST(Isal, XorKernelsMayAddToTheirDestination) {
  std::mt19937 random(8);
  std::vector<int (*)(int, int, void**)> kernels = {xor_gen, xor_gen_base};
  if (__builtin_cpu_supports("sse4.1")) kernels.push_back(xor_gen_sse);
  if (__builtin_cpu_supports("avx")) kernels.push_back(xor_gen_avx);
  Buffer a(700);
  FillRandom(a, 700, random);
  for (const auto kernel : kernels) {
    for (int length = 1; length <= 700; ++length) {
      Buffer out(static_cast<std::size_t>(length), 0x5A);
      std::array<void*, 3> vectors = {a.data(), out.data(), out.data()};
      ASSERT_EQ(kernel(3, length, vectors.data()), 0);
      ASSERT_TRUE(out.GuardsIntact());
      for (int i = 0; i < length; ++i) ASSERT_EQ(out.data()[i], a.data()[i] ^ 0x5A) << length << " " << i;
    }
  }
}
#endif

}  // namespace
}  // namespace lzy
