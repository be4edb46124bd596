#pragma once
// Device directories: the parity of a shared file in parts, one in each directory, each with a spare of the sidecar's
// metadata (docs/format.md §13).
//
// The sidecar beside the file counts. What parts say is read only if that sidecar is lost or older. Parts are written
// by whoever holds the lock of the sidecar. A copy of a file and its sidecar names the same parts, so OwnsParts is
// asked before anything is written to them. Everything here is local. Only rank 0 makes, renews and removes parts; all
// ranks open and check them.

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "request/options.h"
#include "sidecar/sidecar.h"
#include "storage/parted_file.h"

namespace lzy {

/// The directories that option device-dirs names, absolute and without symbolic links. kInvalidArgument, which names
/// what it is, where one is not a directory, or two are one, or there are not more of them than `parity`.
Result<std::vector<std::string>> ResolveDirectories(FileSystem& fs, const Options& options, std::uint32_t parity);

/// Where the parts are, or are to be made again, by device: where it is recorded, or, if there is nothing, in the
/// directory that `named` (option device-dirs) has for the device, if that names as many.
std::vector<std::string> PartPaths(FileSystem& fs, const Parts& parts, const std::vector<std::string>& named);

/// The parity region of `sidecar`'s dataset, for reading what is there: parts that are not (or cannot be opened) are
/// null. With `write`, every part must be there, and be of the encoding that `sidecar` tells of. An empty path is left
/// out, here and below.
Result<std::unique_ptr<PartedFile>> OpenParts(FileSystem& fs, Sidecar& sidecar, const std::vector<std::string>& paths, bool write);

/// Why a repair leaves part `part` as it is; empty: it need not.
std::string WhyNotMended(FileSystem& fs, const std::string& data_path, Sidecar& sidecar, const std::vector<std::string>& paths,
                         std::size_t part);

/// Makes those of `paths` that do not exist, their parity all zero, for a dataset whose sidecar `home` has this shape;
/// durable but for their metadata, which RenewParts writes. kIo names a directory that is not there. `made`, if given,
/// gets those that did not exist, also where it fails.
Status CreateParts(FileSystem& fs, const SidecarContents& shape, Sidecar& home, const std::vector<std::string>& paths,
                   std::vector<std::string>* made = nullptr);

/// Writes into every part what the sidecar beside the file says, `home`, durably; who is shut out of that is shut out
/// of them.
Status RenewParts(FileSystem& fs, Sidecar& home, const std::vector<std::string>& paths);

/// What differs in a part's metadata from the sidecar's; nothing else is wrong with it.
std::vector<MetadataDamage> CheckPart(FileSystem& fs, const SidecarContents& contents, const std::string& path, std::uint32_t part);

/// Whether the parts are those of `data_path` (without symbolic links), whose sidecar says `contents`, and not another
/// file's, of which it, with its sidecar, is a copy: what has them in common with the other must not write to them.
/// Where that cannot be told, they are not.
bool OwnsParts(FileSystem& fs, const std::string& data_path, const SidecarContents& contents);

/// Best effort: a part that stays is found by lzy-info --prune.
void RemoveParts(FileSystem& fs, const std::vector<std::string>& paths);
/// Those of `paths` that are of the encoding that `sidecar` tells of.
void RemoveOurs(FileSystem& fs, Sidecar& sidecar, const std::vector<std::string>& paths);
/// Those of a file that was deleted, and whose sidecar is about to be removed.
void RemovePartsOf(FileSystem& fs, const std::string& data_path, const std::string& sidecar_path);

/// Of a file whose own sidecar is lost: the newest spare in the directories that option device-dirs names, as a
/// sidecar that stands in for it. kNotFound: none; kInvalidArgument: it is sealed, and this is not its key.
Result<std::unique_ptr<Sidecar>> FindSpare(FileSystem& fs, const std::string& data_path, const Options& options);
/// Whether a part tells of a later commit than `home`, the sidecar beside the file: then that is an old one, put back
/// from a backup. FindSpare, given the directories that `home` names, has the newest.
bool IsOutdated(FileSystem& fs, const std::string& data_path, Sidecar& home, const Options& options);
/// The options with which FindSpare and RecoverSidecar look in the directories that `home` names, where none are given.
Options WithItsDirectories(const Options& options, const Sidecar& home);

/// Makes the sidecar of `data` anew from such a spare, if it has lost its own or has an outdated one; true: it has
/// been. Does nothing without option device-dirs, but for what is outdated.
Result<bool> RecoverSidecar(FileSystem& fs, const std::string& data_path, File& data, const Options& options);
/// For whom that concerns.
inline constexpr char kRecovered[] = "its sidecar was lost or older than its parity, and has been made again from the spare in a device directory";
/// Whether this, of loading a sidecar, says that there is none, or none that can be used.
bool IsLost(const Status& loading);

}  // namespace lzy
