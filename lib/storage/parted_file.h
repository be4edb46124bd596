#pragma once
// One parity region that lies in several files, dealt to them unit by unit (docs/format.md §13), as if it were one file.

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace lzy {

class PartedFile : public File {
 public:
  /// `parts`: by device; null where there is none. `base`: where the region begins in each of them. `unit`: bytes in one part
  /// before the next. `path` is for messages.
  PartedFile(std::string path, std::vector<std::unique_ptr<File>> parts, std::uint64_t base, std::uint64_t unit)
      : path_(std::move(path)), parts_(std::move(parts)), base_(base), unit_(unit) {}

  /// What is of a part that is not there, or past its end, counts as past the end of the file. In the midst of what is to be
  /// read it is kUnreadable, for all of that. Writing to a part that is not there is kNotFound.
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override;
  Result<std::size_t> ReadAtFromDevice(std::uint64_t offset, MutableByteSpan to) override;
  Status WriteAt(std::uint64_t offset, ByteSpan from) override;
  /// Of all parts that are there.
  Status Sync() override;
  /// Bytes of all parts together, with what they hold besides parity; nothing else of FileStat is set.
  Result<FileStat> Stat() override;
  const std::string& path() const override { return path_; }

  /// Part `d`; null if it is not there.
  File* part(std::size_t d) const { return parts_[d].get(); }

  // Parts have a length, times, access and locks of their own: kInternal.
  Status Truncate(std::uint64_t size) override;
  Status SetTimes(std::int64_t atime_ns, std::int64_t mtime_ns) override;
  Result<std::vector<std::uint8_t>> AccessAcl() override;
  Status CopyAccess(File& like) override;
  Status SetAccess(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) override;
  Status Lock() override;

 private:
  struct Piece {
    std::size_t part = 0;
    std::uint64_t offset = 0;
    std::size_t length = 0;
  };
  /// As much of [offset, offset + length) as is in one unit.
  Piece PieceAt(std::uint64_t offset, std::size_t length) const;
  template <class Read>
  Result<std::size_t> ReadPieces(std::uint64_t offset, MutableByteSpan to, const Read& read);

  const std::string path_;
  const std::vector<std::unique_ptr<File>> parts_;
  const std::uint64_t base_;
  const std::uint64_t unit_;
};

}  // namespace lzy
