#pragma once
// Validated messages from one rank to another (docs/exchange.md, "Messages from one rank to another").
// lib/capi/exchange.cc and proven_calls.cc start these tasks; they run in the Pump of the process, many at a time. The bytes are
// hashed on both sides while they travel; then the receiver asks for the leaves that differ (dialogue.h).

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/link.h"

namespace lzy::validated {

/// Sender, tag and size of a received message. MPI guarantees source and tag; `bytes` is set when the announcement was
/// proven.
struct Envelope {
  int source = 0;
  int tag = 0;
  std::uint64_t bytes = 0;
};

/// Sends `payload` to rank `dest`. Done, on both sides, when the receiver has proven every byte or has given up; both
/// sides then have the same kind of status. `in_place`: the receiver has the bytes already; they are only proven, and
/// repaired where they differ.
///
/// kCorrupt: bytes could not be proven; the message names the peer and the bytes. kInvalidArgument: the receiver's
/// buffer is smaller than the message, or one side sends while the other validates. kMpi: MPI failed, and the peer
/// may wait forever.
///
/// The memory of `payload` must not change until the task is done. `dest` and `tag` are those of the program, within
/// Link::most_tag().
Task Send(std::shared_ptr<Link> link, Payload payload, int dest, int tag, bool in_place);
/// The receiving side. `source` and `tag` may be MPI's wildcards. `payload` may be longer than the message. `envelope` must
/// outlive the task; it is set as soon as an announcement has arrived. Unless the task succeeds, nothing in `payload` may
/// be used.
Task Receive(std::shared_ptr<Link> link, Payload payload, int source, int tag, bool in_place, Envelope* envelope);

}  // namespace lzy::validated
