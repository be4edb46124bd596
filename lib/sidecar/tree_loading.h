#pragma once
// Reads the trees of a sidecar from its copies; for sidecar_load.cc and sidecar.cc only.
//
// Load reads each tree through a TreeResolver. The pages of a large tree (merkle/tree.h) stay in the file; CopiesOfPages
// has their places.

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/file.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// Reads to.size() bytes. Bytes after the end of the file, and unreadable bytes, become zero, which matches no hash.
/// Returns the first read error. Ignore the error only if the missing bytes are found in another way.
Status ReadLenient(File& file, std::uint64_t offset, MutableByteSpan to);

/// Level and number of a page.
using PageId = std::pair<std::size_t, std::uint64_t>;

/// The pages of a large tree, in copies of the metadata.
class CopiesOfPages : public TreePages {
 public:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  using Places = std::vector<std::uint64_t>;  // offsets in the file, by level

  /// `lost`: the pages that no copy has intact.
  CopiesOfPages(std::shared_ptr<File> file, std::vector<Places> copies, std::set<PageId> lost)
      : file_(std::move(file)), copies_(std::move(copies)), lost_(std::move(lost)) {}

  bool Read(std::size_t level, std::uint64_t page, std::size_t attempt, std::span<Hash> to) override;
  bool IsLost(std::size_t level, std::uint64_t page) const override { return lost_.contains({level, page}); }
  Status Gone() const override;

 private:
  const std::shared_ptr<File> file_;
  const std::vector<Places> copies_;
  const std::set<PageId> lost_;
};

/// Reads one tree from several copies, page by page and from the top. The root in the superblock proves the top hash; each
/// hash proves the page of its children. So each page may come from any copy that has it intact, and a page that is lost in
/// all copies only makes the leaves below it unknown. The pages of a large tree are checked, but not kept in memory.
class TreeResolver {
 public:
  TreeResolver(std::shared_ptr<File> file, TreeKind kind, std::uint64_t leaves, std::uint64_t bytes, const Hash& root)
      : file_(std::move(file)), kind_(kind), bytes_(bytes), root_(root), counts_(Tree::LevelCounts(kind, leaves)),
        large_(leaves > MostLeavesInMemory()) {}

  /// `copies[c]`: the extents of copy c; null if the copy is not used. Marks copies that are not complete, and adds their
  /// damage. Throws StatusError if another process writes the sidecar meanwhile.
  void Resolve(const std::vector<const std::vector<Extent>*>& copies, ExtentKind extent_kind,
               std::vector<bool>& copy_whole, std::vector<MetadataDamage>& damage);
  /// Instead of Resolve: checks only the top hash. The pages below are checked when they are read. False: no copy has the
  /// right top hash.
  bool Refer(const std::vector<const std::vector<Extent>*>& copies, ExtentKind extent_kind);
  /// Leaves of pages that no copy has intact, ascending.
  const std::vector<std::uint64_t>& unknown() const { return unknown_; }
  Result<Tree> Take();

 private:
  static constexpr std::uint64_t kPagesAtOnce = 64;  // 256 KiB
  struct Copy {
    std::size_t number;
    CopiesOfPages::Places levels;
  };
  void FindLevels(const std::vector<const std::vector<Extent>*>& copies, ExtentKind extent_kind,
                  std::vector<bool>& copy_whole);
  void ResolvePages(std::size_t level, std::uint64_t begin, std::uint64_t end, std::vector<bool>& copy_whole,
                    std::vector<MetadataDamage>& damage);
  bool Matches(std::size_t level, std::uint64_t page, std::span<const Hash> hashes, bool top) const;
  void SeeSoFar();

  const std::shared_ptr<File> file_;
  const TreeKind kind_;
  const std::uint64_t bytes_;
  const Hash root_;
  const std::vector<std::uint64_t> counts_;
  bool large_;
  std::vector<Copy> copies_;
  std::set<PageId> lost_;
  Hash top_;
  std::vector<std::vector<Hash>> levels_;  // levels of a small tree
  Tree tree_;                              // a large tree with the levels resolved so far
  std::vector<std::uint64_t> unknown_;
};

}  // namespace lzy
