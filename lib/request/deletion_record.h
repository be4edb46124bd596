#pragma once
// Which protected files were deleted on purpose: a line of text for each, in a file beside the catalogue.
//
// The layer notes what a program deletes with MPI_File_delete, the tools what lzy-protect --remove and lzy-info --prune take
// away. Later, lzy-scrub and lzy-verify find that the catalogue knows files that are not there any more. Those noted here
// are no reason to alarm anybody; all others are (tools/common/losses.h). The layer cannot write the catalogue itself:
// SQLite waits for locks, and a program must not wait for a tool.
//
// A note that is lost costs a false alarm, nothing else. So nothing is synced, nobody waits, and no failure is told.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace lzy {

/// A file, or the pattern of a set, that was deleted or whose protection was removed, and when (ns since 1970).
struct DeletionRecord {
  std::int64_t time = 0;
  std::string path;  ///< absolute, links in its directory resolved
  bool operator==(const DeletionRecord&) const = default;
};

/// The catalogue that is used if option catalog is not given: $XDG_STATE_HOME/lzy/catalog.sqlite, by default below
/// ~/.local/state. Empty: neither variable is an absolute path. `getenv_like`: for tests.
std::string DefaultCatalogPath(const std::function<const char*(const char*)>& getenv_like = nullptr);
/// The catalogue of another user, if that user has set nothing: below `home`.
std::string CatalogPathBelow(const std::string& home);
/// Where deletions are noted: beside the catalogue.
std::string DeletionsPath(const std::string& catalog);

/// Appends a line, by one write(2). Does nothing if there is no file `catalog`. From 4 MiB on, the notes so far become
/// those of DeletionsPath() + ".old", so no more than twice as much is kept. Local; from any thread.
Status AppendDeletion(const std::string& catalog, const DeletionRecord& record);
/// All notes beside `catalog`, in no order; of lines that nobody understands, none. Files that belong neither to `owner`
/// nor to root, or that are no regular files, count as empty: their owner may have prepared them.
std::vector<DeletionRecord> ReadDeletions(const std::string& catalog, std::uint32_t owner);

}  // namespace lzy
