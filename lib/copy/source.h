#pragma once
// The source of a copy: its committed hashes, and reading it. Never writes.
//
// copy/copied_file reads every block once, from several threads. If the file is protected, each block is compared with its
// leaf. A block that differs is read again past the page cache; if it still differs, it is rebuilt from parity in memory
// (repair/heal). Invariant: if Read returns bytes of a protected file without an error, they are the committed ones, or lost()
// lists them.

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

/// The facts of a commit that a copy needs.
struct SourceCommit {
  Superblock superblock;
  InfoRecord info;
  LZY_FIELDS(superblock, superblock.automatic_block_size, info)
};

/// The error for a source that differs from its commit, although nobody changed it during the copy. `what` is a part of a
/// sentence: "bytes 0 to 99 differ".
Status MayBeEdited(const std::string& path, const std::string& what);

/// A source of a copy: a file that this process sees (LocalSource), or one that another rank sees (RemoteSource,
/// copy/remote.h). Thread-safe.
class CopySource {
 public:
  /// CopyRequest::wait.
  using Wait = std::function<void(std::uint64_t bytes)>;

  virtual ~CopySource() = default;
  /// The stat of the file when it was opened.
  const FileStat& stat() const { return stat_; }
  /// The file, for its attributes. Read its bytes with Read.
  virtual File& file() = 0;
  /// The commit; null if there are no hashes to compare the file with.
  virtual const SourceCommit* committed() const = 0;
  /// Sentences that say why the file is not compared with hashes although it has a sidecar.
  const std::vector<std::string>& notes() const { return notes_; }
  /// True if a key is given and the file is not sealed.
  bool unsealed() const { return unsealed_; }
  /// True if the file was protected, and its sidecar cannot be used any more: nothing shows whether the file is damaged.
  bool unjudged() const { return unjudged_; }

  /// Reads to.size() bytes at `offset`. Waits if the rate is limited. kBusy: the file was changed since it was opened, or
  /// has blocks that may be edits (not with salvage); then changed() is true. kBeyondRepair: blocks are damaged and cannot be
  /// rebuilt (not with salvage).
  virtual Status Read(std::uint64_t offset, MutableByteSpan to) = 0;
  /// True if these bytes, which were read, are a hole of the file.
  virtual bool IsHole(std::uint64_t offset, std::uint64_t length) = 0;
  /// kBusy if the file has changed since it was opened.
  virtual Status CheckUnchanged() = 0;
  /// True if this process sees the file. If not, stat().inode and stat().file_system have no meaning here.
  virtual bool is_local() const = 0;

  /// True if an error was caused by a change of the file.
  bool changed() const { return changed_; }
  /// Bytes of blocks that were right at the second read, and of blocks that were rebuilt.
  std::uint64_t reread() const { return reread_; }
  std::uint64_t healed() const { return healed_; }
  /// Damaged ranges that were copied (salvage).
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
  bool unjudged_ = false;
  std::atomic<bool> changed_{false};
  std::atomic<std::uint64_t> reread_{0}, healed_{0};

 private:
  mutable std::mutex lost_mutex_;  // for lost_
  IntervalSet lost_;
};

/// How a source is judged.
struct SourceRules {
  bool salvage = false;  ///< copy lost blocks, and members that their sets do not prove, as they are
  bool judged = false;   ///< the caller has compared members without a usable sidecar with what their sets record (copy/member.h)
};

/// A file that this process sees. Never writes.
class LocalSource final : public CopySource {
 public:
  /// Opens the file, and its sidecar if there is one. kInvalidArgument: it is sealed, and `options` have no key or another
  /// one; kBusy: its set shows that it has not the content of the last commit. An unusable sidecar is a note, not an error. All
  /// references must outlive the object.
  static Result<std::unique_ptr<CopySource>> Open(FileSystem& fs, const Options& options, const std::string& path,
                                                  SourceRules rules, Wait wait);
  /// kBusy if the file of this name has changed since its stat was `then`.
  static Status CheckUnchanged(FileSystem& fs, const std::string& path, const FileStat& then);

  File& file() override { return *file_; }
  const SourceCommit* committed() const override { return sidecar_ ? &commit_ : nullptr; }
  Status Read(std::uint64_t offset, MutableByteSpan to) override;
  bool IsHole(std::uint64_t offset, std::uint64_t length) override;
  Status CheckUnchanged() override;
  bool is_local() const override { return true; }

 private:
  LocalSource(FileSystem& fs, const Options& options, std::string path, SourceRules rules, Wait wait)
      : fs_(fs), options_(options), path_(std::move(path)), protected_as_(path_), rules_(rules), wait_(std::move(wait)) {}
  Status Settle();
  Status LoadSidecar();
  Status RefuseRotten();
  Status AskItsSet();
  std::optional<std::string> SidecarOfOtherName();
  Status ReadPlain(std::uint64_t offset, MutableByteSpan to);
  Status ReadUnproven(std::uint64_t offset, MutableByteSpan to);
  Status ReadHeld(std::uint64_t offset, MutableByteSpan to);
  Status Heal(const std::vector<std::uint64_t>& blocks, std::uint64_t offset, MutableByteSpan to);
  bool IsOfOlderCommit();
  Status TakeLost(std::uint64_t begin, MutableByteSpan bytes, const std::string& why);
  Status TakeUnproven(std::uint64_t begin, MutableByteSpan bytes);
  Status TakeAsItIs(std::uint64_t begin, MutableByteSpan bytes);
  Status Changed(const char* how);

  FileSystem& fs_;
  Options options_;  // without the key if it is not sealed
  const std::string path_;
  std::string protected_as_;  ///< the name to which the sidecar belongs, if the file has several names
  const SourceRules rules_;
  const Wait wait_;
  std::unique_ptr<File> file_;
  std::once_flag synced_once_;
  bool synced_ = false;
  std::unique_ptr<Sidecar> sidecar_;
  SourceCommit commit_;  // of sidecar_
  std::mutex healing_;   // only one thread opens the dataset at a time
};

}  // namespace lzy
