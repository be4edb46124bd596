#include "transport/ring_exchange.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "transport/mpi_call.h"

namespace lzy {

namespace {

// Bounds of a piece, in words. Shorter ones cost latency, and with longer ones kSlots of them would not fit into 16
// MiB.
constexpr std::uint64_t kLeastPiece = (std::uint64_t{64} << 10) / sizeof(std::uint64_t);
constexpr std::uint64_t kLongestPiece = (std::uint64_t{512} << 10) / sizeof(std::uint64_t);

/// 64-bit words of a message. After the first piece went round, a link has carried about an eighth of its total.
std::uint64_t PieceOf(std::span<const std::uint64_t> counts) {
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const std::uint64_t longest = std::max<std::uint64_t>(1, *std::max_element(counts.begin(), counts.end()));
  const std::uint64_t hops = std::max<std::size_t>(3, counts.size()) - 2;
  return std::min(longest, std::clamp(all / hops / 8, kLeastPiece, kLongestPiece));
}

}  // namespace

RingExchange::RingExchange(MPI_Comm comm, int rank, std::span<const std::uint64_t> counts, std::uint64_t max_transfer)
    : comm_(comm), rank_(static_cast<std::size_t>(rank)), size_(counts.size()), counts_(counts) {
  piece_ = std::min(PieceOf(counts), std::max<std::uint64_t>(1, max_transfer / sizeof(std::uint64_t)));
}

/// One rank's side of a call of Run. A part goes round in pieces. With L the number of parts that are not empty, piece w
/// makes hop h, to the rank h + 1 after its owner, at time w·L + h (counted in hops). All ranks work in the order of these
/// times, so both sides of a link have its messages in the same order, and one tag is enough.
class RingExchange::Transfer {
 public:
  Transfer(const RingExchange& plan, const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging)
      : plan_(plan), send_(send), receive_(receive), staging_(staging), starts_(plan.size_) {
    std::exclusive_scan(plan.counts_.begin(), plan.counts_.end(), starts_.begin(), std::uint64_t{0});
    receives_.fill(MPI_REQUEST_NULL);
    sends_.fill(MPI_REQUEST_NULL);
    const auto parts = static_cast<std::uint64_t>(plan.size_ - std::count(plan.counts_.begin(), plan.counts_.end(), 0u));
    // All pieces of all parts pass this rank once. The owner of a part is the last to get its pieces.
    for (std::size_t part = 0; part < plan.size_; ++part) {
      const std::uint64_t hop = (plan.rank_ + 2 * plan.size_ - part - 1) % plan.size_;
      for (std::uint64_t w = 0; Words(part, w) > 0; ++w) pieces_.push_back({w * parts + hop, hop, part, w});
    }
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
      return a.time != b.time ? a.time < b.time : a.hop < b.hop;
    });
  }

  // Receives are posted as far ahead as there are slots. A piece that begins here (hop 0) needs no slot.
  Status Run() {
    std::size_t started = 0;
    for (const Piece& piece : pieces_) {
      for (; started < pieces_.size() && started_ < finished_ + kSlots; ++started) Start(pieces_[started]);
      Finish(piece);
    }
    for (MPI_Request& request : sends_) transfers_.Await(request, "MPI_Isend");
    transfers_.Await(own_, "MPI_Isend");
    return transfers_.status();
  }

 private:
  // One message, as this rank sees it.
  struct Piece {
    std::uint64_t time;
    std::uint64_t hop;     // the hop that ends here; 0: the piece begins here
    std::size_t part;      // the rank that gets this part
    std::uint64_t number;  // number within the part
  };

  std::uint64_t Words(std::size_t part, std::uint64_t number) const {
    const std::uint64_t done = number * plan_.piece_;
    return plan_.counts_[part] <= done ? 0 : std::min(plan_.piece_, plan_.counts_[part] - done);
  }
  void Send(const std::uint64_t* from, std::uint64_t words, MPI_Request& request) {
    const auto next = static_cast<int>((plan_.rank_ + 1) % plan_.size_);
    transfers_.Send(from, static_cast<int>(words * sizeof(std::uint64_t)), next, request);
  }

  /// Posts the receive of a piece that comes from the rank before. Its slot is free when the piece that was in it has
  /// been sent on.
  void Start(const Piece& piece) {
    if (piece.hop == 0) return;
    const std::uint64_t slot = started_++ % kSlots;
    transfers_.Await(sends_[slot], "MPI_Isend");
    const auto before = static_cast<int>((plan_.rank_ + plan_.size_ - 1) % plan_.size_);
    const auto bytes = static_cast<int>(Words(piece.part, piece.number) * sizeof(std::uint64_t));
    transfers_.Receive(staging_ + slot * plan_.piece_, bytes, before, receives_[slot]);
  }

  /// Waits for the piece, adds this rank's share, and sends the sum on, or keeps it if the part is this rank's own. A
  /// piece that begins here is sent from the program's buffer. One such send is under way at a time.
  void Finish(const Piece& piece) {
    const std::uint64_t words = Words(piece.part, piece.number);
    const std::uint64_t* share = send_ + starts_[piece.part] + piece.number * plan_.piece_;
    if (piece.hop == 0) {
      transfers_.Await(own_, "MPI_Isend");
      return Send(share, words, own_);
    }
    const std::uint64_t slot = finished_++ % kSlots;
    transfers_.Await(receives_[slot], "MPI_Irecv");
    std::uint64_t* sum = staging_ + slot * plan_.piece_;
    const bool mine = piece.part == plan_.rank_;
    std::uint64_t* to = mine ? receive_ + piece.number * plan_.piece_ : sum;
    for (std::uint64_t i = 0; i < words; ++i) to[i] = sum[i] ^ share[i];
    if (!mine) Send(sum, words, sends_[slot]);
  }

  const RingExchange& plan_;
  const std::uint64_t* const send_;
  std::uint64_t* const receive_;
  std::uint64_t* const staging_;
  std::vector<std::uint64_t> starts_;
  std::vector<Piece> pieces_;
  std::array<MPI_Request, kSlots> receives_{};
  std::array<MPI_Request, kSlots> sends_{};
  MPI_Request own_ = MPI_REQUEST_NULL;        // send of a piece that begins here
  std::uint64_t started_ = 0, finished_ = 0;  // receives: posted, and waited for
  Transfers transfers_{plan_.comm_, /*tag=*/0};
};

// No rank waits forever, because the earliest step can always continue. A piece waits for its previous hop, which is
// earlier by 1. A slot waits until its previous piece has been sent on. For that, the next rank must have a slot for it,
// one hop later. But that piece is the 32nd before. At any time a rank has fewer than 16 pieces: those of L parts whose
// hops differ by multiples of L, and L² < n <= 255. So the slot waits for a step that is earlier by at least 2.
Status RingExchange::Run(const std::uint64_t* send, std::uint64_t* receive, std::uint64_t* staging) const {
  return Transfer(*this, send, receive, staging).Run();
}

}  // namespace lzy
