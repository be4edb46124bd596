#pragma once
// What reads return, held to what was committed: for option verify-reads. Needs no MPI.

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
#include "engine/options.h"
#include "sidecar/sidecar.h"

namespace lzy::hooks {

/// Bytes that a read has put into memory, as it says from `offset` of the file on. Without memory: what was read is
/// somewhere else, and cannot be put right.
struct ReadPiece {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint8_t* memory = nullptr;
};

/// What was found out about a read.
struct ReadVerdict {
  bool as_committed = true;  ///< all of it; else some was not judged: edited, being written, or of a file without sidecar
  std::uint64_t checked = 0;
  std::uint64_t healed = 0;   ///< bytes of blocks that were damaged, and are right in memory now
  std::uint64_t mended = 0;   ///< of those, on disk too
  std::uint64_t reread = 0;   ///< bytes of blocks that were read wrong, and are right on the device
  std::optional<ByteRange> first;  ///< the first block that was not right
  std::optional<ByteRange> lost;   ///< first and last byte of blocks that are damaged and cannot be had; memory has what was read
  std::string why;

  void Add(const ReadVerdict& other);
};

/// One file whose reads are checked. A block that is read in part is read whole, once: what was found right is kept, so
/// that many small reads cost as much as one large one. Thread-safe.
///
/// The sidecar's leaves are held in memory: 16 bytes for every block of data and parity. Whether somebody is changing the
/// file is looked at when a block is not as it was committed, and only then: what is as committed is right, whoever writes.
class ReadCheck {
 public:
  ReadCheck(FileSystem& fs, const Options& options, std::string path);
  ~ReadCheck();

  /// Checks what was read, `pieces` being in the order of the file, and puts right what is damaged. The file's own blocks are
  /// mended too where this process may write it.
  ReadVerdict Check(std::span<const ReadPiece> pieces);

  /// Bytes of the file as it was committed; 0 where it was not.
  std::uint64_t CommittedSize();

 private:
  struct Committed;
  class KeptBlocks;
  struct Suspect {
    std::uint64_t index = 0;
    std::vector<ReadPiece> parts;
  };
  std::shared_ptr<const Committed> Current();
  std::shared_ptr<const Committed> LoadAgain();
  bool IsRight(const Committed& committed, std::uint64_t index, std::span<const ReadPiece> parts);
  std::vector<Suspect> FindSuspects(const Committed& committed, std::span<const ReadPiece> pieces, ReadVerdict& verdict);
  void Heal(const Committed& committed, std::span<const Suspect> suspects, ReadVerdict& verdict);

  FileSystem& fs_;
  const Options options_;
  const std::string path_;
  std::mutex mutex_;  // guards what follows
  bool looked_ = false;
  std::shared_ptr<const Committed> committed_;  // null: no usable sidecar
  std::unique_ptr<KeptBlocks> kept_;
  std::mutex healing_;  // one thread at a time; guards what follows
  std::optional<bool> may_write_;
};

}  // namespace lzy::hooks
