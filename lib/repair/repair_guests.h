#pragma once
// Repairs of a set on one node: every rank opens all members. Then each rank rebuilds rows of its own from the shared page
// cache, and no block travels between ranks. Only Repairer uses this, after it has opened the outputs and before it rebuilds
// rows.
//
// Each rank sends a description of the files that it has open (path, file system, inode, trees), and the others open the same
// files. This works only if all ranks see the same files and have memory for the trees. If one rank cannot open the files, no
// rank works in this way.

#include <memory>
#include <optional>
#include <vector>

#include "encode/node_files.h"
#include "encode/rebuild.h"

namespace lzy {

/// Where a rank writes blocks of one file, its data or its parity region, and the leaves that they must have.
struct RepairOutput {
  File* file = nullptr;            ///< null: this rank writes none of these blocks
  std::uint64_t base = 0;          ///< offset of the blocks in `file`
  const Tree* expected = nullptr;  ///< null: unknown; the root proves the leaves at the end
  Leaves leaves;                   ///< if not `expected`: those that were computed
};
struct RepairOutputs {
  RepairOutput data, parity;
  RepairOutput& of(bool of_parity) { return of_parity ? parity : data; }
  /// Reserves `leaves` where `expected` is null.
  void MakeRoom(const Layout& layout, std::uint32_t file, const ScratchMaker& scratch);
};

/// A tree as ranks send it: its leaves, and the size of the data.
struct ToldTree {
  std::uint64_t bytes = 0;
  std::vector<Hash> leaves;
  LZY_FIELDS(bytes, leaves)
};
/// What a rank sends about the data or the parity of one of its members: the files that it has open to read (`in`) and to
/// write (`out`), the offset of the blocks there, and the leaves.
struct ToldBlocks {
  std::optional<OpenedFile> in, out;
  std::uint64_t in_base = 0, out_base = 0;
  bool has_tree = false;
  ToldTree tree;
  bool expected = false;  ///< written blocks must have the leaves of `tree`
  LZY_FIELDS(in, out, in_base, out_base, has_tree, tree, expected)
};
struct ToldMember {
  std::uint32_t file = 0;  ///< its number in the layout
  ToldBlocks data, parity;
  LZY_FIELDS(file, data, parity)
};

/// The members of an ensemble that other ranks own and this rank has open. Destroying the object closes the files. The
/// outputs hold the leaves that this rank computed for the owners, until Repairer gathers them (GatherComputed).
class RepairGuests {
 public:
  /// Opens the members of the other ranks of `comm`. `streams` and `outputs` (by file of the layout) have entries for this
  /// rank's members, and get those of all members. Returns false, and changes neither, if any rank cannot open a member.
  /// This object must outlive the streams and outputs. Collective.
  Result<bool> Open(const Context& context, const Layout& layout, Communicator& comm, const std::vector<bool>& own,
                    RowStreams& streams, std::vector<RepairOutputs*>& outputs);

 private:
  struct Guest {
    std::vector<std::unique_ptr<File>> files;
    std::optional<Tree> data_tree, parity_tree;
    BlockStream data, parity;
    RepairOutputs outputs;
  };
  /// Opens a file that another rank has open. `file` stays null if that rank has none.
  static Status OpenTold(const std::optional<OpenedFile>& told, FileSystem& fs, Guest& guest, OpenMode mode, File*& file);
  /// Opens the data or the parity of a member. `in` gets the file from which blocks are read.
  static Status OpenBlocks(const ToldBlocks& told, TreeKind kind, FileSystem& fs, Guest& guest, std::optional<Tree>& tree,
                           RepairOutput& output, File*& in);
  /// Opens a member as another rank described it, and sets its entry in `known`.
  Status TakeGuest(const Context& context, const Layout& layout, const std::vector<bool>& own, std::vector<bool>& known,
                   const ToldMember& told);

  std::vector<Guest> guests_;  // by file of the layout
};

}  // namespace lzy
