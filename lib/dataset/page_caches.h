#pragma once
// Finds files that ranks may have written through several page caches (docs/design/commit.md §5, "Pages of several nodes").
// All processes that use one mount on one node share a page cache.
//
// The kind of file system does not decide: no list of kinds is complete, and mount options matter as much. The ranks that may
// have written decide. If all ranks share one page cache, it has all that they wrote.

#include <map>

#include "comm/communicator.h"
#include "dataset/view.h"

namespace lzy {

/// The result of ReadPastStalePages; the same on every rank.
struct PageCaches {
  /// The file is shared, and the ranks have several page caches.
  bool several = false;
  /// By rank of the member: the ranks of the communicator that compare what they see of it (SeeMembersAlike). They are the
  /// owner and one rank of each other page cache, up to eight. Only members that have several page caches and no known
  /// writer are listed.
  std::map<std::uint32_t, std::vector<int>> seen_by;
};

/// For a commit: makes reads of the data files of `view` go past the page cache (storage/past_cache.h), if the page cache of
/// this rank may have pages that are older than what another rank wrote.
///  - Shared file: if the ranks have several page caches. Any rank may have written any byte. Even a rank's own writes may
///    not be in its cache, because in collective calls, MPI lets other ranks write the data.
///  - Members of a set: only if `written_by_owner` is false, and ranks with another page cache see the member.
/// The ranks must have synced what they wrote before the view was opened. Collective over `comm`.
Result<PageCaches> ReadPastStalePages(FileSystem& fs, Communicator& comm, bool written_by_owner, DatasetView& view);

}  // namespace lzy
