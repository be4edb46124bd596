#include "transport/reduce_exchange.h"

#include <algorithm>
#include <numeric>

#include "transport/mpi_call.h"

namespace lzy {

namespace {

// Bytes of all pieces in one call, if one call is not enough.
constexpr std::uint64_t kMostPacked = std::uint64_t{16} << 20;

}  // namespace

// All numbers follow from `counts` and `max_transfer`, so all ranks make the same calls.
ReduceExchange::ReduceExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts, std::uint64_t max_transfer)
    : comm_(comm), rank_(static_cast<std::size_t>(rank)), counts_(counts) {
  longest_ = *std::max_element(counts.begin(), counts.end());
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const std::uint64_t most = std::max<std::uint64_t>(1, max_transfer / sizeof(std::uint64_t));
  if (longest_ == all) {
    only_ = static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    piece_ = std::min(std::max<std::uint64_t>(1, all), most);
  } else if (all <= most) {
    piece_ = longest_;
  } else {
    pack_ = true;
    piece_ = std::max<std::uint64_t>(1, std::min(most, kMostPacked / sizeof(std::uint64_t)) / counts.size());
  }
}

std::uint64_t ReduceExchange::Words(std::size_t part, std::uint64_t offset) const {
  return counts_[part] <= offset ? 0 : std::min(piece_, counts_[part] - offset);
}

// `to` may be null if there are no words for this rank. Some MPIs refuse a null buffer even then.
Status ReduceExchange::Reduce(const std::uint64_t* from, std::uint64_t* to, std::uint64_t offset) const {
  std::uint64_t nothing = 0;
  if (to == nullptr) to = &nothing;
  if (only_) {
    return CallMpi("MPI_Ireduce", [&](MPI_Request* request) {
      return PMPI_Ireduce(from, to, static_cast<int>(Words(*only_, offset)), MPI_UINT64_T, MPI_BXOR, static_cast<int>(*only_),
                          comm_, request);
    });
  }
  std::vector<int> counts(counts_.size());
  for (std::size_t part = 0; part < counts.size(); ++part) counts[part] = static_cast<int>(Words(part, offset));
  if (std::ranges::count(counts, counts.front()) == static_cast<std::ptrdiff_t>(counts.size())) {
    return CallMpi("MPI_Ireduce_scatter_block", [&](MPI_Request* request) {
      return PMPI_Ireduce_scatter_block(from, to, counts.front(), MPI_UINT64_T, MPI_BXOR, comm_, request);
    });
  }
  return CallMpi("MPI_Ireduce_scatter", [&](MPI_Request* request) {
    return PMPI_Ireduce_scatter(from, to, counts.data(), MPI_UINT64_T, MPI_BXOR, comm_, request);
  });
}

Status ReduceExchange::Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const {
  for (std::uint64_t offset = 0; offset < longest_; offset += piece_) {
    const std::uint64_t* from = send + offset;
    if (pack_) {
      std::uint64_t* to = staging;
      const std::uint64_t* part = send;
      for (std::size_t i = 0; i < counts_.size(); part += counts_[i], ++i) {
        if (const std::uint64_t words = Words(i, offset); words != 0) to = std::copy_n(part + offset, words, to);
      }
      from = staging;
    }
    LZY_RETURN_IF_ERROR(Reduce(from, Words(rank_, offset) == 0 ? nullptr : receive + offset, offset));
  }
  return Status::Ok();
}

}  // namespace lzy
