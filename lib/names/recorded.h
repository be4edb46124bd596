#pragma once
// Members of sets that other sidecars record and whose own sidecars are lost (docs/design/commit.md §7, "Owners of
// sidecars").
//
// The sidecar of each member has the data roots of all members of its group (docs/format.md §5). So if one sidecar is lost,
// the others still prove what that member was. names/provers uses this if no sidecar was made for the content of a file.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "merkle/leaf_key.h"
#include "names/peek.h"

namespace lzy {

/// A member of a set, as the sidecar of another one records it.
struct RecordedMember {
  std::string sidecar;  ///< path of the sidecar that records it
  std::string path;     ///< path of the member
  std::uint32_t block_size = 0;
  KeyId key_id{};  ///< all zero: not sealed
  Uuid set{};
  std::uint64_t generation = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t commit_clock_ns = 0;
  Hash root;
};

/// Members that sidecars record, but that have no sidecar of that commit themselves. Immutable.
class RecordedMembers {
 public:
  /// `sidecars`: paths. Sidecars that cannot be read are left out.
  RecordedMembers(FileSystem& fs, const std::vector<std::string>& sidecars);
  /// The members of this size, of other sets than `except`.
  std::vector<RecordedMember> OfSize(std::uint64_t bytes, const Uuid& except) const;

 private:
  std::multimap<std::uint64_t, RecordedMember> by_size_;
};

/// Compares one file with records. Reads the whole file once for each block size, and keeps the root.
class RootsOf {
 public:
  /// `key`: for records of sealed sets. Without it, records of sealed sets do not match; with it, records of other sets do
  /// not match.
  RootsOf(FileSystem& fs, std::string path, const LeafKey* key) : fs_(fs), path_(std::move(path)), key_(key) {}
  /// True if the file has the content that `record` describes. False if it cannot be read.
  bool Are(const RecordedMember& record);

 private:
  FileSystem& fs_;
  std::string path_;
  const LeafKey* key_;
  std::map<std::uint32_t, std::optional<Hash>> roots_;  // by block size
};

}  // namespace lzy
