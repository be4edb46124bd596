#include "campaign/damage.h"

#include <algorithm>
#include <iterator>

namespace lzy::campaign {
namespace {

class Damager {
 public:
  Damager(World& world, const Truth& truth, std::size_t file)
      : world_(world),
        truth_(truth),
        file_(file),
        path_(world.paths[file]),
        sidecar_(world.SidecarOf(file)),
        superblock_(truth.superblock(file)),
        size_(truth.committed().at(path_).bytes.size()),
        block_(world.options.block_size) {}

  void Do(const std::string& kind) {
    if (kind == "data") {
      Change(path_, Below(size_), 1 + Below(block_));
    } else if (kind == "burst") {
      Change(path_, Below(size_), 1 + Below(world_.options.parity * world_.options.stripe));
    } else if (kind == "parity") {
      Change(sidecar_, truth_.parity_base(file_) + Below(superblock_.parity_size), 1 + Below(2 * block_));
    } else if (kind == "one copy of metadata") {
      const auto copy = static_cast<std::uint32_t>(Below(superblock_.copies));
      const std::uint64_t reach = superblock_.compact ? kCompactStep : superblock_.spacing;
      Change(sidecar_, superblock_.PlaceOf(copy) + Below(world_.OneIn(2) ? 300 : reach), 1 + Below(64));
    } else if (kind == "superblocks") {
      for (std::uint32_t c = 0; c < superblock_.copies; ++c) {
        Change(sidecar_, superblock_.PlaceOf(c), superblock_.bytes() - 96);
      }
    } else if (kind == "hashes") {
      for (std::uint32_t c = 0; c < superblock_.copies; ++c) {
        const std::uint64_t rest = superblock_.compact ? kCompactStep : superblock_.spacing;
        Change(sidecar_, superblock_.PlaceOf(c) + superblock_.bytes(), rest - superblock_.bytes());
      }
    } else if (kind == "intent pages") {
      // Of the compact form only while an intent is set: behind all else.
      const std::uint64_t at = superblock_.spacing * superblock_.copies, pages = kIntentPages * kIntentPageSize;
      const std::uint64_t size = Has(sidecar_) ? BytesOf(sidecar_).size() : 0;
      Change(sidecar_, superblock_.compact ? std::max(size, pages) - pages : at, pages);
    } else if (kind == "file lost") {
      Lose(path_);
    } else if (kind == "sidecar lost") {
      Lose(sidecar_);
    } else if (kind == "device lost") {
      if (!world_.IsSet()) return Change(path_, Below(size_ / (block_ + 1)) * block_, world_.options.stripe);
      Lose(path_);
      Lose(sidecar_);
    } else {
      DoToWhole(kind);
    }
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return world_.Below(limit); }
  bool Has(const std::string& path) const { return world_.fs.Has(path); }
  Bytes& BytesOf(const std::string& path) { return world_.fs.At(path).bytes; }

  void DoToWhole(const std::string& kind) {
    if (kind == "truncated") {
      if (Has(path_)) BytesOf(path_).resize(Below(size_));
    } else if (kind == "grown") {
      if (Has(path_)) BytesOf(path_).resize(BytesOf(path_).size() + 1 + Below(3000), 0x55);
    } else if (kind == "blocks swapped") {
      SwapBlocks(world_.paths[Below(world_.paths.size())]);
    } else if (kind == "old block") {
      PutBackBlock();
    } else if (kind == "old file and sidecar") {
      PutBack(path_);
      PutBack(sidecar_);
    } else if (kind == "old sidecar") {
      PutBack(sidecar_);
    } else if (kind == "bad sectors") {
      if (!Has(path_)) return;
      const std::uint64_t now = std::min<std::uint64_t>(size_, BytesOf(path_).size());
      const std::uint64_t sector = world_.sector;
      for (std::uint64_t at = Below(size_) / sector * sector, n = 1 + Below(3); n > 0 && at < now; --n, at += sector) {
        world_.fs.At(path_).unreadable.emplace_back(at, std::min(sector, now - at));
      }
    } else if (kind == "sidecar truncated") {
      if (Has(sidecar_)) BytesOf(sidecar_).resize(Below(BytesOf(sidecar_).size()));
    }
  }

  /// Changes bytes as bad storage does: the times stay.
  void Change(const std::string& path, std::uint64_t offset, std::uint64_t length) {
    if (!Has(path)) return;
    Bytes& bytes = BytesOf(path);
    if (offset >= bytes.size()) return;
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(length, bytes.size() - offset));
    switch (Below(3)) {
      case 0:
        *begin ^= static_cast<std::uint8_t>(1u << Below(8));
        break;
      case 1:
        std::fill(begin, end, std::uint8_t{0});
        break;
      default:
        for (auto at = begin; at != end; ++at) *at = static_cast<std::uint8_t>(world_.rng());
    }
  }

  void Lose(const std::string& path) {
    if (Has(path)) (void)world_.fs.Remove(path);
  }

  /// As it was at the first commit, times included.
  void PutBack(const std::string& path) {
    const auto at = truth_.old().find(path);
    if (at == truth_.old().end() || !Has(path)) return;
    BytesOf(path) = at->second.bytes;
    world_.fs.At(path).stat.mtime_ns = at->second.stat.mtime_ns;
  }

  void PutBackBlock() {
    const Bytes& old = truth_.old().at(path_).bytes;
    const std::uint64_t at = Below(old.size() / block_) * block_;
    if (!Has(path_) || at + block_ > old.size() || at + block_ > BytesOf(path_).size()) return;
    std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(at), block_,
                BytesOf(path_).begin() + static_cast<std::ptrdiff_t>(at));
  }

  void SwapBlocks(const std::string& other) {
    if (!Has(path_) || !Has(other)) return;
    Bytes &a = BytesOf(path_), &b = BytesOf(other);
    const std::uint64_t i = Below(a.size() / block_), j = Below(b.size() / block_);
    if ((i + 1) * block_ > a.size() || (j + 1) * block_ > b.size()) return;
    std::swap_ranges(a.begin() + static_cast<std::ptrdiff_t>(i * block_),
                     a.begin() + static_cast<std::ptrdiff_t>((i + 1) * block_),
                     b.begin() + static_cast<std::ptrdiff_t>(j * block_));
  }

  World& world_;
  const Truth& truth_;
  const std::size_t file_;
  const std::string path_, sidecar_;
  const Superblock& superblock_;
  const std::uint64_t size_;
  const std::uint64_t block_;
};

}  // namespace

DamageDone DamageSomething(World& world, const Truth& truth) {
  static const char* const kinds[] = {"data",
                                      "data",
                                      "data",
                                      "burst",
                                      "parity",
                                      "parity",
                                      "one copy of metadata",
                                      "superblocks",
                                      "hashes",
                                      "file lost",
                                      "sidecar lost",
                                      "device lost",
                                      "device lost",
                                      "truncated",
                                      "grown",
                                      "blocks swapped",
                                      "old block",
                                      "old file and sidecar",
                                      "old sidecar",
                                      "bad sectors",
                                      "intent pages",
                                      "sidecar truncated"};
  const std::size_t file = world.Below(world.paths.size());
  const std::string kind = kinds[world.Below(std::size(kinds))];
  Damager(world, truth, file).Do(kind);
  return {kind, world.paths[file]};
}

}  // namespace lzy::campaign
