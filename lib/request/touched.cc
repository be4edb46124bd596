#include "request/touched.h"

#include <algorithm>

#include "comm/records.h"

namespace lzy {

void Normalise(Touched& touched) {
  if (touched.whole) {
    touched.ranges.clear();
    return;
  }
  std::sort(touched.ranges.begin(), touched.ranges.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::vector<ByteRange> out;
  for (const ByteRange& r : touched.ranges) {
    if (r.length == 0) continue;
    if (!out.empty() && r.offset <= out.back().offset + out.back().length) {
      out.back().length = std::max(out.back().length, r.offset + r.length - out.back().offset);
    } else {
      out.push_back(r);
    }
  }
  touched.ranges = std::move(out);
}

bool IsTouched(const Touched& touched, std::uint64_t offset, std::uint64_t length) {
  if (touched.whole) return true;
  auto after = std::upper_bound(touched.ranges.begin(), touched.ranges.end(), offset + length - 1,
                                [](std::uint64_t at, const ByteRange& r) { return at < r.offset; });
  if (after == touched.ranges.begin()) return false;
  const ByteRange& last = *std::prev(after);
  return last.offset + last.length > offset;
}

void AddResize(Touched& touched, std::uint64_t old_size, std::uint64_t new_size, std::uint64_t block_size) {
  if (touched.whole || old_size == new_size) return;
  const std::uint64_t from = std::min(old_size, new_size) / block_size * block_size;
  touched.ranges.push_back({from, std::max(old_size, new_size) - from});
  Normalise(touched);
}

Result<std::map<std::uint32_t, Touched>> GatherTouched(Communicator& comm,
                                                       const std::map<std::uint32_t, Touched>& mine) {
  LZY_ASSIGN_OR_RETURN(const auto all, AllGatherRecords(comm, mine));
  std::map<std::uint32_t, Touched> united;
  for (const auto& theirs : all) {
    for (const auto& [rank, one] : theirs) {
      const auto [at, added] = united.try_emplace(rank, one);
      if (added) continue;
      at->second.whole = at->second.whole || one.whole;
      at->second.ranges.insert(at->second.ranges.end(), one.ranges.begin(), one.ranges.end());
    }
  }
  for (auto& [rank, touched] : united) Normalise(touched);
  return united;
}

}  // namespace lzy
