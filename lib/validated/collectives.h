#pragma once
// Validated broadcasts and gathers of the program (docs/exchange.md, "Collective calls"). lib/capi/exchange.cc runs them.
// MPI or a ring moves the bytes. Then each rank compares its bytes with the roots, and asks for leaves that differ (dialogue.h,
// together.h).
//
// All are collective over the link, one at a time, in the same order on all ranks. A task is done when every rank has
// proven all its bytes, or has given up. kCorrupt on a rank that could not prove its bytes, and on the rank that owns these
// bytes; the message names ranks and bytes. Other ranks succeed. kMpi: MPI failed, and other ranks may wait forever.
// Payloads must not change meanwhile. `in_place`: all ranks have the bytes already; they are only compared, and repaired if
// they differ.

#include <memory>
#include <vector>

#include "base/status.h"
#include "transport/packed_type.h"
#include "transport/task.h"
#include "validated/link.h"

namespace lzy::validated {

/// Makes `payload` on every rank that of `root`. kInvalidArgument on a rank whose payload has another length than that of
/// the root; the other ranks still get theirs.
Task Broadcast(std::shared_ptr<Link> link, Payload payload, int root, bool in_place);

/// Sends the bytes of every rank to every rank. `mine` has the bytes of this rank; blocks[r] gets those of rank r. All have
/// the same number of bytes, on all ranks. `mine` may be blocks[rank()] itself; otherwise it is copied there.
Task AllGather(std::shared_ptr<Link> link, Payload mine, std::vector<Payload> blocks, bool in_place);

}  // namespace lzy::validated
