#include "storage/parted_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace lzy {

Status PartedFile::NotOfParts(const char* what) {
  return {Code::kInternal, fmt::format("{} is not for a region in parts", what)};
}

// docs/format.md §13: byte y of unit x lies in part x mod D, at base + (x div D) * unit + y.
PartedFile::Piece PartedFile::PieceAt(std::uint64_t offset, std::size_t length) const {
  const std::uint64_t unit = offset / unit_, within = offset % unit_;
  return {static_cast<std::size_t>(unit % parts_.size()), base_ + unit / parts_.size() * unit_ + within,
          static_cast<std::size_t>(std::min<std::uint64_t>(length, unit_ - within))};
}

// Reads piece by piece with `read`, through the page cache or past it. File::ReadAt can report missing bytes only at
// the end of a range. So if bytes are missing in the middle, the range is unreadable.
Result<std::size_t> PartedFile::ReadPieces(std::uint64_t offset, MutableByteSpan to, Read read) {
  std::size_t done = 0;
  while (done < to.size()) {
    const Piece piece = PieceAt(offset + done, to.size() - done);
    File* part = parts_[piece.part].get();
    std::size_t got = 0;
    if (part != nullptr) {
      LZY_ASSIGN_OR_RETURN(got, (part->*read)(piece.offset, to.subspan(done, piece.length)));
    }
    done += got;
    if (got == piece.length) continue;
    // The bytes behind this piece are in other parts, and may exist.
    if (done - got + piece.length < to.size()) {
      return {Code::kUnreadable,
              fmt::format("{}: a part of its parity in device directory {} is missing", path_, piece.part)};
    }
    break;
  }
  return done;
}

Result<std::size_t> PartedFile::ReadAt(std::uint64_t offset, MutableByteSpan to) {
  return ReadPieces(offset, to, &File::ReadAt);
}

Result<std::size_t> PartedFile::ReadAtUncached(std::uint64_t offset, MutableByteSpan to) {
  return ReadPieces(offset, to, &File::ReadAtUncached);
}

Status PartedFile::WriteAt(std::uint64_t offset, ByteSpan from) {
  for (std::size_t done = 0; done < from.size();) {
    const Piece piece = PieceAt(offset + done, from.size() - done);
    File* part = parts_[piece.part].get();
    if (part == nullptr) {
      return {Code::kNotFound,
              fmt::format("{}: the part of its parity in device directory {} is not there", path_, piece.part)};
    }
    LZY_RETURN_IF_ERROR(part->WriteAt(piece.offset, from.subspan(done, piece.length)));
    done += piece.length;
  }
  return Status::Ok();
}

// A lost part cannot be synced, and nothing was written to it: WriteAt fails.
Status PartedFile::Sync() {
  for (const auto& part : parts_) {
    if (part) LZY_RETURN_IF_ERROR(part->Sync());
  }
  return Status::Ok();
}

Result<FileStat> PartedFile::Stat() {
  FileStat all;
  for (const auto& part : parts_) {
    if (!part) continue;
    // Stat of an open part may fail if its server is down.
    if (const auto one = part->Stat(); one.ok()) all.size += one->size;
  }
  return all;
}

}  // namespace lzy
