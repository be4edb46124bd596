#include "common/helper.h"

#include <unistd.h>

#include "common/beside.h"

namespace lzy {

namespace {

std::string FindObjectsHelper() {
  for (const auto& directory : PlacesBesideProgram({".", LZY_BIN_TO_LAYER})) {
    const auto path = directory / "lzy-objects-helper";
    if (access(path.c_str(), X_OK) == 0) return path.string();
  }
  return "";
}

}  // namespace

// Beside the tools in the build tree; where it is installed, with the layer. Looked for once: it is asked for each file.
std::string ObjectsHelper() {
  static const std::string found = FindObjectsHelper();
  return found;
}

}  // namespace lzy
