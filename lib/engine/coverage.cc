#include "engine/coverage.h"

#include <algorithm>
#include <utility>

#include "engine/rebuild.h"

namespace lzy {
namespace {

// Of all ranks together: some megabytes of intervals on every rank.
constexpr std::size_t kMostIntervals = 1u << 18;
// Blocks sent and added up that are no dearer than one read, hashed and multiplied.
constexpr std::uint64_t kWorthSending = 4;

void Put(ByteWriter& out, const std::vector<Interval>& intervals) {
  out.Put(static_cast<std::uint64_t>(intervals.size()));
  for (const Interval& one : intervals) {
    out.Put(one.begin);
    out.Put(one.end);
  }
}

std::vector<Interval> Get(ByteReader& in) {
  std::vector<Interval> intervals;
  for (auto count = in.Get<std::uint64_t>(); count > 0 && in.ok(); --count) {
    const auto begin = in.Get<std::uint64_t>();
    intervals.push_back({begin, in.Get<std::uint64_t>()});
  }
  return intervals;
}

// Where more than one rank has written. `written`: of each rank disjoint.
std::vector<Interval> Disputed(std::vector<Interval> written) {
  std::sort(written.begin(), written.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> disputed;
  std::uint64_t reached = 0;
  for (const Interval& one : written) {
    if (one.begin < reached) disputed.push_back({one.begin, std::min(one.end, reached)});
    reached = std::max(reached, one.end);
  }
  SortAndJoin(disputed);
  return disputed;
}

// `piece` in parts: what is disputed of it, and what is not.
void Add(Coverage::Piece piece, const std::vector<Interval>& disputed, Coverage& coverage) {
  auto next = std::lower_bound(disputed.begin(), disputed.end(), piece.blocks.begin,
                               [](const Interval& one, std::uint64_t at) { return one.end <= at; });
  Interval rest = piece.blocks;
  for (; next != disputed.end() && next->begin < rest.end; ++next) {
    if (next->begin > rest.begin) coverage.pieces.push_back({{rest.begin, next->begin}, piece.rank});
    coverage.spoilt.push_back({std::max(rest.begin, next->begin), std::min(rest.end, next->end)});
    rest.begin = std::max(rest.begin, next->end);
    if (rest.begin >= rest.end) return;
  }
  if (rest.begin < rest.end) coverage.pieces.push_back({rest, piece.rank});
}

constexpr int kNobody = Captors::kNobody, kSeveral = -2, kNothingThere = -3;

int Join(int a, int b) {
  return a == kNothingThere || a == b ? b : kSeveral;
}

// What is known of one row.
struct RowCaptors {
  int captor = kNothingThere;   // of the blocks that somebody captured
  int first = kNobody;          // of several: one
  std::uint32_t captured = 0;   // blocks
  bool spoilt = false;
  std::vector<BlockPlace> gaps;

  void Add(const BlockPlace& place, int by, const Coverage& coverage) {
    if (by == kNobody) {
      gaps.push_back(place);
      spoilt = spoilt || Contains(coverage.spoilt, place.index);
      return;
    }
    if (first == kNobody) first = by;
    captor = Join(captor, by);
    ++captured;
  }

 private:
  static bool Contains(const std::vector<Interval>& all, std::uint64_t block) {
    const auto at = std::lower_bound(all.begin(), all.end(), block,
                                     [](const Interval& one, std::uint64_t index) { return one.end <= index; });
    return at != all.end() && at->begin <= block;
  }
};

}  // namespace

Captors::Captors(const Coverage& coverage, std::uint64_t first_block) : pieces_(coverage.pieces) {
  at_ = std::lower_bound(pieces_.begin(), pieces_.end(), first_block,
                         [](const Coverage::Piece& one, std::uint64_t block) { return one.blocks.end <= block; });
}

int Captors::Of(std::uint64_t block) {
  while (at_ != pieces_.end() && at_->blocks.end <= block) ++at_;
  return at_ != pieces_.end() && at_->blocks.begin <= block ? at_->rank : kNobody;
}

Result<Coverage> ShareCoverage(Communicator& comm, const Capture& mine) {
  const auto limit = std::max<std::size_t>(64, kMostIntervals / static_cast<std::size_t>(comm.size()));
  ByteWriter out;
  const Status local = NoThrow([&] {
    const std::vector<Interval> captured = mine.Captured(limit);
    out.Put<std::uint8_t>(captured.size() < limit);
    Put(out, captured);
    Put(out, mine.Written(limit));
  });
  const auto all = comm.AllGather(local.ok() ? ByteSpan(out.bytes()) : ByteSpan());
  Coverage coverage;
  const Status united = NoThrow([&]() -> Status {
    LZY_RETURN_IF_ERROR(local);
    LZY_RETURN_IF_ERROR(all.status());
    std::vector<Coverage::Piece> captured;
    std::vector<Interval> written;
    for (std::size_t rank = 0; rank < all->size(); ++rank) {
      ByteReader in((*all)[rank]);
      coverage.complete = in.Get<std::uint8_t>() != 0 && coverage.complete;
      for (const Interval& one : Get(in)) captured.push_back({one, static_cast<int>(rank)});
      for (const Interval& one : Get(in)) written.push_back(one);
      if (!in.ok()) return {Code::kInternal, "what a rank captured is malformed"};
    }
    const std::vector<Interval> disputed = Disputed(std::move(written));
    for (const Coverage::Piece& piece : captured) Add(piece, disputed, coverage);
    SortAndJoin(coverage.spoilt);
    std::sort(coverage.pieces.begin(), coverage.pieces.end(),
              [](const auto& a, const auto& b) { return a.blocks.begin < b.blocks.begin; });
    return Status::Ok();
  });
  LZY_RETURN_IF_ERROR(Agree(comm, united));
  return coverage;
}

SortedRows SortRows(const Layout& layout, std::span<const RowRun> runs, const Coverage& coverage,
                    const Communicator& comm, std::uint64_t memory) {
  const auto ranks = static_cast<std::uint64_t>(comm.size());
  SortedRows sorted;
  for (const RowRun& run : runs) {
    const Rotation rotation = layout.rotation(run.group);
    const std::uint64_t sent = ranks * rotation.m;  // blocks
    const bool combine = sent <= kWorthSending * rotation.k() && sent * layout.block_size() <= memory / 8;
    std::vector<RowCaptors> rows(run.slices);
    ForEachCaptor(layout, run, coverage, [&](std::uint32_t s, const BlockPlace& place, int by) {
      rows[s].Add(place, by, coverage);
    });
    for (std::uint32_t s = 0; s < run.slices; ++s) {
      const RowRun one{run.group, run.unit_row, run.first_slice + s, 1, run.plan};
      const RowCaptors& row = rows[s];
      const bool filled = row.gaps.empty() || (row.gaps.size() <= row.captured && !row.spoilt && coverage.complete);
      if (row.captured == 0 || !filled || (row.captor == kSeveral && !combine)) {
        AppendRun(sorted.reread, one);
        continue;
      }
      if (row.first == comm.rank()) sorted.gaps.insert(sorted.gaps.end(), row.gaps.begin(), row.gaps.end());
      if (row.captor == kSeveral) AppendRun(sorted.combined, one);
      if (row.captor == comm.rank()) AppendRun(sorted.own, one);
    }
  }
  return sorted;
}

}  // namespace lzy
