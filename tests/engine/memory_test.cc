// What the engine allocates for one protected file does not grow with the file. Its own program: it counts every
// allocation of the process.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/engine.h"
#include "engine_fixture.h"
#include "merkle/tree.h"
#include "status_matchers.h"
#include "thread_communicator.h"

namespace {

std::atomic<std::int64_t> live{0}, peak{0};

void* Counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const std::int64_t now = live += static_cast<std::int64_t>(malloc_usable_size(memory));
  for (std::int64_t before = peak; before < now && !peak.compare_exchange_weak(before, now);) {
  }
  return memory;
}

void Free(void* memory) {
  if (memory != nullptr) live -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  return Counted(std::malloc(std::max<std::size_t>(size, 1)));
}
void* operator new(std::size_t size, std::align_val_t align) {
  const auto alignment = static_cast<std::size_t>(align);
  return Counted(std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { Free(memory); }

namespace lzy::testing {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetMostLeavesInMemory(4096);
    options_.block_size = 512;
    options_.memory = kMiB / 8;
    options_.threads = 1;
  }
  void TearDown() override { SetMostLeavesInMemory(kMostLeavesInMemory); }

  using Work = std::function<DatasetReport(const Context&, const DatasetRef&)>;

  // Bytes that `work`, done by `ranks` ranks as threads, has allocated at the same time at most.
  std::int64_t PeakOf(int ranks, const std::string& path, const Work& work) {
    const std::int64_t before = peak = live.load();
    RunRanks(ranks, [&](Communicator& comm) {
      const Context context{.fs = PosixFileSystem(), .comm = comm, .options = options_};
      const DatasetReport report = work(context, {DatasetKind::kShared, path, {}});
      EXPECT_OK(report.status);
      EXPECT_EQ(ExitCodeOf(report), 0);
    });
    return peak - before;
  }

  // The peaks of what is done with a sparse file of this size: protect it, verify it, commit a write, repair a block.
  std::vector<std::int64_t> Peaks(int ranks, std::uint64_t size) {
    const Scratch scratch;
    const std::string path = scratch / "file";
    const auto file = PosixFileSystem().Open(path, OpenMode::kCreateNew).value();
    EXPECT_OK(file->Truncate(size));
    std::vector<std::int64_t> peaks;
    const auto add = [&](const Work& work) { peaks.push_back(PeakOf(ranks, path, work)); };
    add([](const Context& context, const DatasetRef& ref) { return Protect(context, ref, {}); });
    add([](const Context& context, const DatasetRef& ref) { return Verify(context, ref, {}); });
    const std::vector<std::uint8_t> bytes(100'000, 7);
    EXPECT_OK(file->WriteAt(size / 2 + 5, bytes));
    add([&](const Context& context, const DatasetRef& ref) {
      ProtectRequest request;
      request.touched.emplace()[0].Add({size / 2 + 5, size / 2 + 5 + bytes.size()});
      return Protect(context, ref, request);
    });
    const FileStat stat = file->Stat().value();
    EXPECT_OK(file->WriteAt(size / 4 + 77, ByteSpan(bytes).first(1)));
    EXPECT_OK(file->SetTimes(stat.atime_ns, stat.mtime_ns));
    add([](const Context& context, const DatasetRef& ref) { return Verify(context, ref, {.repair = true}); });
    return peaks;
  }

  void ExpectNoGrowth(int ranks, std::uint64_t small, std::uint64_t large) {
    const std::vector<std::int64_t> before = Peaks(ranks, small), after = Peaks(ranks, large);
    const char* const names[] = {"protect", "verify", "commit", "repair"};
    for (std::size_t i = 0; i < before.size(); ++i) {
      std::cout << fmt::format("{} ranks, {}: {} KiB for {} MiB, {} KiB for {} MiB\n", ranks, names[i], before[i] >> 10,
                               small >> 20, after[i] >> 10, large >> 20);
      // A rank has buffers of half a megabyte; how many ranks have theirs at the same time is chance.
      EXPECT_LT(after[i] - before[i], (std::int64_t{16} << 20) + ranks * (std::int64_t{1} << 19));
    }
  }

  Options options_;
};

// 16 bytes for each block of data would be 112 MiB more.
TEST_F(MemoryTest, OfOneRankDoesNotGrowWithTheFile) {
  ExpectNoGrowth(1, 512 * kMiB, 4096 * kMiB);
}

TEST_F(MemoryTest, OfManyRanksDoesNotGrowWithTheFile) {
  ExpectNoGrowth(64, 512 * kMiB, 4096 * kMiB);
}

}  // namespace
}  // namespace lzy::testing
