#include "tuning/tuning.h"

#include <fmt/format.h>
#include <isa-l.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "request/options.h"

namespace lzy {
namespace {

constexpr const char* kSchema = "lzy-tuning/1";
constexpr std::size_t kMostCacheFileBytes = 64u << 10;
constexpr std::ptrdiff_t kMostBrackets = 4 + kTunedCount * (2 + Tuning::kMostCandidates);  // of what EncodeTuning writes
constexpr double kMostGbPerS = 1e4;
constexpr double kWorthChanging = 1.1;
// Reading that much takes a hundred times as long as measuring.
constexpr std::uint64_t kLargeWork = 256u << 20;
constexpr unsigned kToolBudgetMs = 10;

constexpr std::uint32_t kKiB = 1u << 10;
// Not 2 KiB: at 64 KiB it may be the fastest, but is the slowest by far (Zen 4, glibc 2.36: half) from some megabytes
// on.
constexpr TuningCandidate kNear[] = {{16 * kKiB}, {4 * kKiB}, {64 * kKiB}};
constexpr TuningCandidate kFar[] = {
    {2 * kKiB, true}, {4 * kKiB, true}, {16 * kKiB, true}, {4 * kKiB, false}, {64 * kKiB, false}};
constexpr TuningCandidate kEncodePieces[] = {{64 * kKiB}, {32 * kKiB}, {128 * kKiB}, {256 * kKiB}};
constexpr TuningCandidate kCheckBuffers[] = {{1024 * kKiB}, {512 * kKiB}, {256 * kKiB}};

constexpr std::array<TuningChoice, kTunedCount> kChoices = {{
    {"copy-xxh3-near", "copying with XXH3-128 in buffers that fit the cache, pieces of", kNear},
    {"copy-xxh3-far", "copying with XXH3-128 in larger buffers, pieces of", kFar},
    {"copy-crc32c-near", "copying with CRC-32C in buffers that fit the cache, pieces of", kNear},
    {"copy-crc32c-far", "copying with CRC-32C in larger buffers, pieces of", kFar},
    {"encode", "reading, hashing and encoding rows, from each source", kEncodePieces},
    {"check", "reading and hashing to verify, a buffer of", kCheckBuffers},
}};

constexpr bool AllFit() {
  return std::all_of(kChoices.begin(), kChoices.end(),
                     [](const TuningChoice& c) { return c.candidates.size() <= Tuning::kMostCandidates; });
}
static_assert(AllFit());

CopyMethod MethodOf(const TuningCandidate& candidate) {
  return {candidate.bytes, candidate.past_cache};
}

// The beginning of a file that the kernel makes up; empty where there is none.
std::string KernelText(const std::string& path) {
  std::string text(4096, '\0');
  auto file = PosixFileSystem().Open(path, OpenMode::kRead);
  if (!file.ok()) return "";
  const auto got = (*file)->ReadAt(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  text.resize(got.ok() ? *got : 0);
  return text;
}

// Sizes of the first processor's caches, nearest first. Not sysconf's: in a virtual machine glibc 2.36 makes ten times
// of an AMD's last one.
std::vector<std::uint64_t> CacheSizes() {
  std::vector<std::uint64_t> sizes;
  for (int index = 0; index < 8; ++index) {
    std::string text = KernelText(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const auto size = ParseSize(text);
    if (!size) break;
    sizes.push_back(*size);
  }
  return sizes;
}

// Lines of /proc/cpuinfo that tell one kind of processor from another, on x86 and ARM; not its clock, nor flags that
// come and go with microcode and kernels.
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

// Names all that results depend on: processor, what of it may be used, caches, libraries.
std::string MachineKey() {
  std::string text = ProcessorModel();
#if defined(__x86_64__)
  text += fmt::format("{}{}{}{}{}\n", __builtin_cpu_supports("sse4.2") != 0, __builtin_cpu_supports("avx2") != 0,
                      __builtin_cpu_supports("avx512f") != 0, __builtin_cpu_supports("avx512bw") != 0,
                      __builtin_cpu_supports("vpclmulqdq") != 0);
#endif
  text += fmt::format("caches {}\n", fmt::join(CacheSizes(), " "));
  text += fmt::format("xxhash {} isa-l {}.{}\n", XXH_versionNumber(), ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION);
  const ByteSpan bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return HashBytes(HashTag::kInfo, 0, bytes).Hex().substr(0, 16);
}

std::atomic<const Tuning*> current{nullptr};

}  // namespace

std::string TuningCandidate::Name() const {
  return FormatSize(bytes) + (past_cache ? " past cache" : "");
}

std::span<const TuningChoice, kTunedCount> TuningChoices() {
  return kChoices;
}

std::uint64_t FarFromBytes() {
  static const std::uint64_t bytes = [] {
    std::uint64_t cache = 0;
    (void)NoThrow([&] {
      for (const std::uint64_t size : CacheSizes()) cache = std::max(cache, size);
    });
    return (cache > 0 ? cache : std::uint64_t{32} << 20) / 4;
  }();
  return bytes;
}

CopyMethod Tuning::HashCopy(std::uint64_t footprint) const {
  return MethodOf(picked(footprint >= FarFromBytes() ? Tuned::kHashCopyFar : Tuned::kHashCopyNear));
}

CopyMethod Tuning::CrcCopy(std::uint64_t footprint) const {
  return MethodOf(picked(footprint >= FarFromBytes() ? Tuned::kCrcCopyFar : Tuned::kCrcCopyNear));
}

bool Tuning::measured() const {
  return *this != Tuning();
}

bool Tuning::Pick(Tuned what, std::span<const double> gb_per_s) {
  const auto fits = [](double rate) { return rate >= 0 && rate <= kMostGbPerS; };  // false for NaN
  if (gb_per_s.size() != Choice(what).candidates.size() || !std::all_of(gb_per_s.begin(), gb_per_s.end(), fits)) {
    return false;
  }
  const auto at = static_cast<std::size_t>(what);
  rates_[at] = {};
  std::copy(gb_per_s.begin(), gb_per_s.end(), rates_[at].begin());
  const auto best = std::max_element(gb_per_s.begin(), gb_per_s.end());
  const bool better = gb_per_s[0] > 0 && *best > kWorthChanging * gb_per_s[0];
  picked_[at] = better ? static_cast<std::uint8_t>(best - gb_per_s.begin()) : 0;
  return true;
}

std::string EncodeTuning(const Tuning& tuning) {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < kTunedCount; ++c) {
    const auto what = static_cast<Tuned>(c);
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < kChoices[c].candidates.size(); ++i) {
      const TuningCandidate& candidate = kChoices[c].candidates[i];
      candidates.push_back({{"bytes", candidate.bytes},
                            {"past_cache", candidate.past_cache},
                            {"gb_per_s", std::round(tuning.gb_per_s(what, i) * 100) / 100},
                            {"picked", i == tuning.picked_index(what)}});
    }
    choices.push_back({{"name", kChoices[c].name}, {"candidates", std::move(candidates)}});
  }
  const nlohmann::ordered_json document = {{"schema", kSchema},
                                           {"machine", MachineKey()},
                                           {"far_from_bytes", FarFromBytes()},
                                           {"choices", std::move(choices)}};
  return document.dump(2) + "\n";
}

namespace {

/// The speeds of one choice, if `stored` is about the same candidates.
std::optional<std::vector<double>> SpeedsIn(const nlohmann::json& stored, const TuningChoice& choice) {
  if (!stored.is_object() || stored.value("name", nlohmann::json()) != choice.name) return std::nullopt;
  const nlohmann::json candidates = stored.value("candidates", nlohmann::json());
  if (!candidates.is_array() || candidates.size() != choice.candidates.size()) return std::nullopt;
  std::vector<double> speeds;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const TuningCandidate& known = choice.candidates[i];
    if (!candidates[i].is_object() || candidates[i].value("bytes", nlohmann::json()) != known.bytes ||
        candidates[i].value("past_cache", nlohmann::json()) != known.past_cache) {
      return std::nullopt;
    }
    const nlohmann::json speed = candidates[i].value("gb_per_s", nlohmann::json());
    if (!speed.is_number()) return std::nullopt;
    speeds.push_back(speed.get<double>());
  }
  return speeds;
}

}  // namespace

std::optional<Tuning> DecodeTuning(std::string_view text) {
  // The parser takes time quadratic in the depth of what it gives up.
  if (std::count_if(text.begin(), text.end(), [](char c) { return c == '[' || c == '{'; }) > kMostBrackets) return std::nullopt;
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || document.value("schema", nlohmann::json()) != kSchema ||
      document.value("machine", nlohmann::json()) != MachineKey()) {
    return std::nullopt;
  }
  const nlohmann::json choices = document.value("choices", nlohmann::json());
  if (!choices.is_array() || choices.size() != kTunedCount) return std::nullopt;
  Tuning tuning;
  for (std::size_t c = 0; c < kTunedCount; ++c) {
    const auto speeds = SpeedsIn(choices[c], kChoices[c]);
    if (!speeds || !tuning.Pick(static_cast<Tuned>(c), *speeds)) return std::nullopt;
  }
  return tuning;
}

std::string TuningCachePath(const std::function<const char*(const char*)>& getenv_like) {
  // A program with more rights than its user takes no paths from him.
  const auto get = [&](const char* name) { return getenv_like ? getenv_like(name) : secure_getenv(name); };
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

std::optional<Tuning> LoadTuning(FileSystem& fs, const std::string& path) {
  if (path.empty()) return std::nullopt;
  auto file = fs.Open(path, OpenMode::kRead);
  if (!file.ok()) return std::nullopt;
  std::string text(kMostCacheFileBytes, '\0');
  const auto got = (*file)->ReadAt(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  if (!got.ok()) return std::nullopt;
  return DecodeTuning(std::string_view(text).substr(0, *got));
}

Status StoreTuning(FileSystem& fs, const std::string& path, const Tuning& tuning) {
  if (path.empty()) return {Code::kNotFound, "neither XDG_CACHE_HOME nor HOME is an absolute path"};
  LZY_RETURN_IF_ERROR(fs.MakeDirectories(DirectoryOf(path)));
  const std::string aside = fmt::format("{}.{}-{}", path, getpid(), CoarseNowNs());
  const std::string text = EncodeTuning(tuning);
  const Status stored = [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(aside, OpenMode::kCreateNew, /*follow=*/false, 0600));
    LZY_RETURN_IF_ERROR(file->WriteAt(0, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}));
    return fs.Rename(aside, path);
  }();
  if (!stored.ok()) (void)fs.Remove(aside);
  return stored;
}

const Tuning& CurrentTuning() noexcept {
  static const Tuning defaults;
  const Tuning* known = current.load(std::memory_order_acquire);
  return known != nullptr ? *known : defaults;
}

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
