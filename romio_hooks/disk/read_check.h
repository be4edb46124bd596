#pragma once
// Option verify-reads: compares data that a program has read with the committed hashes (docs/design/repair.md "Verified
// reads"). Uses no MPI. transfers/verifying.cc determines the place in memory of the bytes that a read returned, and
// reports the findings.
//
// Invariant: data that match their leaf are right, even if another process writes meanwhile. Data that differ are judged by
// HealBlocks (repair/heal.h), which reads everything again. So a false alarm costs time, but never gives a wrong verdict.

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

/// A piece of memory that a read filled from `offset` of the file on. If `memory` is null, the place of the data is
/// unknown, and they cannot be corrected. The memory belongs to the program (base/program_memory.h). If it cannot be read,
/// Check treats it as null.
struct ReadPiece {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint8_t* memory = nullptr;
};

/// The result of checking one read.
struct ReadVerdict {
  bool as_committed = true;  ///< false if some data were not judged: edited, being written, or of a file without a sidecar
  std::uint64_t healed = 0;    ///< bytes of damaged blocks that are right in memory now
  std::uint64_t repaired = 0;  ///< bytes of `healed` that were also repaired on disk
  std::uint64_t reread = 0;    ///< bytes of blocks that were read wrongly, and are right in storage
  bool repaired_elsewhere = false;  ///< some of `reread` may have been damaged, and repaired by another process
  std::optional<ByteRange> first;  ///< the first wrong block
  std::optional<ByteRange> lost;   ///< first and last byte of damaged blocks that cannot be rebuilt; memory is unchanged
  std::string why;
  std::string unusable;  ///< why an existing sidecar cannot be used
  std::string unknown;  ///< why differing blocks could not be judged; empty if they were

  void Add(const ReadVerdict& other);
};

/// Checks the reads of one open file. If a read has only a part of a block, the whole block is read once, and kept if it is
/// right. So many small reads cost as much as one large read. Thread-safe.
///
/// Keeps the leaves of the data in memory, or loads them when needed if there are many (merkle/tree). Checks now and then,
/// and whenever a block differs, whether their commit still counts. Only if a block differs, checks whether the file is
/// being changed: blocks that match are right in any case. Uses only the file that was opened, even if its name belongs to
/// another file now.
class ReadCheck {
 public:
  /// `inode` of the opened file.
  ReadCheck(FileSystem& fs, const Options& options, std::string path, std::uint64_t inode);
  ~ReadCheck();

  /// Checks data that were read, and corrects damaged data in memory. `pieces` are in the order of the file. Also repairs
  /// the file if this process may write it. `unread`: nothing was read, so the memory has other bytes.
  ReadVerdict Check(std::span<const ReadPiece> pieces, bool unread = false);

  /// Committed size of the file in bytes; 0 without a commit.
  std::uint64_t CommittedSize();

  /// Call it after a commit: forgets the old one.
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
  // The commit that counts now (kNow), or counted within the last second (kRecently). Null if there is no usable commit.
  std::shared_ptr<const Committed> Current(Trust trust);
  std::shared_ptr<const Committed> LoadAgain();
  // True if all `parts` of block `index` are as committed. Sets `memory` to null in parts that cannot be read.
  bool IsRight(const Committed& committed, std::uint64_t index, std::span<ReadPiece> parts, AlignedBuffer& copy);
  // The blocks that are not as committed, with their parts that were read.
  std::vector<Suspect> FindSuspects(const Committed& committed, std::span<const ReadPiece> pieces, bool unread,
                                    ReadVerdict& verdict);
  // True if the file was changed since the commit, so that differences are no damage.
  bool IsEdited(const Committed& committed) const;
  // Corrects blocks in memory that were healed before, and removes them from `suspects`.
  void ServeHealed(const Committed& committed, std::vector<Suspect>& suspects) const;
  bool Heal(const Committed& committed, std::span<const Suspect> suspects, ReadVerdict& verdict);

  FileSystem& fs_;
  const Options options_;
  const std::string path_;
  const std::uint64_t inode_;
  std::int64_t seen_ctime_ns_ = 0;  // ctime when the file was opened or last found right in storage; guarded by healing_
  std::mutex mutex_;  // guards the fields up to kept_
  Clock::time_point looked_{};  // when `committed_` was last known to count; zero: never
  std::shared_ptr<const Committed> committed_;  // null: no usable sidecar
  std::string unusable_;
  std::unique_ptr<KeptBlocks> kept_;
  std::mutex healing_;  // held by one thread at a time; guards the fields below
  std::optional<bool> may_write_;
  bool patient_ = true;
  /// Blocks of `committed_` that are still damaged on disk, because this process may not write the file.
  std::unordered_map<std::uint64_t, std::vector<std::uint8_t>> healed_;
};

}  // namespace lzy::hooks
