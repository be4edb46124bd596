#pragma once
// Mending a set on one node: every rank opens all members. Then each rank rebuilds rows of its own from the shared page
// cache, and no block travels between ranks. Used by Mender alone, between opening outputs and rebuilding rows.
//
// Each rank tells the others what it has open (path, device, inode, trees), and they open the same files. That works only
// if all ranks see the same files and have memory for the trees. All ranks agree on it; if one cannot, none does.

#include <memory>
#include <optional>
#include <vector>

#include "encode/node_files.h"
#include "encode/rebuild.h"

namespace lzy {

/// What a rank writes blocks of one file to, and holds them to.
struct MendOutputs {
  File* data = nullptr;    ///< null: of this file no data block is written here
  File* parity = nullptr;  ///< likewise
  std::uint64_t parity_base = 0;
  const Tree* data_expected = nullptr;  ///< null: checked by the root at the end
  const Tree* parity_expected = nullptr;
  std::vector<Hash> data_leaves, parity_leaves;         ///< where not expected
  std::vector<std::uint8_t> data_known, parity_known;   ///< which of them this rank computed
  /// For the leaves that are not expected.
  void MakeRoom(const Layout& layout, std::uint32_t file);
  ComputedLeaves data_computed() { return {data_leaves, data_known}; }
  ComputedLeaves parity_computed() { return {parity_leaves, parity_known}; }
};

/// What a rank tells the others of one of its members: what it has open, and what it expects.
/// A tree on its way to other ranks: its leaves, and the bytes that they are of.
struct ToldTree {
  std::uint64_t bytes = 0;
  std::vector<Hash> leaves;
  LZY_FIELDS(bytes, leaves)
};
struct ToldMember {
  std::uint32_t file = 0;  ///< of the layout
  std::optional<OpenedFile> data, parity;
  std::uint64_t base = 0;  ///< where its parity begins
  std::optional<ToldTree> data_tree, parity_tree;
  std::optional<OpenedFile> data_out, parity_out;  ///< of MendOutputs, as the rest
  std::uint64_t out_base = 0;
  bool data_expected = false, parity_expected = false;
  LZY_FIELDS(file, data, parity, base, data_tree, parity_tree, data_out, parity_out, out_base, data_expected, parity_expected)
};

/// What a rank has open of an ensemble that others own.
class MendGuests {
 public:
  /// True when every rank of `comm` has opened the others' members: `streams` and `outputs` (by file of the layout), in
  /// which each rank has its own, then have those of all. False, with both as they were, if that cannot be done.
  /// Collective. This object must outlive what it opened.
  Result<bool> Open(const Context& context, const Layout& layout, Communicator& comm, const std::vector<bool>& own,
                    RowStreams& streams, std::vector<MendOutputs*>& outputs);

 private:
  struct Guest {
    std::vector<std::unique_ptr<File>> files;
    std::optional<Tree> data_tree, parity_tree;
    BlockStream data, parity;
    MendOutputs outputs;
  };
  /// A file that another rank has open, in `mode`; none where it has none.
  static Status OpenTold(const std::optional<OpenedFile>& told, FileSystem& fs, Guest& guest, OpenMode mode, File*& file);
  /// What another rank told of one of its members; `known` is set for it.
  Status TakeGuest(const Context& context, const Layout& layout, const std::vector<bool>& own, std::vector<bool>& known,
                   const ToldMember& told);

  std::vector<Guest> guests_;  // by file
};

}  // namespace lzy
