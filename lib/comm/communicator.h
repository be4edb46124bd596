#pragma once
// Collective communication as the engine uses it: one interface, over an MPI communicator or over nothing (one
// process, no MPI_Init). This room has no MPI: what includes mpi.h is in the rooms transport, validated and mpi.
//
// All calls are collective over the communicator and return the same kind of Status on every rank; payloads may exceed
// 2^31 elements. Errors are Code::kMpi with MPI's own text.

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/topology.h"

namespace lzy {

class Communicator {
 public:
  using Bytes = std::vector<std::uint8_t>;
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// What fails together with this process: the processor name.
  virtual std::string ProcessorName() const = 0;

  virtual Status Barrier() = 0;
  /// `bytes` of rank `root` replaces `bytes` everywhere, whatever its length.
  virtual Status Broadcast(Bytes& bytes, int root) = 0;
  /// How broadcasts of which this rank is the root travel from now on, here and in what is split off; groups are the
  /// ranks of a processor. Not collective: the root tells the others. Only MpiCommunicator has anything to choose from.
  virtual void SetTopology(const TopologyChoice&) {}
  /// Every rank's bytes, by rank, on every rank.
  virtual Result<std::vector<Bytes>> AllGather(ByteSpan mine) = 0;
  /// Every rank's bytes, by rank, on `root`; empty elsewhere.
  virtual Result<std::vector<Bytes>> Gather(ByteSpan mine, int root) = 0;
  virtual Result<std::uint64_t> AllReduceMax(std::uint64_t value) = 0;
  virtual Result<std::uint64_t> AllReduceSum(std::uint64_t value) = 0;
  /// `send` is the concatenation over ranks of counts[rank] 64-bit words; `receive` (counts[rank()] words) becomes the XOR
  /// over all ranks of the part meant for this one. `counts` is the same on all ranks.
  virtual Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive, std::span<const std::uint64_t> counts) = 0;
  /// Ranks with the same color form a communicator, ordered by rank; color < 0 takes part and gets nullptr.
  virtual Result<std::unique_ptr<Communicator>> Split(int color) = 0;
};

/// A communicator of this process alone; needs no MPI.
std::unique_ptr<Communicator> SelfCommunicator();

/// A communicator for each of `parts`, sets of ranks that are the same everywhere and may overlap; nullptr where this
/// rank is none of it. Parts without a common rank are made by one Split together, so that it takes few however many
/// there are. To be destroyed in their order, if they overlap.
Result<std::vector<std::unique_ptr<Communicator>>> SplitIntoParts(Communicator& comm,
                                                                 std::span<const std::set<int>> parts);

/// The gravest Status of all ranks (that of the lowest rank among equally grave ones), the same everywhere. With
/// it a failure on one rank stops all of them at the same place instead of leaving the others in a collective.
/// Unless all ranks say the same, the message begins with "rank R: ". Costs one reduction while all is well.
Status Agree(Communicator& comm, const Status& mine);

/// Does `work`, which must not communicate, and agrees on how it went. Whatever a rank does between two collective calls that can
/// run out of memory belongs into one of these: an exception that left only this rank would leave the others waiting.
template <class Work>
Status AgreeOn(Communicator& comm, const Work& work) {
  return Agree(comm, NoThrow(work));
}

}  // namespace lzy
