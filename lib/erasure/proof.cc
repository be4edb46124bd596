#include "erasure/proof.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace lzy {
namespace {

// Powers of x, which generates the field, and their logarithms. Computed from the polynomial alone.
struct Powers {
  std::array<std::uint8_t, 510> power{};
  std::array<std::uint8_t, 256> log{};
};
constexpr Powers MakePowers() {
  Powers out;
  unsigned value = 1;
  for (unsigned i = 0; i < 255; ++i) {
    out.power[i] = out.power[i + 255] = static_cast<std::uint8_t>(value);
    out.log[value] = static_cast<std::uint8_t>(i);
    value <<= 1;
    if (value > 255) value ^= 0x11d;
  }
  return out;
}
constexpr Powers kPowers = MakePowers();

// Sources repeat after this many bytes. The period is odd, so each of its bytes meets every lane of a kernel, and more than
// 256, so a source has all byte values.
constexpr std::size_t kPeriod = 257;
// All remainders after two steps of 64 bytes.
constexpr std::size_t kLongestTail = 128 + 63;
// More than one strip of codec.cc (16 KiB), plus a remainder.
constexpr std::size_t kLongest = 16 * 1024 + 77;
// Up to this many sources, each number of sources and each length is tested; then all sources together.
constexpr std::size_t kFewSources = 8;
constexpr std::uint8_t kBefore = 0x5a;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kStride = (kLongest + kAlignment) / kAlignment * kAlignment;  // room for a byte behind the end

struct Free {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};
using Buffer = std::unique_ptr<std::uint8_t, Free>;

Buffer Allocate(std::size_t bytes) {
  Buffer buffer(static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, std::max(bytes, kAlignment))));
  if (!buffer) throw std::bad_alloc();
  return buffer;
}

// Byte `i` of a source: a sequence through all values, different for each source.
std::uint8_t ByteOf(std::size_t source, std::size_t i) {
  const std::uint32_t mixed = static_cast<std::uint32_t>(source + 1) * 0x9e3779b1u;
  return static_cast<std::uint8_t>(((mixed >> 16) | 1) * i + (mixed >> 24));
}

class Proof {
  using Period = std::array<std::uint8_t, kPeriod>;

 public:
  Proof(std::size_t sources, std::size_t targets, std::span<const std::uint8_t> matrix, const ApplyFn& apply)
      : sources_(sources),
        matrix_(matrix),
        apply_(apply),
        in_(Allocate(sources * kStride)),
        out_(Allocate(targets * kStride)),
        expected_(targets) {
    for (auto& [alone, added] : expected_) added.fill(kBefore);
    for (std::size_t s = 0; s < sources; ++s) {
      inputs_.push_back(in_.get() + s * kStride);
      for (std::size_t i = 0; i < kLongest; ++i) in_.get()[s * kStride + i] = ByteOf(s, i % kPeriod);
    }
    for (std::size_t t = 0; t < targets; ++t) outputs_.push_back(out_.get() + t * kStride);
  }

  bool Run() {
    for (std::size_t s = 0; s < sources_; ++s) {
      Add(s);
      if (s < kFewSources && !IsRight(kLongestTail)) return false;
      if (s + 1 != std::min(sources_, kFewSources)) continue;
      for (std::size_t length = 1; length < kLongestTail; ++length) {
        if (!IsRight(length)) return false;
      }
    }
    return IsRight(kLongestTail) && IsRight(kLongest);
  }

 private:
  // Includes one more source from now on.
  void Add(std::size_t source) {
    which_.push_back(static_cast<std::uint32_t>(source));
    for (std::size_t t = 0; t < expected_.size(); ++t) {
      const std::uint8_t coefficient = matrix_[t * sources_ + source];
      for (std::size_t i = 0; i < kPeriod; ++i) {
        const std::uint8_t product = GfMultiply(coefficient, inputs_[source][i]);
        for (Period& period : expected_[t]) period[i] ^= product;
      }
    }
  }

  bool IsRight(std::size_t length) {
    for (const bool accumulate : {false, true}) {
      for (std::uint8_t* output : outputs_) std::memset(output, kBefore, length + 1);
      apply_(which_, inputs_.data(), outputs_.data(), length, accumulate);
      for (std::size_t t = 0; t < outputs_.size(); ++t) {
        if (outputs_[t][length] != kBefore || !Matches(t, length, accumulate)) return false;
      }
    }
    return true;
  }

  bool Matches(std::size_t t, std::size_t length, bool accumulate) const {
    for (std::size_t at = 0; at < length; at += kPeriod) {
      if (std::memcmp(outputs_[t] + at, expected_[t][accumulate].data(), std::min(kPeriod, length - at)) != 0) return false;
    }
    return true;
  }

  const std::size_t sources_;
  const std::span<const std::uint8_t> matrix_;
  const ApplyFn& apply_;
  const Buffer in_, out_;
  std::vector<const std::uint8_t*> inputs_;
  std::vector<std::uint8_t*> outputs_;
  std::vector<std::uint32_t> which_;
  // By target: the expected sum of the sources that count, alone and added to the previous content of the target.
  std::vector<std::array<Period, 2>> expected_;
};

}  // namespace

std::uint8_t GfMultiply(std::uint8_t a, std::uint8_t b) {
  if (a == 0 || b == 0) return 0;
  return kPowers.power[kPowers.log[a] + kPowers.log[b]];
}

std::uint8_t GfInverse(std::uint8_t a) {
  return a == 0 ? std::uint8_t{0} : kPowers.power[255 - kPowers.log[a]];
}

bool ComputesRightly(std::size_t sources, std::size_t targets, std::span<const std::uint8_t> matrix, const ApplyFn& apply) {
  return sources == 0 || targets == 0 || Proof(sources, targets, matrix, apply).Run();
}

}  // namespace lzy
