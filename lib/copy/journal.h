#pragma once
// The progress of a copy, for a resume after an interrupt: hashes of the proven chunks, in a file beside the copy
// (docs/format.md §1).
//
// copy/copy opens it for large files, appends to it when chunks are proven, and removes it at the end. An entry counts only
// if the copy still has these bytes in storage. So the journal need not be synced, and a torn end does no harm. No other
// program reads it, so it has no version; entries that do not fit are ignored.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "copy/target.h"

namespace lzy {

/// Add and Find are thread-safe.
class CopyJournal {
 public:
  /// Opens the journal at `path` of a copy of `source`. With `resume`, keeps the entries of an earlier copy of the same file
  /// in the same state (inode, birth, size, mtime). Otherwise begins a new one.
  static Result<std::unique_ptr<CopyJournal>> Open(FileSystem& fs, const std::string& path, const FileStat& source,
                                                   bool resume);

  /// True if there are entries of an earlier copy.
  bool resumes() const { return !chunks_.empty(); }
  /// The chunks of exactly these bytes, if an earlier copy has proven all of them; else nullopt.
  std::optional<std::vector<CopyChunk>> Find(std::uint64_t offset, std::uint64_t length) const;
  /// Adds chunks that were proven.
  Status Add(const std::vector<CopyChunk>& chunks);

 private:
  CopyJournal(std::unique_ptr<File> file, std::uint64_t size) : file_(std::move(file)), size_(size) {}
  Status Load(const std::vector<std::uint8_t>& header);
  // A chunk may be shorter than kCopyChunk, because one read may be shorter.
  bool Fits(const CopyChunk& chunk) const {
    return chunk.length > 0 && chunk.length <= kCopyChunk - chunk.offset % kCopyChunk && chunk.offset < size_ &&
           chunk.length <= size_ - chunk.offset;
  }

  const std::unique_ptr<File> file_;
  const std::uint64_t size_;                   // of the source
  std::map<std::uint64_t, CopyChunk> chunks_;  // by offset; those of an earlier copy
  std::mutex mutex_;                           // for end_
  std::uint64_t end_ = 0;
};

}  // namespace lzy
