#pragma once
// The target of a copy: writes the file, and reads it back behind the writing.
//
// copy/copied_file writes each range once, from several threads. A thread of the target reads back complete batches while
// more is written, so both overlap (FIVER: Arslan, Alhussen). At most kWindow bytes are written and not read back. A file of
// up to one batch is synced first and then read back, so the storage waits once for the whole file (FIVER-Hybrid also treats
// small files differently). Only a chunk that differs is read from the source and written again.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "merkle/hash.h"

namespace lzy {

/// How the copy is read back.
enum class ReadBack {
  kNone,      ///< it is not read back
  kCache,     ///< from the page cache
  kUncached,  ///< from the storage device, past the page cache
};

/// A range of the copy with its hash: the bytes between two multiples of kCopyChunk, or a part of them.
struct CopyChunk {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Hash hash;
};
inline constexpr std::uint64_t kCopyChunk = 64u << 10;
/// The hash of a chunk. It includes the offset, so that exchanged chunks differ.
Hash ChunkHash(std::uint64_t offset, ByteSpan bytes);
/// The chunks of a range of a file.
std::vector<CopyChunk> ChunksOf(std::uint64_t offset, ByteSpan bytes);

/// Write is thread-safe.
class CopyTarget {
 public:
  static constexpr std::uint64_t kBatch = 16u << 20;    ///< bytes that are read back together
  static constexpr std::uint64_t kWindow = 4 * kBatch;  ///< at least three batches: one is filled, two are in the thread
  static constexpr int kTries = 3;                      ///< how often a chunk is written again

  /// Reads bytes of the source again.
  using Fetch = std::function<Status(std::uint64_t offset, MutableByteSpan to)>;
  /// Called with chunks that were read back and are right, by one thread at a time.
  using Proven = std::function<Status(const std::vector<CopyChunk>&)>;
  /// `file` must outlive the object. `name` is for messages. `proven` may be empty.
  CopyTarget(File& file, std::string name, ReadBack how, Fetch fetch, Proven proven);
  /// Stops the thread. If Finish was not called, the copy is not proven.
  ~CopyTarget();
  CopyTarget(const CopyTarget&) = delete;
  CopyTarget& operator=(const CopyTarget&) = delete;

  /// Writes a range. Waits while too many bytes are not read back. kWriteFailed: it could not be written, or an earlier
  /// range could not be proven. kBusy: the source returned other bytes at a second read.
  Status Write(std::uint64_t offset, ByteSpan bytes);
  /// Reads back the rest. With kUncached, the data are synced, unless chunks were written again. Call it once, after all calls
  /// of Write have returned.
  Status Finish();

  /// The number of bytes that were written again.
  std::uint64_t sent_again() const { return sent_again_; }

 private:
  using Batch = std::vector<CopyChunk>;
  void StartBatch();
  void ReadBackAll();
  void BeginWriting(const Batch& batch);
  Status Prove(const Batch& batch);
  Status ProveRun(const CopyChunk* first, const CopyChunk* last);
  Status ProveAlone(const CopyChunk& chunk);
  Result<std::size_t> Read(std::uint64_t offset, MutableByteSpan to);
  Status NotWritten(const Status& failure) const;

  File& file_;
  const std::string name_;
  const ReadBack how_;
  const Fetch fetch_;
  const Proven proven_;
  std::atomic<std::uint64_t> sent_again_{0};
  std::mutex mutex_;  // for all fields below
  std::condition_variable changed_;
  std::map<std::uint64_t, CopyChunk> filling_;  // by offset: written, in no batch yet
  std::uint64_t filling_bytes_ = 0;
  std::deque<Batch> batches_;
  std::uint64_t unproven_ = 0;  // bytes that are written, or about to be written, and not read back
  bool complete_ = false;       // no more ranges will be written
  Status status_;
  std::thread reader_;  // started with the first batch
};

}  // namespace lzy
