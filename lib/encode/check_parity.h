#pragma once
// Checks whether parity is right for the data of its rows. The hash of a parity block only proves that a commit wrote its
// bytes.
//
// lzy-verify --encode and lzy-scrub call this for rows that Examine found intact. Writes nothing.

#include <cstdint>

#include "judge/examine.h"

namespace lzy {

/// Selects the rows to check.
struct ParityCheck {
  Interval unit_rows = {0, kEverythingBehind};  ///< unit rows of every group
  double share = 1;                             ///< probability with which each of these unit rows is checked
};

/// Encodes rows again if `findings` says that all their data blocks are right, and compares the results with the leaves of
/// the stored parity. If the stored parity has its leaf, this is as good as comparing its bytes. Sets BlockFault::kEncoding
/// in `findings` for parity that differs, in place of any other fault. Compares each source with its leaf; skips rows with
/// a source that changed. Adds the bytes read to `findings.bytes_read`, and the encoded bytes of data to `bytes_encoded`.
/// If context.stop ends the check early, returns kInterrupted, and results so far count. Collective over context.comm; the
/// same on all ranks.
Status CheckParity(const Context& context, const DatasetView& view, const ParityCheck& check, Findings& findings,
                   std::uint64_t& bytes_encoded);

}  // namespace lzy
