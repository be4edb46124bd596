#pragma once
#include <cstdint>
#include <string>

namespace lzy {

/// Names the running kernel: processes that get the same share its page cache, so that each reads at once what another
/// wrote, on any file system. Not the name of the machine, which containers and namespaces choose.
std::string RunningKernel();

/// Who on this machine holds an OFD lock on the file with this inode number, "NAME, process ID, running since TIME", as far as this
/// process may see it; empty if that cannot be told. For messages only: takes a look at every process.
std::string LockHolderHere(std::uint64_t inode);

}  // namespace lzy
