#pragma once
// A file that is copied while it is read: the data that the encoder sees when it encodes the copy.
//
// An encoding reads every block of its file once (encode/encode). A CopiedFile reads the block from the source, compares it
// there, and writes it to the target before it returns it. So one pass over the source makes the copy and its sidecar, with
// as many threads as the encoder has. A chunk that an earlier copy wrote and proved is read from the target, if it still has
// its hash there.

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "copy/journal.h"
#include "copy/source.h"
#include "copy/target.h"

namespace lzy {

/// The parts must outlive the object. It has only the functions that an encoding calls. Thread-safe.
class CopiedFile final : public ReadOnlyFile {
 public:
  struct Parts {
    CopySource& source;
    CopyTarget& target;
    File& written;                                           ///< the target's file
    const CopyJournal* journal = nullptr;                    ///< of an earlier copy that is resumed; null: none
    std::function<void(std::uint64_t bytes)> progress = {};  ///< called by several threads; may be empty
  };
  /// `path`: the final path of the target. `stat`: the stat of the target when it is complete.
  CopiedFile(Parts parts, std::string path, const FileStat& stat)
      : ReadOnlyFile(std::move(path)), parts_(std::move(parts)), stat_(stat) {}

  /// Copies these bytes to the target and returns them in `to`. Holes of the source stay holes.
  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override;
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override {
    return parts_.written.ReadAtUncached(offset, to);
  }
  Status Sync() override { return parts_.written.Sync(); }
  Result<FileStat> Stat() override { return stat_; }
  Result<std::vector<std::uint8_t>> AccessAcl() override { return parts_.written.AccessAcl(); }

  /// The number of bytes that were taken from an earlier copy.
  std::uint64_t resumed() const { return resumed_; }
  /// True if the source could not be read. All other failures of an encoding are failures of the copy.
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
