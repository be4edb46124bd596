#pragma once
// What each wrapped call does around the real one. The exported functions (preload/exports.cc) reach this room through
// kLayer alone, which entry.cc hands to them. layer.h says what all hooks keep to: the program gets the result of the
// real call, nothing is thrown, and calls for files that are not tracked cost next to nothing.
//
// Where a hook stands: it looks the handle up in the registry (files/), records what the call may change (transfers/),
// makes sure of an intent (epochs/), makes the real call, and records what came of it. Sync and close commit (epochs/,
// sets/). Opening and deleting are in open.cc, all other calls in hooks.cc.
//
// This half is built for one MPI, so it can look at its handles. The preloaded half (preload/) knows none.

#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// The hooks of this half. Constant, and initialised before any code of this half runs.
extern const Layer kLayer;

}  // namespace lzy::hooks
