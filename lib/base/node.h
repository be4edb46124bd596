#pragma once
// What the kernel tells: which node this process runs on, who holds a lock there, and random numbers. Local.

#include <sys/random.h>
#include <sys/types.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace lzy {

/// Identifies the node. Two processes with the same answer run under one kernel, so each sees at once what the other
/// wrote, on any file system. They also share host name, process numbers and shared memory (name spaces).
/// Containers that stand for nodes differ in these name spaces, so they count as separate nodes and exchange data by
/// messages. This is not the host name, which anybody can choose.
std::string ThisNode();

/// Who on this machine holds an OFD lock on the file with this inode: "NAME, process ID, running since TIME". Empty if
/// this process cannot tell. For messages only: it looks at every process, and inodes of other file systems may match.
std::string LockHolderHere(std::uint64_t inode);

/// Whether a variable of the environment ("NAME=value") makes a process a rank of a job: launchers of MPI set it for their ranks.
/// A program that a rank starts, and that is to work alone, must not get it.
bool IsOfMpiLauncher(std::string_view variable);

/// Random bytes that no other process draws, even if it starts at the same moment. std::random_device may ask the
/// processor for each 32 bits, which takes microseconds in a virtual machine, and longer with several threads.
template <class T>
T DrawRandom() {
  T drawn{};
  if (getrandom(&drawn, sizeof drawn, 0) == static_cast<ssize_t>(sizeof drawn)) return drawn;
  std::random_device entropy;  // a kernel without the call, or a sandbox that forbids it
  std::array<std::uint8_t, sizeof drawn> bytes;
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(entropy());
  return std::bit_cast<T>(bytes);
}

}  // namespace lzy
