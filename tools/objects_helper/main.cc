// lzy-objects-helper: maps the objects of an HDF5 or netCDF file to byte ranges. Tools start it (objects/ask.h); it is not
// for users. The request is its standard input, the answer its standard output (objects/frames.h), the file is open as
// descriptor 3.
//
// It parses files that are damaged and may be hostile. So it is confined (confine.h), and callers bear its death.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "base/record.h"
#include "objects/cdf.h"
#include "objects_helper/confine.h"
#include "objects/frames.h"
#ifdef LZY_HAVE_HDF5
#include "objects_helper/hdf5_map.h"
#endif

namespace {

constexpr int kFile = 3;
constexpr int kExitRequest = 3, kExitGone = 6, kExitFailed = 7;
constexpr std::size_t kMostRequest = std::size_t{256} << 20;

bool ReadAt(std::uint64_t offset, lzy::MutableByteSpan to) {
  while (!to.empty()) {
    const ssize_t count = pread(kFile, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    offset += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

void WriteAll(lzy::ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(kExitGone);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

bool ReadRequest(lzy::MapRequest& request) {
  std::vector<std::uint8_t> bytes, buffer(1 << 16);
  ssize_t count = 0;
  while ((count = read(STDIN_FILENO, buffer.data(), buffer.size())) > 0 && bytes.size() < kMostRequest) {
    bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + count);
  }
  return lzy::DecodeRecord(bytes, request).ok() && request.version == lzy::MapRequest::kVersion;
}

// Maps the file first without reading the bytes that are known to be wrong. If that does not find everything, maps it once
// more with them: an object found through a block with a single wrong bit is better than none.
bool Map(const lzy::ObjectSource& source, lzy::FrameWriter& out) {
  std::uint8_t head[4] = {};
  const bool cdf = ReadAt(0, head) && lzy::IsCdf(head);
  const auto map = [&](bool trust) {
    if (cdf) return lzy::MapCdf(source, trust, out);
#ifdef LZY_HAVE_HDF5
    if (lzy::IsHdf5(source)) return lzy::MapHdf5(source, trust, out);
#endif
    return false;
  };
  if (map(false) || out.HasEnough()) return true;
  if (source.wrong.empty()) return false;
  out.BeginAgain();
  (void)map(true);
  return false;
}

int Run() {
  lzy::MapRequest request;
  if (!ReadRequest(request)) return kExitRequest;
  struct stat file {};
  if (fstat(kFile, &file) != 0) return kExitRequest;
#ifdef LZY_HAVE_HDF5
  if (!lzy::PrepareHdf5()) return kExitFailed;
#endif
  lzy::ForbidSystemCalls();
  const lzy::ObjectSource source{static_cast<std::uint64_t>(file.st_size), ReadAt, request.wrong};
  lzy::FrameWriter out(request.wanted, WriteAll);
  out.End(Map(source, out));
  // Exits without the exit handlers of libhdf5, because a hostile file may have corrupted their data.
  _exit(0);
}

}  // namespace

int main() {
  lzy::LimitResources();
  try {
    return Run();
  } catch (const std::exception&) {
    return kExitFailed;
  }
}
