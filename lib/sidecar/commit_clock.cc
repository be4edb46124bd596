#include "sidecar/commit_clock.h"

#include <fmt/format.h>

namespace lzy {

// A real write, because the data get their times from real writes. Setting the times to "now" uses the clock of the client
// on some network file systems, and that of the server on others. A sync is not needed: POSIX says that a stat returns the
// time of a write before it; NFS and SMB clients flush writes before they answer, and FUSE forgets attributes at each
// write. If a client uses its own clock, it does so for the data, too.
//
// The last byte of most sidecars is parity, so no copy of the metadata is changed. The byte keeps its value, so a crash
// during this write does not change the content of the file.
Result<std::int64_t> FileSystemClock(File& file, bool past_cache) {
  LZY_ASSIGN_OR_RETURN(const FileStat before, file.Stat());
  const std::uint64_t at = before.size == 0 ? 0 : before.size - 1;
  std::uint8_t byte = 0;
  if (before.size > 0) {
    LZY_ASSIGN_OR_RETURN(const std::size_t got, past_cache ? file.ReadAtUncached(at, {&byte, 1}) : file.ReadAt(at, {&byte, 1}));
    if (got != 1) return Status(Code::kCorrupt, fmt::format("{}: ends early: {} bytes expected at offset {}, {} there", file.path(), 1, at, got));
  }
  LZY_RETURN_IF_ERROR(file.WriteAt(at, {&byte, 1}));
  LZY_ASSIGN_OR_RETURN(const FileStat after, file.Stat());
  return after.mtime_ns;
}

}  // namespace lzy
