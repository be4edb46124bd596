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
    LZY_RETURN_IF_ERROR(WriteData(offset, to));
  }
  if (parts_.progress) parts_.progress(to.size());
  return to.size();
}

// Writes all bytes except holes of the source. A hole of the source may have been damage, and rebuilt.
Status CopiedFile::WriteData(std::uint64_t offset, ByteSpan bytes) {
  constexpr std::uint64_t kPage = 4096;  // holes are no smaller
  const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
  const auto page_at = [&](std::uint64_t at) {
    return bytes.subspan(at - offset, std::min(kPage - at % kPage, offset + bytes.size() - at));
  };
  std::uint64_t written = offset;
  for (std::uint64_t at = offset, end = offset + bytes.size(); at < end;) {
    std::uint64_t zeros = at;
    while (zeros < end && std::ranges::all_of(page_at(zeros), is_zero)) zeros += page_at(zeros).size();
    const bool leave = zeros > at && IsLeftOut(at, zeros - at);
    if (leave && at > written) LZY_RETURN_IF_ERROR(parts_.target.Write(written, bytes.subspan(written - offset, at - written)));
    if (leave) written = zeros;
    at = zeros > at ? zeros : at + page_at(at).size();
  }
  const std::uint64_t end = offset + bytes.size();
  return written < end ? parts_.target.Write(written, bytes.subspan(written - offset)) : Status::Ok();
}

// An interrupted copy may have left data here.
bool CopiedFile::IsLeftOut(std::uint64_t offset, std::uint64_t length) {
  return parts_.source.IsHole(offset, length) &&
         (parts_.journal == nullptr || parts_.written.NextData(offset) >= offset + length);
}

// Reads past the page cache, because only that counts after a crash.
bool CopiedFile::HasAlready(std::uint64_t offset, MutableByteSpan to) {
  if (parts_.journal == nullptr) return false;
  const auto chunks = parts_.journal->Find(offset, to.size());
  if (!chunks) return false;
  const auto got = parts_.written.ReadAtUncached(offset, to);
  return got.ok() && *got == to.size() && std::ranges::all_of(*chunks, [&](const CopyChunk& chunk) {
           return ChunkHash(chunk.offset, to.subspan(chunk.offset - offset, chunk.length)) == chunk.hash;
         });
}

}  // namespace lzy
