// MpiCommunicator. AllGather, Gather and Broadcast follow one pattern (docs/exchange.md, "What lzy itself sends"). A
// Records object tells all ranks the amounts. Memory is allocated on all ranks or on none. A suitable call moves long
// payloads; short ones came with the records. Then the Records object proves everything, and ends the call with one result
// on all ranks.
//
// Only PMPI_ names are called, so tools of the program do not count lzy's calls. Waiting is by AwaitMpi, which lets
// other processes run.

#include "mpi/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "comm/records.h"
#include "fmt/format.h"
#include "mpi/exchange_choice.h"
#include "transport/mpi_call.h"
#include "transport/multicast_mpi.h"
#include "transport/pairwise_exchange.h"
#include "transport/reduce_exchange.h"
#include "transport/ring_exchange.h"
#include "transport/shared_exchange.h"
#include "validated/proven_calls.h"
#include "validated/proven_records.h"

namespace lzy {

namespace {

/// Bytes. For larger allocations, ranks agree whether all of them got their memory. For smaller ones a further
/// reduction is not worth it; a rank that cannot get even that much fails alone.
constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;

/// Bit of the note in the record of a broadcast's root: the user gave costs to the root. The low bits are the topology.
constexpr std::uint16_t kCostsGiven = 0x100;

/// As a root: all ranks get the result.
constexpr int kEveryRank = -1;

std::uint16_t NoteOf(const TopologyChoice& choice) {
  return static_cast<std::uint16_t>(static_cast<std::uint16_t>(choice.topology) | (choice.costs ? kCostsGiven : 0));
}

// For one thread at a time, as the interface says. A communicator of one rank makes no MPI calls for payloads.
class Mpi final : public Communicator {
 public:
  /// Owns `comm`, which has MPI_ERRORS_RETURN set.
  Mpi(MPI_Comm comm, int rank, int size, std::uint64_t max_transfer, const std::string& node, const TopologyChoice& topology,
      ExchangeWay way)
      : comm_(comm),
        rank_(rank),
        size_(size),
        max_transfer_(max_transfer),
        node_(node),
        link_(validated::Link::Over(comm, rank, size)),
        self_(SelfCommunicator()),
        topology_(topology),
        way_(way) {}
  ~Mpi() override {
    int finalized = 0;
    if (PMPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) PMPI_Comm_free(&comm_);
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  /// Takes over a communicator that was just made, and frees it if something fails. nullptr for MPI_COMM_NULL.
  static Result<std::unique_ptr<Communicator>> Adopt(MPI_Comm comm, std::uint64_t max_transfer, const std::string& node,
                                                     const TopologyChoice& topology, ExchangeWay way);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string ProcessorName() const override;
  Status Barrier() override {
    return CallMpi("MPI_Ibarrier", [&](MPI_Request* request) { return PMPI_Ibarrier(comm_, request); });
  }
  Status Broadcast(Bytes& bytes, int root) override;
  void SetTopology(const TopologyChoice& topology) override { topology_ = topology; }
  void SetExchange(ExchangeWay way) override { way_ = way; }
  Status MeasureExchange(double seconds, bool again) override;
  Result<std::vector<Bytes>> AllGather(ByteSpan mine) override {
    return size_ == 1 ? self_->AllGather(mine) : Collect(mine, kEveryRank);
  }
  Result<std::vector<Bytes>> Gather(ByteSpan mine, int root) override {
    LZY_RETURN_IF_ERROR(CheckRoot(root));
    return size_ == 1 ? self_->Gather(mine, root) : Collect(mine, root);
  }
  Result<std::uint64_t> AllReduceMax(std::uint64_t value) override { return AllReduce(value, MPI_MAX); }
  Result<std::uint64_t> AllReduceSum(std::uint64_t value) override { return AllReduce(value, MPI_SUM); }
  Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive,
                          std::span<const std::uint64_t> counts) override;
  Result<std::unique_ptr<Communicator>> Split(int color) override;
  Status RunWithCalls(const CallHandler& handler, const std::function<void(Caller&)>& work) override {
    return size_ == 1 ? self_->RunWithCalls(handler, work) : validated::RunWithCalls(comm_, handler, work);
  }

 private:
  /// Bytes that have to be moved for each rank, apart from its record, and of all ranks together. The same on all
  /// ranks.
  struct Sizes {
    std::vector<std::uint64_t> of;
    std::uint64_t total = 0;
    // Memory for the results, including records.
    std::uint64_t room = 0;
  };

  Status CheckRoot(int root) const;
  Result<std::uint64_t> AllReduce(std::uint64_t value, MPI_Op operation);
  // By rank: sizes of payloads that do not come with the records.
  Sizes LongOnes(const validated::Records& records) const;
  // The bytes of every rank, on `root` or on kEveryRank.
  Result<std::vector<Bytes>> Collect(ByteSpan mine, int root);
  // Moves the long ones in one call of MPI, by way of `flat`, which has room for all of them where they go.
  Status CollectAtOnce(const Sizes& sizes, ByteSpan mine, int root, Bytes& flat, std::vector<Bytes>& all);
  /// Runs `allocate` on every rank; kNoMemory on all of them if it throws on one. `bytes` is the same on all ranks: the
  /// amount of the rank that allocates most. Collective if `bytes` is more than kSmall.
  template <class Allocate>
  Status AllocateTogether(std::uint64_t bytes, Allocate allocate);
  /// Calls transfer(offset, int count) for consecutive pieces of `size` bytes, until one fails.
  template <class Transfer>
  Status InPieces(std::uint64_t size, Transfer transfer) const;
  Status BroadcastPieces(std::uint8_t* data, std::uint64_t size, int root);
  // Moves a broadcast by the topology that `note` asks for.
  Status Spread(std::uint8_t* data, std::uint64_t size, int root, std::uint16_t note);
  // The topology that kAuto selects for a broadcast of `size` bytes.
  Result<Topology> Cheapest(std::uint64_t size, int root, bool given);
  // Makes groups_: the ranks by processor. Collective the first time.
  Status FindGroups();
  // Moves the long ones rank by rank and piece by piece.
  Status CollectPieces(const Sizes& sizes, ByteSpan mine, int root, std::vector<Bytes>& all);
  // Agrees on the way of exchanges, and tries to make shared_. Collective the first time.
  Status AgreeOnExchange();
  // What measured times depend on. After FindGroups.
  ExchangePlace Place() const;
  // Makes an exchange by messages: by kPairwise or kRing, or else by kMpi.
  Status ExchangeBy(ExchangeWay way, const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts);
  template <class Way>
  Status Exchange(const Way& exchange, const std::uint64_t* send, std::uint64_t* receive);

  MPI_Comm comm_;
  const int rank_;
  const int size_;
  const std::uint64_t max_transfer_;
  const std::string node_;
  const std::unique_ptr<validated::Link> link_;
  // Does the work if this is the only rank.
  const std::unique_ptr<Communicator> self_;
  // The way that rank 0 chose; empty until the first exchange.
  std::optional<ExchangeWay> agreed_way_;
  // With kAuto and kShared, if ranks do not share memory.
  std::optional<ExchangePlan> plan_;
  // nullptr unless all ranks share memory and the way uses it.
  std::unique_ptr<SharedExchange> shared_;
  // Topology of broadcasts with this rank as the root.
  TopologyChoice topology_;
  // The way of exchanges if this rank is rank 0.
  ExchangeWay way_;
  // Ranks by processor; empty until they are needed.
  RankGroups groups_;
  // Measured when they are first needed.
  std::optional<CostModel> costs_;
  // Memory of exchanges by messages, kept for the next one.
  std::unique_ptr<std::uint64_t[]> staging_;
  std::uint64_t staging_words_ = 0;
};

Result<std::unique_ptr<Communicator>> Mpi::Adopt(MPI_Comm comm, std::uint64_t max_transfer, const std::string& node,
                                                 const TopologyChoice& topology, ExchangeWay way) {
  if (comm == MPI_COMM_NULL) return std::unique_ptr<Communicator>();
  int rank = 0;
  int size = 0;
  Status status = CheckMpi(PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (status.ok()) status = CheckMpi(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  if (status.ok()) status = CheckMpi(PMPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (!status.ok()) {
    PMPI_Comm_free(&comm);
    return status;
  }
  return std::unique_ptr<Communicator>(std::make_unique<Mpi>(comm, rank, size, max_transfer, node, topology, way));
}

// If MPI reports none, returns the host name.
std::string Mpi::ProcessorName() const {
  if (!node_.empty()) return node_;
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
  int length = 0;
  if (PMPI_Get_processor_name(name.data(), &length) != MPI_SUCCESS) return self_->ProcessorName();
  return std::string(name.data(), static_cast<std::size_t>(length));
}

Status Mpi::CheckRoot(int root) const {
  if (root >= 0 && root < size_) return Status::Ok();
  return Status(Code::kInternal, fmt::format("root {} in a communicator of {} ranks", root, size_));
}

// Not proven: 8 bytes, for agreement between ranks (docs/exchange.md, "What lzy itself sends").
Result<std::uint64_t> Mpi::AllReduce(std::uint64_t value, MPI_Op operation) {
  std::uint64_t result = value;
  if (size_ == 1) return result;
  LZY_RETURN_IF_ERROR(CallMpi("MPI_Iallreduce", [&](MPI_Request* request) {
    return PMPI_Iallreduce(&value, &result, 1, MPI_UINT64_T, operation, comm_, request);
  }));
  return result;
}

// All ranks agree on whether every one has the memory, unless it is little.
template <class Allocate>
Status Mpi::AllocateTogether(std::uint64_t bytes, Allocate allocate) {
  std::uint64_t failures = NoThrow(allocate).ok() ? 0 : 1;
  if (bytes > kSmall) {
    LZY_ASSIGN_OR_RETURN(failures, AllReduceSum(failures));
  }
  if (failures == 0) return Status::Ok();
  return Status(Code::kNoMemory, fmt::format("no memory for an exchange of {} bytes", bytes));
}

template <class Transfer>
Status Mpi::InPieces(std::uint64_t size, Transfer transfer) const {
  for (std::uint64_t offset = 0; offset < size; offset += max_transfer_) {
    LZY_RETURN_IF_ERROR(transfer(offset, static_cast<int>(std::min(max_transfer_, size - offset))));
  }
  return Status::Ok();
}

Status Mpi::BroadcastPieces(std::uint8_t* data, std::uint64_t size, int root) {
  return InPieces(size, [&](std::uint64_t offset, int count) {
    return CallMpi("MPI_Ibcast", [&](MPI_Request* request) {
      return PMPI_Ibcast(data + offset, count, MPI_BYTE, root, comm_, request);
    });
  });
}

// The record of the root contains the size and the topology. So ranks with different settings make the same calls.
Status Mpi::Broadcast(Bytes& bytes, int root) {
  LZY_RETURN_IF_ERROR(CheckRoot(root));
  if (size_ == 1) return Status::Ok();
  const auto from = static_cast<std::size_t>(root);
  validated::Records records(*link_, rank_ == root ? ByteSpan(bytes) : ByteSpan(), NoteOf(topology_));
  LZY_RETURN_IF_ERROR(records.Broadcast(root));
  const std::uint64_t length = records.bytes(from);
  LZY_RETURN_IF_ERROR(AllocateTogether(length, [&] { bytes.resize(length); }));
  if (!records.within(from)) {
    LZY_RETURN_IF_ERROR(Spread(bytes.data(), length, root, records.note(from)));
    records.Prove(from, bytes);
  } else if (rank_ != root) {
    records.Take(from, bytes);
  }
  return records.Finish();
}

// All ranks go by the note of the root, and by the same groups and costs. So they compute the same schedule.
Status Mpi::Spread(std::uint8_t* data, std::uint64_t size, int root, std::uint16_t note) {
  auto topology = static_cast<Topology>(note & ~kCostsGiven);
  if (topology == Topology::kAuto) {
    LZY_ASSIGN_OR_RETURN(topology, Cheapest(size, root, (note & kCostsGiven) != 0));
  }
  if (topology == Topology::kBcast) return BroadcastPieces(data, size, root);
  LZY_RETURN_IF_ERROR(FindGroups());
  return RunSchedule(comm_, rank_, MakeSchedule(topology, groups_, root), data, size, max_transfer_);
}

// `given`: the user gave costs to the root. Then only the root can choose, and it broadcasts the choice. Otherwise the
// costs are measured, once, if the message is long enough. All ranks know its size, so they decide alike.
Result<Topology> Mpi::Cheapest(std::uint64_t size, int root, bool given) {
  if (!given && size < kMeasuringBytes) return Topology::kBcast;
  LZY_RETURN_IF_ERROR(FindGroups());
  if (groups_.size() == 1) return Topology::kBcast;
  if (given) {
    Topology chosen{};
    if (rank_ == root) chosen = ChooseTopology(groups_, root, size, topology_.costs.value_or(CostModel{}));
    LZY_RETURN_IF_ERROR(BroadcastRecord(*this, chosen, root));
    return chosen;
  }
  if (!costs_) {
    LZY_ASSIGN_OR_RETURN(CostModel measured, MeasureCosts(comm_, rank_, size_));
    // Rank 0's numbers count, and travel in a proven call: with different costs, ranks would compute different
    // schedules and wait forever.
    LZY_RETURN_IF_ERROR(BroadcastRecord(*this, measured));
    costs_ = measured;
  }
  return ChooseTopology(groups_, root, size, *costs_);
}

Status Mpi::FindGroups() {
  if (!groups_.empty()) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(const auto names, AllGatherRecords(*this, ProcessorName()));
  groups_ = GroupsByName(names);
  return Status::Ok();
}

/// All numbers come from the records, which are the same on all ranks.
Mpi::Sizes Mpi::LongOnes(const validated::Records& records) const {
  Sizes sizes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i) {
    sizes.of.push_back(records.within(i) ? 0 : records.bytes(i));
    sizes.total += sizes.of.back();
    sizes.room += records.bytes(i) + validated::kRecordBytes;
  }
  return sizes;
}

// The steps are those at the beginning of this file. All ranks learn the amounts, even if only one rank needs the bytes,
// because all must choose the same of the two ways.
Result<std::vector<Communicator::Bytes>> Mpi::Collect(ByteSpan mine, int root) {
  validated::Records records(*link_, mine);
  LZY_RETURN_IF_ERROR(records.Gather());
  const Sizes sizes = LongOnes(records);
  const bool at_once = sizes.total <= max_transfer_;
  std::vector<Bytes> all;
  Bytes flat;
  // Ranks to which nothing comes allocate nothing, but take part in agreeing on it.
  LZY_RETURN_IF_ERROR(AllocateTogether(sizes.room, [&] {
    if (root != kEveryRank && root != rank_) return;
    for (std::size_t i = 0; i < sizes.of.size(); ++i) all.emplace_back(records.bytes(i));
    if (at_once) flat.resize(sizes.total);
  }));
  if (sizes.total > 0) {
    LZY_RETURN_IF_ERROR(at_once ? CollectAtOnce(sizes, mine, root, flat, all) : CollectPieces(sizes, mine, root, all));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (records.within(i)) {
      records.Take(i, all[i]);
    } else {
      records.Prove(i, all[i]);
    }
  }
  LZY_RETURN_IF_ERROR(records.Finish());
  return all;
}

// MPI fills one buffer, which is then cut into a vector for each rank. The total fits an int.
Status Mpi::CollectAtOnce(const Sizes& sizes, ByteSpan mine, int root, Bytes& flat, std::vector<Bytes>& all) {
  const std::vector<int> counts(sizes.of.begin(), sizes.of.end());
  std::vector<int> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  const int brought = counts[static_cast<std::size_t>(rank_)];
  LZY_RETURN_IF_ERROR(CallMpi(root == kEveryRank ? "MPI_Iallgatherv" : "MPI_Igatherv", [&](MPI_Request* request) {
    if (root == kEveryRank) {
      return PMPI_Iallgatherv(mine.data(), brought, MPI_BYTE, flat.data(), counts.data(), offsets.data(), MPI_BYTE,
                              comm_, request);
    }
    return PMPI_Igatherv(mine.data(), brought, MPI_BYTE, flat.data(), counts.data(), offsets.data(), MPI_BYTE, root,
                         comm_, request);
  }));
  for (std::size_t i = 0; i < all.size(); ++i) std::copy_n(flat.begin() + offsets[i], counts[i], all[i].begin());
  return Status::Ok();
}

// For totals that are too large for one call, whose displacements are ints. Each rank broadcasts its own bytes, or the
// root receives from one rank after the other.
Status Mpi::CollectPieces(const Sizes& sizes, ByteSpan mine, int root, std::vector<Bytes>& all) {
  constexpr int kTag = 0;
  if (!all.empty()) std::copy(mine.begin(), mine.end(), all[static_cast<std::size_t>(rank_)].begin());
  for (int from = 0; from < size_; ++from) {
    const std::uint64_t size = sizes.of[static_cast<std::size_t>(from)];
    std::uint8_t* part = all.empty() ? nullptr : all[static_cast<std::size_t>(from)].data();
    if (root == kEveryRank) {
      LZY_RETURN_IF_ERROR(BroadcastPieces(part, size, from));
    } else if (from != root && (rank_ == root || rank_ == from)) {
      LZY_RETURN_IF_ERROR(InPieces(size, [&](std::uint64_t offset, int count) {
        return CallMpi(rank_ == root ? "MPI_Irecv" : "MPI_Isend", [&](MPI_Request* request) {
          return rank_ == root ? PMPI_Irecv(part + offset, count, MPI_BYTE, from, kTag, comm_, request)
                               : PMPI_Isend(mine.data() + offset, count, MPI_BYTE, root, kTag, comm_, request);
        });
      }));
    }
  }
  return Status::Ok();
}

// All ranks go the same way: they know the way of rank 0, `counts`, and whether memory is shared. The caller proves the
// result (rows/xor_checks.h).
Status Mpi::ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts) {
  if (counts.size() != static_cast<std::size_t>(size_)) {
    return Status(Code::kInternal, fmt::format("ReduceScatterXor: {} counts for {} ranks", counts.size(), size_));
  }
  if (size_ == 1) return self_->ReduceScatterXor(send, receive, counts);
  if (std::all_of(counts.begin(), counts.end(), [](std::uint64_t count) { return count == 0; })) return Status::Ok();
  LZY_RETURN_IF_ERROR(AgreeOnExchange());
  Status status;
  if (shared_ != nullptr) {
    shared_->ReduceScatterXor(send, receive, counts);
  } else {
    status = ExchangeBy(plan_ ? plan_->WayFor(counts) : *agreed_way_, send, receive, counts);
  }
  const std::uint64_t got = counts[static_cast<std::size_t>(rank_)] * sizeof(std::uint64_t);
  // So tests can damage sums as if a message had been damaged.
  link_->Arrived(validated::MessagePart::kSum, rank_, {reinterpret_cast<std::uint8_t*>(receive), got});
  return status;
}

Status Mpi::ExchangeBy(ExchangeWay way, const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts) {
  if (way == ExchangeWay::kPairwise || (way == ExchangeWay::kRing && size_ > RingExchange::kMostRanks)) {
    return Exchange(PairwiseExchange(comm_, rank_, counts, max_transfer_), send, receive);
  }
  if (way == ExchangeWay::kRing) return Exchange(RingExchange(comm_, rank_, counts, max_transfer_), send, receive);
  return Exchange(ReduceExchange(comm_, rank_, counts, max_transfer_), send, receive);
}

template <class Way>
Status Mpi::Exchange(const Way& exchange, const std::uint64_t* send, std::uint64_t* receive) {
  if (const std::uint64_t words = exchange.StagingWords(); words > staging_words_) {
    // More than kSmall, so that the ranks agree on it. All ranks come here or none, because they need the same number of
    // words.
    const std::uint64_t bytes = std::max(kSmall + 1, words * sizeof(std::uint64_t));
    LZY_RETURN_IF_ERROR(AllocateTogether(bytes, [&] { staging_.reset(new std::uint64_t[words]); }));
    staging_words_ = words;
  }
  return exchange.Run(send, receive, staging_.get());
}

// Not before it is needed: many communicators only ever agree on something.
Status Mpi::AgreeOnExchange() {
  if (agreed_way_) return Status::Ok();
  // Some MPI calls of a peer need this process to call MPI before they return. A probe does that and receives
  // nothing.
  const auto make_progress = [this] {
    int found = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &found, MPI_STATUS_IGNORE);
  };
  ExchangeWay way = way_;
  LZY_ASSIGN_OR_RETURN(shared_, SharedExchange::Make(*this, way, make_progress));
  if (shared_ == nullptr && (way == ExchangeWay::kAuto || way == ExchangeWay::kShared)) {
    LZY_RETURN_IF_ERROR(FindGroups());
    LZY_ASSIGN_OR_RETURN(plan_, AgreeOnPlan(*this, Place()));
  }
  agreed_way_ = way;
  return Status::Ok();
}

// Some MPI libraries have pages of text for a version; the first of them is enough.
ExchangePlace Mpi::Place() const {
  ExchangePlace place;
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (PMPI_Get_library_version(text.data(), &length) == MPI_SUCCESS) place.mpi.assign(text.data(), static_cast<std::size_t>(length));
  place.ranks = static_cast<std::uint64_t>(size_);
  place.nodes = groups_.size();
  for (const auto& group : groups_) place.most_on_node = std::max<std::uint64_t>(place.most_on_node, group.size());
  return place;
}

// Without `again`, a communicator that has made no exchange makes none for the measurement. All ranks know this alike.
Status Mpi::MeasureExchange(double seconds, bool again) {
  if (size_ == 1 || (!agreed_way_ && !again)) return Status::Ok();
  LZY_RETURN_IF_ERROR(AgreeOnExchange());
  if (!plan_ || (plan_->done && !again)) return Status::Ok();
  const RunWay run = [this](ExchangeWay way, const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts) {
    return ExchangeBy(way, send, receive, counts);
  };
  return lzy::MeasureExchange(*this, Place(), seconds, again, run, *plan_);
}

// Inherits the size of pieces, the node, the topology and the way of exchanges. Groups and costs are found anew if they are needed.
Result<std::unique_ptr<Communicator>> Mpi::Split(int color) {
  MPI_Comm part = MPI_COMM_NULL;
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, rank_, &part), "MPI_Comm_split"));
  return Adopt(part, max_transfer_, node_, topology_, way_);
}

}  // namespace

Result<std::unique_ptr<Communicator>> MpiCommunicator(MPI_Comm comm, std::uint64_t max_transfer, const std::string& node) {
  if (comm == MPI_COMM_NULL) return Status(Code::kInvalidArgument, "MpiCommunicator: MPI_COMM_NULL");
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  if (max_transfer == 0 || max_transfer > kMost) {
    return Status(Code::kInvalidArgument,
                  fmt::format("MpiCommunicator: max_transfer {} is not in 1..{}", max_transfer, kMost));
  }
  MPI_Comm own = MPI_COMM_NULL;
  LZY_RETURN_IF_ERROR(CopyComm(comm, own));
  // MPI_Bcast, until SetTopology says something else.
  return Mpi::Adopt(own, max_transfer, node, {Topology::kBcast, {}}, ExchangeWay::kAuto);
}

}  // namespace lzy
