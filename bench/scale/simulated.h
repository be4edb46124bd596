#pragma once
// The engine's surroundings in a simulation: disks and arithmetic that take virtual time, ranks over SMPI, and buffers
// that all processes have in common, since what is in them does not matter.

#include <mpi.h>

#include <cstdint>
#include <string>

#include "base/file.h"
#include "comm/communicator.h"

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

/// How partial parity is added up: as lzy chooses, or always in one way, for comparison.
enum class Way { kChosen, kPairwise, kRing };

/// Seconds on the simulation's clock.
double Now();
/// Lets `seconds` of virtual time pass for this process, and adds them to `spent`.
void Pass(double seconds, double& spent);

/// A file with nothing in it but a speed.
class SimulatedFile final : public lzy::File {
 public:
  SimulatedFile(const Rates& rates, Spent& spent) : rates_(rates), spent_(spent) {}
  lzy::Result<std::size_t> ReadAt(std::uint64_t offset, lzy::MutableByteSpan to) override;
  lzy::Result<std::size_t> ReadAtFromDevice(std::uint64_t offset, lzy::MutableByteSpan to) override {
    return ReadAt(offset, to);
  }
  lzy::Status WriteAt(std::uint64_t offset, lzy::ByteSpan from) override;
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
  SimulatedCommunicator(MPI_Comm comm, const Rates& rates, Spent& spent, Way way);
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string ProcessorName() const override { return "simulated"; }
  lzy::Status Barrier() override;
  lzy::Status Broadcast(Bytes& bytes, int root) override;
  lzy::Result<std::vector<Bytes>> AllGather(lzy::ByteSpan) override { return None(); }
  lzy::Result<std::vector<Bytes>> Gather(lzy::ByteSpan, int) override { return None(); }
  lzy::Result<std::uint64_t> AllReduceMax(std::uint64_t value) override { return Reduce(value, MPI_MAX); }
  lzy::Result<std::uint64_t> AllReduceSum(std::uint64_t value) override { return Reduce(value, MPI_SUM); }
  lzy::Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive,
                               std::span<const std::uint64_t> counts) override;
  lzy::Result<std::unique_ptr<Communicator>> Split(int) override { return None(); }

 private:
  static lzy::Status None() { return {lzy::Code::kInternal, "not simulated"}; }
  lzy::Result<std::uint64_t> Reduce(std::uint64_t value, MPI_Op operation) const;
  const MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 0;
  const Rates& rates_;
  Spent& spent_;
  const Way way_;
};

/// The most that this process ever held in page-aligned buffers (those of the pipeline) and staging memory, if they
/// were its own. Bytes.
std::uint64_t PeakBuffers();

}  // namespace scale
