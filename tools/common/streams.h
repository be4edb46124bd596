#pragma once
// What tools print, on streams that may be closed or full. fmt::print throws then, which would end a tool as a crash does.

#include <cstdio>
#include <string_view>

namespace lzy {

/// Opens descriptors 0, 1 and 2 if they are closed, so that no file that is opened later gets one of these numbers, and with it
/// what the tool prints. What is written to a stream that was closed still fails. Call it first.
void KeepStandardDescriptors();

/// Prints. A failure shows in the error flag of the stream: EndStreams.
void Put(std::FILE* to, std::string_view text);

/// Writes what is left. Returns `exit_code`, or that of an I/O error if it is 0 and something of what was printed got lost:
/// then stderr says so, if it can.
int EndStreams(std::string_view tool, int exit_code);

}  // namespace lzy
