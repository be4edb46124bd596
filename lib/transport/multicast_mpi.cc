#include "transport/multicast_mpi.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "transport/mpi_call.h"

namespace lzy {
namespace {

constexpr int kTag = 1;

}  // namespace

// A rank receives from one other rank and sends to any number, in the order of the schedule. It receives piece p while
// piece p - 1 is still being sent. So a chain of ranks is a pipeline.
Status RunSchedule(MPI_Comm comm, int rank, std::span<const MulticastMessage> schedule, std::uint8_t* data,
                   std::uint64_t size, std::uint64_t max_transfer) {
  Transfers transfers(comm, kTag);
  int from = MPI_PROC_NULL;
  std::vector<int> to;
  for (const MulticastMessage& message : schedule) {
    if (message.to == rank) from = message.from;
    if (message.from == rank) to.push_back(message.to);
  }
  std::vector<MPI_Request> sends(to.size(), MPI_REQUEST_NULL);
  MPI_Request receive = MPI_REQUEST_NULL;
  for (std::uint64_t at = 0; at < size; at += max_transfer) {
    const auto bytes = static_cast<int>(std::min(max_transfer, size - at));
    if (from != MPI_PROC_NULL) transfers.Receive(data + at, bytes, from, receive);
    transfers.Await(receive, "MPI_Irecv");
    // The sends of the previous piece continued while this one arrived. Their requests are reused now.
    for (std::size_t i = 0; i < to.size(); ++i) {
      transfers.Await(sends[i], "MPI_Isend");
      transfers.Send(data + at, bytes, to[i], sends[i]);
    }
  }
  for (MPI_Request& send : sends) transfers.Await(send, "MPI_Isend");
  return transfers.status();
}

namespace {

constexpr int kLarge = 1 << 18;  // bytes of a large message
constexpr int kRounds = 8;       // the quickest round counts
constexpr int kBurst = 16;       // messages sent at once
// All bytes that Probe sends, including answers.
static_assert(kRounds * (kLarge + 1 + kBurst + 1 + 2 + 1) <= kMeasuringBytes);

/// One end of the measurement; `peer` is the other one. `first`: this end sends first, and its times count.
class Prober {
 public:
  Prober(MPI_Comm comm, bool first, int peer) : comm_(comm), first_(first), peer_(peer), buffer_(kLarge) {}

  /// Sends `count` messages of `bytes` bytes and gets an answer of one byte, kRounds times. Returns the seconds of the
  /// quickest round, as the first end sees it. All messages of a round are under way before one is waited for, as in
  /// RunSchedule.
  Result<double> Round(int count, int bytes) {
    double least = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      const double start = PMPI_Wtime();
      LZY_RETURN_IF_ERROR(Transfer(first_, count, bytes));
      LZY_RETURN_IF_ERROR(Transfer(!first_, 1, 1));
      least = std::min(least, PMPI_Wtime() - start);
    }
    return least;
  }

 private:
  /// Sends to the other end, or receives from it: at most kBurst messages, of at most kLarge bytes together. Every
  /// request is waited for, whatever failed before: MPI may still write to the buffer.
  Status Transfer(bool send, int count, int bytes) {
    std::array<MPI_Request, kBurst> requests;
    requests.fill(MPI_REQUEST_NULL);
    Transfers transfers(comm_, kTag);
    for (int i = 0; i < count; ++i) {
      std::uint8_t* const at = buffer_.data() + static_cast<std::ptrdiff_t>(i) * bytes;
      MPI_Request& request = requests[static_cast<std::size_t>(i)];
      send ? transfers.Send(at, bytes, peer_, request) : transfers.Receive(at, bytes, peer_, request);
    }
    for (MPI_Request& request : requests) transfers.Await(request, send ? "MPI_Isend" : "MPI_Irecv");
    return transfers.status();
  }

  const MPI_Comm comm_;
  const bool first_;
  const int peer_;
  std::vector<std::uint8_t> buffer_;
};

// A message and its answer take two latencies and two gaps. Each further message of a burst takes one gap more. The
// difference between a large and a small message is the time for its bytes. Noise may make a difference negative, so it is
// bounded by zero.
Result<CostModel> Probe(MPI_Comm comm, bool first, int peer) {
  Prober prober(comm, first, peer);
  LZY_ASSIGN_OR_RETURN(const double small, prober.Round(1, 1));
  LZY_ASSIGN_OR_RETURN(const double burst, prober.Round(kBurst, 1));
  LZY_ASSIGN_OR_RETURN(const double large, prober.Round(1, kLarge));
  CostModel model;
  model.gap = std::max(0.0, (burst - small) / (kBurst - 1));
  model.latency = std::max(0.0, small / 2 - model.gap);
  model.byte_time = std::max(0.0, (large - small) / kLarge);
  return model;
}

}  // namespace

// The broadcast is made even if Probe failed, since the ranks between wait in it.
Result<CostModel> MeasureCosts(MPI_Comm comm, int rank, int size) {
  if (size < 2) return CostModel{};
  std::array<double, 3> told{};
  Status status;
  if (rank == 0 || rank == size - 1) {
    const auto model = Probe(comm, rank == 0, rank == 0 ? size - 1 : 0);
    status = model.status();
    if (model.ok()) told = {model->latency, model->gap, model->byte_time};
  }
  const Status spread = CallMpi("MPI_Ibcast", [&](MPI_Request* request) {
    return PMPI_Ibcast(told.data(), static_cast<int>(told.size()), MPI_DOUBLE, 0, comm, request);
  });
  LZY_RETURN_IF_ERROR(status);
  LZY_RETURN_IF_ERROR(spread);
  return CostModel{told[0], told[1], told[2]};
}

}  // namespace lzy
