#pragma once
// A file that is copied by being read: what the encoder sees as the data of the file that it encodes.
//
// An encoding reads every block of its file once (encode/encode). If it reads a CopiedFile, the block comes from the
// source, is compared there, and is written to the target before the encoder has it. So the copy and its sidecar come
// from one pass over the source, by as many threads as the encoder has. A chunk that an earlier copy has written and
// proven comes from the target itself, if it still has its hash there.

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "copy/journal.h"
#include "copy/source.h"
#include "copy/target.h"

namespace lzy {

/// All that it is made from must outlive it. Only what an encoding calls is there: ReadAt, Stat. Thread-safe.
class CopiedFile final : public ReadOnlyFile {
 public:
  struct Parts {
    CopySource& source;
    CopyTarget& target;
    File& written;                                           ///< the target's file
    const CopyJournal* journal = nullptr;                    ///< of an earlier copy that goes on; null: there is none
    std::function<void(std::uint64_t bytes)> progress = {};  ///< called by several threads; may be empty
  };
  /// `path`: what the target's file will be called. `stat`: what it will be when it is complete.
  CopiedFile(Parts parts, std::string path, const FileStat& stat)
      : ReadOnlyFile(std::move(path)), parts_(std::move(parts)), stat_(stat) {}

  /// Copies these bytes. Holes of the source stay holes.
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override;
  Result<std::size_t> ReadAtFromDevice(std::uint64_t offset, MutableByteSpan to) override {
    return parts_.written.ReadAtFromDevice(offset, to);
  }
  Status Sync() override { return parts_.written.Sync(); }
  Result<FileStat> Stat() override { return stat_; }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return parts_.written.AccessAcl(); }

  /// Bytes that were taken from an earlier copy.
  std::uint64_t resumed() const { return resumed_; }
  /// Whether the source could not be read: all other failures of an encoding are the copy's.
  bool source_failed() const { return source_failed_; }

 private:
  bool HasAlready(std::uint64_t offset, MutableByteSpan to);
  Status WriteData(std::uint64_t offset, ByteSpan bytes);
  bool IsLeftOut(std::uint64_t offset, std::uint64_t length);

  const Parts parts_;
  const FileStat stat_;
  std::atomic<std::uint64_t> resumed_{0};
  std::atomic<bool> source_failed_{false};
};

}  // namespace lzy
