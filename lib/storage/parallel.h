#pragma once
// Running independent pieces of work on a few threads.
#include <cstddef>
#include <functional>
#include <thread>

namespace lzy {

/// A thread that no signal of the process is given to: handlers are the program's, and may be meant for its own threads.
/// Faults that it raises itself are as they are in any other.
/// Throws what std::thread does when there are no more threads, or memory for one, to be had.
std::thread StartThread(std::function<void()> work);

/// Calls work(i) for every i in [0, count), on at most `threads` threads (the caller's included), in no particular
/// order. Returns when all calls have returned. What `work` throws is thrown here, when all threads have ended.
void ParallelFor(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work);

/// The same in at most `threads` stretches, for work that keeps something, e.g. a buffer, from one piece to the next: calls
/// work(first, last) for stretches [first, last) that together are [0, count).
void ParallelParts(std::size_t count, unsigned threads, const std::function<void(std::size_t first, std::size_t last)>& work);

/// A buffer aligned for O_DIRECT and for vector instructions; contents are unspecified.
class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 4096;
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  unsigned char* data() { return data_; }
  const unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Grows (contents lost) when smaller than `size`.
  void Reserve(std::size_t size);

 private:
  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lzy
