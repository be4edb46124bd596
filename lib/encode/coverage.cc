#include "encode/coverage.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "comm/records.h"
#include "encode/rebuild.h"

namespace lzy {
namespace {

// The most intervals of all ranks together: some megabytes on every rank.
constexpr std::size_t kMostIntervals = 1u << 18;
// The most parts of all ranks together: some megabytes on every rank.
constexpr std::size_t kMostParts = 1u << 16;
// This many blocks can be sent and added up in the time in which one is read, hashed and multiplied.
constexpr std::uint64_t kWorthSending = 4;

// The blocks that a rank captured and wrote, and whether the list of captured blocks is complete. `open`: blocks that it
// can still capture, and that are in no sum.
struct Share {
  bool complete = false, has_parts = false;
  std::vector<Interval> captured, open, written;
  LZY_FIELDS(complete, has_parts, captured, open, written)
};

// Blocks that more than one rank has written. `written`: the intervals of all ranks; those of one rank are disjoint. In the
// order of their beginnings, an interval that begins before the furthest end so far overlaps one of another rank.
std::vector<Interval> Disputed(std::vector<Interval> written) {
  std::ranges::sort(written, {}, &Interval::begin);
  std::vector<Interval> disputed;
  std::uint64_t reached = 0;
  for (const Interval& one : written) {
    if (one.begin < reached) disputed.push_back({one.begin, std::min(one.end, reached)});
    reached = std::max(reached, one.end);
  }
  SortAndJoin(disputed);
  return disputed;
}

// The first of disjoint, ascending intervals that ends behind `block`: the only one that may contain it.
std::vector<Interval>::const_iterator At(const std::vector<Interval>& all, std::uint64_t block) {
  return std::ranges::upper_bound(all, block, {}, &Interval::end);
}

bool IsIn(const std::vector<Interval>& all, std::uint64_t block) {
  const auto at = At(all, block);
  return at != all.end() && at->begin <= block;
}

// Splits a piece. Disputed blocks go to coverage.disputed if they are in a sum; other blocks go to coverage.pieces.
void Add(const Coverage::Piece& piece, bool in_sum, const std::vector<Interval>& disputed, Coverage& coverage) {
  const std::vector<Interval> sound = Without({piece.blocks}, disputed);
  for (const Interval& one : sound) coverage.pieces.push_back({one, piece.rank});
  if (in_sum) std::ranges::move(Without({piece.blocks}, sound), std::back_inserter(coverage.disputed));
}

constexpr int kNobody = Captors::kNobody;

// The ranks that captured blocks of one row.
struct RowCaptors {
  int first = kNobody;  // the first rank that captured a block of the row
  bool several = false;
  bool disputed = false;
  std::uint32_t captured = 0, gaps = 0;  // numbers of blocks

  void Add(int by, bool is_disputed) {
    if (by == kNobody) {
      ++gaps;
      disputed = disputed || is_disputed;
      return;
    }
    ++captured;
    several = several || (first != kNobody && by != first);
    if (first == kNobody) first = by;
  }
};

}  // namespace

std::vector<Interval> Without(const std::vector<Interval>& all, const std::vector<Interval>& taken) {
  std::vector<Interval> left;
  for (Interval one : all) {
    for (auto cut = At(taken, one.begin); cut != taken.end() && cut->begin < one.end; ++cut) {
      if (cut->begin > one.begin) left.push_back({one.begin, cut->begin});
      one.begin = std::min(one.end, cut->end);
    }
    if (one.begin < one.end) left.push_back(one);
  }
  return left;
}

Captors::Captors(const Coverage& coverage, std::uint64_t first_block) : pieces_(coverage.pieces) {
  at_ = std::ranges::upper_bound(pieces_, first_block, {}, [](const Coverage::Piece& one) { return one.blocks.end; });
}

int Captors::Of(std::uint64_t block) {
  while (at_ != pieces_.end() && at_->blocks.end <= block) ++at_;
  return at_ != pieces_.end() && at_->blocks.begin <= block ? at_->rank : kNobody;
}

// If they are too long, `written` is a superset and `captured` a subset. So at worst a row is read without need. Both lists
// are made and united under NoThrow: a rank without memory must still take part in the all-gather and in Agree.
Result<Coverage> ShareCoverage(Communicator& comm, const Capture& mine) {
  const auto limit = std::max<std::size_t>(64, kMostIntervals / static_cast<std::size_t>(comm.size()));
  Share own;
  const Status local = NoThrow([&] {
    own.captured = mine.Captured(limit);
    own.open = mine.Open(limit);
    own.complete = own.captured.size() < limit && own.open.size() < limit;
    own.written = mine.Written(limit);
    own.has_parts = mine.HasParts();
  });
  const auto all = AllGatherRecords(comm, own);
  Coverage coverage;
  const Status united = NoThrow([&]() -> Status {
    LZY_RETURN_IF_ERROR(local);
    LZY_RETURN_IF_ERROR(all.status());
    std::vector<Interval> written;
    for (const Share& theirs : *all) {
      coverage.complete = theirs.complete && coverage.complete;
      coverage.has_parts = theirs.has_parts || coverage.has_parts;
      written.insert(written.end(), theirs.written.begin(), theirs.written.end());
    }
    const std::vector<Interval> disputed = Disputed(std::move(written));
    for (std::size_t rank = 0; rank < all->size(); ++rank) {
      for (const Interval& one : (*all)[rank].captured) Add({one, static_cast<int>(rank)}, true, disputed, coverage);
      const std::vector<Interval>& open = (*all)[rank].open;
      for (const Interval& one : open) Add({one, static_cast<int>(rank)}, false, disputed, coverage);
      coverage.has_parts = coverage.has_parts || Without(open, disputed) != open;
    }
    SortAndJoin(coverage.disputed);
    std::ranges::sort(coverage.pieces, {}, [](const Coverage::Piece& one) { return one.blocks.begin; });
    return Status::Ok();
  });
  LZY_RETURN_IF_ERROR(Agree(comm, united));
  return coverage;
}

namespace {

// What a rank wrote of the blocks that nobody captured. `others`: byte ranges of which it does not know all that it wrote.
struct Known {
  std::vector<WrittenPart> parts;
  std::vector<Interval> others;
  LZY_FIELDS(parts, others)
};

Known KnownParts(const Layout& layout, const LeafKey* key, const Capture& mine, const Coverage& coverage, std::size_t limit) {
  Known known;
  known.others = mine.NotKept(limit);
  const std::uint64_t block = layout.block_size();
  mine.ForEachKept([&](std::uint64_t number, Interval bytes, ByteSpan copy) {
    if (Captors(coverage, number).Of(number) != kNobody) return;
    while (bytes.begin < bytes.end) {
      const Interval here{bytes.begin, std::min(bytes.end, (bytes.begin / block + 1) * block)};
      const ByteSpan its = copy.first(here.end - here.begin);
      copy = copy.subspan(its.size());
      bytes.begin = here.end;
      if (known.parts.size() < limit) {
        known.parts.push_back({here, WrittenPart::HashOf(key, here, its)});
      } else {
        known.others.push_back(here);
      }
    }
  });
  return known;
}

}  // namespace

// A list that is too long ends early, and the rest counts as unknown.
Result<std::vector<WrittenPart>> ShareParts(Communicator& comm, const Layout& layout, const LeafKey* key, const Capture& mine,
                                            const Coverage& coverage) {
  const auto limit = std::max<std::size_t>(64, kMostParts / static_cast<std::size_t>(comm.size()));
  Known own;
  const Status local = NoThrow([&] { own = KnownParts(layout, key, mine, coverage, limit); });
  const auto all = AllGatherRecords(comm, own);
  std::vector<WrittenPart> parts;
  LZY_RETURN_IF_ERROR(Agree(comm, NoThrow([&]() -> Status {
    LZY_RETURN_IF_ERROR(local);
    LZY_RETURN_IF_ERROR(all.status());
    std::vector<Interval> written;
    for (const Known& theirs : *all) {
      std::ranges::transform(theirs.parts, std::back_inserter(written), &WrittenPart::bytes);
      std::vector<Interval> others = theirs.others;
      SortAndJoin(others);
      written.insert(written.end(), others.begin(), others.end());
    }
    const std::vector<Interval> disputed = Disputed(std::move(written));
    for (const Known& theirs : *all) {
      std::ranges::copy_if(theirs.parts, std::back_inserter(parts), [&](const WrittenPart& one) {
        const auto at = At(disputed, one.bytes.begin);
        return one.bytes.end <= layout.file_size(0) && (at == disputed.end() || at->begin >= one.bytes.end);
      });
    }
    std::ranges::sort(parts, {}, [](const WrittenPart& one) { return one.bytes.begin; });
    return Status::Ok();
  })));
  return parts;
}

namespace {

// True if `runs` contain the row of data block `block`. `runs`: in the order of RowsToEncode, one group.
bool HaveRowOf(const Layout& layout, std::span<const RowRun> runs, std::uint64_t block) {
  const RowId row = layout.LocateData(0, block).row;
  const auto after = std::upper_bound(runs.begin(), runs.end(), row, [](const RowId& id, const RowRun& run) {
    return std::tie(id.unit_row, id.slice) < std::tie(run.unit_row, run.first_slice);
  });
  if (after == runs.begin()) return false;
  const RowRun& run = *std::prev(after);
  return run.unit_row == row.unit_row && row.slice < run.first_slice + run.slices;
}

}  // namespace

void CloseOpen(const Layout& layout, std::span<const RowRun> runs, const Coverage& coverage, int rank, Capture& mine) {
  Captors captors(coverage, 0);
  mine.CloseOpen([&](std::uint64_t block) {
    if (captors.Of(block) != rank) return Capture::Fate::kDropped;
    return HaveRowOf(layout, runs, block) ? Capture::Fate::kCaptured : Capture::Fate::kOpen;
  });
}

void KeepUnfinished(const Layout& layout, const Coverage& coverage, Capture& mine) {
  // If the list of blocks in sums is incomplete, it is not known which sums are right.
  if (!coverage.complete) return;
  const Rotation rotation = layout.rotation(0);
  mine.KeepSums([&](const RowId& row) {
    bool unfinished = false;
    for (std::uint32_t position = rotation.m; position < rotation.n; ++position) {
      const std::uint32_t device = layout.DeviceAt(0, position, row.unit_row);
      const BlockPlace place = layout.DataBlock(device, row.unit_row, row.slice);
      // A sum with a disputed block is useless.
      if (IsIn(coverage.disputed, place.index)) return false;
      unfinished = unfinished || place.length == 0 || Captors(coverage, place.index).Of(place.index) == kNobody;
    }
    return unfinished;
  });
}

// All ranks go through the same rows with the same numbers, `dealt` included. So each rank knows which rows the others
// fill, without messages.
SortedRows SortRows(const Layout& layout, std::span<const RowRun> runs, const Coverage& coverage,
                    const Communicator& comm, std::uint64_t memory) {
  const auto ranks = static_cast<std::uint64_t>(comm.size());
  std::uint64_t blocks = 0;
  for (const RowRun& run : runs) blocks += std::uint64_t{run.slices} * layout.rotation(run.group).k();
  // The number of blocks that each rank would read if all were read. No rank gets more gaps than that.
  const std::uint64_t share = (blocks + ranks - 1) / ranks;
  std::vector<std::uint64_t> dealt(ranks);
  SortedRows sorted;
  for (const RowRun& run : runs) {
    const Rotation rotation = layout.rotation(run.group);
    const std::uint64_t sent = ranks * rotation.m;  // blocks
    const bool combine = sent <= kWorthSending * rotation.k() && sent * layout.block_size() <= memory / 8;
    std::vector<RowCaptors> rows(run.slices);
    ForEachCaptor(layout, run, coverage, [&](std::uint32_t s, const BlockPlace& place, int by) {
      rows[s].Add(by, by == kNobody && IsIn(coverage.disputed, place.index));
    });
    // Judge each row. Its gaps count at once for the rank that fills them, so they affect later rows.
    bool fill = false;
    for (std::uint32_t s = 0; s < run.slices; ++s) {
      const RowRun one{run.group, run.unit_row, run.first_slice + s, 1, run.plan};
      RowCaptors& row = rows[s];
      // The first rank that captured a block of the row fills its gaps, because it has a sum to add them to. Reading the
      // gaps is always cheaper than reading the row. But combining the sums of several ranks has a cost of its own.
      const bool fillable = (row.gaps <= row.captured || !row.several) && !row.disputed && coverage.complete;
      if (row.captured == 0 || (row.gaps > 0 && !fillable) || (row.several && !combine) ||
          dealt[static_cast<std::size_t>(row.first)] + row.gaps > share) {
        row.first = kNobody;
        AppendRun(sorted.reread, one);
        continue;
      }
      dealt[static_cast<std::size_t>(row.first)] += row.gaps;
      fill = fill || (row.first == comm.rank() && row.gaps > 0);
      if (row.several) AppendRun(sorted.combined, one);
      if (!row.several && row.first == comm.rank()) AppendRun(sorted.own, one);
    }
    // A second pass lists the gaps that this rank fills. Rows to reread have no first rank by now.
    if (!fill) continue;
    ForEachCaptor(layout, run, coverage, [&](std::uint32_t s, const BlockPlace& place, int by) {
      if (by == kNobody && rows[s].first == comm.rank()) sorted.gaps.push_back(place);
    });
  }
  return sorted;
}

}  // namespace lzy
