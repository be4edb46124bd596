#pragma once
// Records of files that a program opened for writing with MPI-IO, or by calls that option posix makes lzy see, and why some of them are not protected. For lzy-run,
// which makes an empty file, names it in a variable, and reads it when the program has ended.
//
// A process that cannot append to the file, for example on another machine, records nothing. lzy-run's statements about
// unrecorded files are still true (tools/run/written.h).

#include <string>
#include <vector>

#include "base/status.h"

namespace lzy {

/// The variable that names the file. Not an option: only lzy-run sets it.
inline constexpr char kOpenedVariable[] = "LZY_OPENED";

struct OpenedRecord {
  std::string path;     ///< absolute, links resolved
  std::string why_not;  ///< empty: the layer protects it
  bool plain = false;   ///< without MPI-IO
  bool operator==(const OpenedRecord&) const = default;
};

/// Appends to `file`, which must exist, by one write(2). Local; from any thread. kIo: nothing was written.
Status AppendOpened(const std::string& file, const OpenedRecord& record);
/// All records, in their order. A last one that is cut short is left out.
std::vector<OpenedRecord> ReadOpened(const std::string& file);

}  // namespace lzy
