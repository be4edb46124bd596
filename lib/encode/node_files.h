#pragma once
// Opens files that another rank has open. On one node, all ranks can work on all members of a set through one page cache,
// so no blocks need to be exchanged.
//
// Callers: EncodeOnOneNode (encode/one_node.h), and restores (repair/repair_guests.cc). A path alone is no proof, because ranks
// may run in name spaces of their own. So file system and inode must be the same, too.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/node.h"
#include "comm/records.h"

namespace lzy {

/// The data with which another process opens the same file and recognises it.
struct OpenedFile {
  std::string path;
  std::uint64_t file_system = 0, inode = 0;
  bool past_cache = false;  ///< the file is read past the page cache; other processes must do the same
  LZY_FIELDS(path, file_system, inode, past_cache)
};
/// The description of an open file. Local.
Result<OpenedFile> DescribeFile(File& file);
/// Opens the file that `told` describes. Any error means that this rank cannot see the file. kInternal: the path leads to
/// another file on this rank. Local.
Result<std::unique_ptr<File>> OpenTheSame(const OpenedFile& told, FileSystem& fs, OpenMode mode);

/// Each rank makes a list of its records (`tell`), and calls `take` for each record of the other ranks, by rank. True on
/// all ranks if all of them run on one node (ThisNode) and no call of `tell` or `take` failed on any rank. Otherwise false
/// on all ranks: this is no failure, but a reason to exchange blocks. Then the caller closes the files that `take` opened.
/// Returns an error only if communication failed. Told: a struct with LZY_FIELDS. Collective.
template <class Told>
Result<bool> ShareOnNode(Communicator& comm, const std::function<Status(std::vector<Told>&)>& tell,
                         const std::function<Status(const Told&)>& take) {
  // This comes first, because the records may be many, and on several nodes they are useless.
  LZY_ASSIGN_OR_RETURN(const auto nodes, AllGatherRecords(comm, ThisNode()));
  if (std::any_of(nodes.begin(), nodes.end(), [&](const auto& one) { return one != nodes[0]; })) return false;
  // A rank whose `tell` failed still takes part in the exchange. The last reduction reports the failure to all.
  std::vector<Told> own;
  Status mine = NoThrow([&] { return tell(own); });
  const auto all = AllGatherRecords(comm, own);
  if (mine.ok()) mine = all.status();
  if (mine.ok()) {
    mine = NoThrow([&] {
      for (std::size_t rank = 0; rank < all->size(); ++rank) {
        if (rank == static_cast<std::size_t>(comm.rank())) continue;
        for (const Told& one : (*all)[rank]) LZY_RETURN_IF_ERROR(take(one));
      }
      return Status::Ok();
    });
  }
  LZY_ASSIGN_OR_RETURN(const std::uint64_t obstacles, comm.AllReduceMax(mine.ok() ? 0 : 1));
  return obstacles == 0;
}

}  // namespace lzy
