#pragma once
// Compares two files by their trees or by their data.
//
// diff/diff calls DiffFiles for each pair of files. A tree describes the bytes of a file only while the file is as
// committed: it has the stamp, and no program writes it. Local to one process.

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

/// The result for one pair of files.
struct FileDiff {
  std::string name;  ///< path below the directory; rank in a set; empty for two named files
  std::string a, b;  ///< paths
  DiffVerdict verdict = DiffVerdict::kUnknown;
  std::uint64_t bytes_a = 0, bytes_b = 0;
  /// Byte ranges that differ, up to the end of the longer file; sorted, and no two touch. By trees, they are whole blocks;
  /// by data, they begin and end with a byte that differs.
  std::vector<Interval> ranges;
  std::uint64_t block_size = 0;  ///< of the compared trees; 0: no trees were compared
  bool ranges_known = true;      ///< false: the files differ (in size, for example), but `ranges` is not known
  bool by_data = false;
  Status status;                 ///< why nothing or no more is known
  std::vector<std::string> warnings;
  std::uint64_t DifferentBytes() const;
  LZY_FIELDS(name, a, b, verdict, bytes_a, bytes_b, ranges, block_size, ranges_known, by_data, status, warnings)
};

/// The exit code of one pair (docs/reference/tools.md): 0 same; 1 different; else why it is unknown.
int ExitCodeOf(const FileDiff& diff);

struct FileDiffRequest {
  bool deep = false;  ///< compare the data, and ignore sidecars
  unsigned threads = 1;
  /// Called by several threads with the number of compared bytes of each file. May be empty.
  std::function<void(std::uint64_t bytes)> progress;
  std::function<bool()> stop;  ///< polled; true: kInterrupted. May be empty
};

/// One of the two files.
struct DiffSide {
  FileSystem& fs;
  std::string path;
  Directory* directory = nullptr;  ///< the directory of the file, to find sidecars of many files; null: it is read for this file
  bool elsewhere = false;          ///< `fs` is that of another rank (remote/files.h): compare hashes instead of sending data
};

/// Compares two existing files. Sets all fields except `name`. Writes nothing. Never throws.
FileDiff DiffFiles(const Options& options, const DiffSide& a, const DiffSide& b, const FileDiffRequest& request);

}  // namespace lzy
