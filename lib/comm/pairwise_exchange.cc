#include "comm/pairwise_exchange.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "comm/mpi_call.h"

namespace lzy {

namespace {

constexpr int kTag = 0;
constexpr std::uint64_t kInFlight = 4;  // messages each way

class Pairwise {
 public:
  Pairwise(MPI_Comm comm, const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts,
           std::uint64_t piece, std::span<std::uint64_t> staging)
      : comm_(comm), send_(send), receive_(receive), counts_(counts), piece_(piece), staging_(staging), size_(counts.size()) {
    sends_.fill(MPI_REQUEST_NULL);
    receives_.fill(MPI_REQUEST_NULL);
  }

  // Message t of a rank goes to the rank t / pieces + 1 further on, and all ranks go through them in the same order, no
  // rank more than kInFlight ahead of what has arrived: so the rank that is furthest behind never waits for another.
  Status Run() {
    int rank = 0;
    LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Comm_rank(comm_, &rank), "MPI_Comm_rank"));
    rank_ = static_cast<std::size_t>(rank);
    starts_.resize(size_);
    std::exclusive_scan(counts_.begin(), counts_.end(), starts_.begin(), std::uint64_t{0});
    if (counts_[rank_] != 0) std::copy_n(send_ + starts_[rank_], counts_[rank_], receive_);
    pieces_ = (*std::max_element(counts_.begin(), counts_.end()) + piece_ - 1) / piece_;
    const std::uint64_t messages = pieces_ * (size_ - 1);
    for (std::uint64_t t = 0; t < std::min(kInFlight, messages); ++t) Start(t);
    for (std::uint64_t t = 0; t < messages; ++t) {
      Finish(t);
      if (t + kInFlight < messages) Start(t + kInFlight);
    }
    return status_;
  }

 private:
  std::uint64_t Offset(std::uint64_t t) const { return t % pieces_ * piece_; }
  std::uint64_t Words(std::size_t rank, std::uint64_t t) const {
    return counts_[rank] <= Offset(t) ? 0 : std::min(piece_, counts_[rank] - Offset(t));
  }
  std::uint64_t* Stage(std::uint64_t t) const { return staging_.data() + t % kInFlight * piece_; }

  void Start(std::uint64_t t) {
    const std::size_t distance = t / pieces_ + 1;
    const std::size_t to = (rank_ + distance) % size_;
    const std::size_t from = (rank_ + size_ - distance) % size_;
    const auto bytes = [&](std::size_t rank) { return static_cast<int>(Words(rank, t) * sizeof(std::uint64_t)); };
    if (bytes(rank_) != 0) {
      Note(PMPI_Irecv(Stage(t), bytes(rank_), MPI_BYTE, static_cast<int>(from), kTag, comm_, &receives_[t % kInFlight]),
           "MPI_Irecv");
    }
    if (bytes(to) != 0) {
      Note(PMPI_Isend(send_ + starts_[to] + Offset(t), bytes(to), MPI_BYTE, static_cast<int>(to), kTag, comm_,
                      &sends_[t % kInFlight]),
           "MPI_Isend");
    }
  }

  void Finish(std::uint64_t t) {
    Note(PMPI_Wait(&receives_[t % kInFlight], MPI_STATUS_IGNORE), "MPI_Wait");
    std::uint64_t* to = receive_ + Offset(t);
    const std::uint64_t* from = Stage(t);
    for (std::uint64_t i = 0, count = Words(rank_, t); i < count; ++i) to[i] ^= from[i];
    Note(PMPI_Wait(&sends_[t % kInFlight], MPI_STATUS_IGNORE), "MPI_Wait");
  }

  void Note(int error, const char* call) {
    if (Status status = CheckMpi(error, call); status_.ok()) status_ = std::move(status);
  }

  const MPI_Comm comm_;
  const std::uint64_t* const send_;
  std::uint64_t* const receive_;
  const std::span<const std::uint64_t> counts_;
  const std::uint64_t piece_;
  const std::span<std::uint64_t> staging_;
  const std::size_t size_;
  std::size_t rank_ = 0;
  std::vector<std::uint64_t> starts_;
  std::uint64_t pieces_ = 0;
  std::array<MPI_Request, kInFlight> sends_;
  std::array<MPI_Request, kInFlight> receives_;
  Status status_;
};

}  // namespace

std::uint64_t PairwiseStaging(std::uint64_t piece) {
  return kInFlight * piece;
}

Status PairwiseXor(MPI_Comm comm, const std::uint64_t* send, std::uint64_t* receive,
                   std::span<const std::uint64_t> counts, std::uint64_t piece, std::span<std::uint64_t> staging) {
  return Pairwise(comm, send, receive, counts, piece, staging).Run();
}

}  // namespace lzy
