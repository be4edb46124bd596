#pragma once
// Copies of files that only other ranks see: one rank reads and proves the source, another one writes and proves the
// copy (docs/design/repair.md §9, "Copies").
//
// copy/tree and copy/set use it. A rank that sees the source answers by a SourceServer (remote.cc). The rank that copies
// has a RemoteSource in place of a LocalSource, and calls the server for ranges of the file (comm/calls.h). It asks
// ahead, so that reading, the network and writing overlap. What travels is proven by its hashes on the way.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/calls.h"
#include "copy/source.h"
#include "request/context.h"

namespace lzy {

/// Opens `path` as the ranks `holders` see it; the first one counts, and what another one sees must be the same file.
/// A large file comes from all of them. Errors are those of LocalSource::Open, and kWriteFailed if something could
/// not be proven on its way. `caller` must outlive it.
Result<std::unique_ptr<CopySource>> OpenRemoteSource(Caller& caller, const std::vector<int>& holders,
                                                     const std::string& path, CopySource::Wait wait);

/// Runs `work`, which may open sources by its caller, while this rank answers others that open files which it sees. They
/// are opened as by LocalSource, with `salvage` and context.options. `progress`: told of bytes that were read for others; may be
/// empty. Collective over context.comm; returns what RunWithCalls does.
Status WithRemoteSources(const Context& context, bool salvage, std::function<void(std::uint64_t bytes)> progress,
                         const std::function<void(Caller&)>& work);

}  // namespace lzy
