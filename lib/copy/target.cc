#include "copy/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/parallel.h"

namespace lzy {
namespace {

// Bytes that are read back at once.
constexpr std::uint64_t kRun = 4u << 20;

std::uint64_t BytesOf(const std::vector<CopyChunk>& chunks) {
  std::uint64_t bytes = 0;
  for (const CopyChunk& chunk : chunks) bytes += chunk.length;
  return bytes;
}

// The end of the run of consecutive chunks that begins with `first` and has at most `most` bytes.
const CopyChunk* EndOfRun(const CopyChunk* first, const CopyChunk* end, std::uint64_t most) {
  const CopyChunk* last = first + 1;
  while (last != end && last->offset == last[-1].offset + last[-1].length &&
         last->offset + last->length - first->offset <= most)
    ++last;
  return last;
}

}  // namespace

Hash ChunkHash(std::uint64_t offset, ByteSpan bytes) {
  return HashBytes(HashTag::kScratchPage, offset, bytes);
}

std::vector<CopyChunk> ChunksOf(std::uint64_t offset, ByteSpan bytes) {
  std::vector<CopyChunk> chunks;
  for (std::uint64_t at = offset, end = offset + bytes.size(); at < end;) {
    const std::uint64_t length = std::min(end, (at / kCopyChunk + 1) * kCopyChunk) - at;
    chunks.push_back({at, length, ChunkHash(at, bytes.subspan(at - offset, length))});
    at += length;
  }
  return chunks;
}

CopyTarget::CopyTarget(File& file, std::string name, ReadBack how, Fetch fetch, Proven proven)
    : file_(file), name_(std::move(name)), how_(how), fetch_(std::move(fetch)), proven_(std::move(proven)) {}

CopyTarget::~CopyTarget() {
  if (!reader_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    complete_ = true;
    if (status_.ok()) status_ = {Code::kInterrupted, "the copy was given up"};
  }
  changed_.notify_all();
  reader_.join();
}

// Whatever the reason (full disk, quota, bad device), the copy could not be written.
Status CopyTarget::NotWritten(const Status& failure) const {
  if (failure.ok() || failure.code() == Code::kNoMemory) return failure;
  return {Code::kWriteFailed,
          failure.message().starts_with(name_) ? failure.message() : fmt::format("{}: {}", name_, failure.message())};
}

// Makes hashes before it writes, so faults of the storage cannot affect them.
Status CopyTarget::Write(std::uint64_t offset, ByteSpan bytes) {
  if (how_ == ReadBack::kNone) return NotWritten(file_.WriteAt(offset, bytes));
  std::vector<CopyChunk> chunks = ChunksOf(offset, bytes);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return !status_.ok() || unproven_ + bytes.size() <= std::max(kWindow, 3 * kBatch + bytes.size());
    });
    LZY_RETURN_IF_ERROR(status_);
    unproven_ += bytes.size();
  }
  const Status written = NotWritten(file_.WriteAt(offset, bytes));
  const std::lock_guard lock(mutex_);
  if (!written.ok()) {
    if (status_.ok()) status_ = written;
    changed_.notify_all();
    return written;
  }
  for (CopyChunk& chunk : chunks) filling_[chunk.offset] = chunk;
  filling_bytes_ += bytes.size();
  if (filling_bytes_ >= kBatch) StartBatch();
  return status_;
}

// The mutex must be held.
void CopyTarget::StartBatch() {
  Batch batch;
  for (const auto& [offset, chunk] : filling_) batch.push_back(chunk);
  filling_.clear();
  filling_bytes_ = 0;
  batches_.push_back(std::move(batch));
  if (!reader_.joinable()) {
    const Status started = NoThrow([&] { reader_ = StartThread([this] { ReadBackAll(); }); });
    if (!started.ok() && status_.ok()) status_ = started;  // otherwise waiting writers would wait forever
  }
  changed_.notify_all();
}

// The thread. Starts writing a batch to the storage when it is complete, and reads it back when the next one is complete: the
// storage has had time to write it. After a failure the thread ends, and Write returns the failure.
void CopyTarget::ReadBackAll() {
  Batch previous;
  for (bool more = true; more;) {
    Batch next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !status_.ok() || !batches_.empty() || complete_; });
      if (!status_.ok()) return;
      more = !batches_.empty();
      if (more) next = std::move(batches_.front());
      if (more) batches_.pop_front();
    }
    BeginWriting(next);
    const Status proven = NoThrow([&] { return Prove(previous); });
    const std::lock_guard lock(mutex_);
    unproven_ -= BytesOf(previous);
    if (!proven.ok() && status_.ok()) status_ = proven;
    changed_.notify_all();
    previous = std::move(next);
  }
}

Status CopyTarget::Finish() {
  if (how_ == ReadBack::kNone) return Status::Ok();
  Batch rest;
  {
    const std::lock_guard lock(mutex_);
    LZY_RETURN_IF_ERROR(status_);
    for (const auto& [offset, chunk] : filling_) rest.push_back(chunk);
    complete_ = true;
  }
  changed_.notify_all();
  if (how_ == ReadBack::kUncached) LZY_RETURN_IF_ERROR(NotWritten(file_.Sync()));
  if (reader_.joinable()) reader_.join();
  LZY_RETURN_IF_ERROR(status_);
  return NoThrow([&] { return Prove(rest); });
}

void CopyTarget::BeginWriting(const Batch& batch) {
  if (how_ != ReadBack::kUncached) return;
  const CopyChunk* const end = batch.data() + batch.size();
  for (const CopyChunk* first = batch.data(); first != end;) {
    const CopyChunk* const last = EndOfRun(first, end, kBatch);
    file_.StartWriting(first->offset, last[-1].offset + last[-1].length - first->offset);
    first = last;
  }
}

Status CopyTarget::Prove(const Batch& batch) {
  const CopyChunk* const end = batch.data() + batch.size();
  for (const CopyChunk* first = batch.data(); first != end;) {
    const CopyChunk* const last = EndOfRun(first, end, kRun);
    LZY_RETURN_IF_ERROR(ProveRun(first, last));
    first = last;
  }
  return proven_ && !batch.empty() ? proven_(batch) : Status::Ok();
}

Result<std::size_t> CopyTarget::Read(std::uint64_t offset, MutableByteSpan to) {
  return how_ == ReadBack::kUncached ? file_.ReadAtUncached(offset, to) : file_.ReadAt(offset, to);
}

// Proves a run of chunks by one read. Chunks that differ are proven alone.
Status CopyTarget::ProveRun(const CopyChunk* first, const CopyChunk* last) {
  thread_local AlignedBuffer buffer;
  const std::uint64_t begin = first->offset, length = last[-1].offset + last[-1].length - begin;
  buffer.Reserve(length);
  const auto got = Read(begin, {buffer.data(), length});
  for (const CopyChunk* one = first; one != last; ++one) {
    const bool there = got.ok() && one->offset + one->length <= begin + *got;
    const bool right =
        there && ChunkHash(one->offset, {buffer.data() + (one->offset - begin), one->length}) == one->hash;
    if (!right) LZY_RETURN_IF_ERROR(ProveAlone(*one));
  }
  return Status::Ok();
}

// Proves one chunk that differed. The source must return the same bytes as before: otherwise the sidecar would have the hash
// of other bytes.
Status CopyTarget::ProveAlone(const CopyChunk& chunk) {
  AlignedBuffer buffer(chunk.length);
  const MutableByteSpan bytes(buffer.data(), chunk.length);
  for (int tries = 0; tries < kTries; ++tries) {
    LZY_RETURN_IF_ERROR(fetch_(chunk.offset, bytes));
    if (ChunkHash(chunk.offset, bytes) != chunk.hash) {
      return {Code::kBusy, fmt::format("{}: the source gave other bytes when it was read a second time", name_)};
    }
    LZY_RETURN_IF_ERROR(NotWritten(file_.WriteAt(chunk.offset, bytes)));
    sent_again_ += chunk.length;
    const auto got = Read(chunk.offset, bytes);
    if (got.ok() && *got == chunk.length && ChunkHash(chunk.offset, bytes) == chunk.hash) return Status::Ok();
  }
  return {
      Code::kWriteFailed,
      fmt::format("{}: bytes {} to {} were written {} times, and read back wrong each time: do not trust this storage",
                  name_, chunk.offset, chunk.offset + chunk.length - 1, kTries + 1)};
}

}  // namespace lzy
