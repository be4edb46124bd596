#pragma once
// Sidecars under their lock (docs/design/commit.md "Locks"), and those that are made only to be locked.
//
// Whoever changes a sidecar, or a dataset by it, holds the advisory lock of the sidecar's file. It goes with the
// object that LockSidecar returns, or when the process dies. A sidecar may be replaced by another file at any time, so
// the lock counts only if the name still leads to the file that was locked. Everything here is local.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "request/options.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// A sidecar before its first commit, which says of what file it is.
struct EmptySidecar {
  SidecarContents contents;      ///< kind, uuid, name; sizes and roots zero
  std::optional<Intent> intent;  ///< set in it from the start
};
EmptySidecar NewSidecar(const Options& options, DatasetKind kind, const std::string& name, std::uint32_t rank);

/// Sidecars' files that this rank has locked already, by path of the data file. A run that opens its dataset again goes on with them. If
/// it let go of a lock to take it again, another process could come in between, and a server may hold a lock that was given up a while
/// longer.
using HeldLocks = std::map<std::string, std::shared_ptr<File>>;

/// Makes the sidecar `path` of the file `data` where there is none. Something that has the name stays, and is no failure.
Status MakeSidecar(FileSystem& fs, const std::string& path, File& data, const EmptySidecar& empty);

/// Opens the sidecar `path`, takes its lock, and makes sure that the name still means the file that was locked. With
/// `create` (which needs `data`), that one is made where there is none, or only the ruins of one; any number of
/// processes may do so at once. Where `data`, the file it belongs to, is given, access to the sidecar is made no wider
/// than to that. Waits up to `timeout_seconds` for another holder, then kBusy naming it. kNotFound: no such sidecar.
/// Ruins that are not replaced are an error, but the lock on them can be kept: their file is put into `ruins`.
/// `held`: a file that this run has locked already. If it still has the name, it is used, and loaded again.
Result<std::unique_ptr<Sidecar>> LockSidecar(FileSystem& fs, const std::string& path, File* data,
                                             const EmptySidecar* create, std::uint32_t timeout_seconds,
                                             std::shared_ptr<File>* ruins = nullptr, std::shared_ptr<File> held = nullptr);

/// Gives a sidecar that is whole and durable under `temporary` its name `path`, and makes that durable. `replace`: over
/// whatever has the name. Otherwise, if something has it, that stays, and is no failure. Nothing is left under
/// `temporary`.
Status GiveName(FileSystem& fs, const std::string& temporary, const std::string& path, bool replace);

/// Whether this, of loading a sidecar, says that there is something under its name which is no usable sidecar.
bool IsRuined(const Status& loading);

/// Parity reveals data: whoever was shut out of the file since its sidecar was made is shut out of that, too. The
/// owner keeps what he has. Only the owner may do it.
Status NarrowAccess(File& sidecar, File& data);

}  // namespace lzy
