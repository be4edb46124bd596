#include "engine/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "storage/parallel.h"

namespace lzy {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Bytes of one batch's targets: large enough that a collective's latency does not count, small enough to stay cheap to
// hold.
constexpr std::uint64_t kBatchBytes = 32u << 20;
// Sources are read, hashed and multiplied in pieces that stay in the second-level cache.
constexpr std::uint64_t kPieceBytes = 64u << 10;

std::uint64_t RoundUpWords(std::uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

class Batch {
 public:
  Batch(const RowPipelineSetup& setup, std::span<const RowRun> runs) : setup_(setup), runs_(runs) {
    const int ranks = setup.comm->size();
    std::vector<std::uint64_t> bytes(ranks, 0);
    ForEachTarget([&](std::size_t, std::size_t, int owner, std::uint64_t length) { bytes[owner] += length; });
    counts_.resize(ranks);
    std::vector<std::uint64_t> at(ranks, 0);
    std::uint64_t total = 0;
    for (int r = 0; r < ranks; ++r) {
      at[r] = total;
      total += bytes[r];
      counts_[r] = bytes[r] / 8;
    }
    mine_at_ = at[setup.comm->rank()];
    total_ = total;
    slots_.resize(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) slots_[i].resize(runs[i].plan->targets.size());
    ForEachTarget([&](std::size_t run, std::size_t t, int owner, std::uint64_t length) {
      slots_[run][t] = at[owner];
      at[owner] += length;
    });
  }

  std::uint64_t send_bytes() const { return total_; }
  std::uint64_t receive_bytes() const { return counts_[setup_.comm->rank()] * 8; }
  std::span<const std::uint64_t> counts() const { return counts_; }
  std::uint64_t slot(std::size_t run, std::size_t t) const { return slots_[run][t]; }
  std::uint64_t mine_at() const { return mine_at_; }

  static std::uint64_t TargetBytes(const Layout& layout, const RowRun& run) {
    return RoundUpWords(std::uint64_t{run.slices} * layout.block_size());
  }

 private:
  template <class Fn>
  void ForEachTarget(const Fn& fn) const {
    const Layout& layout = *setup_.layout;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const RowRun& run = runs_[i];
      const Rotation rotation = layout.rotation(run.group);
      for (std::size_t t = 0; t < run.plan->targets.size(); ++t) {
        const std::uint32_t device = layout.group(run.group)[rotation.DeviceAt(run.plan->targets[t], run.unit_row)];
        fn(i, t, setup_.owner[device], TargetBytes(layout, run));
      }
    }
  }

  const RowPipelineSetup& setup_;
  std::span<const RowRun> runs_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::vector<std::uint64_t>> slots_;
  std::uint64_t mine_at_ = 0;
  std::uint64_t total_ = 0;
};

class Pipeline {
 public:
  Pipeline(const RowPipelineSetup& setup, const SourceFn& source, const TargetFn& target)
      : setup_(setup), layout_(*setup.layout), source_(source), target_(target), alone_(setup.comm->size() == 1) {}

  void Run(std::span<const RowRun> runs) {
    Batch batch(setup_, runs);
    Guarded([&] { ParallelFor(runs.size(), setup_.threads, [&](std::size_t i) { Contribute(runs[i], i, batch); }); });
    std::uint8_t* received = send_.data();
    if (!alone_) {
      const auto start = Clock::now();
      Remember(setup_.comm->ReduceScatterXor(reinterpret_cast<const std::uint64_t*>(send_.data()),
                                             reinterpret_cast<std::uint64_t*>(receive_.data()), batch.counts()));
      Add(stats_.exchange, start);
      received = receive_.data();
    }
    Guarded([&] { ParallelFor(runs.size(), setup_.threads, [&](std::size_t i) { Deliver(runs[i], i, batch, received); }); });
  }

  /// Gets the buffers for batches of `bytes`, so that nobody runs out of memory between collectives.
  Status Prepare(std::uint64_t bytes) {
    Guarded([&] {
      send_.Reserve(bytes);
      if (!alone_) receive_.Reserve(bytes);
    });
    return status_;
  }

  Status status() const { return status_; }
  const RowStats& stats() const { return stats_; }

 private:
  // Runs a local phase; a failure must not keep this rank from the collective that follows.
  template <class Fn>
  void Guarded(const Fn& phase) {
    try {
      phase();
    } catch (const std::bad_alloc&) {
      Remember({Code::kNoMemory, "out of memory"});
    }
  }

  bool Mine(std::uint32_t device) const { return setup_.owner[device] == setup_.comm->rank(); }

  const BlockStream* StreamOf(std::uint32_t device, bool parity) const {
    return parity ? setup_.parity[layout_.region_of(device)] : setup_.data[layout_.file_of(device)];
  }

  BlockPlace PlaceOf(std::uint32_t device, bool parity, std::uint64_t unit_row, std::uint32_t slice) const {
    return parity ? layout_.ParityBlock(device, unit_row, slice) : layout_.DataBlock(device, unit_row, slice);
  }

  // Reads this rank's sources of the run, piece by piece, and adds their share to the targets.
  void Contribute(const RowRun& run, std::size_t index, const Batch& batch) {
    const RowPlan& plan = *run.plan;
    const Rotation rotation = layout_.rotation(run.group);
    std::vector<std::uint32_t> which;
    std::vector<std::uint32_t> devices;
    for (std::uint32_t s = 0; s < plan.sources.size(); ++s) {
      const std::uint32_t device = layout_.group(run.group)[rotation.DeviceAt(plan.sources[s], run.unit_row)];
      if (!Mine(device)) continue;
      which.push_back(s);
      devices.push_back(device);
    }
    const std::uint64_t block = layout_.block_size();
    const auto per_piece = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, kPieceBytes / block));
    thread_local AlignedBuffer buffer;
    const std::uint64_t stride = RoundUpWords(per_piece * block);
    buffer.Reserve(std::max<std::uint64_t>(64, stride * which.size()));
    std::vector<const std::uint8_t*> inputs(which.size());
    std::vector<std::uint8_t*> outputs(plan.targets.size());
    for (std::uint32_t at = 0; at < run.slices; at += per_piece) {
      const std::uint32_t slices = std::min(per_piece, run.slices - at);
      std::vector<std::uint32_t> present;
      std::size_t inputs_used = 0;
      for (std::size_t s = 0; s < which.size(); ++s) {
        std::uint8_t* to = buffer.data() + s * stride;
        if (!ReadPiece(run, devices[s], rotation.IsParity(layout_.index_in_group(devices[s]), run.unit_row), at, slices,
                       to)) {
          continue;  // all zeros: contributes nothing
        }
        present.push_back(which[s]);
        inputs[inputs_used++] = to;
      }
      for (std::size_t t = 0; t < outputs.size(); ++t) outputs[t] = send_.data() + batch.slot(index, t) + at * block;
      const auto start = Clock::now();
      plan.plan.Apply(present, inputs.data(), outputs.data(), slices * block, /*accumulate=*/false);
      Add(stats_.encode, start);
    }
    if (const std::uint64_t tail = run.slices * block; tail % 64 != 0) {
      for (std::size_t t = 0; t < outputs.size(); ++t) {
        std::fill_n(send_.data() + batch.slot(index, t) + tail, RoundUpWords(tail) - tail, std::uint8_t{0});
      }
    }
  }

  // Fills `to` with the device's blocks, zero-padded; false when there is nothing but padding.
  bool ReadPiece(const RowRun& run, std::uint32_t device, bool parity, std::uint32_t at, std::uint32_t slices,
                 std::uint8_t* to) {
    const std::uint64_t block = layout_.block_size();
    const BlockPlace head = PlaceOf(device, parity, run.unit_row, run.first_slice + at);
    std::uint64_t length = 0;
    std::vector<RowBlock> blocks;
    for (std::uint32_t s = 0; s < slices; ++s) {
      const BlockPlace place = PlaceOf(device, parity, run.unit_row, run.first_slice + at + s);
      if (place.length == 0) break;
      blocks.push_back({device, parity, place});
      length += place.length;
    }
    if (length == 0) return false;
    const BlockStream* stream = StreamOf(device, parity);
    if (stream == nullptr || stream->file == nullptr) {
      Remember({Code::kInternal, fmt::format("device {} is a source but is not open here", device)});
      return false;
    }
    auto start = Clock::now();
    auto got = stream->file->ReadAt(stream->base + head.offset, MutableByteSpan(to, length));
    Add(stats_.read, start);
    if (!got.ok()) {
      Remember(got.status());
      return false;
    }
    if (*got < length) {
      Remember(
          {Code::kIo,
           fmt::format("{}: ends at {} while its bytes up to {} were being read; something else changes it",
                       stream->file->path(), stream->base + head.offset + *got, stream->base + head.offset + length)});
      return false;
    }
    bytes_read_ += length;
    std::fill(to + length, to + slices * block, std::uint8_t{0});
    start = Clock::now();
    std::uint64_t offset = 0;
    for (const RowBlock& one : blocks) {
      if (source_) Remember(source_(one, MutableByteSpan(to + offset, one.place.length)));
      offset += one.place.length;
    }
    Add(stats_.hash, start);
    if (setup_.progress) setup_.progress(length);
    return true;
  }

  void Deliver(const RowRun& run, std::size_t index, const Batch& batch, const std::uint8_t* received) {
    const RowPlan& plan = *run.plan;
    const Rotation rotation = layout_.rotation(run.group);
    const std::uint64_t base = alone_ ? 0 : batch.mine_at();
    std::vector<RowBlock> blocks;
    const auto start = Clock::now();
    for (std::size_t t = 0; t < plan.targets.size(); ++t) {
      const std::uint32_t device = layout_.group(run.group)[rotation.DeviceAt(plan.targets[t], run.unit_row)];
      if (!Mine(device)) continue;
      const bool parity = plan.targets[t] < layout_.parity();
      const std::uint8_t* bytes = received + batch.slot(index, t) - base;
      blocks.clear();
      std::uint64_t length = 0;
      for (std::uint32_t s = 0; s < run.slices; ++s) {
        const BlockPlace place = PlaceOf(device, parity, run.unit_row, run.first_slice + s);
        if (place.length == 0) break;
        blocks.push_back({device, parity, place});
        length += place.length;
      }
      if (!blocks.empty()) Remember(target_(blocks, ByteSpan(bytes, length)));
    }
    Add(stats_.write, start);
  }

  void Remember(const Status& status) {
    if (status.ok()) return;
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
  }

  void Add(double& field, Clock::time_point start) {
    const double seconds = SecondsSince(start);
    std::lock_guard lock(mutex_);
    field += seconds / std::max(1u, setup_.threads);
  }

 public:
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  const RowPipelineSetup& setup_;
  const Layout& layout_;
  const SourceFn& source_;
  const TargetFn& target_;
  const bool alone_;
  AlignedBuffer send_;
  AlignedBuffer receive_;
  std::mutex mutex_;
  Status status_;
  RowStats stats_;
  std::atomic<std::uint64_t> bytes_read_{0};
};

}  // namespace

Result<const Codec*> PlanCache::CodecFor(std::uint32_t group) {
  const Rotation rotation = layout_.rotation(group);
  auto at = codecs_.find({rotation.n, rotation.m});
  if (at == codecs_.end()) {
    LZY_ASSIGN_OR_RETURN(Codec codec, Codec::Create(rotation.n, rotation.m));
    at = codecs_.emplace(std::pair(rotation.n, rotation.m), std::move(codec)).first;
  }
  return &at->second;
}

Result<std::shared_ptr<const RowPlan>> PlanCache::Encode(std::uint32_t group) {
  std::shared_ptr<const RowPlan>& slot = plans_[{group, {}}];
  if (!slot) {
    LZY_ASSIGN_OR_RETURN(const Codec* codec, CodecFor(group));
    auto plan = std::make_shared<RowPlan>();
    for (std::uint32_t p = 0; p < codec->n(); ++p) (p < codec->m() ? plan->targets : plan->sources).push_back(p);
    plan->plan = codec->EncodePlan();
    slot = std::move(plan);
  }
  return slot;
}

Result<std::shared_ptr<const RowPlan>> PlanCache::Rebuild(std::uint32_t group, std::uint64_t unit_row,
                                                          std::span<const std::uint32_t> bad,
                                                          std::span<const std::uint32_t> wanted) {
  const Rotation rotation = layout_.rotation(group);
  LZY_ASSIGN_OR_RETURN(const Codec* codec, CodecFor(group));
  std::vector<bool> is_bad(rotation.n, false);
  auto plan = std::make_shared<RowPlan>();
  for (std::uint32_t device : bad) is_bad[rotation.PositionOf(layout_.index_in_group(device), unit_row)] = true;
  for (std::uint32_t device : wanted)
    plan->targets.push_back(rotation.PositionOf(layout_.index_in_group(device), unit_row));
  for (std::uint32_t p = 0; p < rotation.n && plan->sources.size() < codec->k(); ++p) {
    if (!is_bad[p]) plan->sources.push_back(p);
  }
  if (plan->sources.size() < codec->k()) {
    return {Code::kBeyondRepair,
            fmt::format("{} of {} blocks of a row are lost; parity covers {}", bad.size(), rotation.n, rotation.m)};
  }
  std::sort(plan->targets.begin(), plan->targets.end());
  std::vector<std::uint32_t> key = plan->sources;
  key.push_back(UINT32_MAX);
  key.insert(key.end(), plan->targets.begin(), plan->targets.end());
  std::shared_ptr<const RowPlan>& slot = plans_[{group, key}];
  if (!slot) {
    LZY_ASSIGN_OR_RETURN(plan->plan, codec->MakePlan(plan->sources, plan->targets));
    slot = std::move(plan);
  }
  return slot;
}

Status ExecuteRows(const RowPipelineSetup& setup, std::span<const RowRun> runs, const SourceFn& source,
                   const TargetFn& target, RowStats& stats) {
  const std::uint64_t budget =
      std::max<std::uint64_t>(setup.layout->block_size(), std::min(kBatchBytes, setup.memory / 4));
  // Every rank sees the same runs, hence the same batches.
  std::vector<std::span<const RowRun>> batches;
  std::uint64_t largest = 64;
  for (std::size_t begin = 0; begin < runs.size();) {
    std::uint64_t bytes = 0;
    std::size_t end = begin;
    while (end < runs.size()) {
      const std::uint64_t more = std::max<std::uint64_t>(1, runs[end].plan->targets.size()) * Batch::TargetBytes(*setup.layout, runs[end]);
      if (end > begin && bytes + more > budget) break;
      bytes += more;
      ++end;
    }
    largest = std::max(largest, bytes);
    batches.push_back(runs.subspan(begin, end - begin));
    begin = end;
  }
  Pipeline pipeline(setup, source, target);
  LZY_RETURN_IF_ERROR(Agree(*setup.comm, pipeline.Prepare(largest)));
  bool stopped = false;
  // A rank that failed goes on taking part, so that nobody waits for it; what arrives is checked against its leaf, or thrown away,
  // by the callers.
  for (const auto& batch : batches) {
    if (setup.stop && setup.comm->size() == 1 && setup.stop()) {
      stopped = true;
      break;
    }
    pipeline.Run(batch);
  }
  Status mine = stopped ? Status(Code::kIo, "interrupted") : pipeline.status();
  const RowStats& own = pipeline.stats();
  stats.read += own.read;
  stats.hash += own.hash;
  stats.encode += own.encode;
  stats.exchange += own.exchange;
  stats.write += own.write;
  stats.bytes_read += pipeline.bytes_read();
  return Agree(*setup.comm, mine);
}

}  // namespace lzy
