#include "copy/copied_file.h"

#include <algorithm>

namespace lzy {

Result<std::size_t> CopiedFile::ReadAt(std::uint64_t offset, MutableByteSpan to) {
  if (HasAlready(offset, to)) {
    resumed_ += to.size();
  } else {
    if (const Status read = parts_.source.Read(offset, to); !read.ok()) {
      source_failed_ = true;
      return read;
    }
    // Where the source has a hole, it may have been damage, and rebuilt.
    const bool zeros = std::ranges::all_of(to, [](std::uint8_t byte) { return byte == 0; });
    // What is left of a copy that broke off may have had something there.
    const bool leave = zeros && parts_.source.IsHole(offset, to.size()) &&
                       (parts_.journal == nullptr || parts_.written.NextData(offset) >= offset + to.size());
    if (!leave) LZY_RETURN_IF_ERROR(parts_.target.Write(offset, to));
  }
  if (parts_.progress) parts_.progress(to.size());
  return to.size();
}

// From the device, since that is what counts after a crash.
bool CopiedFile::HasAlready(std::uint64_t offset, MutableByteSpan to) {
  if (parts_.journal == nullptr) return false;
  const auto chunks = parts_.journal->Find(offset, to.size());
  if (!chunks) return false;
  const auto got = parts_.written.ReadAtFromDevice(offset, to);
  return got.ok() && *got == to.size() && std::ranges::all_of(*chunks, [&](const CopyChunk& chunk) {
           return ChunkHash(chunk.offset, to.subspan(chunk.offset - offset, chunk.length)) == chunk.hash;
         });
}

}  // namespace lzy
