#include <unistd.h>

#include <fstream>

#include "base/node.h"

namespace lzy {

std::string RunningKernel() {
  // A random number drawn at boot (random(4)). Where there is no /proc the host's name has to do.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id) return id;
  char name[65] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace lzy
