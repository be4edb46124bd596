#pragma once
// The file that is copied: what its blocks should be, and reading them. Never writes.
//
// copy/copied_file reads every block of it once, from several threads. If the file is protected, and is what was
// committed, each block is compared with its leaf. A block that differs is read again from the device, and rebuilt from
// parity in memory (mend/heal). Invariant: bytes of such a file that Read returns without an error are the committed
// ones, or are listed in lost().

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/interval_set.h"
#include "request/options.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// Thread-safe but for Open.
class CopySource {
 public:
  /// CopyRequest::wait.
  using Wait = std::function<void(std::uint64_t bytes)>;

  /// Opens the file, and its sidecar if there is one. kInvalidArgument: it is sealed, and `options` have no key or
  /// another one. If a sidecar cannot be used, that is a note, not an error. With `salvage`, blocks that are lost are
  /// copied as they are. All references must outlive it.
  static Result<std::unique_ptr<CopySource>> Open(FileSystem& fs, const Options& options, const std::string& path,
                                                  bool salvage, Wait wait);

  /// As the file was when it was opened.
  const FileStat& stat() const { return stat_; }
  File& file() { return *file_; }
  /// What was committed; null: there are no hashes to compare the file with.
  const SidecarContents* committed() const { return sidecar_ ? &sidecar_->contents() : nullptr; }
  /// Sentences about why the file is not compared with hashes although it has a sidecar.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Fills `to` from `offset` on. Waits if there is a limit. kBusy: somebody changed the file since it was opened
  /// (changed() is true then). kBeyondRepair: blocks are damaged, and parity cannot rebuild them (not with `salvage`).
  Status Read(std::uint64_t offset, MutableByteSpan to);
  /// Whether these bytes are a hole of the file.
  bool IsHole(std::uint64_t offset, std::uint64_t length);
  /// kBusy if the file is not what it was when it was opened.
  Status CheckUnchanged();
  /// Whether an error was that somebody changed the file.
  bool changed() const { return changed_; }

  /// Bytes of blocks that were read wrong and right a second time, and of blocks that were rebuilt.
  std::uint64_t reread() const { return reread_; }
  std::uint64_t healed() const { return healed_; }
  /// Ranges that were copied although they are damaged.
  std::vector<Interval> lost() const;

 private:
  CopySource(FileSystem& fs, const Options& options, std::string path, bool salvage, Wait wait)
      : fs_(fs), options_(options), path_(std::move(path)), salvage_(salvage), wait_(std::move(wait)) {}
  Status Settle();
  Status LoadSidecar();
  Status ReadPlain(std::uint64_t offset, MutableByteSpan to);
  Status ReadUnproven(std::uint64_t offset, MutableByteSpan to);
  Status ReadHeld(std::uint64_t offset, MutableByteSpan to);
  Status Heal(const std::vector<std::uint64_t>& blocks, std::uint64_t offset, MutableByteSpan to);
  Status TakeLost(std::uint64_t begin, MutableByteSpan bytes, const std::string& why);
  Status Changed(const char* how);

  FileSystem& fs_;
  const Options& options_;
  const std::string path_;
  const bool salvage_;
  const Wait wait_;
  std::unique_ptr<File> file_;
  FileStat stat_;
  std::once_flag synced_once_;
  bool synced_ = false;
  std::unique_ptr<Sidecar> sidecar_;
  std::vector<std::string> notes_;
  std::atomic<bool> changed_{false};
  std::atomic<std::uint64_t> reread_{0}, healed_{0};
  std::mutex healing_;        // one dataset is opened at a time
  mutable std::mutex mutex_;  // for lost_
  IntervalSet lost_;
};

}  // namespace lzy
