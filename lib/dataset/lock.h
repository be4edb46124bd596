#pragma once
// Locks sidecars (docs/design/commit.md §7), and creates empty ones to lock.
//
// A process that changes a sidecar, or the files of a dataset, holds the advisory lock on the sidecar's file. The lock lasts
// as long as the Sidecar that LockSidecar returns. A commit may rename a new sidecar over the locked file, so the lock
// counts only if the name still means this file. All functions are local.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "request/options.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// The contents of a sidecar before its first commit.
struct EmptySidecar {
  SidecarContents contents;      ///< kind, uuid, name; sizes and roots are zero
  std::optional<Intent> intent;  ///< the sidecar gets it before it gets its name
};
EmptySidecar NewSidecar(const Options& options, DatasetKind kind, const std::string& name, std::uint32_t rank);

/// Locked files of sidecars, by path of the data file. If an operation opens its dataset again, it passes them on
/// (ReleaseLocks) instead of locking anew. Otherwise another process could change the dataset in between, and a server may
/// keep a released lock for a while.
using HeldLocks = std::map<std::string, std::shared_ptr<File>>;

/// Creates the sidecar `path` of the file `data`, without a lock. Leaves an existing `path` as it is and succeeds.
Status MakeSidecar(FileSystem& fs, const std::string& path, File& data, const EmptySidecar& empty);

/// Opens the sidecar `path` and locks it. Checks that `path` still means the locked file, then loads the sidecar.
///  - `data`: the data file, or null. If given, access to the sidecar is narrowed (NarrowAccess).
///  - `create`: if not null, the sidecar is created if it is missing, and replaced if it is ruined. Needs `data`. Any number
///    of processes may do this at once.
///  - `timeout_seconds`: how long to wait for another holder of the lock. kBusy after that; the message names the holder.
///  - `ruins`: if not null and `create` is null, gets the locked file of a sidecar that is ruined or unreadable. The call
///    fails all the same.
///  - `held`: a file that this process has locked, or null. If `path` still means this file, it is loaded again, and its lock
///    is kept. Else its lock is released.
/// Errors: kNotFound if there is no sidecar, kBusy, and those of Sidecar::Load.
Result<std::unique_ptr<Sidecar>> LockSidecar(FileSystem& fs, const std::string& path, File* data,
                                             const EmptySidecar* create, std::uint32_t timeout_seconds,
                                             std::shared_ptr<File>* ruins = nullptr, std::shared_ptr<File> held = nullptr);

/// Renames the complete, synced sidecar `temporary` to `path` and syncs the directory. With `replace`, overwrites `path`.
/// Without, leaves an existing `path` as it is and succeeds. Afterwards `temporary` does not exist, also after a failure.
Status GiveName(FileSystem& fs, const std::string& temporary, const std::string& path, bool replace);

/// True if `loading` (a status of Sidecar::Load) means that something has the name, but is not a usable sidecar.
bool IsRuined(const Status& loading);

/// Narrows the access of group and others to `sidecar` to the access that they have to `data`, because parity reveals data.
/// Never grants access. Fails unless the process runs as the owner of the sidecar or as the superuser.
Status NarrowAccess(File& sidecar, File& data);

}  // namespace lzy
