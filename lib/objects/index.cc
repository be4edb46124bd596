#include "objects/index.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/acl.h"
#include "base/record.h"
#include "names/lookup.h"
#include "objects/frames.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'L', 'Z', 'Y', 'I', 'N', 'D', 'E', 'X'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

/// Everything between magic and hash.
struct Content {
  std::uint32_t version = kVersion;
  IndexedCommit commit;
  LZY_FIELDS(version, commit)
};

}  // namespace

std::string FindIndex(FileSystem& fs, const std::string& data_path) {
  const auto sidecar = FindSidecar(fs, data_path);
  const auto owner = sidecar.ok() ? DataPathOf(*sidecar) : std::nullopt;
  return IndexPath(owner ? *owner : FollowLink(fs, data_path));
}

Status WriteIndex(FileSystem& fs, const std::string& data_path, const IndexedCommit& commit, ByteSpan frames) {
  if (frames.size() > kMostBytes) return {Code::kNoMemory, fmt::format("{}: it has too many objects for an index", data_path)};
  LZY_ASSIGN_OR_RETURN(const auto file, fs.Open(data_path, OpenMode::kRead));
  LZY_ASSIGN_OR_RETURN(const FileStat data, StatToRecord(*file));
  ByteWriter out;
  out.PutBytes(kMagic);
  PutRecord(out, Content{kVersion, commit});
  out.PutBytes(frames);
  const Hash hash = HashBytes(HashTag::kObjectIndex, 0, out.bytes());
  out.PutBytes(hash.bytes);
  const std::string text(out.bytes().begin(), out.bytes().end());
  // Names of objects are readable for users who may read the data. The index has the group of this process, not that of the
  // data.
  constexpr std::uint32_t kAll = 0444;
  return ReplaceFile(fs, FindIndex(fs, data_path), text, (data.mode & kAll) == kAll ? 0644 : 0600);
}

Result<ObjectMap> ReadIndex(FileSystem& fs, const std::string& data_path, const IndexedCommit& commit) {
  const std::string path = FindIndex(fs, data_path);
  const auto damaged = [&](const char* how) { return Status(Code::kCorrupt, fmt::format("{}: {}", path, how)); };
  LZY_ASSIGN_OR_RETURN(const auto file, fs.Open(path, OpenMode::kRead, /*follow=*/false));
  LZY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  constexpr std::size_t kHash = sizeof(Hash::bytes);
  if (stat.size < kMagic.size() + kHash || stat.size > kMostBytes + 4096) return damaged("is no index of objects");
  std::vector<std::uint8_t> bytes(stat.size);
  LZY_RETURN_IF_ERROR(ReadExactly(*file, 0, bytes));
  const ByteSpan hashed = ByteSpan(bytes).first(bytes.size() - kHash);
  const Hash hash = HashBytes(HashTag::kObjectIndex, 0, hashed);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return damaged("is no index of objects");
  if (std::memcmp(hash.bytes.data(), bytes.data() + hashed.size(), kHash) != 0) return damaged("differs from its hash");
  ByteReader in(hashed.subspan(kMagic.size()));
  Content content;
  GetRecord(in, content);
  if (!in.ok() || content.version != kVersion) return damaged("has another version");
  if (content.commit != commit) return damaged("is of another commit");
  Result<ObjectMap> map = ObjectMap();
  FrameReader reader(*map);
  LZY_RETURN_IF_ERROR(reader.Add(in.GetBytes(in.remaining())));
  map->Seal(reader.complete());
  return map;
}

}  // namespace lzy
