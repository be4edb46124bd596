#pragma once
// Device directories: the parity of a shared file is in parts, one in each directory. Each part also has a spare: a copy of
// the sidecar's metadata (docs/format.md §13).
//
// The sidecar beside the file counts. A spare is used only if this sidecar is lost or older. A process writes parts only
// under the lock of the sidecar. If a file was copied with its sidecar, both sidecars name the same parts, so ask OwnsParts
// before you write to them. All functions are local. Only rank 0 makes, renews and removes parts; all ranks open and check
// them.

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "request/options.h"
#include "sidecar/sidecar.h"
#include "storage/parted_file.h"

namespace lzy {

/// Returns the directories of option device-dirs, absolute and without symbolic links. kInvalidArgument, with a message, if
/// one is not a directory, if two are the same, or if there are not more than `parity`.
Result<std::vector<std::string>> ResolveDirectories(FileSystem& fs, const Options& options, std::uint32_t parity);

/// The path of each part, by device. If a part does not exist where `parts` records it, its path is in the directory that
/// `named` (option device-dirs) has for the device, provided that `named` has as many directories as are recorded.
std::vector<std::string> PartPaths(FileSystem& fs, const Parts& parts, const std::vector<std::string>& named);

/// Opens the parity region of the dataset of `sidecar`. For reading, parts that are missing or whose device failed are null.
/// With `write`, every part must exist and be of the encoding that `sidecar` names. Here and below, an empty path means that
/// the part is skipped.
Result<std::unique_ptr<PartedFile>> OpenParts(FileSystem& fs, Sidecar& sidecar, const std::vector<std::string>& paths, bool write);

/// Why a repair cannot write part `part`, for a message. Empty if it can.
std::string WhyNotRepaired(FileSystem& fs, const std::string& data_path, Sidecar& sidecar, const std::vector<std::string>& paths,
                           std::size_t part);

/// Creates the parts in `paths` that do not exist, for a dataset of the given `shape` whose sidecar is `home`. Their parity
/// is zero. Syncs them; their metadata follow by RenewParts. kIo if a directory does not exist. `made`, if given, gets the
/// paths that this call created or tried to create, also on failure.
Status CreateParts(FileSystem& fs, const SidecarContents& shape, Sidecar& home, const std::vector<std::string>& paths,
                   std::vector<std::string>* made = nullptr);

/// Copies the metadata of `home`, the sidecar beside the file, into every part and syncs the parts. Narrows the access of
/// group and others to the parts to the access that they have to `home`. Continues after a failure, and returns the first
/// one.
Status RenewParts(FileSystem& fs, Sidecar& home, const std::vector<std::string>& paths);

/// Compares the metadata of part `part` with `contents`. Returns the differences; empty if there are none.
std::vector<MetadataDamage> CheckPart(FileSystem& fs, const SidecarContents& contents, const std::string& path, std::uint32_t part);

/// True if the file `data_path` (without symbolic links), whose sidecar has `contents`, owns the parts that `contents`
/// names. Only the owner may write to the parts. False if the file and its sidecar are copies of another file and its
/// sidecar. Also false if lzy cannot find out.
bool OwnsParts(FileSystem& fs, const std::string& data_path, const SidecarContents& contents);

/// Removes parts. Ignores failures: lzy-info --prune finds parts that stay.
void RemoveParts(FileSystem& fs, const std::vector<std::string>& paths);
/// Removes the parts in `paths` that are of the encoding that `sidecar` names.
void RemoveOurs(FileSystem& fs, Sidecar& sidecar, const std::vector<std::string>& paths);
/// Removes the parts of a deleted file. Call it before you remove the sidecar.
void RemovePartsOf(FileSystem& fs, const std::string& data_path, const std::string& sidecar_path);

/// Finds the best spare for the file `data_path`, whose sidecar is lost, in the directories of option device-dirs. The
/// result stands in for the sidecar; do not write with it. kNotFound if there is no spare; kInvalidArgument if it is sealed
/// and `options.key` is not its key.
Result<std::unique_ptr<Sidecar>> FindSpare(FileSystem& fs, const std::string& data_path, const Options& options);
/// True if a part has metadata of a later commit than `home`, the sidecar beside the file. Then `home` is old, for example
/// from a backup, and FindSpare finds the newest metadata in the directories that `home` names.
bool IsOutdated(FileSystem& fs, const std::string& data_path, Sidecar& home, const Options& options);
/// Returns `options`. If they name no device directories, adds those that `home` names.
Options WithItsDirectories(const Options& options, const Sidecar& home);

/// Makes the sidecar of `data` again from a spare, under its lock, if it is lost or outdated. Returns true if it did. A lost
/// sidecar is made again only if option device-dirs is given, an outdated one also without it.
Result<bool> RecoverSidecar(FileSystem& fs, const std::string& data_path, File& data, const Options& options);
/// The warning for a dataset whose sidecar RecoverSidecar has made again.
inline constexpr char kRecovered[] = "its sidecar was lost or older than its parity, and has been made again from the spare in a device directory";
/// True if `loading` (a status of Sidecar::Load) means that the sidecar is missing or unusable.
bool IsLost(const Status& loading);

}  // namespace lzy
