#include "transport/pairwise_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "transport/mpi_call.h"

namespace lzy {

namespace {

// Bytes of a message, bytes of all messages that arrive at once, and messages each way: few large messages, or many small
// ones at once. Chosen by measurements, when lzy still waited by MPI_Wait (docs/performance/exchange.md).
constexpr std::uint64_t kMostPiece = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostStaging = std::uint64_t{16} << 20;
constexpr std::uint64_t kMostInFlight = 64;

}  // namespace

// All numbers follow from the longest part, so they are the same on all ranks.
PairwiseExchange::PairwiseExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts,
                                   std::uint64_t max_transfer)
    : comm_(comm), rank_(static_cast<std::size_t>(rank)), size_(counts.size()), counts_(counts), starts_(size_) {
  std::exclusive_scan(counts.begin(), counts.end(), starts_.begin(), std::uint64_t{0});
  const std::uint64_t longest = std::max<std::uint64_t>(1, *std::max_element(counts.begin(), counts.end()));
  const std::uint64_t most = std::max<std::uint64_t>(1, std::min(kMostPiece, max_transfer) / sizeof(std::uint64_t));
  piece_ = std::min(longest, most);
  pieces_ = (longest + piece_ - 1) / piece_;
  in_flight_ = std::min({kMostStaging / sizeof(std::uint64_t) / piece_, kMostInFlight, pieces_ * (size_ - 1)});
}

std::uint64_t PairwiseExchange::Words(std::size_t to, std::uint64_t t) const {
  return counts_[to] <= Offset(t) ? 0 : std::min(piece_, counts_[to] - Offset(t));
}

// One call of Run on one rank. Message t uses slot t mod in_flight of the staging memory and of the requests.
class PairwiseExchange::Transfer {
 public:
  Transfer(const PairwiseExchange& plan, const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging)
      : plan_(plan),
        send_(send),
        receive_(receive),
        staging_(staging),
        sends_(plan.in_flight_, MPI_REQUEST_NULL),
        receives_(plan.in_flight_, MPI_REQUEST_NULL) {}

  // Begins message t in both directions: to the rank `distance` further on, and from the rank as far before. So in
  // each step every rank sends to another one, and no rank gets all messages at once. The receive is posted first, so
  // its message finds a buffer.
  void Start(std::uint64_t t) {
    const std::size_t distance = t / plan_.pieces_ + 1;
    const std::size_t to = (plan_.rank_ + distance) % plan_.size_;
    const std::size_t from = (plan_.rank_ + plan_.size_ - distance) % plan_.size_;
    const std::uint64_t slot = t % plan_.in_flight_;
    if (const int bytes = Bytes(plan_.rank_, t); bytes != 0) {
      transfers_.Receive(staging_ + slot * plan_.piece_, bytes, static_cast<int>(from), receives_[slot]);
    }
    if (const int bytes = Bytes(to, t); bytes != 0) {
      transfers_.Send(send_ + plan_.starts_[to] + plan_.Offset(t), bytes, static_cast<int>(to), sends_[slot]);
    }
  }

  // Waits for message t, and adds up its words. The messages of the first peer come before all others. They start the sums
  // from this rank's own share, so `receive` need not be cleared. Also waits for the send, because its slot is used again.
  void Finish(std::uint64_t t) {
    const std::uint64_t slot = t % plan_.in_flight_;
    transfers_.Await(receives_[slot], "MPI_Irecv");
    if (const std::uint64_t count = plan_.Words(plan_.rank_, t); count != 0) {
      std::uint64_t* to = receive_ + plan_.Offset(t);
      const bool first = t < plan_.pieces_;
      const std::uint64_t* sum = first ? send_ + plan_.starts_[plan_.rank_] + plan_.Offset(t) : to;
      const std::uint64_t* arrived = staging_ + slot * plan_.piece_;
      for (std::uint64_t i = 0; i < count; ++i) to[i] = sum[i] ^ arrived[i];
    }
    transfers_.Await(sends_[slot], "MPI_Isend");
  }

  const Status& status() const { return transfers_.status(); }

 private:
  int Bytes(std::size_t to, std::uint64_t t) const {
    return static_cast<int>(plan_.Words(to, t) * sizeof(std::uint64_t));
  }

  const PairwiseExchange& plan_;
  const std::uint64_t* const send_;
  std::uint64_t* const receive_;
  std::uint64_t* const staging_;
  std::vector<MPI_Request> sends_;
  std::vector<MPI_Request> receives_;
  Transfers transfers_{plan_.comm_, /*tag=*/0};
};

// Message t of a rank goes to the rank t / pieces + 1 places further on. All ranks process the messages in the same order,
// and none starts more than in_flight messages beyond those that it has finished. So the rank that is furthest behind finds
// its message sent, and no rank waits forever.
Status PairwiseExchange::Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const {
  Transfer transfer(*this, send, receive, staging);
  const std::uint64_t messages = pieces_ * (size_ - 1);
  for (std::uint64_t t = 0; t < in_flight_; ++t) transfer.Start(t);
  for (std::uint64_t t = 0; t < messages; ++t) {
    transfer.Finish(t);
    if (t + in_flight_ < messages) transfer.Start(t + in_flight_);
  }
  return transfer.status();
}

}  // namespace lzy
