#pragma once
#include <string>

namespace lzy {

/// Names the running kernel: processes that get the same share its page cache, so that each reads at once what another
/// wrote, on any file system. Not the name of the machine, which containers and namespaces choose.
std::string RunningKernel();

}  // namespace lzy
