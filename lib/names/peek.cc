#include "names/peek.h"

#include <algorithm>
#include <memory>
#include <utility>
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
          .parity = counts ? sb.parity : 0,
          .wall_time_ns = sb.wall_time_ns,
          .commit_clock_ns = sb.commit_clock_ns,
          .stamp = sb.stamp,
          .name = info.name,
          .parts = info.parts};
}

/// A file whose beginning was read in one call.
class ReadAhead final : public ReadOnlyFile {
 public:
  static Result<ReadAhead> Of(File& file) {
    LZY_ASSIGN_OR_RETURN(const FileStat stat, file.StatAtOpening());
    std::vector<std::uint8_t> head(std::min<std::uint64_t>(stat.size, kAhead));
    LZY_ASSIGN_OR_RETURN(const std::size_t got, file.ReadAt(0, head));
    head.resize(got);
    return ReadAhead(file, std::move(head), stat.size);
  }
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override {
    const std::uint64_t there = offset < size_ ? std::min<std::uint64_t>(to.size(), size_ - offset) : 0;
    if (there > 0 && offset + there > head_.size()) return file_.ReadAt(offset, to);
    std::copy_n(head_.data() + (there > 0 ? offset : 0), there, to.data());
    return there;
  }
  std::uint64_t size() const { return size_; }

 private:
  // Enough for the sidecar of a small file.
  static constexpr std::uint64_t kAhead = 8192;
  ReadAhead(File& file, std::vector<std::uint8_t> head, std::uint64_t size)
      : ReadOnlyFile(file.path()), file_(file), head_(std::move(head)), size_(size) {}
  File& file_;
  std::vector<std::uint8_t> head_;
  std::uint64_t size_;
};

struct Head {
  Superblock superblock;
  InfoRecord info;
};

/// Reads only superblocks and the info record. Fails if anything is unusual; the caller then loads the whole sidecar. This
/// matters because a directory may have thousands of sidecars, and their trees take a 4096th of the data.
Result<Head> ReadQuickly(File& opened) {
  LZY_ASSIGN_OR_RETURN(ReadAhead file, ReadAhead::Of(opened));
  LZY_ASSIGN_OR_RETURN(const Superblock sb, AgreedSuperblock(file));
  const Extent* extent = FindExtent(sb.extents, ExtentKind::kInfo);
  if (extent == nullptr || extent->length > kMaxInfoBytes) return {Code::kCorrupt, "no info record"};
  if (extent->length > file.size()) return {Code::kCorrupt, "info record lies past the end"};
  std::vector<std::uint8_t> bytes(extent->length);
  LZY_RETURN_IF_ERROR(ReadExactly(file, extent->offset, bytes));
  if (HashBytes(HashTag::kInfo, 0, bytes) != sb.info_hash) return {Code::kCorrupt, "info record differs from its hash"};
  LZY_ASSIGN_OR_RETURN(InfoRecord info, DecodeInfo(bytes));
  return Head{sb, std::move(info)};
}

// ReadQuickly only saves time. Load may find in other copies what it cannot read.
Result<Head> ReadHead(FileSystem& fs, File& file) {
  if (auto quick = ReadQuickly(file); quick.ok()) return quick;
  LZY_ASSIGN_OR_RETURN(const auto sidecar, Sidecar::Load(fs, file.path(), OpenMode::kRead));
  return Head{sidecar->contents().superblock, sidecar->contents().info};
}

}  // namespace

bool BirthIdentifiesFile(std::int64_t birth_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return birth_ns % kSecond != 0;
}

bool IsSameFile(const FileStat& file, const Stamp& stamp) {
  return file.inode == stamp.inode && file.birth_ns == stamp.birth_ns && BirthIdentifiesFile(file.birth_ns);
}

bool HasSizeAndTime(const FileStat& file, const Stamp& stamp) {
  return file.size == stamp.size && file.mtime_ns == stamp.mtime_ns;
}

bool MayBe(const FileStat& file, const Stamp& stamp) {
  const bool known = file.birth_ns != 0 && stamp.birth_ns != 0;
  return file.inode == stamp.inode && (!known || file.birth_ns == stamp.birth_ns);
}

void SetIdentity(Stamp& stamp, const FileStat& file) {
  stamp.inode = file.inode;
  stamp.file_system = file.file_system;
  stamp.birth_ns = file.birth_ns;
}

Result<Peek> PeekSidecar(FileSystem& fs, const std::string& path) {
  auto file = fs.Open(path, OpenMode::kRead, /*follow=*/false);
  if (!file.ok()) return file.status();
  return PeekSidecar(fs, **file);
}

Result<Peek> PeekSidecar(FileSystem& fs, File& file) {
  LZY_ASSIGN_OR_RETURN(const Head head, ReadHead(fs, file));
  return PeekOf(head.superblock, head.info);
}

Result<PeekedSet> PeekSet(FileSystem& fs, const std::string& path) {
  LZY_ASSIGN_OR_RETURN(const auto file, fs.Open(path, OpenMode::kRead, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(Head head, ReadHead(fs, *file));
  PeekedSet set{.peek = PeekOf(head.superblock, head.info), .block_size = head.superblock.block_size, .key_id = head.superblock.key_id, .members = {}};
  if (set.peek.committed && set.peek.kind == DatasetKind::kSet) set.members = std::move(head.info.members);
  return set;
}

}  // namespace lzy
