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
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/interval_set.h"
#include "request/options.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// What was committed of a file, as far as its copy needs it.
struct SourceCommit {
  Superblock superblock;
  InfoRecord info;
  LZY_FIELDS(superblock, superblock.automatic_block_size, info)
};

/// What is copied: a file that this process sees (LocalSource), or one that another rank sees (RemoteSource,
/// copy/remote.h). Thread-safe.
class CopySource {
 public:
  /// CopyRequest::wait.
  using Wait = std::function<void(std::uint64_t bytes)>;

  virtual ~CopySource() = default;
  /// As the file was when it was opened.
  const FileStat& stat() const { return stat_; }
  /// Its attributes; read its bytes by Read.
  virtual File& file() = 0;
  /// What was committed; null: there are no hashes to compare the file with.
  virtual const SourceCommit* committed() const = 0;
  /// Sentences about why the file is not compared with hashes although it has a sidecar.
  const std::vector<std::string>& notes() const { return notes_; }
  /// With a key: it is not sealed at all.
  bool unsealed() const { return unsealed_; }

  /// Fills `to` from `offset` on. Waits if there is a limit. kBusy: somebody changed the file since it was opened
  /// (changed() is true then). kBeyondRepair: blocks are damaged, and parity cannot rebuild them (not if they may be
  /// salvaged).
  virtual Status Read(std::uint64_t offset, MutableByteSpan to) = 0;
  /// Whether these bytes, which were read, are a hole of the file.
  virtual bool IsHole(std::uint64_t offset, std::uint64_t length) = 0;
  /// kBusy if the file is not what it was when it was opened.
  virtual Status CheckUnchanged() = 0;
  /// Whether this process sees the file: only then stat().inode and stat().device say anything here.
  virtual bool is_local() const = 0;

  /// Whether an error was that somebody changed the file.
  bool changed() const { return changed_; }
  /// Bytes of blocks that were read wrong and right a second time, and of blocks that were rebuilt.
  std::uint64_t reread() const { return reread_; }
  std::uint64_t healed() const { return healed_; }
  /// Ranges that were copied although they are damaged.
  std::vector<Interval> lost() const {
    const std::lock_guard lock(lost_mutex_);
    return lost_.intervals();
  }

 protected:
  void AddLost(const Interval& range) {
    const std::lock_guard lock(lost_mutex_);
    lost_.Add(range);
  }
  FileStat stat_;
  std::vector<std::string> notes_;
  bool unsealed_ = false;
  std::atomic<bool> changed_{false};
  std::atomic<std::uint64_t> reread_{0}, healed_{0};

 private:
  mutable std::mutex lost_mutex_;  // for lost_
  IntervalSet lost_;
};

/// A file that this process sees. Never writes.
class LocalSource final : public CopySource {
 public:
  /// Opens the file, and its sidecar if there is one. kInvalidArgument: it is sealed, and `options` have no key or
  /// another one. If a sidecar cannot be used, that is a note, not an error. With `salvage`, blocks that are lost are
  /// copied as they are. All references must outlive it.
  static Result<std::unique_ptr<CopySource>> Open(FileSystem& fs, const Options& options, const std::string& path,
                                                  bool salvage, Wait wait);
  /// kBusy if the file of this name is not what it was when `then` was its state.
  static Status CheckUnchanged(FileSystem& fs, const std::string& path, const FileStat& then);

  File& file() override { return *file_; }
  const SourceCommit* committed() const override { return sidecar_ ? &commit_ : nullptr; }
  Status Read(std::uint64_t offset, MutableByteSpan to) override;
  bool IsHole(std::uint64_t offset, std::uint64_t length) override;
  Status CheckUnchanged() override;
  bool is_local() const override { return true; }

 private:
  LocalSource(FileSystem& fs, const Options& options, std::string path, bool salvage, Wait wait)
      : fs_(fs), options_(options), path_(std::move(path)), protected_as_(path_), salvage_(salvage), wait_(std::move(wait)) {}
  Status Settle();
  Status LoadSidecar();
  std::optional<std::string> SidecarOfOtherName();
  Status ReadPlain(std::uint64_t offset, MutableByteSpan to);
  Status ReadUnproven(std::uint64_t offset, MutableByteSpan to);
  Status ReadHeld(std::uint64_t offset, MutableByteSpan to);
  Status Heal(const std::vector<std::uint64_t>& blocks, std::uint64_t offset, MutableByteSpan to);
  Status TakeLost(std::uint64_t begin, MutableByteSpan bytes, const std::string& why);
  Status Changed(const char* how);

  FileSystem& fs_;
  Options options_;  // without the key if it is not sealed
  const std::string path_;
  std::string protected_as_;  ///< the name that its sidecar goes by, if the file has several
  const bool salvage_;
  const Wait wait_;
  std::unique_ptr<File> file_;
  std::once_flag synced_once_;
  bool synced_ = false;
  std::unique_ptr<Sidecar> sidecar_;
  SourceCommit commit_;  // of sidecar_
  std::mutex healing_;   // one dataset is opened at a time
};

}  // namespace lzy
