#include "sidecar/own_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/forwarding_file.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

// A file that was renamed while it was open, with its new path.
class RenamedFile final : public ForwardingFile {
 public:
  RenamedFile(std::unique_ptr<File> file, std::string path) : ForwardingFile(std::move(file)), path_(std::move(path)) {}
  Result<FileStat> StatAtOpening() override { return file_->Stat(); }  // it was empty when it was opened
  const std::string& path() const override { return path_; }

 private:
  const std::string path_;
};

// Copies what can be read of a range, page by page. The rest stays a hole, which has no right hash either.
Status CopyPages(File& from, std::uint64_t offset, MutableByteSpan bytes, File& to) {
  constexpr std::size_t kPage = 4096;
  for (std::size_t at = 0; at < bytes.size(); at += kPage) {
    const MutableByteSpan page = bytes.subspan(at, std::min(kPage, bytes.size() - at));
    const Status read = ReadExactly(from, offset + at, page);
    if (read.code() == Code::kUnreadable) continue;
    LZY_RETURN_IF_ERROR(read);
    LZY_RETURN_IF_ERROR(to.WriteAt(offset + at, page));
  }
  return Status::Ok();
}

// Holes stay holes.
Status CopyBytes(File& from, std::uint64_t size, File& to) {
  LZY_RETURN_IF_ERROR(to.Truncate(size));
  std::vector<std::uint8_t> bytes(std::min<std::uint64_t>(size, 1u << 20));
  for (std::uint64_t offset = from.NextData(0); offset < size; offset = from.NextData(offset)) {
    const MutableByteSpan piece(bytes.data(), std::min<std::uint64_t>(bytes.size(), size - offset));
    const Status read = ReadExactly(from, offset, piece);
    if (!read.ok() && read.code() != Code::kUnreadable) return read;
    LZY_RETURN_IF_ERROR(read.ok() ? to.WriteAt(offset, piece) : CopyPages(from, offset, piece, to));
    offset += piece.size();
  }
  return Status::Ok();
}

Status Fill(File& from, const FileStat& stat, File& to) {
  LZY_RETURN_IF_ERROR(to.Lock());
  LZY_RETURN_IF_ERROR(to.CopyAccess(from));
  LZY_RETURN_IF_ERROR(CopyBytes(from, stat.size, to));
  LZY_RETURN_IF_ERROR(to.SetTimes(stat.atime_ns, stat.mtime_ns));
  return to.Sync();
}

// Makes the file under the name of new sidecars. Only a process with the lock makes such a file, and this process has the lock.
// So an existing file of this name is a leftover.
Result<std::unique_ptr<File>> OpenCopy(FileSystem& fs, const std::string& path) {
  if (Status removed = fs.Remove(path); !removed.ok() && removed.code() != Code::kNotFound) return removed;
  return fs.Open(path, OpenMode::kCreateNew, /*follow=*/false, 0600);
}

}  // namespace

// A crash before the rename leaves a file that lookups do not take for a sidecar, and that the next commit or lzy-info --prune
// removes. After the rename, both files are whole.
Result<std::shared_ptr<File>> MakeOwnFile(FileSystem& fs, File& shared) {
  const std::string& path = shared.path();
  const auto data = DataPathOf(path);
  const std::string temporary = data ? NewSidecarPath(*data) : TemporarySidecarPath(path);
  LZY_ASSIGN_OR_RETURN(const FileStat stat, shared.Stat());
  LZY_ASSIGN_OR_RETURN(auto copy, OpenCopy(fs, temporary));
  const Status named = NoThrow([&]() -> Status {
    LZY_RETURN_IF_ERROR(Fill(shared, stat, *copy));
    LZY_ASSIGN_OR_RETURN(const FileStat now, fs.Stat(path, /*follow=*/false));
    if (now.inode != stat.inode || now.file_system != stat.file_system) {
      return {Code::kBusy, fmt::format("{}: another file has this name now", path)};
    }
    return fs.Rename(temporary, path);
  });
  if (!named.ok()) {
    (void)fs.Remove(temporary);
    return named;
  }
  return std::shared_ptr<File>(std::make_shared<RenamedFile>(std::move(copy), path));
}

}  // namespace lzy
