#include "encode/encode_captured.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "rows/retry.h"
#include "rows/xor_checks.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// Bytes of a send buffer, the same as for a batch of the row pipeline (rows/batches.cc).
constexpr std::uint64_t kBatchBytes = 8u << 20;

// One call of EncodeCaptured on one rank.
class CapturedRows {
 public:
  CapturedRows(const Context& context, const Layout& layout, const Capture& mine, FileJob& job)
      : context_(context), comm_(context.comm), layout_(layout), mine_(mine), job_(job) {}

  /// Writes the parity of one row. `bytes(q)` is the address of parity block q (block_size bytes). A block of the last row
  /// may be shorter in the file.
  template <class Bytes>
  Status PutRow(const RowId& row, const Bytes& bytes) {
    for (std::uint32_t q = 0; q < layout_.parity(); ++q) {
      const std::uint32_t device = layout_.DeviceAt(row.group, q, row.unit_row);
      const RowBlock block{device, true, layout_.ParityBlock(device, row.unit_row, row.slice)};
      if (block.place.length > 0) LZY_RETURN_IF_ERROR(PutParity(job_, {&block, 1}, ByteSpan(bytes(q), block.place.length)));
    }
    return Status::Ok();
  }

  /// Writes the parity of rows that this rank captured alone. Local. After a failure, continues with other runs, and
  /// returns the first failure.
  Status PutOwn(std::span<const RowRun> runs) {
    std::mutex mutex;
    Status status;
    ParallelFor(runs.size(), ThreadsFor(context_), [&](std::size_t i) {
      const Status put = PutRun(runs[i]);
      if (put.ok()) return;
      const std::lock_guard lock(mutex);
      if (status.ok()) status = put;
    });
    return status;
  }

  /// Adds up the shares of combined rows. Repeats this for shares that arrived wrong. Collective. A failure may affect one
  /// rank only.
  Status Combine(std::span<const RowRun> runs) {
    if (layout_.parity() == 0) return Status::Ok();
    return UntilProven(comm_, runs, stats_.rows_again,
                       [&](std::span<const RowRun> now, WrongRows& wrong) { return CombineOnce(now, wrong); });
  }

  /// Sets the leaves of blocks of `runs` that this rank captured.
  void TakeLeaves(std::span<const RowRun> runs, const Coverage& coverage) {
    for (const RowRun& run : runs) {
      ForEachCaptor(layout_, run, coverage, [&](std::uint32_t, const BlockPlace& place, int by) {
        if (by != comm_.rank()) return;  // leaves of nobody's were computed when these were read (ReadInto)
        job_.data_leaves.Set(place.index, mine_.leaf(place.index));
        if (!mine_.IsCarried(place.index)) stats_.bytes_captured += place.length;
      });
    }
  }

  RowStats& stats() { return stats_; }

 private:
  // A row to be combined, and its place among the runs.
  struct Row {
    RowId id;
    std::uint64_t run = 0;
  };
  static std::vector<Row> RowsOf(std::span<const RowRun> runs) {
    std::vector<Row> rows;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const RowRun& run = runs[i];
      for (std::uint32_t s = 0; s < run.slices; ++s) rows.push_back({{run.group, run.unit_row, run.first_slice + s}, i});
    }
    return rows;
  }

  // Exchanges all rows of `runs` once, and writes those that arrived right at this rank. Rank r gets a contiguous part of
  // the rows, so it writes contiguous parity. Each exchange has `step` rows of every part, as many as fit into the send
  // buffer. A rank that fails continues to take part, so no rank waits for it, but it delivers nothing more.
  Status CombineOnce(std::span<const RowRun> runs, WrongRows& wrong) {
    const std::uint64_t block = layout_.block_size();
    const std::uint64_t row_bytes = layout_.parity() * block;
    const auto ranks = static_cast<std::size_t>(comm_.size());
    const auto self = static_cast<std::size_t>(comm_.rank());
    std::vector<Row> rows;
    std::size_t step = 0, longest = 0;
    AlignedBuffer send, receive;
    XorChecks checks;
    std::vector<std::uint64_t> counts;
    // All memory is allocated before the first exchange. If one rank has too little, all ranks stop here.
    LZY_RETURN_IF_ERROR(AgreeOn(comm_, [&] {
      rows = RowsOf(runs);
      counts.resize(ranks);
      longest = (rows.size() + ranks - 1) / ranks;
      const std::uint64_t budget = std::min(kBatchBytes, context_.options.memory / 8);
      step = std::clamp<std::size_t>(budget / (row_bytes * ranks), 1, std::max<std::size_t>(1, longest));
      if (rows.empty()) return;
      send.Reserve(step * row_bytes * ranks);
      receive.Reserve(step * row_bytes);
      checks.Reserve(step * layout_.parity() * ranks, layout_.block_size(), ranks);
    }));
    Status status;
    const auto begin = [&](std::size_t rank) { return rows.size() * rank / ranks; };
    for (std::size_t done = 0; done < longest; done += step) {
      // This rank's shares for each rank's next rows, ordered by rank, for ReduceScatterXor.
      std::uint64_t blocks = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        const std::size_t first = std::min(begin(r) + done, begin(r + 1));
        const std::size_t count = std::min(step, begin(r + 1) - first);
        for (std::size_t i = first; i < first + count; ++i, blocks += layout_.parity()) {
          PutShare(rows[i].id, blocks, send.data(), checks);
        }
        counts[r] = count * row_bytes / 8;
      }
      Stopwatch watch;
      const Status reduced = comm_.ReduceScatterXor(reinterpret_cast<const std::uint64_t*>(send.data()),
                                                    reinterpret_cast<std::uint64_t*>(receive.data()), counts);
      const Status checked = checks.Exchange(comm_, counts, turn_++);
      watch.AddTo(stats_.exchange);
      if (status.ok()) status = reduced.ok() ? checked : reduced;
      // The received part: whole rows, m parity blocks each.
      const std::size_t count = counts[self] * 8 / row_bytes;
      if (status.ok()) status = NoThrow([&] { return PutProven(rows, begin(self) + done, count, receive.data(), checks, wrong); });
    }
    return status;
  }

  // Writes rows `first` to `first + count`, whose parity is at `received`, if all blocks of the row are proven. Adds other
  // rows to `wrong`, with their run and slice.
  Status PutProven(std::span<const Row> rows, std::size_t first, std::size_t count, const std::uint8_t* received,
                   const XorChecks& checks, WrongRows& wrong) {
    const std::uint64_t block = layout_.block_size();
    for (std::size_t i = 0; i < count; ++i) {
      const Row& row = rows[first + i];
      const std::uint8_t* parity = received + i * layout_.parity() * block;
      bool proven = true;
      for (std::uint32_t q = 0; q < layout_.parity(); ++q) proven &= checks.Proves(i * layout_.parity() + q, parity + q * block);
      if (!proven) {
        wrong.emplace(row.run, row.id.slice);
        continue;
      }
      LZY_RETURN_IF_ERROR(PutRow(row.id, [&](std::uint32_t q) { return parity + q * block; }));
    }
    return Status::Ok();
  }

  // Writes the parity of a run that this rank captured, in as few pieces as possible. A piece has blocks that are
  // consecutive in memory and in the file. Ranks that write to one file wait for each other at every call, so the number of
  // calls decides the cost.
  Status PutRun(const RowRun& run) {
    for (std::uint32_t q = 0; q < layout_.parity(); ++q) {
      const std::uint32_t device = layout_.DeviceAt(run.group, q, run.unit_row);
      std::vector<RowBlock> blocks;
      ByteSpan bytes;
      const auto put = [&] { return blocks.empty() ? Status::Ok() : PutParity(job_, blocks, bytes); };
      for (std::uint32_t slice = run.first_slice; slice < run.first_slice + run.slices; ++slice) {
        const BlockPlace place = layout_.ParityBlock(device, run.unit_row, slice);
        if (place.length == 0) break;
        const std::uint8_t* from = mine_.ParityOf({run.group, run.unit_row, slice}, q);
        const bool follows = !blocks.empty() && from == bytes.data() + bytes.size() &&
                             place.offset == blocks.back().place.offset + blocks.back().place.length;
        if (!follows) {
          LZY_RETURN_IF_ERROR(put());
          blocks.clear();
          bytes = ByteSpan(from, 0);
        }
        blocks.push_back({device, true, place});
        bytes = ByteSpan(bytes.data(), bytes.size() + place.length);
      }
      LZY_RETURN_IF_ERROR(put());
    }
    return Status::Ok();
  }

  // Copies this rank's share of a row to the send buffer, from block `at` on. The CRC is computed while the block is in the
  // cache. A rank that captured no block of the row contributes zeros.
  void PutShare(const RowId& row, std::uint64_t at, std::uint8_t* send, XorChecks& checks) const {
    for (std::uint32_t q = 0; q < layout_.parity(); ++q, ++at) {
      std::uint8_t* to = send + at * layout_.block_size();
      const std::uint8_t* share = mine_.ParityOf(row, q);
      if (share != nullptr) {
        std::copy_n(share, layout_.block_size(), to);
        checks.Note(at, to);
      } else {
        std::fill_n(to, layout_.block_size(), std::uint8_t{0});
        checks.NoteZeros(at);
      }
    }
  }

  const Context& context_;
  Communicator& comm_;
  const Layout& layout_;
  const Capture& mine_;
  FileJob& job_;
  RowStats stats_;
  std::uint64_t turn_ = 0;
};

}  // namespace

// Own rows first, without communication. A rank that fails there still takes part in Combine.
Status EncodeCaptured(const Context& context, const Layout& layout, const Capture& mine, const Coverage& coverage,
                      const SortedRows& rows, FileJob& job, EncodePass& pass) {
  CapturedRows captured(context, layout, mine, job);
  Stopwatch watch;
  const Status own = NoThrow([&] {
    captured.TakeLeaves(rows.own, coverage);
    captured.TakeLeaves(rows.combined, coverage);
    return captured.PutOwn(rows.own);
  });
  watch.AddTo(captured.stats().write);
  const Status combined = captured.Combine(rows.combined);
  pass.Add(captured.stats());
  return Agree(context.comm, own.ok() ? combined : own);
}

}  // namespace lzy
