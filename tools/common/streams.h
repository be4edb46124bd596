#pragma once
// Output of tools on streams that may be closed or full. fmt::print throws then, which would look like a crash.

#include <cstdio>
#include <string_view>

namespace lzy {

/// Opens descriptors 0, 1 and 2 if they are closed, so that no file opened later gets one of these numbers, and the output
/// of the tool with it. Writing to a stream that was closed still fails. Call it first.
void KeepStandardDescriptors();

/// Prints. A failure shows in the error flag of the stream: EndStreams.
void Put(std::FILE* to, std::string_view text);

/// Flushes the streams. Returns `exit_code`, or that of an I/O error if it is 0 and some output was lost; then also reports
/// this on stderr, if possible.
int EndStreams(std::string_view tool, int exit_code);

}  // namespace lzy
