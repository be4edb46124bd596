#pragma once
// Information from the kernel: the node of this process, the holder of a lock on it, and random numbers. Local.

#include <sys/random.h>
#include <sys/types.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace lzy {

/// Identifies the node. Two processes with the same result run under one kernel, so each sees at once what the other
/// writes, on any file system. They also share host name, process numbers and shared memory (name spaces). Containers that
/// stand for nodes differ in these name spaces, so they count as separate nodes and exchange data by messages. The host
/// name alone would not do, because anybody can choose it.
std::string ThisNode();

/// The process on this machine that holds an OFD lock on the file with this inode: "NAME, process ID, running since TIME".
/// Empty if it cannot be found. For messages only: it examines every process, and inodes of other file systems may match.
std::string LockHolderHere(std::uint64_t inode);

/// True if process `pid` runs on this machine, and ran at the time `at_ns` (ns since 1970; some seconds later do not matter, as
/// clocks are set): a later process may have the same number. Also true if that cannot be told.
bool RanAt(std::uint32_t pid, std::int64_t at_ns);

/// True for a variable of the environment ("NAME=value") that launchers of MPI set for the ranks of a job. A program that a
/// rank starts, and that must work alone, must not inherit it.
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
