#pragma once
// Two files against each other, by their trees or by their data.
//
// diff/diff calls it for each pair of files. What a tree says counts for the bytes of a file only while the file is what
// was committed: it has the stamp, and no program writes it. Local to one process.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/interval_set.h"
#include "names/lookup.h"
#include "request/options.h"

namespace lzy {

enum class DiffVerdict : std::uint8_t {
  kSame,
  kDifferent,
  kOnlyA,    ///< B has no such file
  kOnlyB,
  kUnknown,  ///< FileDiff::status says why
};

/// What is known of one pair of files.
struct FileDiff {
  std::string name;  ///< below a directory; of a set, the rank; of two files that were named, empty
  std::string a, b;  ///< paths
  DiffVerdict verdict = DiffVerdict::kUnknown;
  std::uint64_t bytes_a = 0, bytes_b = 0;
  /// Byte ranges that differ, of whichever file is longer: sorted, and none touches the next. By trees, they consist of
  /// whole blocks; by data, they begin and end with bytes that differ.
  std::vector<Interval> ranges;
  std::uint64_t block_size = 0;  ///< of the trees that were compared; 0: none were
  bool ranges_known = true;      ///< false: they differ for sure (in size, for example), but `ranges` is not known
  bool by_data = false;
  Status status;                 ///< why nothing, or nothing more, is known
  std::vector<std::string> warnings;
  std::uint64_t DifferentBytes() const;
  LZY_FIELDS(name, a, b, verdict, bytes_a, bytes_b, ranges, block_size, ranges_known, by_data, status, warnings)
};

/// The exit code of one pair (docs/reference/tools.md): 0 the same, 1 different, else why that is not known.
int ExitCodeOf(const FileDiff& diff);

struct FileDiffRequest {
  bool deep = false;  ///< compare the data, and look at no sidecar
  unsigned threads = 1;
  /// Called by several threads with the bytes of each file that were compared. May be empty.
  std::function<void(std::uint64_t bytes)> progress;
  std::function<bool()> stop;  ///< polled; true: kInterrupted. May be empty
};

/// One of two files that are compared.
struct DiffSide {
  FileSystem& fs;
  std::string path;
  Directory* directory = nullptr;  ///< for finding sidecars of many files; null: that of the path
  bool elsewhere = false;          ///< `fs` is that of another rank (remote/files.h): hashes are to travel rather than data
};

/// Compares two files that exist. Fills in all but `name`. Changes nothing. Never throws.
FileDiff DiffFiles(const Options& options, const DiffSide& a, const DiffSide& b, const FileDiffRequest& request);

}  // namespace lzy
