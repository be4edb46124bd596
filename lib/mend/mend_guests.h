#pragma once
// Mending a set on one node: every rank opens all members. Then each rank rebuilds rows of its own from the shared page
// cache, and no block travels between ranks. Used by Mender alone, between opening outputs and rebuilding rows.
//
// Each rank tells the others what it has open (path, device, inode, trees), and they open the same files. That works
// only if all ranks see the same files and have memory for the trees. All ranks agree on it; if one cannot, none does.

#include <memory>
#include <optional>
#include <vector>

#include "encode/node_files.h"
#include "encode/rebuild.h"

namespace lzy {

/// What a rank writes blocks of one file to, its data or its parity region, and holds them to.
struct MendOutput {
  File* file = nullptr;            ///< null: no block of these is written here
  std::uint64_t base = 0;          ///< where the blocks begin in it
  const Tree* expected = nullptr;  ///< null: checked by the root at the end
  Leaves leaves;                   ///< where not expected
};
struct MendOutputs {
  MendOutput data, parity;
  MendOutput& of(bool of_parity) { return of_parity ? parity : data; }
  /// For the leaves that are not expected.
  void MakeRoom(const Layout& layout, std::uint32_t file, const ScratchMaker& scratch);
};

/// A tree on its way to other ranks: its leaves, and the bytes that they are of.
struct ToldTree {
  std::uint64_t bytes = 0;
  std::vector<Hash> leaves;
  LZY_FIELDS(bytes, leaves)
};
/// What a rank tells the others of the data, or of the parity, of one of its members: what it has open to read and to
/// write, where the blocks begin there, and what it expects of them.
struct ToldBlocks {
  std::optional<OpenedFile> in, out;
  std::uint64_t in_base = 0, out_base = 0;
  bool has_tree = false;
  ToldTree tree;
  bool expected = false;  ///< what is written must have the leaves of `tree`
  LZY_FIELDS(in, out, in_base, out_base, has_tree, tree, expected)
};
struct ToldMember {
  std::uint32_t file = 0;  ///< of the layout
  ToldBlocks data, parity;
  LZY_FIELDS(file, data, parity)
};

/// What a rank has open of an ensemble that others own. Files are closed with it; leaves that this rank computed for
/// others are in the outputs of its guests, until Mender gathers them (GatherComputed).
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
  /// Opens what was told of the data or the parity of a member. `in`: what blocks are read from.
  static Status OpenBlocks(const ToldBlocks& told, TreeKind kind, FileSystem& fs, Guest& guest, std::optional<Tree>& tree,
                           MendOutput& output, File*& in);
  /// What another rank told of one of its members; `known` is set for it.
  Status TakeGuest(const Context& context, const Layout& layout, const std::vector<bool>& own, std::vector<bool>& known,
                   const ToldMember& told);

  std::vector<Guest> guests_;  // by file
};

}  // namespace lzy
