#include "simulated.h"

#include <map>
#include <new>
#include <numeric>
#include <simgrid/s4u.hpp>

#include "transport/mpi_call.h"
#include "transport/pairwise_exchange.h"
#include "transport/ring_exchange.h"

namespace scale {
namespace {

using lzy::Result;
using lzy::Status;

/// One memory for all buffers of all processes. SMPI does not copy what is in it.
constexpr std::size_t kPool = std::size_t{96} << 20;
void* Pool() {
  static void* const pool = smpi_shared_malloc(kPool, __FILE__, __LINE__);
  return pool;
}

struct Held {
  std::uint64_t now = 0;
  std::uint64_t most = 0;
  void Add(std::uint64_t bytes) { most = std::max(most, now += bytes); }
};
Held& HeldHere() {
  static std::map<aid_t, Held> held;
  return held[simgrid::s4u::this_actor::get_pid()];
}

template <class Way>
Status Exchange(const Way& exchange) {
  const std::uint64_t staging = exchange.StagingWords() * sizeof(std::uint64_t);
  if (staging > kPool) return {lzy::Code::kInternal, "more staging memory than is simulated"};
  HeldHere().Add(staging);
  auto* const words = static_cast<std::uint64_t*>(Pool());
  const Status status = exchange.Run(words, words, words);
  HeldHere().now -= staging;
  return status;
}

}  // namespace

double Now() {
  return simgrid::s4u::Engine::get_clock();
}

void Pass(double seconds, double& spent) {
  simgrid::s4u::this_actor::sleep_for(seconds);
  spent += seconds;
}

std::uint64_t PeakBuffers() {
  return HeldHere().most;
}

Result<std::size_t> SimulatedFile::ReadAt(std::uint64_t, lzy::MutableByteSpan to) {
  Pass(static_cast<double>(to.size()) / rates_.disk_read, spent_.read);
  return to.size();
}

Status SimulatedFile::WriteAt(std::uint64_t, lzy::ByteSpan from) {
  Pass(static_cast<double>(from.size()) / rates_.disk_write, spent_.write);
  return Status::Ok();
}

SimulatedCommunicator::SimulatedCommunicator(MPI_Comm comm, const Rates& rates, Spent& spent, Way way)
    : comm_(comm), rates_(rates), spent_(spent), way_(way) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
}

Status SimulatedCommunicator::Barrier() {
  return lzy::CheckMpi(MPI_Barrier(comm_), "MPI_Barrier");
}

Status SimulatedCommunicator::Broadcast(Bytes& bytes, int root) {
  std::uint64_t length = bytes.size();
  LZY_RETURN_IF_ERROR(lzy::CheckMpi(MPI_Bcast(&length, 1, MPI_UINT64_T, root, comm_), "MPI_Bcast"));
  bytes.resize(length);
  return lzy::CheckMpi(MPI_Bcast(bytes.data(), static_cast<int>(length), MPI_BYTE, root, comm_), "MPI_Bcast");
}

Result<std::uint64_t> SimulatedCommunicator::Reduce(std::uint64_t value, MPI_Op operation) const {
  std::uint64_t result = 0;
  const int error = MPI_Allreduce(&value, &result, 1, MPI_UINT64_T, operation, comm_);
  LZY_RETURN_IF_ERROR(lzy::CheckMpi(error, "MPI_Allreduce"));
  return result;
}

Status SimulatedCommunicator::ReduceScatterXor(const std::uint64_t*, std::uint64_t*,
                                               std::span<const std::uint64_t> counts) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const double start = Now();
  const bool ring = way_ == Way::kRing || (way_ == Way::kChosen && lzy::RingExchange::IsShorter(counts));
  const Status status = ring ? Exchange(lzy::RingExchange(comm_, rank_, counts, kMost))
                             : Exchange(lzy::PairwiseExchange(comm_, rank_, counts, kMost));
  spent_.exchange += Now() - start;
  const std::uint64_t mine = counts[static_cast<std::size_t>(rank_)] * (counts.size() - 1);
  const std::uint64_t passing = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const double added = static_cast<double>(ring ? passing : mine) * sizeof(std::uint64_t);
  Pass(added / rates_.add, spent_.compute);
  return status;
}

}  // namespace scale

// lzy::AlignedBuffer is all that asks for aligned memory.
void* operator new(std::size_t size, std::align_val_t) {
  if (size > scale::kPool) throw std::bad_alloc();
  scale::HeldHere().Add(size);
  return scale::Pool();
}
// The peak counts all that was ever asked for: buffers are kept.
void operator delete(void*, std::align_val_t) noexcept {}
