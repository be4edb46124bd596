#include "encode/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>

#include "base/acl.h"
#include "encode/capture.h"
#include "sidecar/commit_clock.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// Ordered so that a set of these is sorted as AllRows is.
using RowKey = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;  // unit row, group, slice

// Adds the rows of a touched range of a file. The range may lie behind a new, smaller end. All blocks of a unit are in one
// unit row.
void AddRows(const Layout& layout, std::uint32_t file, const Interval& range, const Interval& stretch,
             std::set<RowKey>& rows) {
  const std::uint64_t block = layout.block_size(), unit_blocks = layout.unit() / block;
  const std::uint64_t end = (range.end + block - 1) / block;
  for (std::uint64_t i = range.begin / block; i < end; ++i) {
    const RowId row = layout.LocateData(file, i).row;
    if (row.unit_row < stretch.begin || row.unit_row >= stretch.end) {
      i += unit_blocks - 1 - i % unit_blocks;
      continue;
    }
    // If the file became shorter, rows beyond its end no longer exist. But a row that lost this block and still has others
    // must be encoded, because its parity contains the lost block.
    if (row.unit_row < layout.unit_rows(row.group) && layout.RowLength(row) > 0)
      rows.insert({row.unit_row, row.group, row.slice});
  }
}

// Unit row by unit row, over all groups. So a rank that gets a part of the list reads a contiguous part of the file. The
// slices of a unit row are one run. Units are cut short at the end of a file, so the longest unit decides the number of
// slices.
Result<std::vector<RowRun>> AllRows(const Layout& layout, PlanCache& plans, const Interval& stretch) {
  std::vector<RowRun> runs;
  const std::uint64_t end = std::min(layout.most_unit_rows(), stretch.end);
  for (std::uint64_t t = stretch.begin; t < end; ++t) {
    for (std::uint32_t g = 0; g < layout.group_count(); ++g) {
      const std::uint64_t length = t < layout.unit_rows(g) ? layout.UnitRowLength(g, t) : 0;
      if (length == 0) continue;
      LZY_ASSIGN_OR_RETURN(auto plan, plans.Encode(g));
      const std::uint64_t slices = (length + layout.block_size() - 1) / layout.block_size();
      runs.push_back({g, t, 0, static_cast<std::uint32_t>(slices), std::move(plan)});
    }
  }
  return runs;
}

}  // namespace

void FileJob::InitLeaves(const Layout& layout, std::uint32_t f) {
  data_leaves.Init(layout.data_blocks(f), scratch);
  parity_leaves.Init(f < layout.regions() ? layout.parity_blocks(f) : 0, scratch);
}

// Old data leaves fill gaps only in a commit in place, which sets old_parity. If everything is encoded anew, old_data only
// serves to find rot, and every leaf must have been computed.
Status FileJob::MakeTrees(const Layout& layout, std::uint32_t f) {
  const auto never = [](std::uint64_t) { return false; };
  const Tree* old = old_parity != nullptr ? old_data : nullptr;
  LZY_RETURN_IF_ERROR(MakeTree(TreeKind::kData, data_leaves, old, layout.file_size(f), never, scratch, data_tree));
  const BlockStream stream = ParityStream(layout, f, nullptr, 0, nullptr, nullptr);
  const auto is_hole = [&](std::uint64_t i) { return stream.place(i).length == 0; };
  return MakeTree(TreeKind::kParity, parity_leaves, old_parity, layout.parity_size(f), is_hole, scratch, parity_tree);
}

// If the file system gives a new mtime to every change after a stat (File::StampsEveryChange), the Stat here is that stat.
// Then a later change cannot be hidden, so a clock later than the mtime is recorded, without a wait. Otherwise this waits
// for the next tick of the file system's clock, if ticks are short. If the mtime is more than `limit` ahead, this clock did
// not set it, so waiting would not help.
Status FileJob::Settle(File* beside, bool past_cache) {
  const bool never_racy = data->StampsEveryChange();
  LZY_ASSIGN_OR_RETURN(before, StatToRecord(*data));
  if (never_racy) {
    clock_ns = std::max(CoarseNowNs(), before.mtime_ns + 1);
    return Status::Ok();
  }
  // Without a clock, later changes may be hidden. That is no failure: the sidecar may be broken.
  const auto ask = [&] {
    const auto clock = beside == nullptr ? Result<std::int64_t>(Code::kNotFound, "") : FileSystemClock(*beside, past_cache);
    clock_ns = clock.ok() ? *clock : before.mtime_ns;
    return clock.ok();
  };
  constexpr std::int64_t kMillisecond = 1'000'000;
  // Nanoseconds: 0.1 s, or some ticks if the clock is coarser.
  const std::int64_t limit = std::max(100 * kMillisecond, 4 * CoarseGranularityNs());
  for (std::int64_t waited = 0; ask() && waited < limit; waited += kMillisecond) {
    const bool in_one_tick = before.mtime_ns >= clock_ns && before.mtime_ns - clock_ns <= limit;
    if (!in_one_tick || clock_ns % kNsPerSecond == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  LZY_ASSIGN_OR_RETURN(before, StatToRecord(*data));
  return Status::Ok();
}

Status FileJob::CheckUnchanged() const {
  LZY_ASSIGN_OR_RETURN(const FileStat after, data->Stat());
  if (after.size == before.size && after.mtime_ns == before.mtime_ns) return Status::Ok();
  return ChangedMeanwhile(data->path());
}

Status ChangedMeanwhile(const std::string& path) {
  return {Code::kBusy,
          fmt::format(
              "{}: something changed the file while its parity was being computed; its protection is as it was before", path)};
}

// The set sorts the rows and drops duplicates from several files. Consecutive rows become one run.
Result<std::vector<RowRun>> RowsToEncode(const Layout& layout, PlanCache& plans,
                                         const std::vector<const IntervalSet*>& touched, bool all, Interval stretch) {
  if (all) return AllRows(layout, plans, stretch);
  std::set<RowKey> rows;
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (touched[f] == nullptr) continue;
    for (const Interval& range : touched[f]->intervals()) AddRows(layout, f, range, stretch, rows);
  }
  std::vector<RowRun> runs;
  for (const auto& [t, g, slice] : rows) {
    LZY_ASSIGN_OR_RETURN(auto plan, plans.Encode(g));
    AppendRun(runs, {g, t, slice, 1, std::move(plan)});
  }
  return runs;
}

// The copies that std::function makes, and the threads that call them, share the progress counter.
RowPipelineSetup SetupOf(const Context& context, const char* phase, const Layout& layout, Communicator& comm,
                         std::vector<int> owner, std::span<const RowRun> runs) {
  RowPipelineSetup setup;
  setup.layout = &layout;
  setup.comm = &comm;
  setup.owner = std::move(owner);
  setup.memory = context.options.memory;
  setup.threads = ThreadsFor(context);
  setup.stop = context.stop;
  if (!context.progress) return setup;
  std::uint64_t total = 0;
  for (const RowRun& run : runs) total += std::uint64_t{layout.block_size()} * run.slices * run.plan->sources.size();
  total /= static_cast<std::uint64_t>(comm.size());
  setup.progress = [&context, phase, total, done = std::make_shared<std::atomic<std::uint64_t>>(0)](std::uint64_t bytes) {
    const std::uint64_t now = *done += bytes;
    context.progress(phase, std::min(now, total), total);
  };
  return setup;
}

// These streams have no leaves: TakeSource compares, because it knows which blocks were touched.
Status EncodePass::Run(const Layout& layout, Communicator& comm, std::vector<int> owner,
                       const std::vector<FileJob*>& jobs, std::span<const RowRun> runs) {
  std::vector<BlockStream> data(layout.files());
  RowPipelineSetup setup = SetupOf(context_, "protect", layout, comm, std::move(owner), runs);
  if (context_.progress && expected_ > 0) {
    setup.progress = [this](std::uint64_t) {
      context_.progress("protect", std::min<std::uint64_t>(encoded_, expected_), expected_);
    };
  }
  setup.data.assign(layout.files(), nullptr);
  setup.parity.assign(layout.regions(), nullptr);
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (jobs[f] == nullptr) continue;
    data[f] = DataStream(layout, f, jobs[f]->data, nullptr, nullptr);
    data[f].synced = jobs[f]->synced;
    setup.data[f] = &data[f];
  }
  const bool copies = std::ranges::any_of(jobs, [](const FileJob* job) { return job != nullptr && job->copies != nullptr; });
  if (copies) {
    setup.known = [&](std::uint32_t file, std::uint64_t block) {
      const Capture* of = jobs[file]->copies;
      return of == nullptr ? ByteSpan() : of->Held(block);
    };
  }
  return ExecuteRows(
      setup, runs,
      [&](const RowBlock& block, MutableByteSpan bytes) {
        FileJob& job = *jobs[layout.file_of(block.device)];
        if (!block.known) return TakeSource(job, block.place, bytes);
        job.data_leaves.Set(block.place.index, job.copies->leaf(block.place.index));
        return Status::Ok();
      },
      [&](std::span<const RowBlock> blocks, ByteSpan bytes) {
        return PutParity(*jobs[layout.region_of(blocks[0].device)], blocks, bytes);
      },
      stats_);
}

// Each thread takes a part of the blocks and one buffer. The capture needs whole blocks, so the last block of a file is
// padded with zeros. Times are divided by the number of threads, so their sum is a duration.
Status EncodePass::ReadInto(Capture& capture, FileJob& job, std::uint32_t block_size, std::span<const BlockPlace> blocks) {
  const unsigned threads = ThreadsFor(context_);
  std::mutex mutex;
  Status status;
  RowStats stats;
  std::atomic<bool> failed{false};
  ParallelParts(blocks.size(), threads, [&](std::size_t first, std::size_t last) {
    AlignedBuffer buffer(block_size);
    RowStats mine;
    Status done;
    Stopwatch watch;
    for (std::size_t i = first; i < last && done.ok() && !failed; ++i) {
      const MutableByteSpan bytes(buffer.data(), blocks[i].length);
      const auto read = ReadWhole(*job.data, blocks[i].offset, bytes, job.synced);
      watch.AddTo(mine.read);
      done = read.status();
      if (!done.ok()) break;
      mine.bytes_read += *read;
      done = TakeSource(job, blocks[i], bytes);
      watch.AddTo(mine.hash);
      std::fill(buffer.data() + bytes.size(), buffer.data() + block_size, std::uint8_t{0});
      if (done.ok()) capture.AddRead(blocks[i].index, buffer.data());
      watch.AddTo(mine.encode);
    }
    if (!done.ok()) failed = true;
    mine /= threads;
    const std::lock_guard lock(mutex);
    stats += mine;
    if (status.ok()) status = done;
  });
  Add(stats);
  return status;
}

namespace {

bool HasWritten(const FileJob& job, const BlockPlace& place, ByteSpan bytes) {
  auto part = std::ranges::lower_bound(*job.written, place.offset, {}, [](const WrittenPart& one) { return one.bytes.begin; });
  for (; part != job.written->end() && part->bytes.begin < place.offset + place.length; ++part) {
    const ByteSpan its = bytes.subspan(part->bytes.begin - place.offset, part->bytes.end - part->bytes.begin);
    if (WrittenPart::HashOf(job.key, part->bytes, its) != part->hash) return false;
  }
  return true;
}

}  // namespace

void EncodePass::CompareWithWritten(FileJob& job, const BlockPlace& place, MutableByteSpan bytes) {
  if (HasWritten(job, place, bytes)) return;
  std::vector<std::uint8_t> device(bytes.size());
  const auto again = job.data->ReadAtUncached(place.offset, device);
  const bool right = again.ok() && *again == device.size() && HasWritten(job, place, device);
  if (right) return void(std::ranges::copy(device, bytes.begin()));
  const std::lock_guard lock(mutex_);
  job.differing.insert(place.index);
}

// An untouched block must have its committed leaf. If it does not, the first of these steps that helps is taken
// (docs/design/commit.md §5):
//
// 1. Read it again past the page cache. It may be right there if only the page cache is wrong.
//
// 2. Use its rebuilt contents.
//
// 3. Use it as it is, because its row needs some contents. The caller then forsakes the parity of the row (ForsakeParity).
//
// In all cases the block keeps its old leaf. With a fresh leaf, the new commit would call the rot intact.
Status EncodePass::TakeSource(FileJob& job, const BlockPlace& place, MutableByteSpan bytes) {
  const std::uint64_t i = place.index;
  encoded_ += bytes.size();
  if (job.written != nullptr) CompareWithWritten(job, place, bytes);
  const Hash leaf = LeafHash(job.key, HashTag::kDataLeaf, i, bytes);
  // True if there is a leaf to compare the block with.
  const bool held = job.old_data != nullptr && i < job.old_data->leaf_count() && job.touched != nullptr &&
                    !job.unknown.contains(i) && !job.touched->Overlaps({place.offset, place.offset + bytes.size()});
  const Hash committed = held ? job.old_data->leaf(i) : leaf;
  job.data_leaves.Set(i, committed);
  if (leaf == committed) return Status::Ok();

  // The second read goes into `bytes`, and may fail halfway, so keep the first one.
  std::vector<std::uint8_t> cached(bytes.begin(), bytes.end());
  const auto again = job.data->ReadAtUncached(place.offset, bytes);
  const bool read = again.ok() && *again == bytes.size();
  if (read && LeafHash(job.key, HashTag::kDataLeaf, i, bytes) == committed) return Status::Ok();
  const std::lock_guard lock(mutex_);
  job.rotten.insert(i);
  const auto rebuilt = job.rebuilt.find(i);
  const std::vector<std::uint8_t>& take = rebuilt != job.rebuilt.end() ? rebuilt->second : cached;
  std::copy(take.begin(), take.end(), bytes.begin());
  return Status::Ok();
}

// Leaves are made before anything is written, so errors of the storage cannot affect a leaf.
Status PutParity(FileJob& job, std::span<const RowBlock> blocks, ByteSpan bytes) {
  std::size_t at = 0;
  for (const RowBlock& block : blocks) {
    const ByteSpan one = bytes.subspan(at, block.place.length);
    at += block.place.length;
    job.parity_leaves.Set(block.place.index, LeafHash(job.key, HashTag::kParityLeaf, block.place.index, one));
  }
  // The parity of a hole in the data stays a hole, if the whole run is zeros. memcmp of the bytes with themselves, shifted
  // by one, tells whether all of them equal the first.
  const bool zeros = bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
  if (job.parity_is_fresh && zeros) return Status::Ok();
  return job.parity_out->WriteAt(job.parity_base + blocks[0].place.offset, bytes);
}

}  // namespace lzy
