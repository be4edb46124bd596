#pragma once
// Which files other ranks may have written through another page cache than this rank's (docs/design/commit.md §5, "Pages of several
// nodes"). A page cache is that of one mount on one node: what one process puts there, every other one finds.
//
// Not by the kind of file system: no list of these is ever complete, and an option of a mount decides as much. By who may
// have written: if all ranks use one page cache, what they wrote is there.

#include <map>

#include "comm/communicator.h"
#include "dataset/view.h"

namespace lzy {

struct PageCaches {
  /// Of a shared file, the ranks have several. Agreed.
  bool several = false;
  /// Members of a set that ranks with several page caches see, and of which nobody says who wrote them: the rank of each one, and the
  /// ranks of the communicator that are to look at it for all. One is its owner; of each other page cache there is one, up to eight. Agreed.
  std::map<std::uint32_t, std::vector<int>> seen_by;
};

/// For a commit: makes readings of the data files of `view` go past the page cache (storage/past_cache.h) where ranks have
/// several page caches of a file, and one of them may have pages that are older than what another one wrote.
///  - A shared file: all ranks may have written any byte. (Not even a rank's own writes are surely in its cache: MPI lets
///    other ranks write the data of collective calls.)
///  - Members of a set: only if it is not said who wrote them (`written_by_owner` is false), and several ranks see them. The
///    owner's own writes are in its cache.
/// Who wrote has synced before; ranks open the files after that. Collective over `comm`.
Result<PageCaches> ReadPastStalePages(FileSystem& fs, Communicator& comm, bool written_by_owner, DatasetView& view);

}  // namespace lzy
