#pragma once
// Collective communication for the engine. There are two implementations: MpiCommunicator (lib/mpi) over an MPI
// communicator, and SelfCommunicator for one process without MPI. This room does not use MPI; only the rooms transport,
// validated and mpi include mpi.h. So the engine runs the same under mpiexec, without MPI and in tests.
//
// Rules: all calls are collective over the communicator, unless said otherwise, and made in the same order on all ranks, by
// one thread at a time. They return the same kind of Status on every rank. Payloads may exceed 2^31 elements. Errors are
// Code::kMpi with MPI's own text, or kNoMemory. After an error of MPI, other ranks may wait forever.

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/exchange_way.h"
#include "base/status.h"
#include "base/topology.h"
#include "comm/calls.h"

namespace lzy {

/// The ranks that work on one dataset, or on one group of a set. Destruction is collective for an MPI communicator:
/// destroy in the same order on all ranks.
class Communicator {
 public:
  using Bytes = std::vector<std::uint8_t>;
  virtual ~Communicator() = default;
  /// This process, from 0 to size() - 1. Local, as size() and ProcessorName() are.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The processor name. Processes with the same name fail together: placement and failure domains use it.
  virtual std::string ProcessorName() const = 0;

  /// Returns when all ranks have called it.
  virtual Status Barrier() = 0;
  /// Replaces `bytes` on every rank by those of rank `root`. The length of `bytes` on the other ranks does not matter. `root`
  /// is the same on all ranks.
  virtual Status Broadcast(Bytes& bytes, int root) = 0;
  /// Sets the topology of later broadcasts with this rank as the root, here and in communicators that are split off later.
  /// Local: the root sends it to the others with each broadcast. Only MpiCommunicator has several topologies.
  virtual void SetTopology(const TopologyChoice&) {}
  /// Sets the way of ReduceScatterXor, here and in communicators that are split off later. Only before the first
  /// ReduceScatterXor of this communicator; later it has no effect here. Local: that of rank 0 counts, and rank 0 sends it
  /// to the others with the first exchange. Only MpiCommunicator has several ways.
  virtual void SetExchange(ExchangeWay) {}
  /// Measures the ways of ReduceScatterXor for at most about `seconds`, and uses the fastest from now on, here and in later
  /// communicators of this process with as many ranks and nodes. Does nothing if there is nothing to choose: one node, another
  /// way than kAuto, or all times are known. Keeps the times for later jobs (tuning/exchange_tuning.h). `seconds` of rank 0
  /// counts. `again`: measures all ways, also known ones, and even if this process has measured before. Collective.
  virtual Status MeasureExchange(double /*seconds*/, bool /*again*/ = false) { return Status::Ok(); }
  /// The bytes of every rank, by rank, on every rank. Ranks may bring different amounts.
  virtual Result<std::vector<Bytes>> AllGather(ByteSpan mine) = 0;
  /// The bytes of every rank, by rank, on `root`; on other ranks, an empty vector.
  virtual Result<std::vector<Bytes>> Gather(ByteSpan mine, int root) = 0;
  /// The largest value of all ranks, or the sum, on every rank.
  virtual Result<std::uint64_t> AllReduceMax(std::uint64_t value) = 0;
  virtual Result<std::uint64_t> AllReduceSum(std::uint64_t value) = 0;
  /// XOR of parts. `send` has counts[r] 64-bit words for each rank r, one part after the other. `receive` (counts[rank()]
  /// words) becomes the XOR, over all ranks, of the parts for this rank. `counts` is the same on all ranks. The result is
  /// not proven here: see rows/xor_checks.h.
  virtual Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts) = 0;
  /// Makes a communicator of the ranks with the same color, in the order of their ranks. A rank with color < 0 takes
  /// part in the call and gets nullptr.
  virtual Result<std::unique_ptr<Communicator>> Split(int color) = 0;
  /// Runs `work`, which may call other ranks, in a thread of its own, and answers calls of other ranks by `handler`.
  /// Returns when `work` has ended on all ranks. The status is an exception of `work` on this rank, or an error of MPI.
  /// `work` must not use this communicator otherwise.
  virtual Status RunWithCalls(const CallHandler& handler, const std::function<void(Caller&)>& work) = 0;
};

/// A communicator of this process alone. Needs no MPI; its calls only copy.
std::unique_ptr<Communicator> SelfCommunicator();

/// Makes one communicator for each of `parts`: sets of ranks, the same on all ranks, that may overlap. nullptr if this rank
/// is not in the part. One Split makes all parts without a common rank, so few calls are needed for any number of parts.
/// Collective. If parts overlap, destroy the communicators in their order.
Result<std::vector<std::unique_ptr<Communicator>>> SplitIntoParts(Communicator& comm,
                                                                 std::span<const std::set<int>> parts);

/// The gravest Status of all ranks, the same on every rank; of equally grave ones, that of the lowest rank. If one rank
/// failed, all ranks stop at this place; without Agree, the others would wait in the next collective call. Unless all ranks
/// have the same status, the message begins with "rank R: ". Costs one reduction if all ranks succeeded. Collective.
Status Agree(Communicator& comm, const Status& mine);

/// Runs `work`, which must not communicate, and agrees on its status. Use it for all work between two collective calls that
/// may run out of memory: an exception on this rank alone would leave the others waiting.
template <class Work>
Status AgreeOn(Communicator& comm, const Work& work) {
  return Agree(comm, NoThrow(work));
}

}  // namespace lzy
