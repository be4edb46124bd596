// Makes a few small reads while all copies agree. In any other case calls Sidecar::Load, which can choose a copy. Bytes
// from disk are hostile here, too: everything that is decoded has its own hash, and the count of pages is bounded.

#include "hooks/disk/commit_state.h"

#include <vector>

#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy::hooks {
namespace {

// Intents of other commits are void (docs/format.md §8).
bool IsSet(const Intent& intent, const Superblock& superblock) {
  return intent.uuid == superblock.uuid && intent.generation == superblock.generation;
}

// The intent of a repair says that blocks are being restored, so it never counts as that of an epoch.
void Note(const Intent& intent, CommitState& state) {
  if (IsOfRepair(intent)) {
    state.repairing = true;
  } else if ((intent.flags & kIntentWholeFile) != 0 && !state.whole_file_intent) {
    state.whole_file_intent = intent;
  }
}

/// Returns nullopt unless all copies are as after a complete commit: then there is nothing to choose.
std::optional<CommitState> Glance(File& file) {
  const auto superblock = AgreedSuperblock(file);
  if (!superblock.ok()) return std::nullopt;
  CommitState state;
  state.version = {superblock->uuid, superblock->generation};
  for (const Extent& extent : superblock->extents) {
    if (extent.kind != ExtentKind::kIntent) continue;
    const std::uint64_t pages = extent.length / kIntentPageSize;
    if (pages > kIntentPages) return std::nullopt;
    for (std::uint32_t number = 0; number < pages; ++number) {
      std::vector<std::uint8_t> page(kIntentPageSize);
      if (!ReadExactly(file, extent.offset + number * kIntentPageSize, page).ok()) continue;
      // The first page is written first, so if two writers are mixed, it has the later writer's intent.
      const auto intent = DecodeIntent(page, number);
      if (intent.ok() && IsSet(*intent, *superblock)) Note(*intent, state);
    }
  }
  return state;
}

}  // namespace

std::optional<CommitState> ReadCommitState(FileSystem& fs, const std::string& data_path) {
  const auto path = SidecarPath(data_path);
  if (!path.ok()) return std::nullopt;
  auto file = fs.Open(*path, OpenMode::kRead, /*follow=*/false);
  if (!file.ok()) return std::nullopt;
  if (auto state = Glance(**file)) return state;
  const auto sidecar = Sidecar::Load(std::move(*file), OpenMode::kRead);
  if (!sidecar.ok()) return std::nullopt;
  CommitState state;
  state.version = {(*sidecar)->contents().superblock.uuid, (*sidecar)->generation()};
  if ((*sidecar)->intent()) Note(*(*sidecar)->intent(), state);
  return state;
}

}  // namespace lzy::hooks
