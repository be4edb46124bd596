#pragma once
// The engine's surroundings in a simulation: disks and arithmetic that take virtual time, ranks over SMPI, and buffers
// that all processes have in common, since what is in them does not matter.
//
// SimGrid runs all simulated processes in one, one at a time, so there are no locks here. Time passes only in Pass()
// and in SMPI's own calls, so code of lzy that only computes takes no time; the delays stand for it. simulated.cc has
// what replaces functions of the library and of the runtime.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <simgrid/s4u.hpp>
#include <string>

#include "base/exchange_way.h"
#include "base/file.h"
#include "comm/communicator.h"
#include "transport/mpi_call.h"
#include "transport/pairwise_exchange.h"
#include "transport/reduce_exchange.h"
#include "transport/ring_exchange.h"
#include "tuning/exchange_tuning.h"

namespace scale {

/// Bytes a second.
struct Rates {
  double disk_read = 40e6;
  double disk_write = 40e6;
  double hash = 1e9;
  double encode = 1e9;  ///< of one source into one target
  double add = 1e9;     ///< XOR of what arrives
};

/// Virtual seconds that one process spent, by what for.
struct Spent {
  double read = 0, compute = 0, exchange = 0, write = 0;
};

/// Seconds on the simulation's clock.
inline double Now() {
  return simgrid::s4u::Engine::get_clock();
}

/// Lets `seconds` of virtual time pass for this process, and adds them to `spent`.
/// Only this process sleeps: all others go on, as if each had a processor of its own.
inline void Pass(double seconds, double& spent) {
  simgrid::s4u::this_actor::sleep_for(seconds);
  spent += seconds;
}

/// One memory for all buffers of all processes, of kPool bytes. SMPI does not copy what is in it.
constexpr std::size_t kPool = std::size_t{96} << 20;
inline void* Pool() {
  static void* const pool = smpi_shared_malloc(kPool, __FILE__, __LINE__);
  return pool;
}

/// What a process would hold in page-aligned buffers (those of the pipeline) and staging memory, if they were its own.
/// Bytes.
struct Held {
  std::uint64_t now = 0;
  std::uint64_t most = 0;
  void Add(std::uint64_t bytes) { most = std::max(most, now += bytes); }
};

/// That of the calling process.
inline Held& HeldHere() {
  static std::map<aid_t, Held> held;
  return held[simgrid::s4u::this_actor::get_pid()];
}

/// A file with nothing in it but a speed. Reads and writes always succeed; they take their time and leave the bytes as
/// they are. What the row pipeline does not call is an error.
class SimulatedFile final : public lzy::File {
 public:
  SimulatedFile(const Rates& rates, Spent& spent) : rates_(rates), spent_(spent) {}
  lzy::Result<std::size_t> ReadAt(std::uint64_t, lzy::MutableByteSpan to) override {
    Pass(static_cast<double>(to.size()) / rates_.disk_read, spent_.read);
    return to.size();
  }
  lzy::Result<std::size_t> ReadAtUncached(std::uint64_t offset, lzy::MutableByteSpan to) override {
    return ReadAt(offset, to);
  }
  lzy::Status WriteAt(std::uint64_t, lzy::ByteSpan from) override {
    Pass(static_cast<double>(from.size()) / rates_.disk_write, spent_.write);
    return lzy::Status::Ok();
  }
  lzy::Status Truncate(std::uint64_t) override { return None(); }
  lzy::Status Sync() override { return None(); }
  lzy::Result<lzy::FileStat> Stat() override { return None(); }
  lzy::Status SetTimes(std::int64_t, std::int64_t) override { return None(); }
  lzy::Result<std::vector<std::uint8_t>> AccessAcl() override { return None(); }
  lzy::Status CopyAccess(lzy::File&) override { return None(); }
  lzy::Status SetAccess(std::uint32_t, std::uint32_t, std::uint32_t) override { return None(); }
  lzy::Status Lock() override { return None(); }
  const std::string& path() const override { return path_; }

 private:
  static lzy::Status None() { return {lzy::Code::kInternal, "not simulated"}; }
  const Rates& rates_;
  Spent& spent_;
  const std::string path_ = "simulated";
};

/// What the row pipeline needs of a Communicator: lzy's own exchange, as between nodes, and blocking collectives of MPI
/// for the rest, which lib/comm makes by their nonblocking forms (SMPI's are of p messages each).
class SimulatedCommunicator final : public lzy::Communicator {
 public:
  /// `way`: how partial parity is added up. kAuto: as lzy chooses when it has measured, see Measure().
  SimulatedCommunicator(MPI_Comm comm, const Rates& rates, Spent& spent, lzy::ExchangeWay way)
      : comm_(comm), rates_(rates), spent_(spent), way_(way) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  /// Measures all ways for all classes of exchanges, as lzy does after a long commit (mpi/exchange_choice.h), but on the
  /// simulation's clock, which has no noise: so each once. Collective.
  lzy::Status Measure() {
    for (std::size_t i = 0; i < lzy::kExchangeClasses; ++i) {
      const auto which = lzy::ExchangeClass::At(i);
      lzy::ExchangeTimes::Ways microseconds{};
      for (std::size_t w = 0; w < lzy::kMeasuredWays.size(); ++w) {
        LZY_ASSIGN_OR_RETURN(const double seconds, Time(lzy::kMeasuredWays[w], Counts(which.shape, lzy::kExchangeBytes[which.size])));
        microseconds[w] = seconds * 1e6;
      }
      if (!times_.Set(which, microseconds)) return {lzy::Code::kInternal, "no times that lzy would keep"};
    }
    return lzy::Status::Ok();
  }
  /// The way that lzy takes.
  lzy::ExchangeWay WayFor(std::span<const std::uint64_t> counts) const {
    const lzy::ExchangeStep step = lzy::ExchangeStepOf(counts);
    return way_ == lzy::ExchangeWay::kAuto ? times_.Pick(step.shape, step.bytes()) : way_;
  }
  /// Parts of an exchange to which each rank brings `bytes` for all ranks together.
  std::vector<std::uint64_t> Counts(lzy::ExchangeShape shape, std::uint64_t bytes) const {
    const auto ranks = static_cast<std::uint64_t>(size_);
    const std::uint64_t words = std::max(ranks, bytes / sizeof(std::uint64_t));
    const bool few = shape == lzy::ExchangeShape::kFew;
    std::vector<std::uint64_t> counts(ranks, few ? 0 : words / ranks);
    if (few) counts[0] = words;
    return counts;
  }
  /// Seconds that one exchange takes from a barrier until the last rank has finished it. The arithmetic takes none.
  lzy::Result<double> Time(lzy::ExchangeWay way, const std::vector<std::uint64_t>& counts) {
    LZY_RETURN_IF_ERROR(Barrier());
    double start = Now(), end = 0;
    MPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MAX, comm_);
    LZY_RETURN_IF_ERROR(ExchangeBy(way, counts));
    const double mine = Now();
    MPI_Allreduce(&mine, &end, 1, MPI_DOUBLE, MPI_MAX, comm_);
    return end - start;
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string ProcessorName() const override { return "simulated"; }
  lzy::Status Barrier() override { return lzy::CheckMpi(MPI_Barrier(comm_), "MPI_Barrier"); }
  lzy::Status Broadcast(Bytes& bytes, int root) override {
    std::uint64_t length = bytes.size();
    LZY_RETURN_IF_ERROR(lzy::CheckMpi(MPI_Bcast(&length, 1, MPI_UINT64_T, root, comm_), "MPI_Bcast"));
    bytes.resize(length);
    return lzy::CheckMpi(MPI_Bcast(bytes.data(), static_cast<int>(length), MPI_BYTE, root, comm_), "MPI_Bcast");
  }
  lzy::Result<std::vector<Bytes>> AllGather(lzy::ByteSpan) override { return None(); }
  lzy::Result<std::vector<Bytes>> Gather(lzy::ByteSpan, int) override { return None(); }
  lzy::Result<std::uint64_t> AllReduceMax(std::uint64_t value) override { return Reduce(value, MPI_MAX); }
  lzy::Result<std::uint64_t> AllReduceSum(std::uint64_t value) override { return Reduce(value, MPI_SUM); }
  lzy::Result<std::unique_ptr<Communicator>> Split(int) override { return None(); }
  lzy::Status RunWithCalls(const lzy::CallHandler&, const std::function<void(lzy::Caller&)>&) override { return None(); }

  /// Exchanges words of the pool, whatever `send` and `receive` are: only sizes and times matter. The additions take
  /// time afterwards, not while messages travel.
  lzy::Status ReduceScatterXor(const std::uint64_t*, std::uint64_t*, std::span<const std::uint64_t> counts) override {
    const lzy::ExchangeWay way = WayFor(counts);
    const double start = Now();
    const lzy::Status status = ExchangeBy(way, counts);
    spent_.exchange += Now() - start;
    // Which one it was must be known here, because they differ in how much each rank adds.
    // In pairs, and in the reductions of SMPI, a rank adds up its own part from everybody. In a ring, it adds its share to all
    // that it passes on.
    const std::uint64_t mine = counts[static_cast<std::size_t>(rank_)] * (counts.size() - 1);
    const std::uint64_t passing = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    const double added = static_cast<double>(way == lzy::ExchangeWay::kRing ? passing : mine) * sizeof(std::uint64_t);
    Pass(added / rates_.add, spent_.compute);
    return status;
  }

 private:
  static lzy::Status None() { return {lzy::Code::kInternal, "not simulated"}; }

  /// As MpiCommunicator does.
  lzy::Status ExchangeBy(lzy::ExchangeWay way, std::span<const std::uint64_t> counts) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    if (way == lzy::ExchangeWay::kMpi) return Exchange(lzy::ReduceExchange(comm_, rank_, counts, kMost));
    const bool ring = way == lzy::ExchangeWay::kRing && size_ <= lzy::RingExchange::kMostRanks;
    return ring ? Exchange(lzy::RingExchange(comm_, rank_, counts, kMost)) : Exchange(lzy::PairwiseExchange(comm_, rank_, counts, kMost));
  }

  /// Sends and receives in the same words: SMPI does not copy shared memory, so nothing is overwritten.
  /// Runs one of lzy's exchanges in the pool. Counts its staging memory as held while it runs.
  template <class Exchanger>
  static lzy::Status Exchange(const Exchanger& exchange) {
    const std::uint64_t staging = exchange.StagingWords() * sizeof(std::uint64_t);
    if (staging > kPool) return {lzy::Code::kInternal, "more staging memory than is simulated"};
    HeldHere().Add(staging);
    auto* const words = static_cast<std::uint64_t*>(Pool());
    const lzy::Status status = exchange.Run(words, words, words);
    HeldHere().now -= staging;
    return status;
  }

  /// MPI_Allreduce of one word.
  lzy::Result<std::uint64_t> Reduce(std::uint64_t value, MPI_Op operation) const {
    std::uint64_t result = 0;
    const int error = MPI_Allreduce(&value, &result, 1, MPI_UINT64_T, operation, comm_);
    LZY_RETURN_IF_ERROR(lzy::CheckMpi(error, "MPI_Allreduce"));
    return result;
  }

  const MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 0;
  const Rates& rates_;
  Spent& spent_;
  const lzy::ExchangeWay way_;
  lzy::ExchangeTimes times_;
};

}  // namespace scale
