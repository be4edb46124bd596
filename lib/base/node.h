#pragma once
// Which node this process runs on, and who holds a lock there. Local; both functions read /proc.

#include <cstdint>
#include <string>

namespace lzy {

/// Identifies the node. Two processes with the same answer run under one kernel, so each sees at once what the other
/// wrote, on any file system. They also share host name, process numbers and shared memory (name spaces).
/// Containers that stand for nodes differ in these name spaces, so they count as separate nodes and exchange data by
/// messages. This is not the host name, which anybody can choose.
std::string ThisNode();

/// Who on this machine holds an OFD lock on the file with this inode: "NAME, process ID, running since TIME". Empty if
/// this process cannot tell. For messages only: it looks at every process, and inodes of other file systems may match.
std::string LockHolderHere(std::uint64_t inode);

}  // namespace lzy
