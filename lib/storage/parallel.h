#pragma once
// Runs independent pieces of work on a few threads, and has buffers for them.
//
// lzy runs inside other programs. So its threads are few (option `threads`), short-lived, and take no signals. rows/,
// encode/ and storage/ itself use these functions. No thread makes MPI calls here.

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <thread>

namespace lzy {

/// Starts a thread that blocks all signals of the process, because handlers of the program may expect the program's own
/// threads. Faults of the thread itself (SIGSEGV, SIGBUS, ...) are handled as in any other thread. The caller must join it.
/// Throws as std::thread does if there are no more threads, or no memory for one.
std::thread StartThread(std::function<void()> work);

/// Calls work(i) for every i in [0, count), on at most `threads` threads (including that of the caller), in no particular
/// order. Returns when all calls have returned. If fewer threads can be started, these do all of the work. If `work`
/// throws, no further calls begin; when all threads have ended, this function throws the first exception.
void ParallelFor(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work);

/// The same with at most `threads` calls, for work that keeps state (a buffer) between its pieces. Calls work(first, last)
/// for ranges [first, last) that together are [0, count).
void ParallelParts(std::size_t count, unsigned threads,
                   const std::function<void(std::size_t first, std::size_t last)>& work);

/// A buffer that is aligned for O_DIRECT and for vector instructions. Its contents are unspecified. Move only.
class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 4096;
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : data_(static_cast<unsigned char*>(::operator new(size, std::align_val_t{kAlignment}))), size_(size) {}
  unsigned char* data() { return data_.get(); }
  const unsigned char* data() const { return data_.get(); }
  std::size_t size() const { return data_ ? size_ : 0; }
  /// Makes the buffer at least `size` bytes large. If it has to grow, its contents are lost. Throws std::bad_alloc.
  void Reserve(std::size_t size) {
    if (size > this->size()) *this = AlignedBuffer(size);
  }

 private:
  /// Frees the memory, with the alignment with which it was allocated.
  struct Delete {
    void operator()(unsigned char* data) const { ::operator delete(data, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<unsigned char[], Delete> data_;
  std::size_t size_ = 0;
};

}  // namespace lzy
