#include "commit/check_written.h"

#include <algorithm>
#include <limits>

#include "comm/records.h"
#include "commit/epoch.h"
#include "encode/coverage.h"
#include "judge/examine.h"

namespace lzy {
namespace {

// Of what ranks tell each other about their writes: some megabytes on every rank. Beyond it, intervals are joined, so
// more counts as written by others, and less is compared.
constexpr std::size_t kMostIntervals = 65536;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// The part of `all` that is this rank's when every rank gets as much. Cut by blocks, not by intervals: a program may
// have written one long stretch.
std::vector<Interval> ShareOf(const std::vector<Interval>& all, const Communicator& comm) {
  std::uint64_t count = 0;
  for (const Interval& one : all) count += one.end - one.begin;
  const Interval mine = PartOf(count, comm.rank(), comm.size());
  std::vector<Interval> part;
  std::uint64_t before = 0;
  for (const Interval& one : all) {
    const std::uint64_t length = one.end - one.begin;
    const std::uint64_t begin = std::clamp(mine.begin, before, before + length) - before;
    const std::uint64_t end = std::clamp(mine.end, before, before + length) - before;
    if (begin < end) part.push_back({one.begin + begin, one.begin + end});
    before += length;
  }
  return part;
}

// One call of CheckWritten. Findings count only if nobody has written since, which is asked at the end.
class Checker {
 public:
  Checker(const Context& context, const Written& written)
      : context_(context), written_(written), touched_(written.touched), capture_(written.capture) {}

  Result<WrittenCheck> Run() {
    LZY_ASSIGN_OR_RETURN(DatasetView view, OpenDataset(context_, written_.dataset, {}));
    if (!view.committed) return std::move(result_);
    const bool shared = written_.dataset.kind == DatasetKind::kShared;
    Coverage coverage;
    std::vector<Interval> others;  // bytes that other ranks wrote, or may have
    bool captured = false;
    if (shared) {
      LZY_ASSIGN_OR_RETURN(const std::uint64_t without, context_.comm.AllReduceMax(capture_ == nullptr));
      if (without == 0) {
        LZY_ASSIGN_OR_RETURN(coverage, ShareCoverage(context_.comm, *capture_));
        LZY_ASSIGN_OR_RETURN(others, WrittenByOthers());
        captured = true;
      }
    }
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      if (!shared && capture_ != nullptr) {  // nobody else writes this rank's member
        for (const Interval& blocks : capture_->Captured(kAll)) coverage.pieces.push_back({blocks, context_.comm.rank()});
        captured = true;
      }
      for (const Ensemble& ensemble : view.ensembles) {
        for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
          const FileView& file = ensemble.files[f];
          if (!shared && file.owner != context_.comm.rank()) continue;
          LZY_RETURN_IF_ERROR(CheckFile(ensemble, f, shared, coverage));
          if (captured && file.data) LZY_RETURN_IF_ERROR(HoldToParts(*file.data, others));
        }
      }
      return Status::Ok();
    }));
    LZY_ASSIGN_OR_RETURN(result_.faults, context_.comm.AllReduceSum(faults_));
    if (result_.faults == 0) return std::move(result_);
    const bool untouched = view.superblock.generation == written_.generation && IsUntouchedSince(context_, written_);
    LZY_ASSIGN_OR_RETURN(const std::uint64_t touched, context_.comm.AllReduceMax(!untouched));
    if (touched != 0) return WrittenCheck();
    return std::move(result_);
  }

 private:
  // What other ranks wrote, or may have. A block that two ranks wrote proves nothing: either content is right.
  Result<std::vector<Interval>> WrittenByOthers() {
    std::vector<Interval> told;
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { told = WrittenHere(); }));
    const auto all = AllGatherRecords(context_.comm, told);
    IntervalSet others;
    LZY_RETURN_IF_ERROR(Agree(context_.comm, !all.ok() ? all.status() : NoThrow([&] {
      for (int rank = 0; rank < context_.comm.size(); ++rank) {
        if (rank == context_.comm.rank()) continue;
        for (const Interval& one : (*all)[static_cast<std::size_t>(rank)]) others.Add(one);
      }
    })));
    return others.intervals();
  }

  // Bytes that this rank wrote, or may have: each rank so many intervals, since all know of all.
  std::vector<Interval> WrittenHere() const {
    const std::size_t limit = std::max<std::size_t>(16, kMostIntervals / static_cast<std::size_t>(context_.comm.size()));
    IntervalSet mine;
    const std::uint64_t block = capture_->block_size();
    if (capture_->cut().whole()) return {{0, kEverythingBehind}};
    for (const auto& list : {capture_->Unknown(limit), capture_->Captured(kAll), capture_->cut().intervals()}) {
      for (const Interval& one : list) {
        mine.Add({one.begin * block, one.end > kEverythingBehind / block ? kEverythingBehind : one.end * block});
      }
    }
    capture_->ForEachPart([&](std::uint64_t offset, ByteSpan bytes) { mine.Add({offset, offset + bytes.size()}); });
    mine.Coarsen(limit);
    if (mine.whole()) return {{0, kEverythingBehind}};
    return mine.intervals();
  }

  // Blocks of the data that were touched.
  std::vector<Interval> TouchedBlocks(const Layout& layout, std::uint32_t f, std::uint32_t rank) const {
    const auto found = touched_.find(rank);
    if (found == touched_.end()) return {};
    return lzy::TouchedBlocks(found->second, layout.block_size(), layout.data_blocks(f));
  }

  // Parity blocks of region f in whose rows any file of the ensemble was touched.
  std::vector<Interval> TouchedParity(const Ensemble& ensemble, std::uint32_t f) const {
    const Layout& layout = *ensemble.layout;
    std::vector<Interval> found;
    for (std::uint32_t other = 0; other < ensemble.files.size(); ++other) {
      for (const Interval& blocks : TouchedBlocks(layout, other, ensemble.files[other].rank)) {
        for (std::uint64_t i = blocks.begin; i < blocks.end; ++i) {
          const RowId row = layout.LocateData(other, i).row;
          for (std::uint32_t q = 0; q < layout.parity(); ++q) {
            const std::uint32_t device = layout.DeviceAt(row.group, q, row.unit_row);
            if (layout.region_of(device) != f) continue;
            const BlockPlace place = layout.ParityBlock(device, row.unit_row, row.slice);
            if (place.length == 0) continue;
            if (!found.empty() && found.back().end == place.index) {
              ++found.back().end;
            } else {
              found.push_back({place.index, place.index + 1});
            }
          }
        }
      }
    }
    SortAndJoin(found);
    return found;
  }

  // Compares one file: captured blocks with the capture, the others with their leaves, and the parity of touched rows.
  // Every block is read by one rank: captured ones by their captor, since only it has what was written; of the others,
  // each rank reads a part.
  Status CheckFile(const Ensemble& ensemble, std::uint32_t f, bool shared, const Coverage& coverage) {
    const Layout& layout = *ensemble.layout;
    const FileView& file = ensemble.files[f];
    if (!file.data || !file.sidecar) return Status::Ok();
    std::vector<Interval> mine, rest = TouchedBlocks(layout, f, file.rank);
    IntervalSet captured;
    for (const Coverage::Piece& piece : coverage.pieces) {
      captured.Add(BlocksIn(piece.blocks, layout, f));
      if (piece.rank == context_.comm.rank()) mine.push_back(piece.blocks);
    }
    rest = Without(rest, captured.intervals());
    LZY_RETURN_IF_ERROR(HoldToLeaves(StreamOf(ensemble, false, f), shared ? ShareOf(rest, context_.comm) : rest));
    if (!mine.empty()) {
      LZY_RETURN_IF_ERROR(HoldToCapture(
          DataStream(capture_->block_size(), layout.file_size(f), file.data.get(), nullptr, ensemble.key.get()), mine));
    }
    const std::vector<Interval> parity = TouchedParity(ensemble, f);
    return HoldToLeaves(StreamOf(ensemble, true, f), shared ? ShareOf(parity, context_.comm) : parity);
  }

  // The blocks of file f that lie in these blocks of a capture, which may have another size.
  Interval BlocksIn(const Interval& captured, const Layout& layout, std::uint32_t f) const {
    const std::uint64_t theirs = capture_->block_size(), ours = layout.block_size();
    const bool to_the_end = captured.end * theirs >= layout.file_size(f);
    const std::uint64_t begin = (captured.begin * theirs + ours - 1) / ours;
    return {begin, std::max(begin, to_the_end ? layout.data_blocks(f) : captured.end * theirs / ours)};
  }

  Status HoldToLeaves(const BlockStream& stream, const std::vector<Interval>& blocks) {
    return Read(stream, blocks, [&](std::uint64_t, const CheckResult& checked) {
      for (const BadBlocks& bad : checked.bad) {
        for (std::uint64_t i = bad.first; !bad.transient && i < bad.first + bad.count; ++i) {
          faults_ += !IsWithoutParity(stream, i);
        }
      }
    });
  }

  // Rows that have no parity, which the commit has said.
  static bool IsWithoutParity(const BlockStream& stream, std::uint64_t block) {
    return stream.tag == HashTag::kParityLeaf && stream.expected->leaf(block) == kNoParityLeaf;
  }

  Status HoldToCapture(const BlockStream& stream, const std::vector<Interval>& blocks) {
    return Read(stream, blocks, [&](std::uint64_t first, const CheckResult& checked) {
      for (std::uint64_t i = 0; i < checked.leaves.size(); ++i) {
        if (checked.leaves[i] == capture_->leaf(first + i)) continue;
        result_.wrong.push_back(first + i);
        ++faults_;
      }
    });
  }

  // What is between blocks of different ranks, mostly. `others`: ascending.
  Status HoldToParts(File& file, const std::vector<Interval>& others) {
    Status status;
    std::vector<std::uint8_t> there;
    capture_->ForEachPart([&](std::uint64_t offset, ByteSpan bytes) {
      const Interval part{offset, offset + bytes.size()};
      const auto next = std::upper_bound(others.begin(), others.end(), part.begin,
                                         [](std::uint64_t at, const Interval& one) { return at < one.end; });
      if (!status.ok() || (next != others.end() && next->begin < part.end)) return;
      there.resize(bytes.size());
      const auto got = file.ReadAtFromDevice(offset, there);
      if (!got.ok() && got.status().code() != Code::kUnreadable) {
        status = got.status();
      } else if (!got.ok() || *got < bytes.size() || !std::equal(bytes.begin(), bytes.end(), there.begin())) {
        result_.wrong_parts.push_back(part);
        ++faults_;
      }
    });
    return status;
  }

  Status Read(const BlockStream& stream, const std::vector<Interval>& blocks, const CheckedPiece& fn) {
    for (const Interval& one : blocks) {
      LZY_RETURN_IF_ERROR(CheckInPieces(stream, one, SettingsFor(context_, /*from_disk=*/true), fn));
    }
    return Status::Ok();
  }

  const Context& context_;
  const Written& written_;
  const std::map<std::uint32_t, IntervalSet>& touched_;
  const Capture* const capture_;
  WrittenCheck result_;
  std::uint64_t faults_ = 0;
};

}  // namespace

Result<WrittenCheck> CheckWritten(const Context& context, const Written& written) {
  return Checker(context, written).Run();
}

bool IsUntouchedSince(const Context& context, const Written& written) {
  std::vector<std::string> paths;
  for (const auto& [rank, path] : written.dataset.members) paths.push_back(path);
  if (written.dataset.kind == DatasetKind::kShared) paths.push_back(written.dataset.path);
  // Callers go into a collective call next. A sidecar that cannot be read through is being committed.
  bool untouched = false;
  (void)NoThrow([&] {
    untouched = std::ranges::all_of(paths, [&](const std::string& path) {
      const auto clean = FindCleanEpoch(context.fs, context.options, path);
      return clean && !clean->changed_behind && clean->generation == written.generation;
    });
  });
  return untouched;
}

}  // namespace lzy
