#include "storage/block_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/late_file.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// Adds a run of blocks to the list, or extends the last run. Runs come in ascending order.
void Append(std::vector<BadBlocks>& list, const BadBlocks& run) {
  BadBlocks* last = list.empty() ? nullptr : &list.back();
  if (last != nullptr && last->first + last->count == run.first && last->fault == run.fault &&
      last->transient == run.transient) {
    last->count += run.count;
  } else {
    list.push_back(run);
  }
}

// Reads from `offset` of the stream.
Result<std::size_t> Read(const BlockStream& stream, std::uint64_t offset, bool uncached, MutableByteSpan to) {
  return uncached ? stream.file->ReadAtUncached(stream.base + offset, to)
                  : stream.file->ReadAt(stream.base + offset, to);
}

// Reads one block past the page cache. Returns its fault, or nothing if it was read. Returns an error only for failures that do
// not concern the block.
Result<std::optional<BlockFault>> ReadBlock(const BlockStream& stream, const BlockPlace& place, MutableByteSpan to) {
  const auto got = Read(stream, place.offset, /*uncached=*/true, to);
  if (!got.ok()) {
    if (got.status().code() == Code::kUnreadable) return std::optional(BlockFault::kUnreadable);
    return got.status();
  }
  if (*got < to.size()) return std::optional(BlockFault::kMissing);
  return std::optional<BlockFault>();
}

// Number of places at which CheckBlocks asks for the length of blocks.
constexpr std::uint64_t kSampledLengths = 256;

// The state of one CheckBlocks call. Threads call Piece for disjoint ranges. They merge results under the mutex, except
// leaves: each thread writes its own.
class Checker {
 public:
  Checker(const BlockStream& stream, const CheckSettings& options, std::uint64_t first, std::uint64_t count)
      : stream_(stream), options_(options), first_(first) {
    result_.leaves.resize(count);
  }

  // Checks blocks [begin, end), which fit one buffer. Consecutive blocks are read at once, because few large reads are
  // faster. If such a read fails or falls short, each block is read alone.
  void Piece(std::uint64_t begin, std::uint64_t end) {
    if (failed_) return;
    if (options_.stop && options_.stop()) return Fail({Code::kInterrupted, "interrupted"});
    thread_local AlignedBuffer buffer;
    std::vector<BadBlocks> bad;
    std::uint64_t read = 0;
    for (std::uint64_t i = begin; i < end;) {
      // Read all consecutive blocks at once.
      const BlockPlace head = stream_.place(i);
      std::uint64_t next = i;
      std::uint64_t length = 0;
      while (next < end) {
        const BlockPlace place = stream_.place(next);
        if (place.length == 0 || place.offset != head.offset + length) break;
        if (next > i && length + place.length > options_.buffer_bytes) break;
        length += place.length;
        ++next;
      }
      if (next == i) {  // a hole: its leaf is zero by definition
        CheckHole(i, bad);
        ++i;
        continue;
      }
      // Read the run [i, next). `available` of its bytes exist; run_readable is false if the medium failed anywhere in it.
      buffer.Reserve(length);
      const MutableByteSpan span(buffer.data(), length);
      std::uint64_t available = 0;
      bool run_readable = true;
      if (stream_.file != nullptr) {
        const auto got = Read(stream_, head.offset, options_.uncached, span);
        if (got.ok()) {
          available = *got;
        } else if (got.status().code() == Code::kUnreadable) {
          run_readable = false;
        } else {
          return Fail(got.status());
        }
      }
      read += available;
      // Hash the blocks of the run and judge each.
      std::uint64_t at = 0;
      for (; i < next; ++i) {
        const BlockPlace place = stream_.place(i);
        const MutableByteSpan block = span.subspan(at, place.length);
        at += place.length;
        if (Status checked = Block(i, place, block, run_readable, at <= available, bad); !checked.ok())
          return Fail(checked);
      }
    }
    // Findings of the piece go to the result in one step.
    std::lock_guard lock(mutex_);
    result_.bytes_read += read;
    result_.bad.insert(result_.bad.end(), bad.begin(), bad.end());
    if (options_.progress) options_.progress(read);
  }

  // The result, after all pieces. Threads finish in any order, so runs are sorted, and runs that were cut at the end of a
  // piece are joined again.
  Result<CheckResult> Take() {
    if (!status_.ok()) return status_;
    std::ranges::sort(result_.bad, {}, &BadBlocks::first);
    std::vector<BadBlocks> joined;
    AppendBad(joined, result_.bad);
    result_.bad = std::move(joined);
    return std::move(result_);
  }

 private:
  // A hole has no bytes; its committed leaf must be zero.
  void CheckHole(std::uint64_t index, std::vector<BadBlocks>& bad) {
    if (stream_.expected != nullptr && !stream_.expected->leaf(index).IsZero())
      Append(bad, {index, 1, BlockFault::kHash});
  }

  // Judges one block. `run_readable`: the read of its run succeeded. `whole`: that read reached the end of the block. May
  // read into `block` again.
  Status Block(std::uint64_t index, const BlockPlace& place, MutableByteSpan block, bool run_readable, bool whole,
               std::vector<BadBlocks>& bad) {
    const bool held = stream_.expected != nullptr;
    const Hash expected = held ? stream_.expected->leaf(index) : Hash();
    Hash& leaf = result_.leaves[index - first_];
    if (stream_.file == nullptr) {
      Append(bad, {index, 1, BlockFault::kMissing});
      return Status::Ok();
    }
    if (run_readable && whole) {
      leaf = LeafOf(stream_, index, block);
      if (!held || leaf == expected) return Status::Ok();
    }
    // The block is wrong, cut off or unreadable: read it once more, alone, past the page cache. Pages of this node may be older
    // than what another node has written.
    LZY_RETURN_IF_ERROR(RefreshOnce());
    LZY_ASSIGN_OR_RETURN(const auto fault, ReadBlock(stream_, place, block));
    if (fault) {
      leaf = Hash{};
      Append(bad, {index, 1, *fault});
      return Status::Ok();
    }
    leaf = LeafOf(stream_, index, block);
    const bool right = !held || leaf == expected;
    // If another block made the read fail, this block was never seen to be wrong, so it is not transient. Neither is a page
    // that is older than a write of another node.
    if (right && (!held || !run_readable || MaySeeLate(*stream_.file))) return Status::Ok();
    Append(bad, {index, 1, BlockFault::kHash, right});
    return Status::Ok();
  }

  // A file that has lost its name is still the opened one.
  Status RefreshOnce() {
    Status status;
    std::call_once(refreshed_, [&] { status = Refresh(*stream_.file); });
    return status.code() == Code::kNotFound ? Status::Ok() : status;
  }

  // The first failure counts; the other threads stop at their next piece.
  void Fail(const Status& status) {
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
    failed_ = true;
  }

  const BlockStream& stream_;
  const CheckSettings& options_;
  const std::uint64_t first_;
  std::once_flag refreshed_;
  std::mutex mutex_;
  std::atomic<bool> failed_{false};
  Status status_;
  CheckResult result_;
};

}  // namespace

void AppendBad(std::vector<BadBlocks>& list, const std::vector<BadBlocks>& more) {
  for (const BadBlocks& run : more) Append(list, run);
}

Result<CheckResult> CheckBlocks(const BlockStream& stream, std::uint64_t first, std::uint64_t count,
                                const CheckSettings& options) {
  Checker checker(stream, options, first, count);
  // Pieces are about as long as a buffer. Blocks may be short or holes, so the length of several blocks is tested.
  std::uint64_t longest = 1;
  const std::uint64_t step = count / kSampledLengths + 1;
  for (std::uint64_t i = 0; i < count; i += step) longest = std::max<std::uint64_t>(longest, stream.place(first + i).length);
  const std::uint64_t per_piece = std::max<std::uint64_t>(1, options.buffer_bytes / longest);
  const std::uint64_t pieces = (count + per_piece - 1) / per_piece;
  LZY_RETURN_IF_ERROR(NoThrow([&] {
    ParallelFor(pieces, options.threads, [&](std::size_t piece) {
      const std::uint64_t begin = first + piece * per_piece;
      checker.Piece(begin, std::min(first + count, begin + per_piece));
    });
  }));
  return checker.Take();
}

Status CheckInPieces(const BlockStream& stream, const Interval& blocks, const CheckSettings& options,
                     const CheckedPiece& fn) {
  const std::uint64_t pages = std::clamp<std::uint64_t>(MostLeavesInMemory() / 4 / kPageFanout, 1, 256);
  const std::uint64_t at_once = pages * kPageFanout;
  for (std::uint64_t first = blocks.begin; first < blocks.end;) {
    const std::uint64_t end = std::min(blocks.end, (first / at_once + 1) * at_once);
    LZY_ASSIGN_OR_RETURN(const CheckResult found, CheckBlocks(stream, first, end - first, options));
    LZY_RETURN_IF_ERROR(NoThrow([&] { fn(first, found); }));
    first = end;
  }
  return Status::Ok();
}

}  // namespace lzy
