// Choices, their file, and the tuning of the process. calibrate.cc does the measuring.

#include "tuning/tuning.h"

#include <fmt/format.h>
#include <isa-l.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "merkle/hash.h"

namespace lzy {
namespace {

constexpr const char* kSchema = "lzy-tuning/2";
// Bounds for a file that may be anything: its size, and the brackets in what EncodeTuning writes.
constexpr std::size_t kMostCacheFileBytes = 64u << 10;
constexpr std::ptrdiff_t kMostBrackets = 4 + kTunedCount * (2 + Tuning::kMostCandidates);
// No memory is that fast: a larger number is no measurement.
constexpr double kMostGbPerS = 1e4;
// Another candidate must be faster than the default by this factor. Runs differ by nearly as much.
constexpr double kWorthChanging = 1.1;
// Reading this much takes a hundred times as long as measuring.
constexpr std::uint64_t kLargeWork = 256u << 20;
constexpr unsigned kToolBudgetMs = 10;

constexpr std::uint32_t kKiB = 1u << 10;
constexpr std::uint32_t kEncodePieces[] = {64 * kKiB, 32 * kKiB, 128 * kKiB, 256 * kKiB};
constexpr std::uint32_t kCheckBuffers[] = {1024 * kKiB, 512 * kKiB, 256 * kKiB};

constexpr std::array<TuningChoice, kTunedCount> kChoices = {{
    {"encode", "reading, hashing and encoding rows, from each source", kEncodePieces},
    {"check", "reading and hashing to verify, a buffer of", kCheckBuffers},
}};

// Tuning has room for this many speeds.
static_assert(std::ranges::all_of(kChoices, [](const TuningChoice& choice) {
  return choice.candidates.size() <= Tuning::kMostCandidates;
}));

// The beginning of a file in /proc or /sys, whose size is not known in advance; empty if there is none.
std::string KernelText(const std::string& path) {
  std::string text(4096, '\0');
  auto file = PosixFileSystem().Open(path, OpenMode::kRead);
  if (!file.ok()) return "";
  const auto got = (*file)->ReadAt(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  text.resize(got.ok() ? *got : 0);
  return text;
}

// The lines of /proc/cpuinfo that identify the kind of processor, on x86 and ARM. Without the clock and the flags, which
// change with microcode and kernels.
std::string ProcessorModel() {
  constexpr std::string_view kKeys[] = {"vendor_id",       "cpu family",       "model",       "model name", "stepping",
                                        "CPU implementer", "CPU architecture", "CPU variant", "CPU part"};
  const std::string text = KernelText("/proc/cpuinfo");  // the first processor's lines are enough
  std::string_view rest = text;
  std::string model;
  while (!rest.empty() && rest.front() != '\n') {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::string_view key = line.substr(0, std::min(line.find('\t'), line.find(':')));
    if (std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys)) model.append(line) += '\n';
  }
  return model;
}

// Null: the defaults. Otherwise a static object, so readers need no lock.
std::atomic<const Tuning*> current{nullptr};

}  // namespace

// Machines of different kinds may share a home directory; each has files of its own.
namespace {

std::string MakeMachineKey() {
  std::string text = ProcessorModel();
#if defined(__x86_64__)
  text += fmt::format("{}{}{}{}{}\n", __builtin_cpu_supports("sse4.2") != 0, __builtin_cpu_supports("avx2") != 0,
                      __builtin_cpu_supports("avx512f") != 0, __builtin_cpu_supports("avx512bw") != 0,
                      __builtin_cpu_supports("vpclmulqdq") != 0);
#endif
  // Cache sizes of the first processor. sysconf would be simpler, but in a virtual machine glibc 2.36 reports ten times the
  // last cache of an AMD processor.
  for (int index = 0; index < 8; ++index) {
    text += KernelText(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
  }
  text += fmt::format("xxhash {} isa-l {}.{}\n", XXH_versionNumber(), ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION);
  const ByteSpan bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return HashBytes(HashTag::kInfo, 0, bytes).Hex().substr(0, 16);
}

}  // namespace

// Reading it opens about ten files of the kernel.
std::string MachineKey() {
  static const auto& key = *new std::string(MakeMachineKey());  // never destroyed
  return key;
}

std::span<const TuningChoice, kTunedCount> TuningChoices() {
  return kChoices;
}

// Speed 0 of the default means that it could not be measured: then nothing can be said to be faster.
bool Tuning::Pick(Tuned what, std::span<const double> gb_per_s) {
  // False for NaN, too.
  const auto fits = [](double rate) { return rate >= 0 && rate <= kMostGbPerS; };
  if (gb_per_s.size() != Choice(what).candidates.size() || !std::ranges::all_of(gb_per_s, fits)) return false;
  const auto at = static_cast<std::size_t>(what);
  std::array<double, kMostCandidates>& rates = rates_[at];
  rates = {};
  std::ranges::transform(gb_per_s, rates.begin(), [](double rate) { return std::round(rate * 100) / 100; });
  const auto best = std::ranges::max_element(rates);
  const bool better = rates[0] > 0 && *best > kWorthChanging * rates[0];
  picked_[at] = better ? static_cast<std::uint8_t>(best - rates.begin()) : 0;
  return true;
}

std::string EncodeTuning(const Tuning& tuning) {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < kTunedCount; ++c) {
    const auto what = static_cast<Tuned>(c);
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < kChoices[c].candidates.size(); ++i) {
      candidates.push_back({{"bytes", kChoices[c].candidates[i]},
                            {"gb_per_s", tuning.gb_per_s(what, i)},
                            {"picked", i == tuning.picked_index(what)}});
    }
    choices.push_back({{"name", kChoices[c].name}, {"candidates", std::move(candidates)}});
  }
  const nlohmann::ordered_json document = {
      {"schema", kSchema}, {"machine", MachineKey()}, {"choices", std::move(choices)}};
  return document.dump(2) + "\n";
}

// Takes only the speeds, wherever they are, and compares all else with the text written for them. at() and get() throw if
// the structure differs.
std::optional<Tuning> DecodeTuning(std::string_view text) {
  // The JSON parser takes time quadratic in the depth of a document that it rejects. The number of brackets bounds the
  // depth.
  if (std::ranges::count_if(text, [](char c) { return c == '[' || c == '{'; }) > kMostBrackets) return std::nullopt;
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  Tuning tuning;
  const Status read = NoThrow([&] {
    for (std::size_t c = 0; c < kTunedCount; ++c) {
      std::vector<double> speeds;
      for (const auto& candidate : document.at("choices").at(c).at("candidates")) {
        speeds.push_back(candidate.at("gb_per_s").get<double>());
      }
      (void)tuning.Pick(static_cast<Tuned>(c), speeds);  // if it refuses them, the comparison below fails
    }
  });
  if (!read.ok() || document != nlohmann::json::parse(EncodeTuning(tuning))) return std::nullopt;
  return tuning;
}

// secure_getenv: a program with more rights than its user must not take a path from the user.
std::string TuningCachePath(const std::function<const char*(const char*)>& getenv_like) {
  const auto get = [&](const char* name) { return getenv_like ? getenv_like(name) : secure_getenv(name); };
  // The XDG specification says to ignore paths that are not absolute.
  const auto absolute = [](const char* path) { return path != nullptr && *path == '/'; };
  std::string directory;
  if (const char* cache = get("XDG_CACHE_HOME"); absolute(cache)) {
    directory = cache;
  } else if (const char* home = get("HOME"); absolute(home)) {
    directory = JoinPath(home, ".cache");
  } else {
    return "";
  }
  return JoinPath(JoinPath(directory, "lzy"), fmt::format("tuning-{}.json", MachineKey()));
}

// Reads at most kMostCacheFileBytes. A longer file is cut, and then is no JSON.
std::optional<Tuning> LoadTuning(FileSystem& fs, const std::string& path) {
  if (path.empty()) return std::nullopt;
  auto file = fs.Open(path, OpenMode::kRead);
  if (!file.ok()) return std::nullopt;
  std::string text(kMostCacheFileBytes, '\0');
  const auto got = (*file)->ReadAt(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  if (!got.ok()) return std::nullopt;
  return DecodeTuning(std::string_view(text).substr(0, *got));
}

// A file that a crash has damaged is not accepted, and is measured again.
Status StoreTuning(FileSystem& fs, const std::string& path, const Tuning& tuning) {
  if (path.empty()) return {Code::kNotFound, "neither XDG_CACHE_HOME nor HOME is an absolute path"};
  LZY_RETURN_IF_ERROR(fs.MakeDirectories(DirectoryOf(path)));
  return ReplaceFile(fs, path, EncodeTuning(tuning), 0600);
}

const Tuning& CurrentTuning() noexcept {
  static const Tuning defaults;
  const Tuning* known = current.load(std::memory_order_acquire);
  return known != nullptr ? *known : defaults;
}

// The static makes other threads wait for the first one. With sudo, the cache may lie in another user's home, so it
// is reached through the guarded file system (docs/design/hooks.md §10).
void TuneForWork(std::uint64_t bytes) noexcept {
  if (bytes < kLargeWork) return;
  static const Tuning tuned = [] {
    std::optional<Tuning> kept;
    const std::string cache = TuningCachePath();
    std::unique_ptr<FileSystem> fs;
    (void)NoThrow([&] {
      fs = GuardedFileSystem({DirectoryOf(DirectoryOf(cache))});
      kept = LoadTuning(*fs, cache);
    });
    if (kept) return *kept;
    const Tuning measured = Calibrate(kToolBudgetMs);
    if (fs) (void)NoThrow([&] { return StoreTuning(*fs, cache, measured); });
    return measured;
  }();
  current.store(&tuned, std::memory_order_release);
}

}  // namespace lzy
