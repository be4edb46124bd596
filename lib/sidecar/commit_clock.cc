#include "sidecar/commit_clock.h"

#include <fmt/format.h>

namespace lzy {

// A real write, since the data get their times from real writes: setting the times to "now" takes the clock of the client
// on some network file systems, and that of the server on others. A sync is not needed. POSIX says that a stat tells
// the time that a write before it has marked; NFS and SMB clients flush what was written before they answer, and FUSE
// forgets attributes at each write. A client that goes by its own clock does so for the data, too.
//
// The last byte of a sidecar is parity in most of them, so that no copy of the metadata is touched. It stays as it is:
// whatever becomes of this write in a crash, the file says what it said.
Result<std::int64_t> FileSystemClock(File& file, bool past_cache) {
  LZY_ASSIGN_OR_RETURN(const FileStat before, file.Stat());
  const std::uint64_t at = before.size == 0 ? 0 : before.size - 1;
  std::uint8_t byte = 0;
  if (before.size > 0) {
    LZY_ASSIGN_OR_RETURN(const std::size_t got, past_cache ? file.ReadAtFromDevice(at, {&byte, 1}) : file.ReadAt(at, {&byte, 1}));
    if (got != 1) return Status(Code::kCorrupt, fmt::format("{}: ends early: {} bytes expected at offset {}, {} there", file.path(), 1, at, got));
  }
  LZY_RETURN_IF_ERROR(file.WriteAt(at, {&byte, 1}));
  LZY_ASSIGN_OR_RETURN(const FileStat after, file.Stat());
  return after.mtime_ns;
}

}  // namespace lzy
