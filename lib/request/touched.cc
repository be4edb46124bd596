#include "request/touched.h"

#include <algorithm>

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

void PutTouched(ByteWriter& out, std::uint32_t rank, const Touched& touched) {
  out.Put(rank);
  out.Put<std::uint8_t>(touched.whole);
  out.Put(static_cast<std::uint64_t>(touched.ranges.size()));
  for (const ByteRange& r : touched.ranges) {
    out.Put(r.offset);
    out.Put(r.length);
  }
}

Result<std::map<std::uint32_t, Touched>> GatherTouched(Communicator& comm,
                                                       const std::map<std::uint32_t, Touched>& mine) {
  ByteWriter out;
  for (const auto& [rank, touched] : mine) PutTouched(out, rank, touched);
  LZY_ASSIGN_OR_RETURN(const auto all, comm.AllGather(out.bytes()));
  std::map<std::uint32_t, Touched> united;
  for (const auto& bytes : all) {
    ByteReader in(bytes);
    while (in.remaining() > 0 && in.ok()) {
      auto [at, added] = united.try_emplace(in.Get<std::uint32_t>());
      Touched& touched = at->second;
      if (added) touched.whole = false;
      touched.whole = in.Get<std::uint8_t>() != 0 || touched.whole;
      for (auto count = in.Get<std::uint64_t>(); count > 0 && in.ok(); --count) {
        const auto offset = in.Get<std::uint64_t>();
        touched.ranges.push_back({offset, in.Get<std::uint64_t>()});
      }
    }
    if (!in.ok()) return {Code::kInternal, "a rank's list of touched ranges is malformed"};
  }
  for (auto& [rank, touched] : united) Normalise(touched);
  return united;
}

}  // namespace lzy
