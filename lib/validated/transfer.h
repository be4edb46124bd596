#pragma once
// Validated messages from one rank to another (docs/exchange.md).

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/link.h"

namespace lzy::validated {

/// Of a message that came.
struct Envelope {
  int source = 0;
  int tag = 0;
  std::uint64_t bytes = 0;
};

/// Both are done when the receiver has proven every byte or given up, and say so on both sides: kCorrupt names the peer
/// and the bytes that could not be proven; kInvalidArgument: longer than the receiver's buffer, or not the call that the peer made.
/// `in_place`: the receiver has the bytes already, and they are only proven, and mended where they must be.
/// Buffers must stay as they are until then; the ends of `envelope`, which is set when an announcement has come, too.
Task Send(std::shared_ptr<Link> link, Payload payload, int dest, int tag, bool in_place);
/// `source` and `tag` may be MPI's wildcards.
Task Receive(std::shared_ptr<Link> link, Payload payload, int source, int tag, bool in_place, Envelope* envelope);

}  // namespace lzy::validated
