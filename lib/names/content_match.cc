#include "names/content_match.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "names/peek.h"

namespace lzy {
namespace {

// Leaves of a sealed dataset can be compared only with its key. With a key, a sidecar without a seal may be forged.
bool MayBeAskedWith(const Superblock& sb, const LeafKey* key) {
  return sb.sealed() ? key != nullptr && key->id() == sb.key_id : key == nullptr;
}

Result<bool> CompareAll(File& data, std::uint64_t size, const Sidecar& sidecar, const LeafKey* key) {
  const SidecarContents& contents = sidecar.contents();
  const std::uint64_t block = contents.superblock.block_size;
  std::vector<std::uint8_t> bytes(std::min(block, size));
  for (std::uint64_t offset = 0, index = 0; offset < size; offset += block, ++index) {
    const MutableByteSpan piece(bytes.data(), std::min(block, size - offset));
    LZY_ASSIGN_OR_RETURN(const std::size_t got, data.ReadAt(offset, piece));
    if (got < piece.size() || index >= contents.data_tree.leaf_count()) return false;
    if (LeafHash(key, HashTag::kDataLeaf, index, piece) != contents.data_tree.leaf(index)) return false;
  }
  return true;
}

// The number of blocks of the file that have their leaf. Blocks that cannot be read have none.
std::uint64_t CountCommitted(File& data, const Sidecar& sidecar, const LeafKey* key) {
  const SidecarContents& contents = sidecar.contents();
  const std::uint64_t block = contents.superblock.block_size, size = contents.superblock.stamp.size;
  std::vector<std::uint8_t> bytes(std::min(block, size));
  std::uint64_t count = 0;
  for (std::uint64_t offset = 0, index = 0; offset < size && index < contents.data_tree.leaf_count(); offset += block, ++index) {
    const MutableByteSpan piece(bytes.data(), std::min(block, size - offset));
    const auto got = data.ReadAt(offset, piece);
    if (!got.ok() || *got < piece.size()) continue;
    if (LeafHash(key, HashTag::kDataLeaf, index, piece) == contents.data_tree.leaf(index)) ++count;
  }
  return count;
}

// How much of a file is as a sidecar committed it, in blocks.
struct Likeness {
  std::uint64_t same = 0, total = 0;
};
// Nothing is alike if the file has another size, or if the sidecar is sealed with another key.
Likeness LikenessOf(FileSystem& fs, const std::string& data, const Sidecar& sidecar, const LeafKey* key) {
  Likeness likeness;
  (void)NoThrow([&] {
    const Superblock& sb = sidecar.contents().superblock;
    const auto file = MayBeAskedWith(sb, key) ? fs.Open(data, OpenMode::kRead, /*follow=*/false) : Result<std::unique_ptr<File>>(Code::kNotFound, data);
    const auto stat = file.ok() ? (*file)->Stat() : Result<FileStat>(file.status());
    if (!stat.ok() || stat->size != sb.stamp.size) return;
    likeness = {CountCommitted(**file, sidecar, key), sidecar.contents().data_tree.leaf_count()};
  });
  return likeness;
}

// The block of a file of one block, from its parity, which is a copy of it; empty if it cannot be had in this way.
std::vector<std::uint8_t> OnlyBlockOf(Sidecar& sidecar, const LeafKey* key) {
  const SidecarContents& contents = sidecar.contents();
  std::vector<std::uint8_t> bytes(contents.superblock.stamp.size);
  if (contents.superblock.parted() || contents.superblock.parity == 0 || contents.superblock.kind == DatasetKind::kSet) return {};
  if (!ReadExactly(sidecar.file(), sidecar.ParityFileOffset(0), bytes).ok()) return {};
  return LeafHash(key, HashTag::kDataLeaf, 0, bytes) == contents.data_tree.leaf(0) ? bytes : std::vector<std::uint8_t>();
}

// Whether the file may be the committed one with some rot: at least half of its blocks are as committed, or, if it has one block,
// three quarters of its bytes. nullopt if this cannot be told.
std::optional<bool> Resembles(FileSystem& fs, const std::string& data, Sidecar& sidecar, const LeafKey* key) {
  const Likeness alike = LikenessOf(fs, data, sidecar, key);
  if (alike.total == 0) return std::nullopt;
  if (alike.total > 1 || alike.same == 1) return 2 * alike.same >= alike.total;
  std::optional<bool> resembles;
  (void)NoThrow([&]() -> Status {
    const std::vector<std::uint8_t> block = OnlyBlockOf(sidecar, key);
    if (block.empty()) return Status::Ok();
    std::vector<std::uint8_t> bytes(block.size());
    LZY_ASSIGN_OR_RETURN(const auto file, fs.Open(data, OpenMode::kRead, /*follow=*/false));
    LZY_RETURN_IF_ERROR(ReadExactly(*file, 0, bytes));
    std::size_t same = 0;
    for (std::size_t i = 0; i < block.size(); ++i) same += bytes[i] == block[i];
    resembles = 4 * same >= 3 * block.size();
    return Status::Ok();
  });
  return resembles;
}

}  // namespace

Result<bool> HoldsCommitted(FileSystem& fs, const std::string& data, const Sidecar& sidecar, const LeafKey* key) {
  Result<bool> holds = false;
  LZY_RETURN_IF_ERROR(NoThrow([&]() -> Status {
    const Superblock& sb = sidecar.contents().superblock;
    if (sb.stamp.size == 0 || !MayBeAskedWith(sb, key)) return Status::Ok();
    const auto file = fs.Open(data, OpenMode::kRead, /*follow=*/false);
    if (file.status().code() == Code::kNotFound) return Status::Ok();
    LZY_RETURN_IF_ERROR(file.status());
    LZY_ASSIGN_OR_RETURN(const FileStat stat, (*file)->Stat());
    if (stat.size == sb.stamp.size) holds = CompareAll(**file, stat.size, sidecar, key);
    return holds.status();
  }));
  return holds;
}

Result<bool> HoldsCommitted(FileSystem& fs, const std::string& data, const std::string& sidecar, const LeafKey* key) {
  Result<bool> holds = false;
  LZY_RETURN_IF_ERROR(NoThrow([&]() -> Status {
    const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
    if (loaded.ok() && (*loaded)->committed()) holds = HoldsCommitted(fs, data, **loaded, key);
    return holds.status();
  }));
  return holds;
}

bool IsMostlyAs(FileSystem& fs, const std::string& data, Sidecar& sidecar, const LeafKey* key) {
  return Resembles(fs, data, sidecar, key).value_or(false);
}

bool IsMostlyAs(FileSystem& fs, const std::string& data, const std::string& sidecar, const LeafKey* key) {
  const auto loaded = Sidecar::Load(fs, sidecar, OpenMode::kRead);
  return loaded.ok() && IsMostlyAs(fs, data, **loaded, key);
}

bool MayBeRottenFrom(FileSystem& fs, const std::string& data, const FileStat& stat, const Sidecar& sidecar, const LeafKey* key) {
  return MayBe(stat, sidecar.contents().superblock.stamp) || LikenessOf(fs, data, sidecar, key).same > 0;
}

bool MayBeRot(FileSystem& fs, const std::string& data, const std::string& own, const LeafKey* key) {
  const auto sidecar = Sidecar::Load(fs, own, OpenMode::kRead);
  return !sidecar.ok() || Resembles(fs, data, **sidecar, key).value_or(true);
}

}  // namespace lzy
