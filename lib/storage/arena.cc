#include "storage/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "base/numbers.h"

namespace lzy {
namespace {

constexpr std::size_t kAlignment = 4096;
// Sizes of a huge page (x86-64), of the first mapping, and the bound for growing.
constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kFirst = std::size_t{256} << 10;
constexpr std::size_t kMost = std::size_t{16} << 20;

}  // namespace

Arena::~Arena() {
  for (const Mapping& mapping : mappings_) munmap(mapping.begin, mapping.size);
}

std::uint8_t* Arena::Take(std::size_t bytes) {
  bytes = RoundUp(bytes, kAlignment);
  if (bytes > left_) Map(bytes);
  std::uint8_t* taken = next_;
  next_ += bytes;
  left_ -= bytes;
  return taken;
}

// Each mapping is as large as all mappings before it together, within bounds. A huge page begins at a multiple of its size.
// mmap does not guarantee that, so one more huge page is mapped, and pieces are taken from the first multiple on.
void Arena::Map(std::size_t least) {
  std::size_t total = 0;
  for (const Mapping& mapping : mappings_) total += mapping.size;
  const std::size_t size = std::max(least, std::clamp(total, kFirst, kMost));
  const bool huge = size >= kHuge;
  const std::size_t mapped = huge ? RoundUp(size, kHuge) + kHuge : size;
  // Before mmap: if this throws, nothing is lost.
  mappings_.reserve(mappings_.size() + 1);
  void* at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::uint8_t*>(at);
  mappings_.push_back({begin, mapped});
  next_ = begin;
  left_ = size;
  if (!huge) return;
  next_ += RoundUp(reinterpret_cast<std::uintptr_t>(begin), kHuge) - reinterpret_cast<std::uintptr_t>(begin);
  left_ = RoundUp(size, kHuge);
  // Only advice. If the kernel has no huge pages, it works without them.
  madvise(next_, left_, MADV_HUGEPAGE);
}

}  // namespace lzy
