#pragma once
// The index of a protected file's objects (docs/format.md §15): a map of the intact file. It gives the names of damaged
// objects even if the file's own metadata are destroyed.
//
// Repairs do not need it. It is valid only for one commit.

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/status.h"
#include "merkle/hash.h"
#include "objects/object_map.h"

namespace lzy {

/// Identifies a commit of a dataset.
struct IndexedCommit {
  std::string uuid;  ///< as text, as in reports
  Hash root;
  friend bool operator==(const IndexedCommit&, const IndexedCommit&) = default;
  LZY_FIELDS(uuid, root)
};

/// Path of the index of `data_path` (IndexPath), from the name of its sidecar. For a renamed file, this is the old name
/// until the next commit.
std::string FindIndex(FileSystem& fs, const std::string& data_path);
/// Stores an index, and replaces an older one. `frames`: the answer to a request for everything (objects/ask.h).
Status WriteIndex(FileSystem& fs, const std::string& data_path, const IndexedCommit& commit, ByteSpan frames);
/// Reads a sealed map. kNotFound: there is no index. kCorrupt: it is damaged, or belongs to another commit.
Result<ObjectMap> ReadIndex(FileSystem& fs, const std::string& data_path, const IndexedCommit& commit);

}  // namespace lzy
