#pragma once
// One member of a dataset. Only view_shared.cc and view_set.cc use this header.
//
// The owner of a member opens it (OpenMember), and sends a Summary of what it found to all ranks. All ranks fill in their
// FileView from the Summary (Fill), so they decide by the same facts. Of a shared file, all ranks open the files, but the
// Summary of rank 0 counts.

#include <string>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// The facts that the owner of a member sends to all ranks.
struct Summary : FileFacts {
  bool other_key = false;  ///< with kUnsealed: the sidecar is sealed, but no key was given, or another one
  std::vector<bool> parts_there;  ///< by device
  std::uint64_t prepared = 0;
  bool recovered = false;  ///< the sidecar was lost, and OpenMember has made it again from a spare
  Superblock superblock;  ///< as in the sidecar, without the fields in which its copies differ
  std::vector<std::uint8_t> info;
  WrittenOn written_on;
  LZY_FIELDS(rank, present, stat, fault, fault_text, other_key, sidecar_path, sidecar_bytes, sidecar_uid, sidecar_gid, parity_base,
             part_paths, parts_there, part_obstacles, part_base, intent, stripes, prepared, recovered, superblock, superblock.stamp.birth_ns,
             superblock.key_id, superblock.seal, superblock.read_only_features, superblock.compact,
             superblock.automatic_block_size, info, written_on)
};

/// Opens the data file. If `write` is given but not permitted, opens it for reading. Follows symbolic links for shared
/// files, but not for members of sets.
Result<std::unique_ptr<File>> OpenData(FileSystem& fs, DatasetKind kind, const std::string& path, bool write);
/// Opens the data file and the sidecar of one member into `view`. With `write`, takes the lock of the sidecar. If `held` has
/// this lock, uses it and removes it from `held`. Missing or damaged files are facts in the result, not errors. Errors: kIo,
/// kBusy, kNewerFormat, and others that prevent every use. Local: call it on the owner, for a shared file on every rank.
Result<Summary> OpenMember(const Context& context, DatasetKind kind, const std::string& path, bool write,
                           FileView& view, HeldLocks* held = nullptr);
/// Copies the facts of view.sidecar into `s`. Sets `s.parity_base` as if the file had no device directories.
Status FillFromSidecar(const FileView& view, Summary& s);
/// Sets the agreed fields of `view` from `s`, except path and owner.
void Fill(FileView& view, const Summary& s);

/// OpenDataset for a shared file and for a set.
Result<DatasetView> OpenShared(const Context& context, const DatasetRef& ref, const OpenRequest& request);
Result<DatasetView> OpenSet(const Context& context, const DatasetRef& ref, const OpenRequest& request);

}  // namespace lzy
