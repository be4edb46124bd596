#pragma once
// Memory for much that is kept until all of it goes: cheaper to touch for the first time than piece by piece.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lzy {

/// Gives out pieces of large mappings, in which the kernel is asked for huge pages: touching new memory costs one fault
/// for 2 MiB instead of one for 4 KiB. Starts small, and takes no more than twice what it has given out. Not thread-safe.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` of zeroed memory, aligned to 4096, valid as long as the arena. Throws std::bad_alloc.
  std::uint8_t* Take(std::size_t bytes);

 private:
  struct Mapping {
    std::uint8_t* begin;
    std::size_t size;
  };
  void Map(std::size_t least);

  std::vector<Mapping> mappings_;
  std::uint8_t* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace lzy
