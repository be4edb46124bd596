#pragma once
// Copies files that only other ranks see: one rank reads and proves the source, another one writes and proves the copy
// (docs/design/repair.md §9, "Copies").
//
// copy/copy_tree and copy/set use it. A rank that sees the source runs a SourceServer (remote.cc). The rank that copies has a
// RemoteSource in place of a LocalSource, which requests ranges of the file from the server (comm/calls.h). It requests
// ranges ahead, so that reading, sending and writing overlap. Hashes prove the bytes on the way.

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/calls.h"
#include "copy/source.h"
#include "request/context.h"

namespace lzy {

/// Opens `path` on the ranks `holders`. The first one decides which file it is; other ranks are used only if they see the
/// same file. A large file comes from all of them. Errors are those of LocalSource::Open, and kWriteFailed if bytes could
/// not be proven on the way. `caller` must outlive the source.
Result<std::unique_ptr<CopySource>> OpenRemoteSource(Caller& caller, const std::vector<int>& holders,
                                                     const std::string& path, CopySource::Wait wait);

/// Runs `work`, which may open remote sources with the Caller. Meanwhile this rank answers other ranks that open files which
/// it sees, and are in `given`; it opens them with LocalSource::Open, `rules` and context.options. `progress` is called with the bytes that
/// were read for others; may be empty. Collective over context.comm. Returns the status of RunWithCalls.
Status WithRemoteSources(const Context& context, SourceRules rules, const std::set<std::string>& given,
                         std::function<void(std::uint64_t bytes)> progress, const std::function<void(Caller&)>& work);

}  // namespace lzy
