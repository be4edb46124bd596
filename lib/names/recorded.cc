#include "names/recorded.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "merkle/tree.h"
#include "names/set_names.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// The path of another member, from the path of a sidecar. A sidecar with the name of another file gives only the base name.
std::string PathOfMember(const std::string& sidecar, const Peek& peek, std::uint32_t rank) {
  const auto owner = DataPathOf(sidecar);
  const auto pattern = owner ? PatternFromTail(*owner, peek.name, peek.rank) : std::nullopt;
  if (pattern) return ExpandPattern(*pattern, rank);
  return JoinPath(DirectoryOf(sidecar), BaseNameOf(ExpandPattern(peek.name, rank)));
}

Result<Hash> RootOf(FileSystem& fs, const std::string& path, std::uint64_t size, std::uint32_t block, const LeafKey* key) {
  LZY_ASSIGN_OR_RETURN(const auto file, fs.Open(path, OpenMode::kRead, /*follow=*/false));
  const std::uint64_t blocks = (size + block - 1) / block;
  TreeBuilder builder(TreeKind::kData, blocks, size, {});
  std::vector<std::uint8_t> bytes(std::min<std::uint64_t>(block, size));
  for (std::uint64_t index = 0; index < blocks; ++index) {
    const MutableByteSpan piece(bytes.data(), std::min<std::uint64_t>(block, size - index * block));
    LZY_RETURN_IF_ERROR(ReadExactly(*file, index * block, piece));
    const Hash leaf = LeafHash(key, HashTag::kDataLeaf, index, piece);
    builder.Add({&leaf, 1});
  }
  return builder.Finish().Root();
}

}  // namespace

// All sidecars of a group record the same, so one of them is enough.
RecordedMembers::RecordedMembers(FileSystem& fs, const std::vector<std::string>& sidecars) {
  using Member = std::tuple<Uuid, std::uint64_t, std::uint32_t>;  // set, generation and rank
  std::set<Member> present, recorded;
  std::multimap<std::uint64_t, std::pair<Member, RecordedMember>> all;
  for (const std::string& path : sidecars) {
    (void)NoThrow([&] {
      const auto set = PeekSet(fs, path);
      if (!set.ok() || set->members.empty()) return;
      const Peek& peek = set->peek;
      present.insert({peek.uuid, peek.generation, peek.rank});
      if (recorded.contains({peek.uuid, peek.generation, peek.rank})) return;
      for (const MemberRecord& member : set->members) {
        const Member id{peek.uuid, peek.generation, member.rank};
        recorded.insert(id);
        all.emplace(member.size, std::pair(id, RecordedMember{path, PathOfMember(path, peek, member.rank), set->block_size, set->key_id, peek.uuid,
                                                              peek.generation, member.size, member.mtime_ns, peek.commit_clock_ns, member.data_root}));
      }
    });
  }
  for (auto& [size, one] : all) {
    if (size > 0 && !present.contains(one.first)) by_size_.emplace(size, std::move(one.second));
  }
}

std::vector<RecordedMember> RecordedMembers::OfSize(std::uint64_t bytes, const Uuid& except) const {
  std::vector<RecordedMember> out;
  const auto [begin, end] = by_size_.equal_range(bytes);
  for (auto at = begin; at != end; ++at) {
    if (at->second.set != except) out.push_back(at->second);
  }
  return out;
}

bool RootsOf::Are(const RecordedMember& record) {
  if (key_ != nullptr ? record.key_id != key_->id() : record.key_id != KeyId{}) return false;
  auto at = roots_.find(record.block_size);
  if (at == roots_.end()) {
    std::optional<Hash> root;
    (void)NoThrow([&] {
      const auto read = RootOf(fs_, path_, record.size, record.block_size, key_);
      if (read.ok()) root = *read;
    });
    at = roots_.emplace(record.block_size, root).first;
  }
  return at->second == record.root;
}

}  // namespace lzy
