#pragma once
// Encoding a group whose members can all be read by all of its ranks from one page cache: every rank takes rows of its
// own, as with a shared file, and nothing is reduced. What would be copied twice through MPI is read once.

#include <span>

#include "encode/encode.h"

namespace lzy {

/// A member of a group, by file of the layout.
struct GroupMember {
  int owner = 0;           ///< rank in the group's communicator
  FileJob* job = nullptr;  ///< where this rank is the owner
};

/// Encodes the rows of `runs` so, if it can be done: all ranks of `comm` run under one kernel, each sees all members'
/// data and new sidecars as the same files, and no block has to be held to a leaf that its owner alone knows. False, and
/// nothing done, if not. Collective over `comm`; the owners have all leaves afterwards.
Result<bool> EncodeOnOneNode(const Context& context, EncodePass& pass, const Layout& layout, Communicator& comm,
                             std::span<const GroupMember> members, std::span<const RowRun> runs);

}  // namespace lzy
