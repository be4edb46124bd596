#pragma once
// The parity region of a shared file with device directories. It consists of several files, one in each directory, and is
// used like one file (docs/format.md §13, docs/design/commit.md §14).
//
// The units of the region are distributed over the parts round robin. So code that reads, checks, makes or repairs parity
// does not know the parts. dataset/parts opens the parts, commit/ makes new ones. If a part is lost, reading it reports
// damage of that device, not an error of the whole region.

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy {

/// Owns its parts. As thread-safe as File.
class PartedFile : public File {
 public:
  /// `parts`: open files by device; null if the part is lost. `base`: offset at which the region begins in each of them.
  /// `unit`: bytes of the region in one part before the next part follows. `path`: for messages.
  PartedFile(std::string path, std::vector<std::unique_ptr<File>> parts, std::uint64_t base, std::uint64_t unit)
      : path_(std::move(path)), parts_(std::move(parts)), base_(base), unit_(unit) {}

  /// Offsets are those of the region. Bytes of a lost part, or past the end of a part, are read as if past the end of the
  /// file. If the range continues after them in other parts, the result is kUnreadable for the whole range; then read block
  /// by block.
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override;
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override;
  /// kNotFound if a part is lost.
  Status WriteAt(std::uint64_t offset, ByteSpan from) override;
  /// Syncs all parts that are not lost.
  Status Sync() override;
  /// Sets only `size`: bytes of all parts together, with their metadata. It is not the size of the region.
  Result<FileStat> Stat() override;
  const std::string& path() const override { return path_; }

  /// Part `d`; null if it is lost.
  File* part(std::size_t d) const { return parts_[d].get(); }

  // Each part has its own length, times, access and lock. Nobody calls these functions: they return kInternal.
  Status Truncate(std::uint64_t) override { return NotOfParts("truncating"); }
  Status SetTimes(std::int64_t, std::int64_t) override { return NotOfParts("setting times"); }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return NotOfParts("an ACL"); }
  Status CopyAccess(File&) override { return NotOfParts("access"); }
  Status SetAccess(std::uint32_t, std::uint32_t, std::uint32_t) override { return NotOfParts("access"); }
  Status Lock() override { return NotOfParts("a lock"); }

 private:
  /// A range of one part.
  struct Piece {
    std::size_t part = 0;
    std::uint64_t offset = 0;
    std::size_t length = 0;
  };
  static Status NotOfParts(const char* what);
  /// The part of [offset, offset + length) of the region that lies in the first unit.
  Piece PieceAt(std::uint64_t offset, std::size_t length) const;
  using Read = Result<std::size_t> (File::*)(std::uint64_t offset, MutableByteSpan to);
  Result<std::size_t> ReadPieces(std::uint64_t offset, MutableByteSpan to, Read read);

  const std::string path_;
  const std::vector<std::unique_ptr<File>> parts_;
  const std::uint64_t base_;
  const std::uint64_t unit_;
};

}  // namespace lzy
