#pragma once
// What reads return, compared with what was committed: for option verify-reads (docs/design/repair.md "Verified reads"). Needs
// no MPI. transfers/verifying.cc says where a read has put which bytes of the file, and reports what is found here.
//
// Invariant: what matches its leaf is right, whoever writes meanwhile. What differs is judged by HealBlocks
// (mend/heal.h), which takes a second look at everything. So a false alarm costs time, and never a wrong verdict.

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "engine/engine.h"
#include "request/options.h"
#include "sidecar/sidecar.h"
#include "storage/parallel.h"

namespace lzy::hooks {

/// Bytes that a read has put into memory, as it says from `offset` of the file on. Without memory: what was read is
/// somewhere else, and cannot be put right. The memory is the program's (base/program_memory.h). If it cannot be read, it
/// counts as none.
struct ReadPiece {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint8_t* memory = nullptr;
};

/// What was found out about a read.
struct ReadVerdict {
  bool as_committed = true;  ///< all of it; else some was not judged: edited, being written, or of a file without sidecar
  std::uint64_t healed = 0;   ///< bytes of blocks that were damaged, and are right in memory now
  std::uint64_t mended = 0;   ///< of those, on disk too
  std::uint64_t reread = 0;   ///< bytes of blocks that were read wrong, and are right on the device
  bool mended_elsewhere = false;  ///< of `reread`: perhaps they were damaged, and another process has repaired them since
  std::optional<ByteRange> first;  ///< the first block that was not right
  std::optional<ByteRange> lost;   ///< first and last byte of blocks that are damaged and cannot be had; memory has what was read
  std::string why;
  std::string unusable;  ///< there is a sidecar, which cannot be used: why
  std::string unknown;  ///< why it could not be told of blocks that differ whether they are damaged; empty: it could

  void Add(const ReadVerdict& other);
};

/// One open file whose reads are checked. A block that is read in part is read whole, once: what was found right is
/// kept, so that many small reads cost as much as one large one. Thread-safe.
///
/// The leaves of the data are held in memory, or read when they are needed if they are many (merkle/tree). Which commit they are of is looked at now and
/// then, and whenever a block differs; whether somebody is changing the file, only then: what is as committed is right,
/// whoever writes. Nothing is compared with, or taken from, another file than the one that was opened, whatever has its
/// name by now.
class ReadCheck {
 public:
  /// `inode`: of the file that was opened.
  ReadCheck(FileSystem& fs, const Options& options, std::string path, std::uint64_t inode);
  ~ReadCheck();

  /// Checks what was read, `pieces` being in the order of the file, and puts right what is damaged. The file's own
  /// blocks are mended too where this process may write it. `unread`: nothing was read, memory has something else,
  /// whatever it looks like.
  ReadVerdict Check(std::span<const ReadPiece> pieces, bool unread = false);

  /// Bytes of the file as it was committed last; 0 where it was not.
  std::uint64_t CommittedSize();

  /// There was a commit.
  void Forget();

 private:
  struct Committed;
  class KeptBlocks;
  using Clock = std::chrono::steady_clock;
  struct Suspect {
    std::uint64_t index = 0;
    std::vector<ReadPiece> parts;
  };
  enum class Trust { kNow, kRecently };
  // The commit that counts now, or did a moment ago. Null: there is none that can be used.
  std::shared_ptr<const Committed> Current(Trust trust);
  std::shared_ptr<const Committed> LoadAgain();
  // Whether all parts that were read of block `index` are as committed. Takes the memory from parts that cannot be read.
  bool IsRight(const Committed& committed, std::uint64_t index, std::span<ReadPiece> parts, AlignedBuffer& copy);
  // Blocks that are not right, with the parts of them that were read.
  std::vector<Suspect> FindSuspects(const Committed& committed, std::span<const ReadPiece> pieces, bool unread,
                                    ReadVerdict& verdict);
  // Whether the file was changed since the commit, so that differences mean nothing.
  bool IsEdited(const Committed& committed) const;
  // Takes blocks out of `suspects` that were healed before, after putting them right in memory.
  void ServeHealed(const Committed& committed, std::vector<Suspect>& suspects) const;
  bool Heal(const Committed& committed, std::span<const Suspect> suspects, ReadVerdict& verdict);

  FileSystem& fs_;
  const Options options_;
  const std::string path_;
  const std::uint64_t inode_;
  std::int64_t seen_ctime_ns_ = 0;  // when it was opened, or was found right on the device last; guarded by healing_
  std::mutex mutex_;  // guards what follows
  Clock::time_point looked_{};  // when it was made sure that `committed_` is what counts; zero: never
  std::shared_ptr<const Committed> committed_;  // null: no usable sidecar
  std::string unusable_;
  std::unique_ptr<KeptBlocks> kept_;
  std::mutex healing_;  // one thread at a time; guards what follows
  std::optional<bool> may_write_;
  bool patient_ = true;
  /// Damaged on disk still, since it may not be written; of `committed_`.
  std::unordered_map<std::uint64_t, std::vector<std::uint8_t>> healed_;
};

}  // namespace lzy::hooks
