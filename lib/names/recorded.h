#pragma once
// What sets record about members whose own sidecars are lost (docs/design/commit.md §7, "Owners of sidecars").
//
// The sidecar of each member has the roots of all members of its group (docs/format.md §6). So if the sidecar of one member is lost, the
// others still prove what it was. names/contents asks here if no sidecar was made for the content of a file.

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
  std::string sidecar;  ///< path of the one that records it
  std::string path;     ///< of the member
  std::uint32_t block_size = 0;
  KeyId key_id{};  ///< all zero: not sealed
  Uuid set{};
  std::uint64_t generation = 0;
  std::uint64_t size = 0;
  std::int64_t commit_clock_ns = 0;
  Hash root;
};

/// Members that sidecars record, and that have no sidecar of that commit among them. Immutable.
class RecordedMembers {
 public:
  /// `sidecars`: paths. What cannot be read is left out.
  RecordedMembers(FileSystem& fs, const std::vector<std::string>& sidecars);
  /// Those that have this size, and are of another set than `except`.
  std::vector<RecordedMember> OfSize(std::uint64_t bytes, const Uuid& except) const;

 private:
  std::multimap<std::uint64_t, RecordedMember> by_size_;
};

/// Compares one file with records. Reads the whole file once for each block size, and keeps the root.
class RootsOf {
 public:
  /// `key`: for records of sealed sets; without it they match nothing. With one, records without a seal do.
  RootsOf(FileSystem& fs, std::string path, const LeafKey* key) : fs_(fs), path_(std::move(path)), key_(key) {}
  /// Whether the file is what `record` says. False if it cannot be read.
  bool Are(const RecordedMember& record);

 private:
  FileSystem& fs_;
  std::string path_;
  const LeafKey* key_;
  std::map<std::uint32_t, std::optional<Hash>> roots_;  // by block size
};

}  // namespace lzy
