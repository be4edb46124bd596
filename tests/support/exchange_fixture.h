#pragma once
// What tests of the validated exchange have in common: bytes to send, and faults in their way.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "transport/packed_type.h"
#include "validated/link.h"
#include "status_matchers.h"

namespace lzy::validated {

inline int WorldRank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int WorldSize() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

inline std::vector<std::uint8_t> BytesOf(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> bytes(size);
  std::size_t at = 0;
  for (; at + 8 <= size; at += 8) StoreLe(bytes.data() + at, static_cast<std::uint64_t>(random()));
  for (; at < size; ++at) bytes[at] = static_cast<std::uint8_t>(random());
  return bytes;
}

inline Payload PayloadOf(std::vector<std::uint8_t>& bytes) {
  return Payload::Of(MutableByteSpan(bytes));
}

/// Of this process; in force from its making to its end, one at a time.
class Faults {
 public:
  enum Shape { kBit, kBurst, kWhole, kHeader, kDigest, kShapes };
  static constexpr int kParts = 8;

  explicit Faults(std::uint64_t seed) : random_(seed * 1000 + static_cast<std::uint64_t>(WorldRank())) {
    current_ = this;
    SetFaultHook([](const Arrival& arrival, MutableByteSpan content) { current_->Come(arrival, content); });
  }
  ~Faults() {
    SetFaultHook(nullptr);
    current_ = nullptr;
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  /// Share of the messages that get a fault, of a shape drawn by lot.
  double share = 0;
  /// Which ones may; all by default.
  std::function<bool(const Arrival&)> where = [](const Arrival&) { return true; };

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& part : counts_) {
      for (const std::uint64_t count : part) sum += count;
    }
    return sum;
  }

  /// Collective: adds up and prints, and returns, how many there were on all ranks.
  std::uint64_t Print(const char* what) const {
    std::array<std::uint64_t, kParts * kShapes> mine{}, all{};
    for (int part = 0; part < kParts; ++part) {
      for (int shape = 0; shape < kShapes; ++shape) mine[part * kShapes + shape] = counts_[part][shape];
    }
    MPI_Allreduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    std::uint64_t sum = 0;
    for (const std::uint64_t count : all) sum += count;
    if (WorldRank() == 0) {
      constexpr const char* kNames[kParts] = {"announcements", "inline", "chunks", "roots", "requests", "nodes", "leaves", "sums"};
      std::printf("%s: %llu faults (bit, burst, whole, header, digest):", what, static_cast<unsigned long long>(sum));
      for (int part = 0; part < kParts; ++part) {
        std::printf(" %s", kNames[part]);
        for (int s = 0; s < kShapes; ++s) std::printf(" %llu", static_cast<unsigned long long>(all[part * kShapes + s]));
      }
      std::printf("\n");
    }
    return sum;
  }

 private:
  void Come(const Arrival& arrival, MutableByteSpan content) {
    if (share <= 0 || !where(arrival)) return;
    if (std::uniform_real_distribution<double>(0, 1)(random_) >= share) return;
    const auto shape = static_cast<Shape>(random_() % kShapes);
    Strike(shape, content);
    ++counts_[static_cast<std::size_t>(arrival.part)][shape];
  }
  // No fault leaves things as they were.
  void Strike(Shape shape, MutableByteSpan content) {
    const std::size_t size = content.size();
    std::size_t from = random_() % size, count = 1;
    if (shape == kBurst) count = 1 + random_() % 64;
    if (shape == kWhole) from = 0, count = size;
    if (shape == kHeader) from = random_() % std::min<std::size_t>(size, 17);
    if (shape == kDigest) from = size - 1 - random_() % std::min<std::size_t>(size, 16);
    if (shape == kBit) {
      content[from] ^= static_cast<std::uint8_t>(1u << random_() % 8);
      return;
    }
    for (std::size_t i = from; i < std::min(size, from + count); ++i) content[i] ^= static_cast<std::uint8_t>(1 + random_() % 255);
  }

  inline static Faults* current_ = nullptr;
  std::mt19937_64 random_;
  std::array<std::array<std::uint64_t, kShapes>, kParts> counts_{};
};

/// Small, so that few bytes have many leaves, levels and chunks; from 41 to 64 bytes in one chunk, after the root.
inline constexpr Sizes kTiny{40, 16, 64, 256, 64, 256};

}  // namespace lzy::validated
