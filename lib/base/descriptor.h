#pragma once
// A file descriptor that closes itself. For code that calls the operating system without a File: the file systems of this
// room, shared memory (transport), calibration (tuning).

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace lzy {

/// Owns a file descriptor and closes it. Move only. Assignment swaps, so the old descriptor is closed with the other
/// object.
///
/// It never owns standard input, output or error. A program may have closed one of them and still write to it: that would go into the
/// file. So a descriptor of such a number is replaced by another one at once.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd < 0 || fd > STDERR_FILENO ? fd : Moved(fd)) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  static int Moved(int fd) {
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0) return fd;
    close(fd);
    return moved;
  }

  int fd_;
};

}  // namespace lzy
