#include "commit/check_written.h"

#include <algorithm>
#include <limits>

#include <span>

#include "comm/records.h"
#include "commit/epoch.h"
#include "encode/coverage.h"
#include "judge/examine.h"

namespace lzy {
namespace {

// The most intervals that all ranks exchange at once: some megabytes on every rank.
constexpr std::size_t kMostIntervals = 65536;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// The part of `all` that this rank checks. Parts have equal numbers of blocks, so an interval may be cut.
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

// One call of CheckWritten. Run() asks at the end whether anybody wrote meanwhile; if so, the findings do not count.
class Checker {
 public:
  Checker(const Context& context, const Written& written)
      : context_(context), written_(written), touched_(written.touched), capture_(written.capture) {}

  Result<WrittenCheck> Run() {
    LZY_ASSIGN_OR_RETURN(DatasetView view, OpenDataset(context_, written_.dataset, {}));
    if (!view.committed) return std::move(result_);
    const bool shared = written_.dataset.kind == DatasetKind::kShared;
    LZY_ASSIGN_OR_RETURN(const Coverage coverage, WhatCounts(shared));
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&]() -> Status {
      for (const Ensemble& ensemble : view.ensembles) {
        for (std::uint32_t f = 0; f < ensemble.files.size(); ++f) {
          const FileView& file = ensemble.files[f];
          if (!shared && file.owner != context_.comm.rank()) continue;
          LZY_RETURN_IF_ERROR(CheckFile(ensemble, f, shared, coverage));
          if (counts_ && file.data) LZY_RETURN_IF_ERROR(HoldToParts(*file.data, ensemble.layout->file_size(f), coverage));
          touched_bytes_ += TouchedBytes(*ensemble.layout, f, file.rank, shared);
        }
      }
      return Status::Ok();
    }));
    if (shared) LZY_RETURN_IF_ERROR(LeaveOutOverlaps());
    if (WeighsLeaves(shared)) LZY_RETURN_IF_ERROR(WeighLeaves());
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] { return TakeFaults(view); }));
    if (!counts_) result_.uncompared[why_not_] = touched_bytes_;
    LZY_RETURN_IF_ERROR(AddUp(result_.uncompared));
    LZY_ASSIGN_OR_RETURN(result_.faults, context_.comm.AllReduceSum(faults_));
    LZY_ASSIGN_OR_RETURN(result_.untrue_leaves, context_.comm.AllReduceSum(result_.untrue.size()));
    if (result_.faults == 0 && result_.untrue_leaves == 0) return std::move(result_);
    const bool untouched = view.superblock.generation == written_.generation && IsUntouchedSince(context_, written_);
    LZY_ASSIGN_OR_RETURN(const std::uint64_t touched, context_.comm.AllReduceMax(!untouched));
    if (touched == 0) return std::move(result_);
    WrittenCheck nothing;
    nothing.uncompared[Uncompared::kOthers] = touched_bytes_;
    LZY_RETURN_IF_ERROR(AddUp(nothing.uncompared));
    return nothing;
  }

 private:
  // The blocks that each rank compares with its capture. Sets counts_. Collective.
  Result<Coverage> WhatCounts(bool shared) {
    Coverage coverage;
    enum : std::uint64_t { kAllKnown, kSomeUnseen, kVoid };
    std::uint64_t worst = !capture_ || !capture_->written() ? kVoid : capture_->written()->knows_nothing() ? kSomeUnseen : kAllKnown;
    if (shared) {
      LZY_ASSIGN_OR_RETURN(worst, context_.comm.AllReduceMax(worst));
    }
    counts_ = worst == kAllKnown;
    why_not_ = worst == kVoid ? Uncompared::kOthers : Uncompared::kUnseen;
    if (shared && counts_) return ShareCoverage(context_.comm, *capture_);
    LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] {
      if (!counts_) return;  // in a set, only this rank writes its member
      for (const Interval& blocks : capture_->Captured(kAll)) coverage.pieces.push_back({blocks, context_.comm.rank()});
    }));
    return coverage;
  }

  // Number of touched bytes. Each byte is counted on one rank.
  std::uint64_t TouchedBytes(const Layout& layout, std::uint32_t f, std::uint32_t rank, bool shared) const {
    const auto found = touched_.find(rank);
    if (found == touched_.end() || (shared && context_.comm.rank() != 0)) return 0;
    if (found->second.whole()) return layout.file_size(f);
    const std::uint64_t size = layout.file_size(f);
    std::uint64_t bytes = 0;
    for (const Interval& one : found->second.intervals()) bytes += std::min(one.end, size) - std::min(one.begin, size);
    return bytes;
  }

  // Touched data blocks of file f.
  std::vector<Interval> TouchedBlocks(const Layout& layout, std::uint32_t f, std::uint32_t rank) const {
    const auto found = touched_.find(rank);
    if (found == touched_.end()) return {};
    return lzy::TouchedBlocks(found->second, layout.block_size(), layout.data_blocks(f));
  }

  // Parity blocks of region f in rows with touched blocks of any file.
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

  // Compares captured blocks with the capture, other touched blocks with their leaves, and the parity of touched rows with
  // its leaves. One rank reads each block: the rank that captured it, because only this rank has the bytes; other blocks
  // are dealt to all ranks.
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
    std::vector<Interval>* const weighed = WeighsLeaves(shared) ? &suspects_ : nullptr;
    LZY_RETURN_IF_ERROR(HoldToLeaves(StreamOf(ensemble, false, f), shared ? ShareOf(rest, context_.comm) : rest, weighed));
    if (!mine.empty()) {
      LZY_RETURN_IF_ERROR(HoldToCapture(
          DataStream(capture_->block_size(), layout.file_size(f), file.data.get(), nullptr, ensemble.key.get()), mine));
    }
    const std::vector<Interval> parity = TouchedParity(ensemble, f);
    return HoldToLeaves(StreamOf(ensemble, true, f), shared ? ShareOf(parity, context_.comm) : parity, nullptr);
  }

  // Converts blocks of the capture to the blocks of file f that lie in them. The block sizes may differ.
  Interval BlocksIn(const Interval& captured, const Layout& layout, std::uint32_t f) const {
    const std::uint64_t theirs = capture_->block_size(), ours = layout.block_size();
    const bool to_the_end = captured.end * theirs >= layout.file_size(f);
    const std::uint64_t begin = (captured.begin * theirs + ours - 1) / ours;
    return {begin, std::max(begin, to_the_end ? layout.data_blocks(f) : captured.end * theirs / ours)};
  }

  // Compares blocks with their leaves. Counts a difference as a fault, or adds its byte range to `suspects` if given.
  Status HoldToLeaves(const BlockStream& stream, const std::vector<Interval>& blocks, std::vector<Interval>* suspects) {
    return Read(stream, blocks, [&](std::uint64_t, const CheckResult& checked) {
      for (const BadBlocks& bad : checked.bad) {
        for (std::uint64_t i = bad.first; !bad.transient && i < bad.first + bad.count; ++i) {
          const BlockPlace place = stream.place(i);
          if (suspects != nullptr) suspects->push_back({place.offset, place.offset + place.length});
          if (suspects == nullptr) faults_ += !IsWithoutParity(stream, i);
        }
      }
    });
  }

  // True if the commit recorded that the row has no parity.
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

  // Compares two kinds of bytes: parts of blocks, and captured blocks that another rank wrote, too. Only notes the
  // differences in differ_, because another rank may have written these bytes.
  Status HoldToParts(File& file, std::uint64_t size, const Coverage& coverage) {
    const WrittenBytes& written = *capture_->written();
    result_.uncompared.Add(written.Unknown());
    LZY_RETURN_IF_ERROR(written.ForEachBlock(
        [&](std::uint64_t, const std::vector<WrittenBytes::Fragment>& parts) { return Compare(file, parts); }));
    std::vector<Interval> mine;
    for (const Coverage::Piece& piece : coverage.pieces) {
      if (piece.rank == context_.comm.rank()) mine.push_back(piece.blocks);
    }
    const std::uint64_t length = capture_->block_size();
    for (const Interval& shared : Without(capture_->Captured(kAll), mine)) {
      for (std::uint64_t block = shared.begin; block < shared.end; ++block) {
        const Interval bytes{block * length, std::min((block + 1) * length, size)};
        LZY_RETURN_IF_ERROR(Compare(file, {{{bytes, capture_->Held(block), capture_->leaf(block).bytes.data()}}}));
      }
    }
    std::ranges::sort(differ_, {}, &Interval::begin);
    return Status::Ok();
  }

  // `parts` are the parts of one block.
  Status Compare(File& file, const std::vector<WrittenBytes::Fragment>& parts) {
    const Interval span{parts.front().bytes.begin, parts.back().bytes.end};
    LZY_ASSIGN_OR_RETURN(const bool readable, ReadUncached(file, span));
    for (const WrittenBytes::Fragment& part : parts) {
      if (!readable || !IsThere(part, span.begin)) differ_.push_back(part.bytes);
    }
    return Status::Ok();
  }

  // Reads `bytes` into there_. False if some of them cannot be read, or lie behind the end of the file.
  Result<bool> ReadUncached(File& file, Interval bytes) {
    there_.resize(bytes.end - bytes.begin);
    const auto got = file.ReadAtUncached(bytes.begin, there_);
    if (!got.ok() && got.status().code() != Code::kUnreadable) return got.status();
    return got.ok() && *got == there_.size();
  }

  // True if there_, which begins at byte `begin` of the file, contains the bytes of the part.
  bool IsThere(const WrittenBytes::Fragment& part, std::uint64_t begin) const {
    const ByteSpan bytes = ByteSpan(there_).subspan(part.bytes.begin - begin, part.bytes.end - part.bytes.begin);
    if (!part.copy.empty()) return std::ranges::equal(part.copy, bytes);
    const Hash hash = capture_->written()->HashOf(part.bytes.begin / capture_->block_size(), bytes);
    return std::ranges::equal(hash.bytes, std::span(part.hash, sizeof hash));
  }

  // True if bytes that ranks wrote count more than a leaf that the commit read back. That is so in a shared file, if every
  // rank knows the bytes that it wrote.
  bool WeighsLeaves(bool shared) const { return shared && counts_; }

  // Sorts blocks that differ from their leaves. If the ranks that wrote a block know each byte of it, and the storage has
  // all of these bytes, the block is right and its leaf is not (result_.untrue). Otherwise it is a fault. Such blocks are
  // rare, so ranks exchange only these. Collective.
  Status WeighLeaves() {
    const auto each = std::max<std::size_t>(16, kMostIntervals / static_cast<std::size_t>(context_.comm.size()));
    for (std::size_t asked = 0;; asked += each) {
      LZY_ASSIGN_OR_RETURN(const std::uint64_t more, context_.comm.AllReduceMax(asked < suspects_.size()));
      if (more == 0) return Status::Ok();
      std::vector<Interval> mine;
      LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] {
        for (std::size_t i = asked; i < std::min(suspects_.size(), asked + each); ++i) mine.push_back(suspects_[i]);
      }));
      IntervalSet there;
      LZY_RETURN_IF_ERROR(AskWhatIsThere(mine, there));
      for (const Interval& block : mine) {
        if (Without({block}, there.intervals()).empty()) {
          result_.untrue.push_back(block);
        } else {
          ++faults_;
        }
      }
    }
  }

  // Adds the bytes of the blocks `mine` that some rank wrote and found in storage. Collective.
  Status AskWhatIsThere(const std::vector<Interval>& mine, IntervalSet& there) {
    const auto asked = AllGatherRecords(context_.comm, mine);
    std::vector<Interval> here;
    LZY_RETURN_IF_ERROR(Agree(context_.comm, !asked.ok() ? asked.status() : NoThrow([&] {
      IntervalSet blocks, found;
      for (const auto& theirs : *asked) blocks.Add(theirs);
      LZY_RETURN_IF_ERROR(capture_->written()->ForEachBlock([&](std::uint64_t, const std::vector<WrittenBytes::Fragment>& parts) {
        for (const WrittenBytes::Fragment& part : parts) {
          if (blocks.Overlaps(part.bytes)) found.Add(part.bytes);
        }
        return Status::Ok();
      }));
      here = Without(found.intervals(), differ_);
      return Status::Ok();
    })));
    const auto told = AllGatherRecords(context_.comm, here);
    return Agree(context_.comm, !told.ok() ? told.status() : NoThrow([&] {
      for (const auto& theirs : *told) there.Add(theirs);
    }));
  }

  // Finds out which of the differing bytes another rank may have written, too (others_). Programs rarely do that, so ranks
  // exchange only these bytes. Collective.
  Status LeaveOutOverlaps() {
    const auto each = std::max<std::size_t>(16, kMostIntervals / static_cast<std::size_t>(context_.comm.size()));
    for (std::size_t asked = 0;; asked += each) {
      LZY_ASSIGN_OR_RETURN(const std::uint64_t more, context_.comm.AllReduceMax(asked < differ_.size()));
      if (more == 0) return Status::Ok();
      std::vector<Interval> mine;
      LZY_RETURN_IF_ERROR(AgreeOn(context_.comm, [&] {
        const std::size_t last = std::min(differ_.size(), asked + each);
        for (std::size_t i = asked; i < last; ++i) mine.push_back(differ_[i]);
      }));
      LZY_RETURN_IF_ERROR(AskOthers(mine));
    }
  }

  // One round of LeaveOutOverlaps. Collective.
  Status AskOthers(const std::vector<Interval>& mine) {
    const auto asked = AllGatherRecords(context_.comm, mine);
    std::vector<Interval> here;  // bytes that this rank wrote, among those that the others ask about
    LZY_RETURN_IF_ERROR(Agree(context_.comm, !asked.ok() ? asked.status() : NoThrow([&] {
      IntervalSet found;
      for (int rank = 0; rank < context_.comm.size(); ++rank) {
        if (rank == context_.comm.rank()) continue;
        for (const Interval& one : (*asked)[static_cast<std::size_t>(rank)]) capture_->AddWritten(one, found);
      }
      if (found.whole()) here = {{0, kEverythingBehind}};
      if (!found.whole()) here = found.intervals();
    })));
    const auto told = AllGatherRecords(context_.comm, here);
    return Agree(context_.comm, !told.ok() ? told.status() : NoThrow([&] {
      for (int rank = 0; rank < context_.comm.size(); ++rank) {
        if (rank == context_.comm.rank()) continue;
        for (const Interval& one : (*told)[static_cast<std::size_t>(rank)]) others_.Add(one);
      }
    }));
  }

  // Counts a difference as a fault if only this rank wrote the bytes. If other ranks wrote some bytes of a part, compares
  // the rest again, if there is a copy. Local.
  Status TakeFaults(const DatasetView& view) {
    std::uint64_t last = kEverythingBehind;
    for (const Interval& part : differ_) {
      const std::vector<Interval> mine = others_.whole() ? std::vector<Interval>() : Without({part}, others_.intervals());
      const bool alone = mine.size() == 1 && mine.front() == part;
      const ByteSpan copy = capture_->CopyOf(part);
      bool wrong = alone;
      std::uint64_t compared = alone ? part.end - part.begin : 0;
      if (alone) result_.wrong_parts.push_back(part);
      for (const Interval& one : mine) {
        if (alone || copy.empty()) break;
        LZY_ASSIGN_OR_RETURN(const bool readable, ReadUncached(*view.ensembles.at(0).files.at(0).data, one));
        compared += one.end - one.begin;
        if (readable && std::ranges::equal(copy.subspan(one.begin - part.begin, there_.size()), there_)) continue;
        result_.wrong_parts.push_back(one);
        wrong = true;
      }
      result_.uncompared[Uncompared::kOverlap] += part.end - part.begin - compared;
      const std::uint64_t block = part.begin / capture_->block_size();
      faults_ += wrong && block != last;
      if (wrong) last = block;
    }
    return Status::Ok();
  }

  // Adds up `bytes` over all ranks. Collective.
  Status AddUp(UncomparedBytes& bytes) {
    for (std::uint64_t& one : bytes.by_reason) {
      LZY_ASSIGN_OR_RETURN(one, context_.comm.AllReduceSum(one));
    }
    return Status::Ok();
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
  bool counts_ = false;  // capture_ may be compared with the storage
  Uncompared why_not_ = Uncompared::kOthers;
  std::uint64_t touched_bytes_ = 0;
  WrittenCheck result_;
  std::uint64_t faults_ = 0;
  std::vector<Interval> suspects_;  // byte ranges of blocks that differ from their leaves
  std::vector<Interval> differ_;  // parts that differ in storage, ascending
  IntervalSet others_;            // bytes of differ_ that other ranks wrote, or may have written
  std::vector<std::uint8_t> there_;
};

}  // namespace

Result<WrittenCheck> CheckWritten(const Context& context, const Written& written) {
  return Checker(context, written).Run();
}

bool IsUntouchedSince(const Context& context, const Written& written) {
  // Nodes may see the commit of rank 0 late.
  if (written.dataset.kind == DatasetKind::kShared && context.comm.rank() != 0) return true;
  std::vector<std::string> paths;
  for (const auto& [rank, path] : written.dataset.members) paths.push_back(path);
  if (written.dataset.kind == DatasetKind::kShared) paths.push_back(written.dataset.path);
  // The callers make a collective call next, so no exception may leave. A sidecar that cannot be read completely is being
  // committed.
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
