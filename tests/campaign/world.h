#pragma once
// The dataset of a case, and what is on disk of it.

#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "memory_files.h"
#include "sidecar/names.h"

namespace lzy::campaign {

using Bytes = std::vector<std::uint8_t>;
using Node = testing::MemoryFileSystem::Node;
using Files = std::map<std::string, Node>;

/// What one of four datasets is sealed with.
inline ByteSpan SecretBytes() {
  static constexpr std::uint8_t kSecret[] = "a secret of the campaign";
  return kSecret;
}

struct World {
  World(std::uint64_t seed, std::uint64_t sector_size) : sector(sector_size), rng(seed) {
    fs.now = [this] { return clock += kTick; };
  }

  std::uint64_t Below(std::uint64_t limit) { return limit == 0 ? 0 : rng() % limit; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  Bytes RandomBytes(std::uint64_t size) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng());
    return bytes;
  }
  void Tick() { clock += kTick; }

  bool IsSet() const { return ref.kind == DatasetKind::kSet; }
  std::string SidecarOf(std::size_t file) const { return *SidecarPath(paths[file]); }
  bool HasData(std::size_t file) const { return fs.Has(paths[file]); }
  bool HasSidecar(std::size_t file) const { return fs.Has(SidecarOf(file)); }
  const Node& At(const std::string& path) const { return *fs.nodes().at(path); }
  const Node& Data(std::size_t file) const { return At(paths[file]); }
  const Node& SidecarFile(std::size_t file) const { return At(SidecarOf(file)); }

  static constexpr std::int64_t kTick = 1'000'000'000;
  const std::uint64_t sector;  ///< bytes
  std::mt19937_64 rng;
  std::int64_t clock = 1'600'000'000'000'000'000;
  testing::MemoryFileSystem fs;
  Options options;
  DatasetRef ref;                  ///< with all members, be they there or not
  std::vector<std::string> paths;  ///< data files, by rank
};

}  // namespace lzy::campaign
