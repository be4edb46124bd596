#pragma once
// Records of protected files that were deleted on purpose: a line of text for each, in a file beside the catalogue.
//
// The layer records files that a program deletes with MPI_File_delete, the tools those of lzy-protect --remove and lzy-info
// --prune. Later, lzy-scrub and lzy-verify find files in the catalogue that no longer exist. Recorded deletions cause no
// alarm; all others do (tools/common/losses.h). The layer cannot write the catalogue itself: SQLite waits for locks, and a
// program must not wait for a tool.
//
// A lost record only causes a false alarm. So nothing is synced, nothing waits, and failures are not reported.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace lzy {

/// A file, or the pattern of a set, that was deleted or lost its protection, and the time (ns since 1970).
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
/// Path of the file with the records: beside the catalogue.
std::string DeletionsPath(const std::string& catalog);

/// Appends a line, by one write(2). Does nothing if there is no file `catalog`. When the file reaches 4 MiB, it is renamed
/// to DeletionsPath() + ".old", so at most twice as much is kept. Local; from any thread.
Status AppendDeletion(const std::string& catalog, const DeletionRecord& record);
/// All records beside `catalog`, in no order; ignores lines that it cannot parse. Files that belong neither to `owner` nor
/// to root, or that are not regular files, count as empty, because somebody else may have prepared them.
std::vector<DeletionRecord> ReadDeletions(const std::string& catalog, std::uint32_t owner);

}  // namespace lzy
