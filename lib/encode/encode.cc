#include "encode/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>

#include "encode/capture.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// Completes `leaves`, and makes the tree. A leaf is one of three kinds: computed, zero for a hole, or the old one. A
// block that is none of them was forgotten by the caller. Then a tree would promise something about bytes that nobody
// hashed.
template <class IsHole>
Status MakeTree(TreeKind kind, Leaves& made, const Tree* old, std::uint64_t bytes, const IsHole& is_hole, Tree& tree) {
  std::vector<Hash>& leaves = made.hashes;
  std::vector<std::uint64_t> changed;
  for (std::uint64_t i = 0; i < leaves.size(); ++i) {
    if (made.known[i] != 0) {
      changed.push_back(i);
    } else if (is_hole(i)) {
      leaves[i] = Hash{};
      changed.push_back(i);
    } else if (old != nullptr && i < old->leaf_count()) {
      leaves[i] = old->leaf(i);
    } else {
      return {Code::kInternal, fmt::format("block {} of {} was not encoded", i, leaves.size())};
    }
  }
  if (old != nullptr) {
    tree = *old;
    tree.Update(std::move(leaves), changed, bytes);
  } else {
    tree = Tree::Build(kind, std::move(leaves), bytes);
  }
  return Status::Ok();
}

// In this order, so a set of them is sorted as AllRows is.
using RowKey = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;  // unit row, group, slice

// Adds the rows that a touched range of a file belongs to, now or before the file was cut.
void AddRows(const Layout& layout, std::uint32_t file, const Interval& range, std::set<RowKey>& rows) {
  const std::uint64_t block = layout.block_size();
  const std::uint64_t end = (range.end + block - 1) / block;
  for (std::uint64_t i = range.begin / block; i < end; ++i) {
    const RowId row = layout.LocateData(file, i).row;
    // If the file got shorter, rows beyond its end no longer exist. But a row that lost this block and still has
    // others must be encoded, since its parity has the lost block in it.
    if (row.unit_row < layout.unit_rows(row.group) && layout.RowLength(row) > 0)
      rows.insert({row.unit_row, row.group, row.slice});
  }
}

// Unit row by unit row, over all groups. So a rank that gets a stretch of the list reads a stretch of the file. The
// slices of a unit row are one run. Units are cut short at the end of a file, so the number of slices follows from the
// longest one.
Result<std::vector<RowRun>> AllRows(const Layout& layout, PlanCache& plans) {
  std::vector<RowRun> runs;
  std::uint64_t rows = 0;
  for (std::uint32_t g = 0; g < layout.group_count(); ++g) rows = std::max(rows, layout.unit_rows(g));
  for (std::uint64_t t = 0; t < rows; ++t) {
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

// Writes the known leaves as runs: whether they are of parity (u8), number of the first (u64), how many (u64), hashes.
// A rank's leaves are mostly a few long stretches.
void PutKnown(ByteWriter& out, bool parity, const Leaves& computed) {
  const auto& [leaves, known] = computed;
  for (std::uint64_t i = 0; i < leaves.size();) {
    std::uint64_t end = i;
    while (end < leaves.size() && known[end] != 0) ++end;
    if (end > i) {
      out.Put<std::uint8_t>(parity);
      out.Put(i);
      out.Put(end - i);
      for (; i < end; ++i) out.PutBytes(leaves[i].bytes);
    } else {
      ++i;
    }
  }
}

// The reverse. Numbers beyond the end are ignored, so a malformed message cannot write out of bounds.
Status TakeKnown(ByteReader& in, Leaves& data, Leaves& parity) {
  while (in.remaining() > 0 && in.ok()) {
    Leaves& leaves = in.Get<std::uint8_t>() != 0 ? parity : data;
    auto first = in.Get<std::uint64_t>();
    for (auto count = in.Get<std::uint64_t>(); count > 0 && first < leaves.hashes.size(); --count, ++first) {
      Hash leaf;
      GetRecord(in, leaf.bytes);
      if (!in.ok()) break;
      leaves.Set(first, leaf);
    }
  }
  return in.ok() ? Status::Ok() : Status(Code::kInternal, "leaves of a rank are malformed");
}

}  // namespace

void FileJob::InitLeaves(const Layout& layout, std::uint32_t f) {
  data_leaves.Init(layout.data_blocks(f));
  if (f < layout.regions()) parity_leaves.Init(layout.parity_blocks(f));
}

// Old data leaves fill gaps only in a commit in place, which old_parity stands for. If everything is encoded anew,
// old_data serves to find rot, and every leaf must have been computed.
Status FileJob::MakeTrees(const Layout& layout, std::uint32_t f) {
  const auto never = [](std::uint64_t) { return false; };
  const Tree* old = old_parity != nullptr ? old_data : nullptr;
  LZY_RETURN_IF_ERROR(MakeTree(TreeKind::kData, data_leaves, old, layout.file_size(f), never, data_tree));
  const BlockStream stream = ParityStream(layout, f, nullptr, 0, nullptr, nullptr);
  const auto is_hole = [&](std::uint64_t i) { return stream.place(i).length == 0; };
  return MakeTree(TreeKind::kParity, parity_leaves, old_parity, layout.parity_size(f), is_hole, parity_tree);
}

// If the file system stamps every change after a look at the stamp (File::StampsEveryChange), the Stat here is that
// look. No later change can hide, so the clock is recorded as later than the mtime, and there is nothing to wait for.
// Otherwise this waits for the next tick of the clock. An mtime that is further ahead than `limit` was not set by this
// clock, so waiting would not help.
Status FileJob::Settle() {
  const bool never_racy = data->StampsEveryChange();
  LZY_ASSIGN_OR_RETURN(before, data->Stat());
  if (never_racy) {
    clock_ns = std::max(CoarseNowNs(), before.mtime_ns + 1);
    return Status::Ok();
  }
  // Nanoseconds: 0.1 s, or some ticks of a coarser clock.
  const std::int64_t limit = std::max<std::int64_t>(100'000'000, 4 * CoarseGranularityNs());
  clock_ns = CoarseNowNs();
  while (clock_ns <= before.mtime_ns && before.mtime_ns - clock_ns <= limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    clock_ns = CoarseNowNs();
  }
  LZY_ASSIGN_OR_RETURN(before, data->Stat());
  return Status::Ok();
}

Status FileJob::CheckUnchanged() const {
  LZY_ASSIGN_OR_RETURN(const FileStat after, data->Stat());
  if (after.size == before.size && after.mtime_ns == before.mtime_ns) return Status::Ok();
  return {Code::kBusy,
          fmt::format(
              "{}: something changed the file while its parity was being computed; its protection is as it was before",
              data->path())};
}

// A rank that runs out of memory takes part with nothing, so nobody waits for it. Its failure is returned after the
// call.
Status GatherLeaves(Communicator& comm, int root, Leaves& data, Leaves& parity) {
  ByteWriter out;
  const Status written = NoThrow([&] {
    if (comm.rank() == root) return;
    PutKnown(out, false, data);
    PutKnown(out, true, parity);
  });
  const auto all = comm.Gather(written.ok() ? ByteSpan(out.bytes()) : ByteSpan(), root);
  LZY_RETURN_IF_ERROR(written);
  LZY_RETURN_IF_ERROR(all.status());
  for (const auto& bytes : *all) {
    ByteReader in(bytes);
    LZY_RETURN_IF_ERROR(TakeKnown(in, data, parity));
  }
  return Status::Ok();
}

// The set sorts the rows and drops those that several files touched. Rows that follow each other become one run.
Result<std::vector<RowRun>> RowsToEncode(const Layout& layout, PlanCache& plans,
                                         const std::vector<const IntervalSet*>& touched, bool all) {
  if (all) return AllRows(layout, plans);
  std::set<RowKey> rows;
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (touched[f] == nullptr) continue;
    for (const Interval& range : touched[f]->intervals()) AddRows(layout, f, range, rows);
  }
  std::vector<RowRun> runs;
  for (const auto& [t, g, slice] : rows) {
    LZY_ASSIGN_OR_RETURN(auto plan, plans.Encode(g));
    AppendRun(runs, {g, t, slice, 1, std::move(plan)});
  }
  return runs;
}

// The counter of progress is shared by the copies that std::function makes, and by the threads that call them.
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

// Streams have no leaves here: TakeSource compares, since it knows what was touched.
Status EncodePass::Run(const Layout& layout, Communicator& comm, std::vector<int> owner,
                       const std::vector<FileJob*>& jobs, std::span<const RowRun> runs) {
  std::vector<BlockStream> data(layout.files());
  RowPipelineSetup setup = SetupOf(context_, "protect", layout, comm, std::move(owner), runs);
  setup.data.assign(layout.files(), nullptr);
  setup.parity.assign(layout.regions(), nullptr);
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (jobs[f] == nullptr) continue;
    data[f] = DataStream(layout, f, jobs[f]->data, nullptr, nullptr);
    data[f].synced = jobs[f]->synced;
    setup.data[f] = &data[f];
  }
  return ExecuteRows(
      setup, runs,
      [&](const RowBlock& block, MutableByteSpan bytes) {
        return TakeSource(*jobs[layout.file_of(block.device)], block.place, bytes);
      },
      [&](std::span<const RowBlock> blocks, ByteSpan bytes) {
        return PutParity(*jobs[layout.region_of(blocks[0].device)], blocks, bytes);
      },
      stats_);
}

// Each thread takes a stretch of the blocks and one buffer. The capture wants whole blocks, so the last one of a file
// is padded with zeros. Times are divided by the number of threads, so their sum is a duration.
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

// An untouched block must be what was committed. If it is not, the next of these steps that helps is taken
// (docs/design.md §5):
// 1. Read it again from the device, which may have it right if only the page cache is wrong.
// 2. Use what was rebuilt of it.
// 3. Use it as it is, for its row needs some contents. The caller then forsakes the parity of the row (ForsakeParity).
// In all cases the block keeps its old leaf. With a fresh leaf, the new commit would call the rot intact.
Status EncodePass::TakeSource(FileJob& job, const BlockPlace& place, MutableByteSpan bytes) {
  const std::uint64_t i = place.index;
  encoded_ += bytes.size();
  job.data_leaves.Set(i, LeafHash(job.key, HashTag::kDataLeaf, i, bytes));
  Hash& leaf = job.data_leaves.hashes[i];
  // Whether there is a leaf that the block must have.
  const bool held = job.old_data != nullptr && i < job.old_data->leaf_count() && job.touched != nullptr &&
                    !job.unknown.contains(i) && !job.touched->Overlaps({place.offset, place.offset + bytes.size()});
  if (!held || leaf == job.old_data->leaf(i)) return Status::Ok();

  leaf = job.old_data->leaf(i);
  // The second reading goes into `bytes`, and may fail halfway: keep the first one.
  std::vector<std::uint8_t> cached(bytes.begin(), bytes.end());
  const auto again = job.data->ReadAtFromDevice(place.offset, bytes);
  const bool read = again.ok() && *again == bytes.size();
  if (read && LeafHash(job.key, HashTag::kDataLeaf, i, bytes) == leaf) return Status::Ok();
  const std::lock_guard lock(mutex_);
  job.rotten.insert(i);
  const auto rebuilt = job.rebuilt.find(i);
  const std::vector<std::uint8_t>& take = rebuilt != job.rebuilt.end() ? rebuilt->second : cached;
  std::copy(take.begin(), take.end(), bytes.begin());
  return Status::Ok();
}

// Leaves are made before anything is written. So what the device does to the bytes cannot get into a leaf.
Status PutParity(FileJob& job, std::span<const RowBlock> blocks, ByteSpan bytes) {
  std::size_t at = 0;
  for (const RowBlock& block : blocks) {
    const ByteSpan one = bytes.subspan(at, block.place.length);
    at += block.place.length;
    job.parity_leaves.Set(block.place.index, LeafHash(job.key, HashTag::kParityLeaf, block.place.index, one));
  }
  // The parity of a hole in the data stays a hole, if all of the run is zeros. memcmp of the bytes with themselves,
  // moved by one, says whether all of them equal the first.
  const bool zeros = bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
  if (job.parity_is_fresh && zeros) return Status::Ok();
  return job.parity_out->WriteAt(job.parity_base + blocks[0].place.offset, bytes);
}

}  // namespace lzy
