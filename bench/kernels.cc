// Throughput, on one core, of all code that touches every byte: hashing, encoding, decoding. And the cost of the tree.
// Encode and decode count the k blocks that are read. Small blocks fit the cache and show the speed of the kernels;
// large ones show that of memory.

//
// The numbers say how much of a run faster code could save at most. What users wait for is measured by bench/run, where
// the kernel's copying takes most of the time.

#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "erasure/codec.h"
#include "merkle/hash.h"
#include "merkle/tree.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// Bytes.
constexpr std::int64_t kSmallestBlock = 4 << 10;
constexpr std::int64_t kLargestBlock = 1 << 20;

// `count` blocks of `size` bytes, aligned as the engine's are. All are written to, so that no page is the shared page
// of zeros, which would always be in the cache.
class Blocks {
 public:
  Blocks(std::size_t count, std::size_t size) : storage_(count * size) {
    for (std::size_t i = 0; i < count * size; ++i) storage_.data()[i] = static_cast<std::uint8_t>(i * 131 + i / 251);
    for (std::size_t i = 0; i < count; ++i) pointers_.push_back(storage_.data() + i * size);
  }
  std::uint8_t* const* pointers() const { return pointers_.data(); }

 private:
  AlignedBuffer storage_;
  std::vector<std::uint8_t*> pointers_;
};

// The bytes of one iteration, from which Google Benchmark makes bytes per second.
void SetBytes(benchmark::State& state, std::int64_t per_iteration) {
  state.SetBytesProcessed(state.iterations() * per_iteration);
}

// The leaf hash of one block, again and again: the block stays in the cache if it fits.
void HashBlock(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const Blocks block(1, size);
  std::uint64_t index = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(HashBytes(HashTag::kDataLeaf, index++, {block.pointers()[0], size}));
  }
  SetBytes(state, state.range(0));
}
BENCHMARK(HashBlock)->ArgName("block")->RangeMultiplier(2)->Range(kSmallestBlock, kLargestBlock);

// Applies a plan to one row of blocks of `block` bytes, again and again, as the row pipeline does with each row. Bytes
// are those of the sources, which are read once; the targets are written besides.
void RunPlan(benchmark::State& state, const Plan& plan, std::size_t block) {
  const Blocks sources(plan.sources(), block);
  const Blocks targets(plan.targets(), block);
  std::vector<std::uint32_t> all(plan.sources());
  std::iota(all.begin(), all.end(), 0);
  // All sources at once. `false`: targets are overwritten, not added to.
  for (auto _ : state) {
    plan.Apply(all, sources.pointers(), targets.pointers(), block, false);
    benchmark::ClobberMemory();
  }
  SetBytes(state, static_cast<std::int64_t>(plan.sources() * block));
}

// The code of n devices, m of them parity: the first two arguments.
Codec CodecOf(const benchmark::State& state) {
  return Codec::Create(static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1))).value();
}

// With m = 1, XOR; with more, Reed-Solomon.
void Encode(benchmark::State& state) {
  const auto plan = CodecOf(state).EncodePlan();
  if (!plan.ok()) return state.SkipWithError(plan.status().message().c_str());
  RunPlan(state, *plan, static_cast<std::size_t>(state.range(2)));
}

// The worst case: m data blocks are lost, so every parity block is a source. The time to make the plan is not in it;
// the engine makes one plan for each set of losses (PlanCache).
void Decode(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto m = static_cast<std::uint32_t>(state.range(1));
  std::vector<std::uint32_t> sources(n - m);
  std::vector<std::uint32_t> lost(m);
  std::iota(sources.begin(), sources.end(), 0);
  std::iota(lost.begin(), lost.end(), n - m);
  const auto plan = CodecOf(state).MakePlan(sources, lost);
  if (!plan.ok()) return state.SkipWithError(plan.status().message().c_str());
  RunPlan(state, *plan, static_cast<std::size_t>(state.range(2)));
}

// Group sizes from small to large, at block sizes from within the cache to beyond it.
void Codes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"n", "m", "block"});
  for (const std::int64_t n : {8, 16, 64}) {
    for (const std::int64_t m : {1, 2, 3, 4}) {
      for (std::int64_t block = kSmallestBlock; block <= kLargestBlock; block *= 2) benchmark->Args({n, m, block});
    }
  }
  // There are many; the default of half a second each would take minutes.
  benchmark->MinTime(0.1);
}
BENCHMARK(Encode)->Apply(Codes);
BENCHMARK(Decode)->Apply(Codes);

// Bytes are those of the leaf hashes. With blocks of 64 KiB, that is 4096 times as much of the file.
void TreeBuild(benchmark::State& state) {
  std::vector<Hash> leaves(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < leaves.size(); ++i) StoreLe(leaves[i].bytes.data(), i);
  for (auto _ : state) benchmark::DoNotOptimize(Tree::Build(TreeKind::kData, leaves, 0));
  SetBytes(state, state.range(0) * static_cast<std::int64_t>(sizeof(Hash)));
}
BENCHMARK(TreeBuild)->ArgName("leaves")->RangeMultiplier(16)->Range(1 << 12, 1 << 20);

}  // namespace
}  // namespace lzy

BENCHMARK_MAIN();
