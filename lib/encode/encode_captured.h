#pragma once
// Parity of rows that were captured while they were written: nothing of them is read back.

#include "encode/coverage.h"
#include "encode/encode.h"

namespace lzy {

/// Brings leaves and parity of `rows.own` and `rows.combined` to `job`, every rank a part; the shares of combined rows
/// are added up by Reduce_scatter (Gropp, Ross, Miller §3). Costs are added to `pass`. Collective.
Status EncodeCaptured(const Context& context, const Layout& layout, const Capture& mine, const Coverage& coverage,
                      const SortedRows& rows, FileJob& job, EncodePass& pass);

}  // namespace lzy
