// Times of exchanges, their file, and what the process knows. lib/mpi/exchange_choice.cc does the measuring.

#include "tuning/exchange_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "merkle/hash.h"
#include "tuning/tuning.h"

namespace lzy {
namespace {

constexpr const char* kExchangeSchema = "lzy-exchange/1";
constexpr const char* kPrefix = "exchange-";
constexpr const char* kSuffix = ".json";
// Bounds for a file that may be anything: its size, and the brackets in what EncodeExchange writes.
constexpr std::size_t kMostExchangeBytes = 64u << 10;
constexpr std::ptrdiff_t kMostExchangeBrackets = 2 + 2 * static_cast<std::ptrdiff_t>(kExchangeClasses);
constexpr std::size_t kMostFiles = 1000;
constexpr double kMostMicroseconds = 1e9;
constexpr std::uint64_t kMostRanks = 0x7fffffff;  // of MPI
// Another way must be faster than the default by this factor.
constexpr double kWorthChangingTo = 1.05;
// The version of an MPI library can be pages of text. This much of it identifies the library.
constexpr std::size_t kMostMpi = 100;

// Only printable ASCII, so the text is the same in JSON, and may be shown.
std::string Plain(const std::string& mpi) {
  std::string plain = mpi.substr(0, kMostMpi);
  std::ranges::replace_if(plain, [](char c) { return c < ' ' || c > '~'; }, ' ');
  return plain;
}

std::string NameOf(const ExchangePlace& place) {
  const std::string text = fmt::format("{}\n{}\n{} {} {}", MachineKey(), Plain(place.mpi), place.ranks, place.nodes, place.most_on_node);
  const ByteSpan bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return kPrefix + HashBytes(HashTag::kInfo, 0, bytes).Hex().substr(0, 16) + kSuffix;
}

// A longer file is cut, and then is no JSON.
std::optional<ExchangeTuning> Load(FileSystem& fs, const std::string& path) {
  auto file = fs.Open(path, OpenMode::kRead);
  if (!file.ok()) return std::nullopt;
  std::string text(kMostExchangeBytes, '\0');
  const auto got = (*file)->ReadAt(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  if (!got.ok()) return std::nullopt;
  return DecodeExchange(std::string_view(text).substr(0, *got));
}

/// What this process has measured or read, by path of the file.
struct Memory {
  std::mutex mutex;
  std::map<std::string, KnownExchange> known;
};
Memory& MemoryOfProcess() {
  static auto& memory = *new Memory;  // never destroyed: commits may go on while the process ends
  return memory;
}

}  // namespace

std::uint64_t ExchangeStep::bytes() const {
  const std::uint64_t octave = kExchangeBytes.front() << (size / 4);
  // From a quarter of the way to the next power of two to the next quarter; half of that is the middle.
  return octave + (2 * (size % 4) + 1) * octave / 8;
}

// The result is uneven if one rank gets more than twice its share.
ExchangeStep ExchangeStepOf(std::span<const std::uint64_t> counts) {
  const std::uint64_t words = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const std::uint64_t longest = counts.empty() ? 0 : *std::ranges::max_element(counts);
  ExchangeStep out;
  out.shape = counts.size() > 2 && longest > 2 * (words / counts.size() + 1) ? ExchangeShape::kFew : ExchangeShape::kEven;
  constexpr std::uint64_t kLeast = kExchangeBytes.front() / sizeof(std::uint64_t);
  constexpr std::uint64_t kMost = kExchangeBytes.back() / sizeof(std::uint64_t);
  const std::uint64_t bounded = std::clamp(words, kLeast, kMost);
  const auto octave = static_cast<std::size_t>(std::bit_width(bounded) - std::bit_width(kLeast));
  const std::uint64_t quarters = bounded / ((kLeast << octave) / 4);  // 4 to 7
  out.size = 4 * octave + static_cast<std::size_t>(quarters - 4);
  return out;
}

const char* ExchangeShapeName(ExchangeShape shape) {
  return shape == ExchangeShape::kEven ? "even" : "few";
}

bool ExchangeTimes::Set(ExchangeClass which, const Ways& microseconds) {
  // False for NaN, too.
  const auto fits = [](double time) { return time >= 0.1 && time <= kMostMicroseconds; };
  if (which.index() >= kExchangeClasses || !std::ranges::all_of(microseconds, fits)) return false;
  std::ranges::transform(microseconds, times_[which.index()].begin(), [](double time) { return std::round(time * 10) / 10; });
  return true;
}

bool ExchangeTimes::complete() const {
  return std::ranges::all_of(times_, [](const Ways& ways) { return ways[0] > 0; });
}

bool ExchangeTimes::empty() const {
  return std::ranges::none_of(times_, [](const Ways& ways) { return ways[0] > 0; });
}

ExchangeWay ExchangeTimes::Pick(ExchangeShape shape, std::uint64_t bytes) const {
  std::optional<ExchangeClass> below, above;
  for (std::size_t size = 0; size < kExchangeBytes.size(); ++size) {
    const ExchangeClass which{shape, size};
    if (!measured(which)) continue;
    if (kExchangeBytes[size] <= bytes || size == 0) {
      below = which;
    } else if (!above) {
      above = which;
    }
  }
  if (!below) return kMeasuredWays[0];
  Ways times = microseconds(*below);
  if (above && bytes > kExchangeBytes[below->size]) {
    const auto least = static_cast<double>(kExchangeBytes[below->size]), most = static_cast<double>(kExchangeBytes[above->size]);
    const double share = (static_cast<double>(bytes) - least) / (most - least);
    for (std::size_t w = 0; w < times.size(); ++w) times[w] += share * (microseconds(*above)[w] - times[w]);
  }
  const auto best = std::ranges::min_element(times);
  const bool better = times[0] > kWorthChangingTo * *best;
  return kMeasuredWays[better ? static_cast<std::size_t>(best - times.begin()) : 0];
}

std::string EncodeExchange(const ExchangePlace& place, const ExchangeTimes& times) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < kExchangeClasses; ++i) {
    const ExchangeClass which = ExchangeClass::At(i);
    if (!times.measured(which)) continue;
    nlohmann::ordered_json ways;
    for (std::size_t w = 0; w < kMeasuredWays.size(); ++w) ways[ExchangeWayName(kMeasuredWays[w])] = times.microseconds(which)[w];
    classes.push_back({{"shape", ExchangeShapeName(which.shape)},
                       {"bytes", kExchangeBytes[which.size]},
                       {"microseconds", std::move(ways)},
                       {"picked", ExchangeWayName(times.Pick(which))}});
  }
  const nlohmann::ordered_json document = {{"schema", kExchangeSchema},        {"machine", MachineKey()}, {"mpi", Plain(place.mpi)},
                                           {"ranks", place.ranks},     {"nodes", place.nodes},    {"most_on_node", place.most_on_node},
                                           {"classes", std::move(classes)}};
  return document.dump(2) + "\n";
}

// Takes place and times, wherever they are, and compares all else with the text written for them. at() and get() throw if the
// structure differs.
std::optional<ExchangeTuning> DecodeExchange(std::string_view text) {
  // The JSON parser takes time quadratic in the depth of a document that it rejects.
  if (std::ranges::count_if(text, [](char c) { return c == '[' || c == '{'; }) > kMostExchangeBrackets) return std::nullopt;
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  ExchangeTuning out;
  const Status read = NoThrow([&] {
    out.place = {document.at("mpi").get<std::string>(), document.at("ranks").get<std::uint64_t>(),
                 document.at("nodes").get<std::uint64_t>(), document.at("most_on_node").get<std::uint64_t>()};
    for (const auto& one : document.at("classes")) {
      const auto bytes = one.at("bytes").get<std::uint64_t>();
      const auto size = static_cast<std::size_t>(std::ranges::find(kExchangeBytes, bytes) - kExchangeBytes.begin());
      const bool few = one.at("shape").get<std::string>() == ExchangeShapeName(ExchangeShape::kFew);
      ExchangeTimes::Ways ways{};
      for (std::size_t w = 0; w < ways.size(); ++w) ways[w] = one.at("microseconds").at(ExchangeWayName(kMeasuredWays[w])).get<double>();
      // If it refuses them, the comparison below fails.
      (void)out.times.Set({few ? ExchangeShape::kFew : ExchangeShape::kEven, size}, ways);
    }
    return Status::Ok();
  });
  // The comparison takes a negative number for a large one.
  const ExchangePlace& place = out.place;
  if (place.ranks > kMostRanks || place.nodes > place.ranks || place.most_on_node > place.ranks) return std::nullopt;
  bool same = false;
  // EncodeExchange throws for text that is not UTF-8; there is none in what parse() accepted.
  if (read.ok()) (void)NoThrow([&] { same = document == nlohmann::json::parse(EncodeExchange(out.place, out.times)); });
  if (!same) return std::nullopt;
  return out;
}

std::string ExchangeCachePath(const ExchangePlace& place) {
  const std::string beside = TuningCachePath();
  return beside.empty() ? "" : JoinPath(DirectoryOf(beside), NameOf(place));
}

// The name of a file follows from its content, so a copy under another name does not count.
std::vector<ExchangeTuning> ListExchange(FileSystem& fs, const std::string& directory) {
  std::vector<ExchangeTuning> out;
  const auto names = fs.List(directory);
  if (!names.ok()) return out;
  std::size_t files = 0;
  for (const std::string& name : *names) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || ++files > kMostFiles) continue;
    auto one = Load(fs, JoinPath(directory, name));
    if (one && NameOf(one->place) == name) out.push_back(std::move(*one));
  }
  std::ranges::sort(out, {}, [](const ExchangeTuning& one) {
    return std::tuple(one.place.ranks, one.place.nodes, one.place.most_on_node, one.place.mpi);
  });
  return out;
}

// With sudo, the cache may lie in another user's home, so it is reached through the guarded file system
// (docs/design/hooks.md §10).
KnownExchange RecallExchange(const ExchangePlace& place) noexcept {
  KnownExchange out;
  (void)NoThrow([&] {
    Memory& memory = MemoryOfProcess();
    const std::lock_guard lock(memory.mutex);
    const std::string key = NameOf(place);
    if (const auto found = memory.known.find(key); found != memory.known.end()) {
      out = found->second;
      return Status::Ok();
    }
    if (const std::string path = ExchangeCachePath(place); !path.empty()) {
      const auto fs = GuardedFileSystem({DirectoryOf(DirectoryOf(path))});
      if (const auto kept = Load(*fs, path); kept && NameOf(kept->place) == key) out.times = kept->times;
    }
    out.done = out.times.complete();
    memory.known[key] = out;
    return Status::Ok();
  });
  return out;
}

void KeepExchange(const ExchangePlace& place, const ExchangeTimes& times) noexcept {
  (void)NoThrow([&] {
    Memory& memory = MemoryOfProcess();
    const std::lock_guard lock(memory.mutex);
    // A commit that was too short for any measurement leaves it to a longer one.
    memory.known[NameOf(place)] = {times, !times.empty()};
    const std::string path = ExchangeCachePath(place);
    if (times.empty() || path.empty()) return Status::Ok();
    const auto fs = GuardedFileSystem({DirectoryOf(DirectoryOf(path))});
    LZY_RETURN_IF_ERROR(fs->MakeDirectories(DirectoryOf(path)));
    return ReplaceFile(*fs, path, EncodeExchange(place, times), 0600);
  });
}

}  // namespace lzy
