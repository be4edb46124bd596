#pragma once
// A file descriptor that closes itself. For code that calls the operating system without a File: the file systems of this
// room, shared memory (transport), calibration (tuning).

#include <unistd.h>

#include <utility>

namespace lzy {

/// Owns a file descriptor and closes it. Move only. Assignment swaps, so the old descriptor is closed with the other
/// object.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
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
  int fd_;
};

}  // namespace lzy
