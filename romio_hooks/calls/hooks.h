#pragma once
// The hooks of the wrapped calls: the work of the layer before and after each real call. The exported functions
// (preload/exports.cc) call this room only through kLayer, which entry.cc passes to them. layer.h has the rules for all
// hooks: the program gets the result of the real call, no exception leaves a hook, and calls for untracked files cost next
// to nothing.
//
// A hook looks the handle up in the registry (files/), records what the call may change (transfers/), makes sure that an
// intent is set (epochs/), makes the real call, and records the result. Sync and close commit (epochs/, sets/). open.cc has
// the hooks of opening and deleting; hooks.cc has all others.
//
// This half is built for one MPI, so it can use MPI handles. The preloaded half (preload/) cannot.

#include "hooks/contract/layer.h"

namespace lzy::hooks {

/// The hooks of this half. Constant, and initialised before any code of this half runs.
extern const Layer kLayer;

}  // namespace lzy::hooks
