#pragma once
// The file that a copy makes: writing it, and reading back what was written, behind the writing.
//
// copy/copied_file writes each stretch once, from several threads. A thread of the target reads back what is complete
// while more is written, so that both overlap (FIVER: Arslan, Alhussen). At most kWindow bytes are written and not read
// back. What fits into one batch is read back after it was synced: then the device has one wait for the whole file
// (FIVER-Hybrid treats small files apart, too). A chunk that differs is fetched and written again, and nothing else.

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

/// How what was written is read back.
enum class ReadBack {
  kNone,    ///< not at all
  kCache,   ///< from the page cache
  kDevice,  ///< from the storage device, past the page cache
};

/// Bytes of the copy, with their hash: what lies between two multiples of kCopyChunk, or less.
struct CopyChunk {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Hash hash;
};
inline constexpr std::uint64_t kCopyChunk = 64u << 10;
/// The offset is a part of it, so that chunks that were swapped differ.
Hash ChunkHash(std::uint64_t offset, ByteSpan bytes);
/// The chunks of a stretch of a file.
std::vector<CopyChunk> ChunksOf(std::uint64_t offset, ByteSpan bytes);

/// Write is thread-safe.
class CopyTarget {
 public:
  static constexpr std::uint64_t kBatch = 16u << 20;    ///< bytes that are read back together
  static constexpr std::uint64_t kWindow = 4 * kBatch;  ///< at least the batch that fills up, and the two at work
  static constexpr int kTries = 3;                      ///< times that a chunk is written again

  /// Reads bytes of the source again.
  using Fetch = std::function<Status(std::uint64_t offset, MutableByteSpan to)>;
  /// Told of chunks that were read back and are right, by one thread at a time.
  using Proven = std::function<Status(const std::vector<CopyChunk>&)>;
  /// `file` must outlive it. `name`: for messages. `proven` may be empty.
  CopyTarget(File& file, std::string name, ReadBack how, Fetch fetch, Proven proven);
  /// Ends the thread. Without Finish, nothing is proven.
  ~CopyTarget();
  CopyTarget(const CopyTarget&) = delete;
  CopyTarget& operator=(const CopyTarget&) = delete;

  /// Writes a stretch. Waits while too much is not read back. kWriteFailed: it could not be written, or an earlier one
  /// could not be proven. kBusy: the source gave other bytes when it was read a second time.
  Status Write(std::uint64_t offset, ByteSpan bytes);
  /// Reads back all that is left. After kDevice, the data are durable unless some were sent again. Call it once, when
  /// all calls of Write have returned.
  Status Finish();

  /// Bytes that were written again.
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
  std::mutex mutex_;  // for all that follows
  std::condition_variable changed_;
  std::map<std::uint64_t, CopyChunk> filling_;  // by offset: written, of no batch yet
  std::uint64_t filling_bytes_ = 0;
  std::deque<Batch> batches_;
  std::uint64_t unproven_ = 0;  // bytes that are written, or about to be, and not read back
  bool complete_ = false;       // no more stretches will come
  Status status_;
  std::thread reader_;  // from the first batch on
};

}  // namespace lzy
