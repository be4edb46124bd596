// bench_reading FILE: reads a file past the page cache (O_DIRECT, 1 MiB at a time) with several requests under way:
// by threads that each wait for one request, and by one thread with io_uring. Prints GB/s, medians of five, for each
// number of requests. The former is what lzy-verify --from-disk does (storage/block_stream). Results:
// docs/performance/reading.md.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "storage/parallel.h"
#include "turns.h"

namespace {

// Bytes of one read, as in lzy-verify --from-disk. The rest of the file, if it is shorter, is not read.
constexpr std::size_t kPiece = 1u << 20;

// Each thread takes the next piece when it has read one, so a slow read holds up no other thread. Each thread has a
// buffer of its own. The buffers are aligned as O_DIRECT demands. False if a read fails.
bool ByThreads(int file, std::size_t pieces, unsigned requests) {
  lzy::AlignedBuffer buffers(requests * kPiece);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < requests; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = next++; i < pieces && good; i = next++) {
        const ssize_t got = pread(file, buffers.data() + t * kPiece, kPiece, static_cast<off_t>(i * kPiece));
        if (got != static_cast<ssize_t>(kPiece)) good = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return good;
}

// As much of io_uring as reading needs, by system calls alone, so that the benchmark needs no library. Two rings lie in
// memory that the kernel shares: the program appends to the submission ring, the kernel to the completion ring. Each
// has a head and a tail, which only grow; the mask turns them into indexes. Use it from one thread only.
class Ring {
 public:
  // Maps the two rings and the submission entries. False if the kernel has no io_uring, or an old one.
  bool Open(unsigned entries) {
    io_uring_params about{};
    ring_ = static_cast<int>(syscall(__NR_io_uring_setup, entries, &about));
    if (ring_ < 0 || (about.features & IORING_FEAT_SINGLE_MMAP) == 0) return false;
    // One mapping serves both rings (IORING_FEAT_SINGLE_MMAP). It must be as long as the longer one.
    const std::size_t submissions = about.sq_off.array + about.sq_entries * sizeof(unsigned);
    const std::size_t completions = about.cq_off.cqes + about.cq_entries * sizeof(io_uring_cqe);
    auto* rings = static_cast<char*>(mmap(nullptr, std::max(submissions, completions), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_POPULATE, ring_, IORING_OFF_SQ_RING));
    entries_ = static_cast<io_uring_sqe*>(mmap(nullptr, about.sq_entries * sizeof(io_uring_sqe), PROT_READ | PROT_WRITE,
                                               MAP_SHARED | MAP_POPULATE, ring_, IORING_OFF_SQES));
    if (rings == MAP_FAILED || entries_ == MAP_FAILED) return false;
    // The kernel says where its fields lie.
    tail_ = reinterpret_cast<unsigned*>(rings + about.sq_off.tail);
    mask_ = *reinterpret_cast<unsigned*>(rings + about.sq_off.ring_mask);
    array_ = reinterpret_cast<unsigned*>(rings + about.sq_off.array);
    done_head_ = reinterpret_cast<unsigned*>(rings + about.cq_off.head);
    done_tail_ = reinterpret_cast<unsigned*>(rings + about.cq_off.tail);
    done_mask_ = *reinterpret_cast<unsigned*>(rings + about.cq_off.ring_mask);
    done_ = reinterpret_cast<io_uring_cqe*>(rings + about.cq_off.cqes);
    return true;
  }
  ~Ring() {
    if (ring_ >= 0) close(ring_);
  }
  // Puts a read of one piece into the submission ring; Wait submits it. At most as many reads may be under way as Open
  // was told. `slot` comes back from Wait.
  void Read(int file, std::size_t piece, unsigned char* to, std::size_t slot) {
    const unsigned tail = *tail_;
    io_uring_sqe& entry = entries_[tail & mask_];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = IORING_OP_READ;
    entry.fd = file;
    entry.addr = reinterpret_cast<std::uintptr_t>(to);
    entry.len = kPiece;
    entry.off = piece * kPiece;
    entry.user_data = slot;
    array_[tail & mask_] = tail & mask_;
    // The kernel may read the entry once it sees the new tail.
    std::atomic_ref(*tail_).store(tail + 1, std::memory_order_release);
    ++unsubmitted_;
  }
  // Submits what there is, and waits for one read. Returns its slot, or -1 if it failed.
  int Wait() {
    // The kernel writes the completion before the tail, hence the order of the load.
    while (*done_head_ == std::atomic_ref(*done_tail_).load(std::memory_order_acquire)) {
      if (syscall(__NR_io_uring_enter, ring_, unsubmitted_, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0) return -1;
      unsubmitted_ = 0;
    }
    // The entry must be read before the head moves on, because the kernel may then reuse it.
    const io_uring_cqe& one = done_[*done_head_ & done_mask_];
    const int slot = one.res == static_cast<int>(kPiece) ? static_cast<int>(one.user_data) : -1;
    std::atomic_ref(*done_head_).store(*done_head_ + 1, std::memory_order_release);
    return slot;
  }

 private:
  int ring_ = -1;
  unsigned *tail_ = nullptr, *array_ = nullptr, *done_head_ = nullptr, *done_tail_ = nullptr;
  unsigned mask_ = 0, done_mask_ = 0, unsubmitted_ = 0;
  io_uring_sqe* entries_ = nullptr;
  io_uring_cqe* done_ = nullptr;
};

// Keeps `requests` reads under way: each that ends makes room for the next, which gets its slot and thereby its part of
// the buffer. False if a read fails, or without io_uring.
bool ByRing(int file, std::size_t pieces, unsigned requests) {
  lzy::AlignedBuffer buffers(requests * kPiece);
  Ring ring;
  if (!ring.Open(requests)) return false;
  std::size_t begun = 0;
  const auto begin = [&](std::size_t slot) { ring.Read(file, begun++, buffers.data() + slot * kPiece, slot); };
  while (begun < std::min<std::size_t>(requests, pieces)) begin(begun);
  for (std::size_t ended = 0; ended < pieces; ++ended) {
    const int slot = ring.Wait();
    if (slot < 0) return false;
    if (begun < pieces) begin(static_cast<std::size_t>(slot));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int file = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
  struct stat about {};
  if (file < 0 || fstat(file, &about) != 0 || about.st_size < static_cast<off_t>(kPiece)) {
    std::fprintf(stderr, "usage: bench_reading FILE, of a megabyte or more, where O_DIRECT is possible\n");
    return 2;
  }
  const std::size_t pieces = static_cast<std::size_t>(about.st_size) / kPiece;
  std::printf("| requests | threads, GB/s | io_uring, GB/s |\n| --- | --- | --- |\n");
  for (const unsigned requests : {1u, 2u, 4u, 8u, 16u}) {
    const std::vector<Times> times = TakeTurns(2, {.least = 5, .most = 5, .uncounted = 0}, [&](std::size_t way, bool) {
      const auto start = std::chrono::steady_clock::now();
      if (!(way == 0 ? ByThreads : ByRing)(file, pieces, requests)) {
        const char* const how = way == 0 ? "by threads" : "with io_uring";
        std::fprintf(stderr, "bench_reading: %s cannot be read %s\n", argv[1], how);
        std::exit(1);
      }
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    });
    const double gigabytes = static_cast<double>(pieces * kPiece) / 1e9;
    std::printf("| %u | %.2f | %.2f |\n", requests, gigabytes / Median(times[0]), gigabytes / Median(times[1]));
  }
  close(file);
  return 0;
}
