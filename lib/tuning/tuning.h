#pragma once
// The fastest sizes on this machine (docs/design/overview.md §3, "Tuning"). They are measured in some ten milliseconds,
// kept in a file, and chosen among candidates that are all correct everywhere. They change the speed of lzy, never its
// output. Ranks may choose differently, so nothing that ranks must agree on may depend on them.
//
// Measuring happens only on request. Programs under the layer keep the defaults, and need not read a file in the user's
// home. Tools with much to read use the file, or measure if there is none (TuneForWork). `lzy-info --tuning` always
// measures.
//
// Users: the row pipeline (rows) and verification (judge) ask CurrentTuning(); tools call TuneForWork.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace lzy {

/// The choices. The numbers are indices into TuningChoices().
enum class Tuned : std::uint8_t {
  kEncode,  ///< reading, hashing and encoding rows
  kCheck,   ///< reading and hashing to verify
};
inline constexpr std::size_t kTunedCount = 2;

/// The candidates for one Tuned. All give the same results. Static data.
struct TuningChoice {
  const char* name;                           ///< as in JSON: "encode"
  const char* what;                           ///< one line for people
  std::span<const std::uint32_t> candidates;  ///< bytes that are handled at a time; the default first
};
/// All that there is to choose, by Tuned.
std::span<const TuningChoice, kTunedCount> TuningChoices();

/// The picked candidate of each choice, and the speed of each candidate. As constructed: the defaults, nothing measured. A
/// small value type without memory of its own; copies may be read by several threads.
class Tuning {
 public:
  static constexpr std::size_t kMostCandidates = 4;

  /// Bytes of each source of a row that are read, hashed and multiplied before the next ones. The row pipeline
  /// (rows.cc) rounds them to whole blocks, at least one.
  std::uint32_t encode_piece_bytes() const { return picked(Tuned::kEncode); }
  /// Most bytes that verification reads at a time through the page cache (CheckSettings::buffer_bytes).
  std::uint32_t check_buffer_bytes() const { return picked(Tuned::kCheck); }

  std::uint32_t picked(Tuned what) const { return Choice(what).candidates[picked_index(what)]; }
  std::size_t picked_index(Tuned what) const { return picked_[static_cast<std::size_t>(what)]; }
  /// Speed of a candidate in 10^9 bytes per second; 0 if it was not measured.
  double gb_per_s(Tuned what, std::size_t candidate) const { return rates_[static_cast<std::size_t>(what)][candidate]; }

  /// Takes the speeds of a choice's candidates, in their order, and picks the fastest. They are rounded to two
  /// decimals, as they are written. The default stays unless another one is more than 10 % faster, because measurements
  /// vary by that much. Returns false, and takes nothing, unless there is one speed for each candidate, each from 0 to
  /// 10^4.
  bool Pick(Tuned what, std::span<const double> gb_per_s);

  friend bool operator==(const Tuning&, const Tuning&) = default;

 private:
  static const TuningChoice& Choice(Tuned what) { return TuningChoices()[static_cast<std::size_t>(what)]; }

  std::array<std::uint8_t, kTunedCount> picked_{};
  std::array<std::array<double, kMostCandidates>, kTunedCount> rates_{};
};

/// Measures every candidate for about `budget_ms` milliseconds, but at least three times, which takes some ten. The
/// fastest run of each counts. A choice that cannot be measured, for want of memory, keeps its default. Uses one core
/// and nothing on disk. Never fails.
Tuning Calibrate(unsigned budget_ms);

/// JSON with the schema "lzy-tuning/2": the machine; choices with candidates, speeds, and the picked candidates. (Version 1
/// had ways of copying, too.)
std::string EncodeTuning(const Tuning& tuning);
/// nullopt unless `text` is exactly the text that this version writes on this machine for some speeds. So a forged file can
/// only pick a slow candidate.
std::optional<Tuning> DecodeTuning(std::string_view text);

/// Names everything that affects the results: processor, usable instructions, caches, libraries. 16 hexadecimal digits.
std::string MachineKey();
/// Path of the file with the results: in $XDG_CACHE_HOME/lzy or ~/.cache/lzy, one for each kind of processor and version of
/// the libraries. Empty if neither variable has an absolute path; then nothing is kept. By default, uses the environment of
/// the process.
std::string TuningCachePath(const std::function<const char*(const char*)>& getenv_like = nullptr);
/// Reads the file; nothing if it is not there or does not fit.
std::optional<Tuning> LoadTuning(FileSystem& fs, const std::string& path);
/// Writes a new file, with access for this user only, and renames it into place. So a reader never sees half a file.
/// Makes directories as needed.
Status StoreTuning(FileSystem& fs, const std::string& path, const Tuning& tuning);

/// The tuning of this process: the defaults, until TuneForWork. Neither reads nor measures. Thread-safe; the
/// reference stays valid.
const Tuning& CurrentTuning() noexcept;
/// For tools, before about `bytes` are read by this process. If that is 256 MiB or more, takes the results that were
/// kept, or measures and keeps them. Failures with the file are ignored without a message. Thread-safe; works once
/// per process.
void TuneForWork(std::uint64_t bytes) noexcept;

}  // namespace lzy
