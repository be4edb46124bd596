#include "common/helper.h"

#include <unistd.h>

#include "common/beside.h"

namespace lzy {

// Beside the tools in the build tree; where it is installed, with the layer.
std::string ObjectsHelper() {
  for (const auto& directory : PlacesBesideProgram({".", LZY_BIN_TO_LAYER})) {
    const auto path = directory / "lzy-objects-helper";
    if (access(path.c_str(), X_OK) == 0) return path.string();
  }
  return "";
}

}  // namespace lzy
