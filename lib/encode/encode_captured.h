#pragma once
// Makes leaves and parity of captured rows, without reading them back.
//
// The commit of a shared file (commit/protect_shared.cc) calls this after ShareCoverage and SortRows. Blocks that nobody
// captured must have been added to the capture before (EncodePass::ReadInto).

#include "encode/coverage.h"
#include "encode/encode.h"

namespace lzy {

/// Makes leaves and parity of `rows.own` and `rows.combined`. Each rank sets the leaves of the blocks that it
/// captured, and writes the parity of its own rows. The shares of combined rows are added up by ReduceScatterXor
/// (Gropp, Ross, Miller §3), and each rank writes the parity of an equal part of them. Costs are added to `pass`.
/// Collective; all ranks get the same Status. If it fails, some parity may have been written. It counts only with the
/// commit.
Status EncodeCaptured(const Context& context, const Layout& layout, const Capture& mine, const Coverage& coverage,
                      const SortedRows& rows, FileJob& job, EncodePass& pass);

}  // namespace lzy
