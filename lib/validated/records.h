#pragma once
// Collective calls of lzy's own, in which ranks bring different amounts: what moves the bytes is MPI's or lzy's
// collectives, and this proves what came (docs/exchange.md, "What lzy itself sends").

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "validated/link.h"
#include "validated/mend.h"
#include "validated/together.h"
#include "validated/tree.h"
#include "validated/wire.h"

namespace lzy::validated {

/// One rank's side of one call: records first, which say what each rank brings and have it in them where it is short;
/// then whoever uses this moves the rest; then every rank proves what came, and asks for what is wrong, until all are
/// done. Requests are answered from the making to Finish, whenever this process waits in AwaitMpi or the pump.
///
/// Short bytes cost one collective call beside the one that brings them, a barrier.
class Records {
 public:
  /// The next call over `link`, on all ranks; `mine`, which must outlive this, is what this rank brings. `note` goes
  /// with it.
  Records(Link& link, ByteSpan mine, std::uint16_t note = 0);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  /// Makes all ranks' known here (collective), or that of `root` alone. Fails on this rank only with kMpi; afterwards
  /// all ranks agree on what each brings, though contents may still be wrong.
  Status Gather();
  Status Broadcast(int root);
  std::uint64_t bytes(std::size_t rank) const { return all_[rank].record.bytes; }
  std::uint16_t note(std::size_t rank) const { return all_[rank].record.note; }
  /// Whether its bytes came with the record: then Take copies them, else they have to be moved, to be given to Prove.
  bool within(std::size_t rank) const { return bytes(rank) <= kMostInRecord; }
  void Take(std::size_t rank, MutableByteSpan to) const;

  /// Makes `came`, bytes(rank) of them, what rank `rank` brought. A failure is remembered, and told to all in Finish.
  void Prove(std::size_t rank, MutableByteSpan came);
  /// The end, collective. kMpi, on all ranks alike, if one of them could not prove what it got.
  Status Finish();

 private:
  struct Other {
    Record record;
    bool known = false;  // the root, not only the amount
    Bytes within;
  };

  void Serve(Answers* answers);
  Status Receive(std::size_t rank, MutableByteSpan message);
  bool Accept(std::size_t rank, ByteSpan message);
  Status AskWord(std::size_t rank);
  Status Mended(std::size_t rank, MutableByteSpan came);
  void Note(const Status& status);

  Link& link_;
  const ByteSpan mine_;
  const Payload payload_;
  TransferTree tree_;
  Answers answers_;
  std::optional<Together> together_;
  std::vector<Other> all_;  // by rank
  Status trouble_;
};

}  // namespace lzy::validated
