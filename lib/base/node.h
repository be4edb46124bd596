#pragma once
#include <cstdint>
#include <string>

namespace lzy {

/// Names the node: processes that get the same run under one kernel, so that each reads at once what another wrote, on any file
/// system, and are not kept apart as nodes are: they have the host name, the processes and the shared memory of one. Containers
/// that stand for nodes have name spaces of their own for these, so what is between them goes by messages, as between machines.
/// Not the name of the machine, which anybody can choose.
std::string ThisNode();

/// Who on this machine holds an OFD lock on the file with this inode number, "NAME, process ID, running since TIME", as far as this
/// process may see it; empty if that cannot be told. For messages only: takes a look at every process.
std::string LockHolderHere(std::uint64_t inode);

}  // namespace lzy
