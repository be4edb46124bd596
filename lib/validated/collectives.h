#pragma once
// Validated collective calls (docs/exchange.md): MPI moves the bytes, each rank proves what it has against the hashes of
// whose bytes they are, and asks for what is wrong.

#include <memory>
#include <vector>

#include "base/status.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/link.h"

namespace lzy::validated {

/// All are collective over the link, one at a time, and done when every rank has proven all it has or given up. kCorrupt on a
/// rank that could not prove its bytes, and on those whose bytes these are: names ranks and bytes.
/// `in_place`: everybody has the bytes already.

/// kInvalidArgument on a rank with another number of bytes than the root; the others are not held up by it.
Task Broadcast(std::shared_ptr<Link> link, Payload payload, int root, bool in_place);

/// `blocks`: where the bytes of each rank go, equally many of each; `mine`: this rank's, which may be blocks[rank].
Task AllGather(std::shared_ptr<Link> link, Payload mine, std::vector<Payload> blocks, bool in_place);

}  // namespace lzy::validated
