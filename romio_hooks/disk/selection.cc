// Names of files that the layer must leave alone. ROMIO makes files beside the program's files; these are not the program's
// data.

#include "hooks/disk/selection.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "sidecar/names.h"

namespace lzy::hooks {
namespace {

/// True if `path` is `directory` or lies in it. "/device" does not lie in "/dev".
bool IsBelow(const std::string& path, std::string_view directory) {
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

/// ".<name>.shfp.<number>": where ROMIO keeps the shared file pointer of <name>.
bool IsSharedPointerFile(const std::string& name) {
  constexpr std::string_view kMark = ".shfp.";
  const std::size_t at = name.rfind(kMark);
  return name.front() == '.' && at != std::string::npos && at + kMark.size() < name.size() &&
         name.find_first_not_of("0123456789", at + kMark.size()) == std::string::npos;
}

}  // namespace

// ROMIO takes everything before the first colon for a file system, if these are two letters or more.
std::string PathOfName(FileSystem& fs, const std::string& name) {
  const std::size_t colon = name.find(':');
  const bool prefixed = colon != std::string::npos && colon >= 2 &&
                        std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(colon),
                                    [](unsigned char c) { return std::isalpha(c) != 0; });
  if (!prefixed) return name;
  std::string stripped = name.substr(colon + 1);
  const bool only_whole = !fs.Stat(stripped).ok() && fs.Stat(name).ok();
  return only_whole ? name : stripped;
}

// ".commonfstest." is the probe that ROMIO makes to see whether all ranks see one file system.
bool IsNeverProtected(const std::string& path) {
  const std::string name = BaseNameOf(path);
  if (name.empty() || IsLzyName(name) || IsSharedPointerFile(name) || name.starts_with(".commonfstest.")) return true;
  if (IsBelow(path, "/dev/shm")) return false;
  return IsBelow(path, "/proc") || IsBelow(path, "/sys") || IsBelow(path, "/dev");
}

}  // namespace lzy::hooks
