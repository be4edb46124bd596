#include "rows/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "base/late_file.h"
#include "rows/batches.h"
#include "rows/retry.h"
#include "rows/xor_checks.h"
#include "storage/parallel.h"
#include "storage/past_cache.h"
#include "tuning/tuning.h"

namespace lzy {
namespace {

// Bytes of a file that are read at once past the page cache. There is no read-ahead, and each read may ask a server.
constexpr std::uint64_t kPastCachePiece = 1u << 20;

// Time and bytes of one thread. `blocks` is kept here to avoid an allocation for each piece.
struct Effort {
  RowStats stats;
  Stopwatch watch;
  std::vector<RowBlock> blocks;

  void Spent(double& field) { watch.AddTo(field); }
};

// One call of ExecuteRows on one rank. Errors of local work go to Remember and do not end the work: only calls that all
// ranks make may end it. With a single rank, it stops at the first error.
class Pipeline {
 public:
  Pipeline(const RowPipelineSetup& setup, const SourceFn& source, const TargetFn& target)
      : setup_(setup), layout_(*setup.layout), source_(source), target_(target) {
    past_cache_ = std::ranges::any_of(setup.data, [](const BlockStream* stream) {
      return stream != nullptr && stream->file != nullptr && IsReadPastCache(*stream->file);
    });
  }

  /// This rank has all blocks of every row. One thread takes a run from its sources to its targets. So the targets are
  /// still in that thread's cache when they are delivered.
  Status RunAlone(std::span<const RowRun> runs) {
    Guarded([&] {
      const std::vector<RowRun> pieces = CutForThreads(setup_, runs);
      ParallelFor(pieces.size(), setup_.threads, [&](std::size_t i) {
        if (failed_) return;
        if (setup_.stop && setup_.stop()) return Remember({Code::kInterrupted, "interrupted"});
        const std::uint64_t length = TargetBytes(layout_, pieces[i]);
        AlignedBuffer buffer = TakeBuffer();
        buffer.Reserve(std::max(kLeastRoom, length * pieces[i].plan->targets.size()));
        const auto at = [&](std::size_t t) { return buffer.data() + t * length; };
        Effort effort;
        Contribute(pieces[i], at, [](std::size_t, std::uint32_t) {}, effort);
        if (!failed_) Deliver(pieces[i], at, effort);
        Merge(effort, setup_.threads);
        GiveBack(std::move(buffer));
      });
    });
    return status_;
  }

  /// Rows with blocks of several ranks. While one batch is reduced, another thread (if allowed) delivers the previous batch
  /// and reads the next. A rank that failed continues to take part, so no rank waits for it. The callers compare results
  /// with their leaves, or throw them away. EvenTurns allocates memory, so the ranks agree on its status.
  Status RunTogether(std::span<const RowRun> all) {
    std::vector<RowRun> runs;
    LZY_RETURN_IF_ERROR(AgreeOn(*setup_.comm, [&] { runs = EvenTurns(setup_, all); }));
    return UntilProven(*setup_.comm, runs, stats_.rows_again, [&](std::span<const RowRun> now, WrongRows& wrong) {
      const Status run = RunBatches(now);
      wrong = std::exchange(wrong_, {});
      return run.ok() ? status_ : run;
    });
  }

  const RowStats& stats() const { return stats_; }

 private:
  // The buffers of a batch. There are two sets, which batches use in turn.
  struct Buffers {
    AlignedBuffer send;
    AlignedBuffer receive;
    XorChecks checks;
  };

  // Fails only if no rank can continue. In step i, this thread reduces batch i, because only this thread may call MPI. The
  // helper thread works on the other buffers: first it delivers batch i - 1 from them, then it fills them with batch i + 1.
  // Without a helper, this thread does both after the reduction. The order of collective calls is the same in both cases.
  Status RunBatches(std::span<const RowRun> runs) {
    LZY_RETURN_IF_ERROR(AgreeOn(*setup_.comm, [&] { Prepare(runs); }));
    if (!batches_.empty()) Contribute(0, setup_.threads);
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const unsigned others = setup_.threads - 1;
      const auto beside = [&](unsigned threads) {
        if (i > 0) Deliver(i - 1, threads);
        if (i + 1 < batches_.size()) Contribute(i + 1, threads);
      };
      std::thread helper;
      if (others > 0) {
        try {
          helper = StartThread([&] { beside(others); });
        } catch (...) {  // no more threads, or no memory for one
        }
      }
      Reduce(i);
      if (helper.joinable()) {
        helper.join();
      } else {
        beside(setup_.threads);
      }
    }
    if (!batches_.empty()) Deliver(batches_.size() - 1, setup_.threads);
    return Status::Ok();
  }

  // Every rank has the same runs, hence the same batches. All memory for batches is allocated before the first one: between
  // two collective calls, ranks could no longer agree on a failed allocation.
  void Prepare(std::span<const RowRun> runs) {
    batches_ = MakeBatches(setup_, runs);
    std::uint64_t largest = kLeastRoom;
    for (const Batch& batch : batches_) largest = std::max(largest, batch.bytes());
    for (std::size_t i = 0; i < std::min<std::size_t>(2, batches_.size()); ++i) {
      buffers_[i].send.Reserve(largest);
      buffers_[i].receive.Reserve(largest);
      buffers_[i].checks.Reserve(largest / layout_.block_size(), layout_.block_size(), static_cast<std::size_t>(setup_.comm->size()));
    }
  }

  // Runs a local phase. An exception becomes a remembered failure, because this rank must make the collective call that
  // follows.
  template <class Fn>
  void Guarded(const Fn& phase) {
    const Status done = NoThrow(phase);
    if (!done.ok()) Remember(done);
  }

  // Reads this rank's sources of a batch, and makes its shares of all targets in the send buffer. The CRC of a share is
  // computed at once, while the share is in the cache.
  void Contribute(std::size_t index, unsigned threads) {
    const Batch& batch = batches_[index];
    Buffers& buffers = buffers_[index % 2];
    std::uint8_t* send = buffers.send.data();
    Guarded([&] {
      ParallelFor(batch.runs().size(), threads, [&](std::size_t i) {
        Effort effort;
        const auto note = [&](std::size_t t, std::uint32_t slice) {
          const std::uint64_t block = batch.slot(i, t) / layout_.block_size() + slice;
          if (setup_.prove) buffers.checks.Note(block, send + block * layout_.block_size());
        };
        Contribute(batch.runs()[i], [&](std::size_t t) { return send + batch.slot(i, t); }, note, effort);
        Merge(effort, threads);
      });
    });
  }

  // The two collective calls of a batch: the shares, then their check words. Both are made even if the first fails, and
  // even if nothing is proven, so all ranks make the same calls. `turn_` counts exchanges, so check words of an earlier
  // exchange do not match.
  void Reduce(std::size_t index) {
    Effort effort;
    Buffers& buffers = buffers_[index % 2];
    const std::span<const std::uint64_t> counts = batches_[index].counts();
    Remember(setup_.comm->ReduceScatterXor(reinterpret_cast<const std::uint64_t*>(buffers.send.data()),
                                           reinterpret_cast<std::uint64_t*>(buffers.receive.data()), counts));
    Remember(buffers.checks.Exchange(*setup_.comm, counts, turn_++));
    effort.Spent(effort.stats.exchange);
    Merge(effort, 1);
  }

  // Delivers the received targets of a batch. A target's place in the receive buffer follows from its place in the send
  // buffer.
  void Deliver(std::size_t index, unsigned threads) {
    const Batch& batch = batches_[index];
    const std::uint8_t* received = buffers_[index % 2].receive.data();
    Guarded([&] {
      ParallelFor(batch.runs().size(), threads, [&](std::size_t i) {
        Effort effort;
        const auto at = [&](std::size_t t) { return received + (batch.slot(i, t) - batch.mine_at()); };
        DeliverProven(index, i, at, effort);
        Merge(effort, threads);
      });
    });
  }

  // Delivers the slices of run `i` for which all blocks on this rank are proven, in pieces as long as possible. Adds the
  // others to wrong_. If one block of a slice is wrong, the whole row is made again.
  template <class At>
  void DeliverProven(std::size_t index, std::size_t i, const At& at, Effort& effort) {
    const RowRun& run = batches_[index].runs()[i];
    for (std::uint32_t first = 0; first < run.slices;) {
      std::uint32_t end = first;
      while (end < run.slices && Proven(index, i, end, at)) ++end;
      if (end > first) {
        RowRun piece = run;
        piece.first_slice += first;
        piece.slices = end - first;
        Deliver(piece, [&](std::size_t t) { return at(t) + first * layout_.block_size(); }, effort);
      }
      if (end < run.slices) {
        const std::lock_guard lock(mutex_);
        wrong_.emplace(batches_[index].number(i), run.first_slice + end);
      }
      first = end + 1;
    }
  }

  // True if all blocks of a slice on this rank are the sums of all contributions.
  template <class At>
  bool Proven(std::size_t index, std::size_t i, std::uint32_t slice, const At& at) const {
    if (!setup_.prove) return true;
    const Batch& batch = batches_[index];
    const RowRun& run = batch.runs()[i];
    const std::uint64_t size = layout_.block_size();
    for (std::size_t t = 0; t < run.plan->targets.size(); ++t) {
      if (!Mine(layout_.DeviceAt(run.group, run.plan->targets[t], run.unit_row))) continue;
      const std::uint64_t block = (batch.slot(i, t) - batch.mine_at()) / size + slice;
      if (!buffers_[index % 2].checks.Proves(block, at(t) + slice * size)) return false;
    }
    return true;
  }

  // Buffers that threads reuse, because first touches of new memory are slow (docs/performance/README.md).
  AlignedBuffer TakeBuffer() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return AlignedBuffer();
    AlignedBuffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  void GiveBack(AlignedBuffer buffer) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(buffer));
  }

  bool Mine(std::uint32_t device) const { return setup_.owner[device] == setup_.comm->rank(); }

  // Puts the device's blocks of these slices into `blocks`, up to the first block past its end, and returns their size in
  // bytes. They are consecutive in the stream, so one read gets them all.
  std::uint64_t BlocksOf(std::uint32_t device, bool parity, std::uint64_t unit_row, std::uint32_t first,
                         std::uint32_t slices, std::vector<RowBlock>& blocks) const {
    std::uint64_t length = 0;
    blocks.clear();
    for (std::uint32_t s = first; s < first + slices; ++s) {
      const BlockPlace place = layout_.Block(parity, device, unit_row, s);
      if (place.length == 0) break;
      blocks.push_back({device, parity, place});
      length += place.length;
    }
    return length;
  }

  // Reads this rank's sources of the run, piece by piece, and makes their share of target t at `at(t)`. Calls `note(t,
  // slice)` when the share of a slice (from 0) is complete. A piece of all sources fits a cache (Tuning), so the data are
  // still there when they are hashed and multiplied. If this rank has no sources, its shares are zeros.
  template <class At, class Note>
  void Contribute(const RowRun& run, const At& at, const Note& note, Effort& effort) {
    const RowPlan& plan = *run.plan;
    // The sources of the plan on this rank: their numbers in the plan, and their devices.
    std::vector<std::uint32_t> which;
    std::vector<std::uint32_t> devices;
    for (std::uint32_t s = 0; s < plan.sources.size(); ++s) {
      const std::uint32_t device = layout_.DeviceAt(run.group, plan.sources[s], run.unit_row);
      if (!Mine(device)) continue;
      which.push_back(s);
      devices.push_back(device);
    }
    const std::uint64_t block = layout_.block_size();
    const std::uint64_t piece = std::max<std::uint64_t>(past_cache_ ? kPastCachePiece : 0, CurrentTuning().encode_piece_bytes());
    const auto per_piece = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(piece / block, 1, run.slices));
    AlignedBuffer buffer = TakeBuffer();
    const std::uint64_t stride = RoundUpWords(per_piece * block);
    buffer.Reserve(std::max(kLeastRoom, stride * which.size()));
    std::vector<const std::uint8_t*> inputs(which.size());
    std::vector<std::uint8_t*> outputs(plan.targets.size());
    std::vector<std::uint32_t> present;
    for (std::uint32_t first = 0; first < run.slices; first += per_piece) {
      const std::uint32_t slices = std::min(per_piece, run.slices - first);
      present.clear();
      for (std::size_t s = 0; s < which.size(); ++s) {
        std::uint8_t* to = buffer.data() + s * stride;
        if (!ReadPiece(run, devices[s], first, slices, to, effort)) continue;  // zeros contribute nothing
        inputs[present.size()] = to;
        present.push_back(which[s]);
      }
      for (std::size_t t = 0; t < outputs.size(); ++t) outputs[t] = at(t) + first * block;
      plan.plan.Apply(present, inputs.data(), outputs.data(), slices * block, /*accumulate=*/false);
      for (std::size_t t = 0; t < outputs.size(); ++t) {
        for (std::uint32_t s = first; s < first + slices; ++s) note(t, s);
      }
      effort.Spent(effort.stats.encode);
    }
    // No uninitialised bytes are sent. With blocks of 512 bytes and more (docs/format.md §4) there is no tail.
    if (const std::uint64_t tail = run.slices * block; tail % 64 != 0) {
      for (std::size_t t = 0; t < outputs.size(); ++t)
        std::fill_n(at(t) + tail, RoundUpWords(tail) - tail, std::uint8_t{0});
    }
    GiveBack(std::move(buffer));
  }

  // Reads the device's blocks to `to`, zero-padded, and passes each to the source callback. False if there is nothing but
  // padding, or if reading failed. Then the source counts as zeros. After a failure the sum is wrong, and the remembered
  // failure reports it.
  bool ReadPiece(const RowRun& run, std::uint32_t device, std::uint32_t first, std::uint32_t slices, std::uint8_t* to,
                 Effort& effort) {
    const bool parity = layout_.IsParity(device, run.unit_row);
    std::vector<RowBlock>& blocks = effort.blocks;
    const std::uint64_t length = BlocksOf(device, parity, run.unit_row, run.first_slice + first, slices, blocks);
    if (length == 0) return false;
    const BlockStream* stream = (parity ? setup_.parity : setup_.data)[layout_.HolderOf(parity, device)];
    if (stream == nullptr || stream->file == nullptr) {
      Remember({Code::kInternal, fmt::format("device {} is a source but is not open here", device)});
      return false;
    }
    if (!parity && setup_.known && TakeKnown(layout_.HolderOf(parity, device), blocks, to)) {
      effort.stats.bytes_captured += length;
      effort.Spent(effort.stats.read);
    } else {
      const std::uint64_t offset = stream->base + blocks[0].place.offset;
      const auto read = ReadWhole(*stream->file, offset, MutableByteSpan(to, length), stream->synced);
      effort.Spent(effort.stats.read);
      if (!read.ok()) {
        Remember(read.status());
        return false;
      }
      effort.stats.bytes_read += *read;
    }
    std::fill(to + length, to + slices * layout_.block_size(), std::uint8_t{0});
    std::uint64_t at = 0;
    for (const RowBlock& one : blocks) {
      if (source_) Remember(source_(one, MutableByteSpan(to + at, one.place.length)));
      at += one.place.length;
    }
    effort.Spent(effort.stats.hash);
    if (setup_.progress) setup_.progress(length);
    return true;
  }

  // Copies the blocks to `to` and marks them, if all of them are known. If one is not, one read gets them all.
  bool TakeKnown(std::uint32_t file, std::span<RowBlock> blocks, std::uint8_t* to) const {
    for (const RowBlock& one : blocks) {
      const ByteSpan bytes = setup_.known(file, one.place.index);
      if (bytes.size() != one.place.length) return false;
      to = std::ranges::copy(bytes, to).out;
    }
    for (RowBlock& one : blocks) one.known = true;
    return true;
  }

  // Delivers this rank's targets. Target t is at `at(t)`. Positions below m are parity.
  template <class At>
  void Deliver(const RowRun& run, const At& at, Effort& effort) {
    const RowPlan& plan = *run.plan;
    std::vector<RowBlock> blocks;
    for (std::size_t t = 0; t < plan.targets.size(); ++t) {
      const std::uint32_t device = layout_.DeviceAt(run.group, plan.targets[t], run.unit_row);
      if (!Mine(device)) continue;
      const bool parity = plan.targets[t] < layout_.parity();
      const std::uint64_t length = BlocksOf(device, parity, run.unit_row, run.first_slice, run.slices, blocks);
      if (!blocks.empty()) Remember(target_(blocks, ByteSpan(at(t), length)));
    }
    effort.Spent(effort.stats.write);
  }

  // Keeps the first failure.
  void Remember(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
    failed_ = true;
  }

  // Adds the times of one of `threads` threads, divided by their number. So the sum is a duration.
  void Merge(const Effort& effort, unsigned threads) {
    RowStats mine = effort.stats;
    mine /= threads;
    const std::lock_guard lock(mutex_);
    stats_ += mine;
  }

  const RowPipelineSetup& setup_;
  const Layout& layout_;
  const SourceFn& source_;
  const TargetFn& target_;
  bool past_cache_ = false;  // data are read past the page cache
  std::vector<Batch> batches_;
  std::array<Buffers, 2> buffers_;  // batch i uses number i % 2
  std::vector<AlignedBuffer> spare_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // for spare_, status_, stats_ and wrong_
  Status status_;
  RowStats stats_;
  WrongRows wrong_;
  std::uint64_t turn_ = 0;
};

}  // namespace

RowStats& RowStats::operator+=(const RowStats& other) {
  Phases::operator+=(other);
  bytes_read += other.bytes_read;
  bytes_captured += other.bytes_captured;
  rows_again += other.rows_again;
  return *this;
}

Result<std::uint64_t> ReadWhole(File& file, std::uint64_t offset, MutableByteSpan bytes, bool synced) {
  if (synced && file.NextData(offset) >= offset + bytes.size()) {
    std::ranges::fill(bytes, std::uint8_t{0});
    return 0;
  }
  LZY_ASSIGN_OR_RETURN(std::uint64_t got, file.ReadAt(offset, bytes));
  if (got < bytes.size() && MaySeeLate(file)) {
    LZY_RETURN_IF_ERROR(Refresh(file));
    LZY_ASSIGN_OR_RETURN(got, file.ReadAt(offset, bytes));
  }
  if (got == bytes.size()) return got;
  return Status{Code::kIo, fmt::format("{}: ends at {} while its bytes up to {} were being read; something else changes it",
                                 file.path(), offset + got, offset + bytes.size())};
}

// The last Agree is the only place where ranks learn about local failures of other ranks.
Status ExecuteRows(const RowPipelineSetup& setup, std::span<const RowRun> runs, const SourceFn& source,
                   const TargetFn& target, RowStats& stats) {
  Pipeline pipeline(setup, source, target);
  const Status mine = setup.comm->size() == 1 ? pipeline.RunAlone(runs) : pipeline.RunTogether(runs);
  stats += pipeline.stats();
  return Agree(*setup.comm, mine);
}

}  // namespace lzy
