#include "names/peek.h"

#include <vector>

#include "merkle/hash.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

Peek PeekOf(const Superblock& sb, const InfoRecord& info) {
  const bool committed = sb.state != SidecarState::kNeverCommitted;
  const bool counts = committed && sb.kind == DatasetKind::kSet;
  return {.uuid = sb.uuid,
          .generation = sb.generation,
          .kind = sb.kind,
          .committed = committed,
          .rank = sb.rank,
          .members = counts ? sb.members : 0,
          .wall_time_ns = sb.wall_time_ns,
          .stamp = sb.stamp,
          .name = info.name,
          .parts = info.parts};
}

/// Reads only superblocks and the info record. Fails if anything is unusual; the caller then loads the whole sidecar.
/// A directory may have thousands of sidecars, and their trees take a 4096th of the data.
Result<Peek> PeekQuickly(FileSystem& fs, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kRead, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const Superblock sb, AgreedSuperblock(*file));
  const Extent* extent = FindExtent(sb.extents, ExtentKind::kInfo);
  if (extent == nullptr || extent->length > kMaxInfoBytes) return {Code::kCorrupt, "no info record"};
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  if (extent->length > stat.size) return {Code::kCorrupt, "info record lies past the end"};
  std::vector<std::uint8_t> bytes(extent->length);
  LZY_RETURN_IF_ERROR(ReadExactly(*file, extent->offset, bytes));
  if (HashBytes(HashTag::kInfo, 0, bytes) != sb.info_hash) return {Code::kCorrupt, "info record differs from its hash"};
  LZY_ASSIGN_OR_RETURN(const InfoRecord info, DecodeInfo(bytes));
  return PeekOf(sb, info);
}

}  // namespace

bool MayBe(const FileStat& file, const Stamp& stamp) {
  const bool known = file.birth_ns != 0 && stamp.birth_ns != 0;
  return file.inode == stamp.inode && (!known || file.birth_ns == stamp.birth_ns);
}

void SetIdentity(Stamp& stamp, const FileStat& file) {
  stamp.inode = file.inode;
  stamp.device = file.device;
  stamp.birth_ns = file.birth_ns;
}

// The quick way only saves time. Whatever it cannot read, Load may still put together from other copies.
Result<Peek> PeekSidecar(FileSystem& fs, const std::string& path) {
  if (auto quick = PeekQuickly(fs, path); quick.ok()) return quick;
  LZY_ASSIGN_OR_RETURN(const auto sidecar, Sidecar::Load(fs, path, OpenMode::kRead));
  return PeekOf(sidecar->contents().superblock, sidecar->contents().info);
}

}  // namespace lzy
