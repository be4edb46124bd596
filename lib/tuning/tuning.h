#pragma once
// Sizes and kernels that are best on the machine at hand: measured in some ten milliseconds, kept in a file, chosen
// among candidates that are all right everywhere. They change how fast lzy is, never what it writes; and since ranks
// may have chosen differently, nothing that ranks must agree on may depend on them.
//
// Nobody pays for measuring who has not asked for it: programs under the interposition layer go by the defaults, and are
// spared the look at a file in everybody's home. Tools with much to do take what the file has, and measure if there is
// none (TuneForWork); `lzy-info --tuning` always measures.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "merkle/copy_hash.h"

namespace lzy {

/// What is chosen for; the order of TuningChoices().
enum class Tuned : std::uint8_t {
  kHashCopyNear,  ///< CopyAndHash within what fits the cache
  kHashCopyFar,   ///< CopyAndHash in buffers far larger than it
  kCrcCopyNear,   ///< the same for CopyAndCrc32c
  kCrcCopyFar,
  kEncode,  ///< reading, hashing and encoding rows
  kCheck,   ///< reading and hashing to verify
};
inline constexpr std::size_t kTunedCount = 6;

struct TuningCandidate {
  std::uint32_t bytes = 0;   ///< at a time: see the accessors of Tuning
  bool past_cache = false;   ///< CopyMethod::non_temporal
  std::string Name() const;  ///< "4 KiB", "4 KiB past cache"; unique within a choice
};

struct TuningChoice {
  const char* name;                             ///< as in JSON: "copy-xxh3-near"
  const char* what;                             ///< one line for people
  std::span<const TuningCandidate> candidates;  ///< the default first
};
/// Everything that there is to choose, by Tuned.
std::span<const TuningChoice, kTunedCount> TuningChoices();

/// A candidate for each choice, and how fast each was. As constructed: the defaults, nothing measured. Small, holds no
/// memory.
class Tuning {
 public:
  static constexpr std::size_t kMostCandidates = 5;

  /// How to copy and hash when `footprint` bytes are moved before anybody looks at them again (a whole exchange buffer,
  /// not the block that one call copies). For packing, stitching and exchange buffers.
  CopyMethod HashCopy(std::uint64_t footprint) const;
  CopyMethod CrcCopy(std::uint64_t footprint) const;
  /// Bytes of each source of a row that are read, hashed and multiplied before the next ones: for the row pipeline
  /// (rows.cc), which rounds them to whole blocks, one at least.
  std::uint32_t encode_piece_bytes() const { return picked(Tuned::kEncode).bytes; }
  /// Most bytes that verification reads at a time through the page cache: CheckSettings::buffer_bytes (examine.cc).
  std::uint32_t check_buffer_bytes() const { return picked(Tuned::kCheck).bytes; }

  const TuningCandidate& picked(Tuned what) const { return Choice(what).candidates[picked_index(what)]; }
  std::size_t picked_index(Tuned what) const { return picked_[static_cast<std::size_t>(what)]; }
  /// 10^9 bytes a second; 0 where not measured.
  double gb_per_s(Tuned what, std::size_t candidate) const { return rates_[static_cast<std::size_t>(what)][candidate]; }
  bool measured() const;

  /// Takes the speeds of a choice's candidates, in their order, and picks: the fastest, but the default where none is
  /// faster by more than measuring errs (10 %). False, and nothing taken, unless there are as many as candidates, each
  /// from 0 to 10^4.
  bool Pick(Tuned what, std::span<const double> gb_per_s);

  friend bool operator==(const Tuning&, const Tuning&) = default;

 private:
  static const TuningChoice& Choice(Tuned what) { return TuningChoices()[static_cast<std::size_t>(what)]; }

  std::array<std::uint8_t, kTunedCount> picked_{};
  std::array<std::array<double, kMostCandidates>, kTunedCount> rates_{};
};

/// Copies of that many bytes and more are far: a quarter of the last cache before memory (of 32 MiB, if the system does
/// not tell its size), since source and copy both want room there, and so do other cores.
std::uint64_t FarFromBytes();

/// Measures every candidate, always in the same order, for about `budget_ms`, three times at least (some ten
/// milliseconds); the fastest of its runs counts. What cannot be measured for want of memory keeps its default.
Tuning Calibrate(unsigned budget_ms);

/// Schema "lzy-tuning/1": choices with candidates, speeds, what is picked; the machine it was measured on;
/// FarFromBytes().
std::string EncodeTuning(const Tuning& tuning);
/// None unless `text` is what this version writes on this machine. Nothing in it is believed but the speeds: a forged
/// file can make no worse choice than a wrong candidate.
std::optional<Tuning> DecodeTuning(std::string_view text);

/// Where results are kept: $XDG_CACHE_HOME/lzy or ~/.cache/lzy, a file for each kind of processor and version of the
/// libraries. Empty where there is no such place (and then nothing is kept). The default asks the process's
/// environment.
std::string TuningCachePath(const std::function<const char*(const char*)>& getenv_like = nullptr);
std::optional<Tuning> LoadTuning(FileSystem& fs, const std::string& path);
/// Puts a whole file in place, by renaming, for this user only.
Status StoreTuning(FileSystem& fs, const std::string& path, const Tuning& tuning);

/// What this process goes by: the defaults, until TuneForWork. Neither reads nor measures. Thread-safe; the reference
/// is good for ever.
const Tuning& CurrentTuning() noexcept;
/// For tools, before `bytes` are read: if that is much work, takes the results that were kept, or measures and keeps
/// them. Trouble with the file is no trouble, and no message. Thread-safe.
void TuneForWork(std::uint64_t bytes) noexcept;

}  // namespace lzy
