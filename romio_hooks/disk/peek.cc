// A few small reads while all copies agree. Anything unusual is left to Sidecar::Load, which knows how to choose. Bytes
// from disk are hostile here, too: what is decoded has its own hash, and the count of pages is bounded.

#include "hooks/disk/peek.h"

#include <vector>

#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy::hooks {
namespace {

// Intents of other commits are void (docs/format.md §8).
bool IsSet(const Intent& intent, const Superblock& superblock) {
  return intent.uuid == superblock.uuid && intent.generation == superblock.generation;
}

// A repair's intent says that blocks are being put back, so it never counts as an epoch's.
void Note(const Intent& intent, Peek& peek) {
  if (IsOfRepair(intent)) {
    peek.repairing = true;
  } else if ((intent.flags & kIntentWholeFile) != 0 && !peek.whole_file_intent) {
    peek.whole_file_intent = intent;
  }
}

/// nullopt unless everything is as it is after a commit: then there is nothing to choose.
std::optional<Peek> Glance(File& file) {
  const auto superblock = AgreedSuperblock(file);
  if (!superblock.ok()) return std::nullopt;
  Peek peek;
  peek.version = {superblock->uuid, superblock->generation};
  for (const Extent& extent : superblock->extents) {
    if (extent.kind != ExtentKind::kIntent) continue;
    const std::uint64_t pages = extent.length / kIntentPageSize;
    if (pages > kIntentPages) return std::nullopt;
    for (std::uint32_t number = 0; number < pages; ++number) {
      std::vector<std::uint8_t> page(kIntentPageSize);
      if (!ReadExactly(file, extent.offset + number * kIntentPageSize, page).ok()) continue;
      // The first page is written first: where they are of two writers, it is the later one's.
      const auto intent = DecodeIntent(page, number);
      if (intent.ok() && IsSet(*intent, *superblock)) Note(*intent, peek);
    }
  }
  return peek;
}

}  // namespace

std::optional<Peek> PeekAt(FileSystem& fs, const std::string& data_path) {
  const auto path = SidecarPath(data_path);
  if (!path.ok()) return std::nullopt;
  auto file = fs.Open(*path, OpenMode::kRead, /*follow=*/false);
  if (!file.ok()) return std::nullopt;
  if (auto peek = Glance(**file)) return peek;
  const auto sidecar = Sidecar::Load(std::move(*file), OpenMode::kRead);
  if (!sidecar.ok()) return std::nullopt;
  Peek peek;
  peek.version = {(*sidecar)->contents().superblock.uuid, (*sidecar)->generation()};
  if ((*sidecar)->intent()) Note(*(*sidecar)->intent(), peek);
  return peek;
}

}  // namespace lzy::hooks
