#pragma once
// Whether parity is what the data of its rows give. A hash of parity says only that its bytes are those that a commit wrote.
//
// lzy-verify --encode and lzy-scrub ask this of what Examine found to have its hashes. Writes nothing.

#include <cstdint>

#include "judge/examine.h"

namespace lzy {

/// Which rows are encoded again.
struct ParityCheck {
  Interval unit_rows = {0, kEverythingBehind};  ///< of every group
  double share = 1;                             ///< of these: each unit row is taken with this probability
};

/// Encodes rows again of which all data blocks are right by `findings`, and compares with the leaves of their parity. If the
/// stored parity has its leaf, that is as good as comparing the bytes. Parity that differs gets BlockFault::kEncoding in
/// `findings`, whatever else was found of it. Each source is held to its leaf; a row of which one changed says nothing. Adds
/// what was read to `findings.bytes_read`, and the bytes of data that were encoded to `bytes_encoded`. If context.stop ends
/// it early: kInterrupted, and what was compared until then counts. Collective over context.comm; the same on all ranks.
Status CheckParity(const Context& context, const DatasetView& view, const ParityCheck& check, Findings& findings,
                   std::uint64_t& bytes_encoded);

}  // namespace lzy
