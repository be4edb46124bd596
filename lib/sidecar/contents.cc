// Checks whether the contents of a sidecar are consistent. The hashes in a sidecar prove only that it is as written, not
// that its writer was right, or honest. So everything is checked here before any code relies on it.

#include "sidecar/contents.h"

#include <fmt/format.h>

#include <algorithm>

namespace lzy {
namespace {

Status Contradicts(const char* what) {
  return {Code::kCorrupt, fmt::format("the sidecar contradicts itself: {}", what)};
}

bool Describes(const MemberRecord& record, const Superblock& sb) {
  const std::uint32_t rank = sb.kind == DatasetKind::kSet ? sb.rank : 0;
  return record.rank == rank && record.size == sb.stamp.size && record.data_root == sb.data_root &&
         record.parity_size == sb.parity_size && record.parity_root == sb.parity_root;
}

// The number of the sidecar's own file in its layout.
Result<std::uint32_t> OwnFile(const SidecarContents& contents) {
  const Superblock& sb = contents.superblock;
  const InfoRecord& info = contents.info;
  if (sb.kind == DatasetKind::kShared) {
    if (info.members.size() != 1 || !Describes(info.members[0], sb)) return Contradicts("its record of the file");
    if (info.parts.directories.size() != (sb.parted() ? sb.members : 0)) return Contradicts("its device directories");
    return 0;
  }
  if (!info.parts.directories.empty()) return Contradicts("a member's device directories");
  if (info.groups.size() != 1 || info.members.size() != info.groups[0].size()) return Contradicts("its group");
  const std::vector<std::uint32_t>& group = info.groups[0];
  std::optional<std::uint32_t> own;
  for (std::uint32_t i = 0; i < group.size(); ++i) {
    if (info.members[i].rank != group[i] || group[i] >= sb.members || (i > 0 && group[i] <= group[i - 1])) {
      return Contradicts("the ranks of its group");
    }
    if (group[i] == sb.rank) own = i;
  }
  if (!own || !Describes(info.members[*own], sb)) return Contradicts("its record of the member itself");
  return *own;
}

Status CheckLayout(const SidecarContents& contents, const Layout& layout, std::uint32_t own) {
  const Superblock& sb = contents.superblock;
  if (sb.kind == DatasetKind::kShared ? layout.devices() != sb.members || layout.largest_group() != sb.largest_group
                                      : layout.largest_group() > sb.largest_group) {
    return Contradicts("the number of devices");
  }
  if (layout.parity_stride() != sb.parity_stride || layout.first_row() != sb.first_row) {
    return Contradicts("where parity lies");
  }
  for (std::uint32_t region = 0; region < layout.regions() && region < contents.info.members.size(); ++region) {
    if (layout.parity_size(region) != contents.info.members[region].parity_size) return Contradicts("parity sizes");
  }
  if (layout.parity_blocks(layout.region_of(own)) != contents.parity_tree.leaf_count() ||
      layout.data_blocks(own) != contents.data_tree.leaf_count()) {
    return Contradicts("the number of hashes");
  }
  return Status::Ok();
}

// The member's root, by its path, must lead to the dataset's root.
Status CheckRoot(const SidecarContents& contents) {
  const Superblock& sb = contents.superblock;
  Tree::Proof path = contents.info.path;
  const bool set = sb.kind == DatasetKind::kSet;
  if (path.leaf_count != (set ? sb.members : 1) || path.index != (set ? sb.rank : 0)) return Contradicts("its place in the set");
  if (path.leaf_count == 1 && path.pages.empty()) path.pages.push_back({sb.data_root});  // docs/format.md §5: L = 0
  const std::optional<Hash> members_root = Tree::RootFrom(TreeKind::kDataset, path, sb.data_root);
  if (!members_root || DatasetRootOf(sb, *members_root) != sb.dataset_root) {
    return Contradicts("the path from its root does not lead to the dataset's");
  }
  return Status::Ok();
}

}  // namespace

Result<Layout> LayoutOf(const SidecarContents& contents) {
  const Superblock& sb = contents.superblock;
  GeometryParameters parameters;
  parameters.kind = sb.kind;
  parameters.placement = sb.placement;
  parameters.block_size = sb.block_size;
  parameters.unit = sb.unit;
  parameters.parity = sb.parity;
  parameters.groups = contents.info.groups;
  std::vector<std::uint64_t> sizes{sb.stamp.size};
  if (sb.kind == DatasetKind::kSet) {
    parameters.groups.assign(1, {});
    sizes.clear();
    for (std::uint32_t i = 0; i < contents.info.members.size(); ++i) {
      parameters.groups[0].push_back(i);
      sizes.push_back(contents.info.members[i].size);
    }
  }
  auto layout = Layout::Create(std::move(parameters), std::move(sizes));
  if (!layout.ok()) return {Code::kCorrupt, layout.status().message()};
  if (sb.kind == DatasetKind::kShared &&
      (layout->parity_size(0) != sb.parity_size || layout->parity_blocks(0) != contents.parity_tree.leaf_count())) {
    return {Code::kCorrupt, "the sidecar's geometry contradicts itself"};
  }
  return layout;
}

Status CheckContents(const SidecarContents& contents) {
  if (contents.superblock.state == SidecarState::kNeverCommitted) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(const std::uint32_t own, OwnFile(contents));
  LZY_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(contents));
  LZY_RETURN_IF_ERROR(CheckLayout(contents, layout, own));
  return CheckRoot(contents);
}

}  // namespace lzy
