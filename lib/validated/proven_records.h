#pragma once
// Collective calls of lzy itself, in which ranks send different amounts that the others do not know in advance
// (docs/exchange.md, "What lzy itself sends"). MpiCommunicator moves the bytes, by MPI or by a multicast; a Records object
// proves them.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "validated/dialogue.h"
#include "validated/link.h"
#include "validated/together.h"
#include "validated/transfer_tree.h"
#include "validated/wire.h"

namespace lzy::validated {

/// One rank's side of one collective call. All ranks do the same, in this order:
///
///   1. make it, with what this rank brings;
///   2. Gather or Broadcast the records: amounts, roots, short payloads;
///   3. move the payloads that are not within() their records, by any means;
///   4. Take or Prove the payload of each rank;
///   5. Finish.
///
/// From step 2 on, this rank answers the requests of others whenever it waits in AwaitMpi or the pump. A failure of one
/// rank does not stop the others before Finish, which then fails on all of them. A rank must not leave earlier, unless all
/// do, because the others would wait forever. Exception: after kMpi, MPI cannot continue in any case.
///
/// For one thread at a time. A call with short payloads takes two collective calls of MPI: the records and a barrier.
class Records {
 public:
  /// The next collective call over `link`; all ranks must make their calls in the same order. `mine` has the bytes of this
  /// rank. `mine` and `link` must outlive this object, and `mine` must not change, because requests are answered from it.
  /// `note` is sent to the other ranks.
  Records(Link& link, ByteSpan mine, std::uint16_t note = 0);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  /// Gather receives the records of all ranks, Broadcast that of `root`. Collective. Afterwards all ranks agree on bytes()
  /// and note(), even if messages were damaged. A content that could not be proven is remembered for Finish. Fails only
  /// with kMpi.
  Status Gather();
  Status Broadcast(int root);
  /// Number of bytes and note of a rank. After Gather for all ranks; after Broadcast for the root.
  std::uint64_t bytes(std::size_t rank) const { return all_[rank].record.bytes; }
  std::uint16_t note(std::size_t rank) const { return all_[rank].record.note; }
  /// True if the payload came with its record: then Take gives it. If false, move it and give it to Prove. The same
  /// on all ranks.
  bool within(std::size_t rank) const { return bytes(rank) <= kMostInRecord; }
  /// Copies the payload of `rank` from its record. `to` has bytes(rank), and within(rank) is true.
  void Take(std::size_t rank, MutableByteSpan to) const;

  /// Compares `came` (bytes(rank) bytes) with the root of `rank`, and asks that rank for leaves that differ. Afterwards
  /// `came` has the bytes of `rank`, or the failure is remembered for Finish. Does nothing for this rank's own bytes.
  void Prove(std::size_t rank, MutableByteSpan came);
  /// Ends the call; collective. If any rank could not prove its bytes, fails on all ranks: with kMpi, or with kNoMemory on
  /// a rank that ran out of memory. Then no received bytes may be used.
  Status Finish();

 private:
  /// The knowledge about one rank.
  struct Other {
    Record record;
    /// The root is known. Without it, only the word is.
    bool known = false;
    /// The bytes after the header of the record: the payload, if it is short.
    Bytes within;
  };

  /// Begins to answer requests of other ranks; without `answers`, refuses them.
  void Serve(Answers* answers);
  /// Takes the record of `rank` from `message`, or asks for it.
  Status Receive(std::size_t rank, MutableByteSpan message);
  /// True if `message` is the record of `rank`, and the payload in it has its root.
  bool Accept(std::size_t rank, ByteSpan message);
  /// Asks for the word of `rank` by lengths only.
  Status AskWord(std::size_t rank);
  Status FetchFrom(std::size_t rank, MutableByteSpan came);
  void Note(const Status& status);

  Link& link_;
  const ByteSpan mine_;
  /// The same bytes as mine_, for Answers.
  const Payload payload_;
  TransferTree tree_;
  Answers answers_;
  std::optional<Together> together_;
  std::vector<Other> all_;  // by rank
  /// The first failure of this rank that the others must know.
  Status trouble_;
};

}  // namespace lzy::validated
