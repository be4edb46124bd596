#pragma once
// One member of a dataset as its owner opens it and tells the others about it; used by view_shared.cc and view_set.cc
// only.
//
// Flow: OpenMember on the owner, Summary to all ranks, Fill on all ranks. For a shared file, all ranks open the files,
// but rank 0's Summary counts.
//
// Only the owner looks at a member. What it found travels as a Summary, so all ranks decide by the same facts.

#include <string>
#include <vector>

#include "dataset/view.h"

namespace lzy {

/// What the owner of a member tells the others about it.
struct Summary : FileFacts {
  bool other_key = false;  ///< of kUnsealed: it is sealed, but with another key than the one that was given, or none was
  std::vector<bool> parts_there;  ///< by device
  std::uint64_t prepared = 0;
  bool recovered = false;  ///< the sidecar was lost, and has just been made again from a spare
  Superblock superblock;  ///< as in the sidecar, without what its copies differ in
  std::vector<std::uint8_t> info;
  WrittenOn written_on;
  LZY_FIELDS(rank, present, stat, fault, fault_text, other_key, sidecar_path, sidecar_bytes, sidecar_uid, sidecar_gid, parity_base,
             part_paths, parts_there, part_obstacles, part_base, intent, stripes, prepared, recovered, superblock, superblock.stamp.birth_ns,
             superblock.key_id, superblock.seal, superblock.read_only_features, superblock.compact,
             superblock.automatic_block_size, info, written_on)
};

/// The data file; for reading if it cannot be had for writing. A member of a set is never a symbolic link, a shared
/// file may be.
Result<std::unique_ptr<File>> OpenData(FileSystem& fs, DatasetKind kind, const std::string& path, bool write);
/// Opens one member's files on its owner; with `write`, under the sidecar's lock, which may be one of `held`, and is
/// taken out. Absence is not a failure.
Result<Summary> OpenMember(const Context& context, DatasetKind kind, const std::string& path, bool write,
                           FileView& view, HeldLocks* held = nullptr);
/// Fills in what the sidecar that `view` has says; `s.parity_base` is that of a file without device directories.
Status TellSidecar(const FileView& view, Summary& s);
/// The agreed part of `view`, but for path and owner.
void Fill(FileView& view, const Summary& s);

/// The two kinds of OpenDataset.
Result<DatasetView> OpenShared(const Context& context, const DatasetRef& ref, const OpenRequest& request);
Result<DatasetView> OpenSet(const Context& context, const DatasetRef& ref, const OpenRequest& request);

}  // namespace lzy
