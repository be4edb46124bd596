#pragma once
// The index of a protected file's objects (docs/format.md §15): a map that was taken when the file was right. So the names of
// what is damaged are known even if the file's own metadata are destroyed.
//
// It holds nothing that is needed to repair anything. It counts only for the commit that it was made at.

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/status.h"
#include "merkle/hash.h"
#include "objects/object_map.h"

namespace lzy {

/// Which commit of a dataset.
struct IndexedCommit {
  std::string uuid;  ///< as text, as in reports
  Hash root;
  friend bool operator==(const IndexedCommit&, const IndexedCommit&) = default;
  LZY_FIELDS(uuid, root)
};

/// Where the index of `data_path` is (IndexPath): by the name of its sidecar, which is another one than its own until the next
/// commit if it was renamed.
std::string FindIndex(FileSystem& fs, const std::string& data_path);
/// `frames`: the answer to a request for everything (objects/ask.h). Replaces an older one.
Status WriteIndex(FileSystem& fs, const std::string& data_path, const IndexedCommit& commit, ByteSpan frames);
/// A sealed map. kNotFound: there is none. kCorrupt: it is damaged, or of another commit.
Result<ObjectMap> ReadIndex(FileSystem& fs, const std::string& data_path, const IndexedCommit& commit);

}  // namespace lzy
