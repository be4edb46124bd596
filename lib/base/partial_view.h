#pragma once
// File systems with names of another machine (link/host_files).

#include <string>

#include "base/file.h"

namespace lzy {

/// A base for file systems that never have files of some names.
class PartialView {
 public:
  virtual ~PartialView() = default;
  virtual bool may_have(const std::string& path) = 0;
};

/// False if `fs` can never have a file of this name.
inline bool MayHave(FileSystem& fs, const std::string& path) {
  auto* const partial = dynamic_cast<PartialView*>(&fs);
  return partial == nullptr || partial->may_have(path);
}

}  // namespace lzy
