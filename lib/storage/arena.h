#pragma once
// Allocates many pieces of memory that are freed together. encode/capture keeps its parity sums in an arena. It allocates
// while a program writes, so page faults must be few.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lzy {

/// Allocates pieces from large mappings, for which it requests huge pages. So touching new memory causes one fault for each
/// 2 MiB instead of one for each 4 KiB. The first mapping is small, and each further one is about as large as all mappings
/// before it (up to 16 MiB), so little memory stays unused. Single pieces cannot be freed. Not thread-safe.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` of zeroed memory, aligned to 4096, which live as long as the arena. Throws std::bad_alloc.
  std::uint8_t* Take(std::size_t bytes);

 private:
  struct Mapping {
    std::uint8_t* begin;
    std::size_t size;
  };
  /// Adds a mapping with room for at least `least` bytes, and allocates from it. The rest of the previous one stays unused.
  void Map(std::size_t least);

  std::vector<Mapping> mappings_;
  std::uint8_t* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace lzy
