// Calibrate() of tuning.h. It measures the candidates on the operations that they are for: the encoding of rows, and
// the reading of a file in the page cache. One thread, about 2 MiB of memory and 1 MiB of file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <vector>

#include "base/descriptor.h"
#include "erasure/codec.h"
#include "merkle/hash.h"
#include "storage/parallel.h"
#include "tuning/tuning.h"

namespace lzy {
namespace {

using Clock = std::chrono::steady_clock;

// The default block size.
constexpr std::size_t kBlock = 64u << 10;
// Bytes of each source that are encoded in one measurement.
constexpr std::size_t kSpan = 256u << 10;
constexpr std::size_t kFileBytes = 1u << 20;  // read in one measurement
// A group of 8 with one parity, the defaults.
constexpr std::uint32_t kSources = 7;
// A budget that is over before the third round is exceeded: one run alone may have been disturbed.
constexpr std::size_t kFewestRounds = 3;
constexpr std::size_t kMostRounds = 99;

// A file in the page cache, in memory only. If the system does not give one, or a read fails, all choices keep their
// defaults.
class CachedFile {
 public:
  CachedFile() : fd_(memfd_create("lzy-calibration", MFD_CLOEXEC)) {
    const std::vector<std::uint8_t> content(kFileBytes, 0x5A);
    failed_ = pwrite(fd_.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(kFileBytes);
  }

  void Read(std::size_t offset, std::uint8_t* to, std::size_t count) const {
    if (pread(fd_.get(), to, count, static_cast<off_t>(offset)) != static_cast<ssize_t>(count)) failed_ = true;
  }
  bool failed() const { return failed_; }

 private:
  const Descriptor fd_;
  mutable bool failed_ = false;
};

// The memory, the file and the best times of one calibration. Its constructor allocates, and may throw.
class Calibration {
 public:
  Calibration() {
    for (std::size_t c = 0; c < kTunedCount; ++c) {
      seconds_[c].assign(TuningChoices()[c].candidates.size(), std::numeric_limits<double>::infinity());
    }
    std::fill_n(memory_.data(), memory_.size(), std::uint8_t{1});
    std::iota(which_.begin(), which_.end(), 0);
    const auto codec = Codec::Create(kSources + 1, 1);
    if (!codec.ok()) return;
    if (auto plan = codec->EncodePlan(); plan.ok()) plan_ = std::move(*plan);
  }

  // Measures every candidate once. Going round, instead of measuring one candidate many times, lets disturbances by
  // other processes meet all of them alike.
  void Round() {
    for (std::size_t c = 0; c < kTunedCount; ++c) {
      for (std::size_t i = 0; i < seconds_[c].size(); ++i) {
        seconds_[c][i] = std::min(seconds_[c][i], Measure(static_cast<Tuned>(c), TuningChoices()[c].candidates[i]));
      }
    }
  }

  // The tuning that follows from the least times.
  Tuning Result() {
    Tuning tuning;
    if (file_.failed()) return tuning;
    for (std::size_t c = 0; c < kTunedCount; ++c) {
      const auto what = static_cast<Tuned>(c);
      std::vector<double> speeds;
      // The least time counts: other processes can only add to it, and a few rounds have no steady median.
      for (const double least : seconds_[c]) speeds.push_back(least > 0 ? BytesOf(what) / least / 1e9 : 0);
      (void)tuning.Pick(what, speeds);  // refuses only what no clock can have measured
    }
    return tuning;
  }

 private:
  // Bytes of one measurement, for the speed.
  static double BytesOf(Tuned what) { return what == Tuned::kEncode ? kSources * kSpan : kFileBytes; }

  // Seconds of one run.
  double Measure(Tuned what, std::uint32_t bytes) {
    const auto start = Clock::now();
    if (what == Tuned::kEncode) {
      Encode(bytes);
    } else {
      Check(bytes);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // As in the row pipeline: reads a piece of each source and hashes it block by block, then multiplies all pieces.
  void Encode(std::size_t piece) {
    std::array<const std::uint8_t*, kSources> inputs;
    std::uint8_t* output = memory_.data() + kSources * piece;
    for (std::size_t at = 0; at < kSpan; at += piece) {
      for (std::uint32_t s = 0; s < kSources; ++s) {
        std::uint8_t* to = memory_.data() + s * piece;
        file_.Read((s * kSpan + at) % kFileBytes, to, piece);
        HashBlocks(to, piece);
        inputs[s] = to;
      }
      if (plan_.targets() > 0) plan_.Apply(which_, inputs.data(), &output, piece, /*accumulate=*/false);
    }
  }

  // As in verification: reads a buffer, then hashes it.
  void Check(std::size_t buffer) {
    for (std::size_t at = 0; at < kFileBytes; at += buffer) {
      file_.Read(at, memory_.data(), buffer);
      HashBlocks(memory_.data(), buffer);
    }
  }

  static void HashBlocks(const std::uint8_t* bytes, std::size_t count) {
    const std::size_t block = std::min(count, kBlock);
    for (std::size_t at = 0; at < count; at += block) (void)HashBytes(HashTag::kDataLeaf, 0, {bytes + at, block});
  }

  // Room for the largest piece of each source, and one of parity.
  AlignedBuffer memory_{(kSources + 1) * kSpan};
  CachedFile file_;
  Plan plan_;
  std::array<std::uint32_t, kSources> which_;
  // The least time of each candidate, by choice.
  std::array<std::vector<double>, kTunedCount> seconds_;
};

}  // namespace

Tuning Calibrate(unsigned budget_ms) {
  Tuning tuning;
  // If memory runs out, the result is the defaults.
  (void)NoThrow([&] {
    const auto end = Clock::now() + std::chrono::milliseconds(budget_ms);
    Calibration calibration;
    for (std::size_t round = 0; round < kMostRounds && (round < kFewestRounds || Clock::now() < end); ++round) {
      calibration.Round();
    }
    tuning = calibration.Result();
  });
  return tuning;
}

}  // namespace lzy
