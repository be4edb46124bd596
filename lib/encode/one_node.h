#pragma once
// Encodes a group of a set if all of its ranks can read all of its members through one page cache. Every rank takes rows of
// its own, as for a shared file, and nothing is reduced. MPI would copy each block twice; here it is read once
// (docs/design/overview.md §3, "The row pipeline").
//
// The commit of a set tries this first for each group (commit/protect_set_commit.cc). If it is not possible, it runs
// EncodePass::Run over the ranks.

#include <span>

#include "encode/encode.h"

namespace lzy {

/// A member of a group. In lists, its index is the file of the layout.
struct GroupMember {
  int owner = 0;           ///< rank in the group's communicator
  FileJob* job = nullptr;  ///< null unless this rank is the owner
};

/// Encodes the rows of `runs` in this way, if four conditions hold: all ranks of `comm` run under one kernel; each rank
/// sees the data and the new sidecars of all members as the same files; no block must be compared with a leaf that only its
/// owner knows; no owner has copies of blocks. Otherwise returns false on all ranks, and writes nothing. If true, each
/// owner has all leaves of its members, and parity is written but not synced. `runs` is the same on all ranks. Collective
/// over `comm`.
Result<bool> EncodeOnOneNode(const Context& context, EncodePass& pass, const Layout& layout, Communicator& comm,
                             std::span<const GroupMember> members, std::span<const RowRun> runs);

}  // namespace lzy
