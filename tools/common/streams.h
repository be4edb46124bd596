#pragma once
// Output of tools on streams that may be closed or full. fmt::print would throw, and the tool would seem to crash.

#include <cstdio>
#include <string_view>

namespace lzy {

/// Opens descriptors 0, 1 and 2 if they are closed. Otherwise a file opened later would get one of these numbers, and the
/// output of the tool. Writing to a stream that was closed still fails. Call it first.
void KeepStandardDescriptors();

/// Prints. After a failure the error flag of the stream is set; see EndStreams.
void Put(std::FILE* to, std::string_view text);

/// Flushes the streams. Returns `exit_code`. If that is 0 and some output was lost, reports this on stderr, if possible,
/// and returns the code of an I/O error.
int EndStreams(std::string_view tool, int exit_code);

}  // namespace lzy
