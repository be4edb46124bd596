#pragma once
// The first messages on a stream between two machines, before there is a channel.
//
// Both ends must understand them whatever their versions are. So the form of Hello and its place never change: 8 bytes of magic,
// the length of the record (32 bits), the record, 8 bytes of a hash of it. An Assignment is read only by an end of the same
// protocol, so it may change.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/status.h"

namespace lzy {

/// What each end says first.
struct Hello {
  std::uint32_t messages = 0;  ///< the number of the protocol; ends with different numbers cannot work together
  std::string version;         ///< of lzy
  std::string node;
  std::string socket;          ///< of the other end: where further streams join
  LZY_FIELDS(messages, version, node, socket)
};

/// What the end that was started by the user says next.
struct Assignment {
  std::string join;                                ///< the socket of a process to which this stream is handed over; empty: work
  std::string prefix;                              ///< of the names of files on the other machine: "HOST:"
  std::vector<std::string> paths;                  ///< the PATHs, as names
  std::vector<std::string> words;                  ///< the command line
  std::map<std::string, std::string> environment;  ///< variables of options
  LZY_FIELDS(join, prefix, paths, words, environment)
};

/// Sends a record.
Status SendFirst(int fd, const std::vector<std::uint8_t>& record);
/// The record of the other end. kNotFound: the stream ended before anything came. kCorrupt: something else came; the message is
/// its beginning.
Result<std::vector<std::uint8_t>> TakeFirst(int fd);

}  // namespace lzy
