#include "request/options.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/file.h"
#include "base/nearest.h"
#include "request/opened_record.h"
#include "sidecar/names.h"

namespace lzy {
namespace {

constexpr std::string_view kEnvironmentPrefix = "LZY_";
constexpr std::uint64_t kLeastMemory = 64u << 10;
constexpr std::uint32_t kMostThreads = 65535;
/// Units of sizes: powers of 1024, ascending.
constexpr std::string_view kLetters = "KMGT";

/// Variables that are lzy's own without being options: the switch that makes the interposition layer inert, what
/// --on-damage sets for its command, which may run a tool of lzy, what lzy-run sets for the layer, and a switch for
/// measurements (base/shared_pages.h).
constexpr std::array<std::string_view, 8> kOwnVariables = {"LZY_DISABLE",         "LZY_EVENT_TOOL",     "LZY_EVENT_HOST",
                                                           "LZY_EVENT_EXIT_CODE", "LZY_EVENT_DATASETS", "LZY_EVENT_SUMMARY",
                                                           kOpenedVariable,       "LZY_PARITY_WRITES"};

/// How an option is read from text (false: not accepted), and the reverse: a text that makes this value.
struct Access {
  bool (*set)(Options&, const std::string&);
  std::string (*text)(const Options&);
};

struct Row {
  OptionSpec spec;
  Access access;
};

// Digits alone: no sign, no space. More digits than a value of 32 bits has are refused, zeros included.
bool ParseNumber(const std::string& text, std::uint64_t least, std::uint64_t most, std::uint32_t& to) {
  constexpr std::size_t kMostDigits = 10;
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.size() > kMostDigits || error != std::errc() || at != end || value < least || value > most) return false;
  to = static_cast<std::uint32_t>(value);
  return true;
}

bool ParseSwitch(const std::string& text, bool& to) {
  constexpr std::array<std::string_view, 4> kYes = {"on", "1", "true", "yes"}, kNo = {"off", "0", "false", "no"};
  const bool yes = std::ranges::count(kYes, text) != 0;
  if (!yes && std::ranges::count(kNo, text) == 0) return false;
  to = yes;
  return true;
}

// Sizes of blocks and units: docs/format.md §4 knows powers of two only.
template <class T>
bool ParsePowerOfTwo(const std::string& text, std::uint64_t least, std::uint64_t most, T& to) {
  const auto size = ParseSize(text);
  if (!size || *size < least || *size > most || !std::has_single_bit(*size)) return false;
  to = static_cast<T>(*size);
  return true;
}

/// Splits text at colons; empty text is an empty list, empty parts are refused. As in PATH, a name with a colon cannot be
/// written.
bool ParseList(const std::string& text, std::vector<std::string>& to) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    if (end == at) return false;
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  to = std::move(parts);
  return true;
}

std::string NumberText(std::uint64_t value) {
  return fmt::format("{}", value);
}
std::string ListText(const std::vector<std::string>& list) {
  return fmt::format("{}", fmt::join(list, ":"));
}
/// In the largest unit that has no remainder.
std::string SizeText(std::uint64_t bytes) {
  std::size_t power = 0;
  while (power < 4 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? NumberText(bytes) : fmt::format("{}{}", bytes, kLetters[power - 1]);
}

/// A secret that others can read or write is not secret. The copy of the file is wiped; the key wipes its own memory
/// (LeafKey). The file is examined through the descriptor, so it cannot be exchanged between the check and the read.
bool ReadKey(const std::string& path, std::shared_ptr<const LeafKey>& to) {
  constexpr std::uint32_t kOthers = 0007;
  const auto file = PosixFileSystem().Open(path, OpenMode::kRead);
  const auto stat = file.ok() ? (*file)->Stat() : Result<FileStat>(file.status());
  if (!stat.ok() || (stat->mode & kOthers) != 0 || stat->size > LeafKey::kMostSecret) return false;
  std::vector<std::uint8_t> secret(stat->size);
  const auto got = (*file)->ReadAt(0, secret);
  auto key = LeafKey::Make(secret);
  const bool whole = got.ok() && *got == secret.size();
  LeafKey::Wipe(secret);
  if (!whole || !key.ok()) return false;
  to = std::move(*key);
  return true;
}

const std::string kAutomatic = "auto";
const std::string kServers = "servers";
/// By the numbers of Options::Posix.
constexpr std::array<std::string_view, 3> kPosixTexts = {"auto", "on", "off"};
constexpr std::size_t kMostDomain = 255;
constexpr std::array<const char*, 4> kLogLevels = {"error", "warn", "info", "debug"};

// Accesses that several options share, by the field of Options that they are about.
template <bool Options::* kField>
constexpr Access kSwitch = {[](Options& o, const std::string& v) { return ParseSwitch(v, o.*kField); },
                            [](const Options& o) { return std::string(o.*kField ? "on" : "off"); }};
template <std::uint32_t Options::* kField, std::uint64_t kLeast, std::uint64_t kMost>
constexpr Access kNumber = {[](Options& o, const std::string& v) { return ParseNumber(v, kLeast, kMost, o.*kField); },
                            [](const Options& o) { return NumberText(o.*kField); }};
template <auto kField, std::uint64_t kMost>
constexpr Access kBlocks = {[](Options& o, const std::string& v) { return ParsePowerOfTwo(v, kMinBlockSize, kMost, o.*kField); },
                            [](const Options& o) { return SizeText(o.*kField); }};
template <std::vector<std::string> Options::* kField>
constexpr Access kList = {[](Options& o, const std::string& v) { return ParseList(v, o.*kField); },
                          [](const Options& o) { return ListText(o.*kField); }};
template <std::string Options::* kField, std::size_t kMostBytes>
constexpr Access kText = {[](Options& o, const std::string& v) {
                            if (v.size() <= kMostBytes) o.*kField = v;
                            return v.size() <= kMostBytes;
                          },
                          [](const Options& o) { return o.*kField; }};

const Row kTable[] = {
    {{"parity", "M", "devices of a group that may be lost (default 1)", "a number from 0 to 254"},
     kNumber<&Options::parity, 0, kMaxGroup - 1>},
    {{"group", "N", "most devices in a group (default 8)", "a number from 2 to 255 (1 only with parity 0)"},
     kNumber<&Options::group, 1, kMaxGroup>},
    {{"block-size", "BYTES", "unit of hashing, re-reading and repair (default auto: 64K, or 4K in files of up to 64K)",
      "auto, or a power of two from 512 to 16M"},
     {[](Options& o, const std::string& v) {
        if (v != kAutomatic) return kBlocks<&Options::block_size, kMaxBlockSize>.set(o, v);
        o.block_size = kAutomaticBlockSize;
        return true;
      },
      [](const Options& o) { return o.block_size == kAutomaticBlockSize ? kAutomatic : SizeText(o.block_size); }}},
    {{"stripe", "BYTES|servers", "bytes on one device before the next (default 1M); servers: as the file system tells its stripes",
      "a power-of-two multiple of block-size, at most 1G, or servers", "servers"},
     {[](Options& o, const std::string& v) {
        if (v != kServers && !kBlocks<&Options::stripe, kMaxUnit>.set(o, v)) return false;
        o.stripe_servers = v == kServers;
        if (o.stripe_servers) o.stripe = Options().stripe;
        return true;
      },
      [](const Options& o) { return o.stripe_servers ? kServers : SizeText(o.stripe); }}},
    {{"set", "PATTERNS", "patterns of file sets (name.%r), ':'-separated",
      "patterns separated by ':', each with %r or %0<width>r for the rank"},
     kList<&Options::set>},
    {{"commit", "WHEN", "when sync and close return: wait until the file is protected, or commit in the background (default wait)",
      "wait or background", "wait background"},
     {[](Options& o, const std::string& v) {
        if (v != "wait" && v != "background") return false;
        o.background = v == "background";
        return true;
      },
      [](const Options& o) { return std::string(o.background ? "background" : "wait"); }}},
    {{"posix", "WHICH",
      "files that are written without MPI-IO (POSIX, C, C++, Fortran): protect those that match set (auto), set or include (on), or none "
      "(off; default auto)",
      "auto, on or off", "auto on off"},
     {[](Options& o, const std::string& v) {
        const auto at = std::ranges::find(kPosixTexts, v);
        if (at == kPosixTexts.end()) return false;
        o.posix = static_cast<Options::Posix>(at - kPosixTexts.begin());
        return true;
      },
      [](const Options& o) { return std::string(kPosixTexts.at(static_cast<std::size_t>(o.posix))); }}},
    {{"drain", "FROM=TO", "after each commit, copy members of FROM (local/%r/state) to TO (pfs/state.%r) in the background",
      "pairs FROM=TO of patterns, separated by ':', each with %r or %0<width>r for the rank"},
     kList<&Options::drain>},
    {{"include", "GLOBS", "protect only files that match one of these, ':'-separated", "globs separated by ':'"},
     kList<&Options::include>},
    {{"exclude", "GLOBS", "do not protect files that match one of these, ':'-separated", "globs separated by ':'"},
     kList<&Options::exclude>},
    {{"device-dirs", "DIRS", "directories for the parity of shared files, one per device, ':'-separated",
      "directories separated by ':'"},
     kList<&Options::device_dirs>},
    {{"on-error", "WHAT", "what to do when redundancy cannot be made (default warn)", "warn or fail", "warn fail"},
     {[](Options& o, const std::string& v) {
        if (v != "warn" && v != "fail") return false;
        o.fail_on_error = v == "fail";
        return true;
      },
      [](const Options& o) { return std::string(o.fail_on_error ? "fail" : "warn"); }}},
    {{"memory", "BYTES", "memory that lzy may use in each process (default 256M)",
      "a size of at least 64K (K, M, G, T)"},
     {[](Options& o, const std::string& v) {
        const auto size = ParseSize(v);
        if (!size || *size < kLeastMemory) return false;
        o.memory = *size;
        return true;
      },
      [](const Options& o) { return SizeText(o.memory); }}},
    {{"threads", "N", "threads that lzy may use in each process (default 0: the cores it may use)",
      "a number from 0 to 65535"},
     kNumber<&Options::threads, 0, kMostThreads>},
    {{"capture", "on|off", "compute hashes and parity from write buffers, where that saves reading data back (default on)", "on or off", "on off"},
     kSwitch<&Options::capture>},
    {{"verify-reads", "on|off", "check what MPI-IO reads return, and repair it from parity (default off)", "on or off", "on off"},
     kSwitch<&Options::verify_reads>},
    {{"verify-writes", "on|off", "after each commit, read from the device and compare (default off)", "on or off", "on off"},
     kSwitch<&Options::verify_writes>},
    {{"domain", "NAME", "failure domain of this process, such as its rack (default: the name of the node)",
      "a name of at most 255 bytes"},
     kText<&Options::domain, kMostDomain>},
    {{"topology", "SHAPE", "how data is broadcast between processes (default auto: the cheapest way)",
      "auto, bcast, pipelined, daisy, hierarchical or hypercube; or auto:LATENCY:GAP:BANDWIDTH with what messages cost "
      "(microseconds, microseconds, MB/s)", "auto bcast pipelined daisy hierarchical hypercube"},
     {[](Options& o, const std::string& v) {
        const auto choice = ParseTopology(v);
        if (choice) o.topology = *choice;
        return choice.has_value();
      },
      [](const Options& o) { return TopologyText(o.topology); }}},
    {{"exchange", "WAY", "how parity is added up among processes (default auto: shared memory on a node, else the fastest known way)",
      "auto, mpi, pairwise, ring or shared", "auto mpi pairwise ring shared"},
     {[](Options& o, const std::string& v) {
        const auto way = ParseExchangeWay(v);
        if (way) o.exchange = *way;
        return way.has_value();
      },
      [](const Options& o) { return std::string(ExchangeWayName(o.exchange)); }}},
    {{"set-sync", "on|off", "MPI_File_sync of the members of a set commits, too (default off)", "on or off", "on off"},
     kSwitch<&Options::set_sync>},
    {{"timeout", "SECONDS", "how long to wait for missing ranks of a set before naming them (default 60)",
      "a number of seconds, at least 1"},
     kNumber<&Options::timeout_seconds, 1, std::numeric_limits<std::int32_t>::max()>},
    {{"report", "FILE", "append one line of JSON per commit to FILE", "the name of a file"},
     kText<&Options::report, std::string::npos>},
    {{"catalog", "FILE", "where results are kept for lzy-status and lzy-scrub (default ~/.local/state/lzy/catalog.sqlite)",
      "the name of a file, or off"},
     kText<&Options::catalog, std::string::npos>},
    {{"key", "FILE", "seal datasets with the secret in FILE, and trust only datasets sealed with it",
      "a file of 16 bytes to 64K that you may read, and others may not (chmod o-rwx)"},
     {[](Options& o, const std::string& v) {
        if (!ReadKey(v, o.key)) return false;  // refuses an empty name, too: the variable of a script may be unset
        o.key_file = v;
        return true;
      },
      [](const Options& o) { return o.key_file; }}},
    {{"heal", "", "when the program starts, rebuild missing members of the declared file sets", "on or off", "on off"},
     kSwitch<&Options::heal>},
    {{"summary", "", "at MPI_Finalize, print one line per dataset: what was protected, and what it cost", "on or off", "on off"},
     kSwitch<&Options::summary>},
    {{"log", "LEVEL", "verbosity of messages on stderr (default warn)", "error, warn, info or debug", "error warn info debug"},
     {[](Options& o, const std::string& v) {
        const auto at = std::find(kLogLevels.begin(), kLogLevels.end(), v);
        if (at == kLogLevels.end()) return false;
        o.log = static_cast<Options::Log>(at - kLogLevels.begin());
        return true;
      },
      [](const Options& o) { return std::string(kLogLevels[static_cast<std::size_t>(o.log)]); }}},
};

const Row* Find(const std::string& name) {
  const auto at = std::ranges::find_if(kTable, [&](const Row& row) { return name == row.spec.name; });
  return at == std::end(kTable) ? nullptr : at;
}

std::string Spelling(const std::string& name, std::string_view prefix, int (*convert)(int)) {
  std::string out(prefix);
  for (const unsigned char c : name) out += c == '-' ? '_' : static_cast<char>(convert(c));
  return out;
}

/// "; did you mean block-size? There are parity, group, ..." for `name`, which is spelled like these.
std::string WhatThereIs(const std::string& name, std::string (*spelling)(const std::string&)) {
  std::vector<std::string> names, all;
  for (const Row& row : kTable) {
    names.push_back(row.spec.name);
    all.push_back(spelling(row.spec.name));
  }
  // Compared without what all of a spelling begin with.
  std::string plain;
  for (const unsigned char c : name.starts_with(kEnvironmentPrefix) ? name.substr(kEnvironmentPrefix.size()) : name) {
    plain += c == '_' ? '-' : static_cast<char>(std::tolower(c));
  }
  const std::string nearest = Nearest(plain, names);
  const std::string meant = nearest.empty() ? "" : "; did you mean " + spelling(nearest) + "?";
  return fmt::format("{} {}", meant.empty() ? "; there are" : meant + " There are", fmt::join(all, ", "));
}

// '*' in TO means the same text as in FROM.
Status CheckDrains(const std::vector<std::string>& items) {
  for (const std::string& item : items) {
    const auto refuse = [&](const std::string& why) -> Status {
      return {Code::kInvalidArgument, fmt::format("drain: '{}' is not accepted: {}", item, why)};
    };
    if (std::ranges::count(item, '=') != 1) return refuse("a pair FROM=TO of patterns");
    const auto [from, to] = DrainPatterns(item);
    for (const std::string& pattern : {from, to}) {
      LZY_RETURN_IF_ERROR(CheckPattern(pattern).WithContext("drain"));
      if (!HasRankPlaceholder(pattern)) return refuse("both patterns need %r or %0<width>r for the rank");
    }
    if (std::ranges::count(from, '*') < std::ranges::count(to, '*')) return refuse("TO has more '*' than FROM");
  }
  return Status::Ok();
}

Status CheckSetPatterns(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    LZY_RETURN_IF_ERROR(CheckPattern(pattern).WithContext("set"));
    if (!HasRankPlaceholder(pattern)) {
      return {Code::kInvalidArgument,
              fmt::format("set: '{}' is not accepted: a pattern with %r or %0<width>r for the rank", pattern)};
    }
  }
  return Status::Ok();
}

}  // namespace

std::pair<std::string, std::string> DrainPatterns(const std::string& item) {
  const std::size_t middle = std::min(item.find('='), item.size());
  return {item.substr(0, middle), middle < item.size() ? item.substr(middle + 1) : std::string()};
}

std::span<const OptionSpec> OptionSpecs() {
  static const auto specs = [] {
    std::array<OptionSpec, std::size(kTable)> out{};
    std::ranges::transform(kTable, out.begin(), &Row::spec);
    return out;
  }();
  return specs;
}

std::string EnvironmentName(const std::string& name) {
  return Spelling(name, kEnvironmentPrefix, &std::toupper);
}
std::string HintName(const std::string& name) {
  return Spelling(name, "lzy_", &std::tolower);
}

// A setter changes its field only if it accepts the text, so a refused value leaves the options as they were.
Status SetOption(Options& options, const std::string& name, const std::string& value, const std::string& spelled) {
  const std::string shown = spelled.empty() ? "--" + name : spelled;
  const Row* row = Find(name);
  if (row == nullptr) {
    return {Code::kInvalidArgument, fmt::format("{}: there is no such option{}", shown,
                                                WhatThereIs(name, [](const std::string& n) { return n; }))};
  }
  if (!row->access.set(options, value)) {
    return {Code::kInvalidArgument, fmt::format("{}: '{}' is not accepted: {}", shown, value, row->spec.accepts)};
  }
  options.given.insert(name);
  return Status::Ok();
}

std::string OptionText(const Options& options, const std::string& name) {
  const Row* row = Find(name);
  return row == nullptr ? std::string() : row->access.text(options);
}

// Only what one value rules out about another. Whether a geometry fits a file is known when the file is (ChooseUnit).
Status CheckOptions(const Options& options) {
  const auto refuse = [](std::string message) { return Status(Code::kInvalidArgument, std::move(message)); };
  if (options.group < 2 && options.parity > 0) {
    return refuse(fmt::format("group: '{}' is not accepted with parity {}: a number from {} to {}", options.group,
                              options.parity, options.parity + 1, kMaxGroup));
  }
  if (options.parity >= options.group) {
    return refuse(fmt::format("parity: '{0}' is not accepted with group {1}: a number less than group (from 0 to {2})",
                              options.parity, options.group, options.group - 1));
  }
  // A block size above the default stripe needs no stripe option: a unit is never smaller than a block.
  const bool stripe_is_meant = !options.stripe_servers && (options.given.contains("stripe") || options.stripe != Options().stripe);
  const std::uint32_t block = ChooseBlockSize(options.block_size, kSmallBlocksUpTo + 1);
  if (stripe_is_meant && options.stripe < block) {
    return refuse(
        fmt::format("stripe: '{}' is not accepted with block-size {}: a power-of-two multiple of block-size, "
                    "at most 1G",
                    options.stripe, block));
  }
  LZY_RETURN_IF_ERROR(CheckSetPatterns(options.set));
  LZY_RETURN_IF_ERROR(CheckDrains(options.drain));
  if (!options.device_dirs.empty() && options.device_dirs.size() <= options.parity) {
    return refuse(fmt::format("device-dirs: '{}' is not accepted with parity {}: at least {} directories, one for each device",
                              ListText(options.device_dirs), options.parity, options.parity + 1));
  }
  return Status::Ok();
}

// A misspelled variable would silently leave data unprotected, so an unknown LZY_ name is an error.
Status ApplyEnvironment(Options& options, const std::function<const char*(const char*)>& getenv_like) {
  if (!getenv_like) {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view whole(*entry);
      const std::string name(whole.substr(0, whole.find('=')));
      if (!name.starts_with(kEnvironmentPrefix)) continue;
      const bool own = std::ranges::count(kOwnVariables, name) != 0;
      const bool known = std::ranges::any_of(kTable, [&](const Row& row) { return name == EnvironmentName(row.spec.name); });
      if (!own && !known) {
        return {Code::kInvalidArgument,
                fmt::format("{}: lzy knows no such environment variable{}", name, WhatThereIs(name, &EnvironmentName))};
      }
    }
  }
  for (const Row& row : kTable) {
    const std::string name = EnvironmentName(row.spec.name);
    const char* value = getenv_like ? getenv_like(name.c_str()) : std::getenv(name.c_str());
    if (value != nullptr) LZY_RETURN_IF_ERROR(SetOption(options, row.spec.name, value, name));
  }
  return Status::Ok();
}

bool IsSelected(const Options& options, const std::string& path) {
  const std::string name = BaseNameOf(path);
  const auto matches = [&](const std::vector<std::string>& globs) {
    return std::ranges::any_of(globs, [&](const std::string& glob) {
      return fnmatch(glob.c_str(), path.c_str(), 0) == 0 || fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    });
  };
  return !matches(options.exclude) && (options.include.empty() || matches(options.include));
}

// from_chars takes no sign, no space and no locale. A letter without a number is refused, and so is a size of 2^64
// bytes or more.
std::optional<std::uint64_t> ParseSize(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;  // no digit, or too many
  if (at == end) return value;
  const std::size_t power = kLetters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*at))));
  if (power == std::string_view::npos || at + 1 != end) return std::nullopt;
  const std::size_t shift = 10 * (power + 1);
  if (value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

// Rounded for people to one decimal. OptionText has the exact number (SizeText).
std::string FormatSize(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kNames = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t power = 0;
  while (power + 1 < kNames.size() && bytes >> (10 * (power + 1)) != 0) ++power;
  if (power == 0) return bytes == 1 ? "1 byte" : fmt::format("{} bytes", bytes);
  const std::uint64_t unit = std::uint64_t{1} << (10 * power);
  std::string number = fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(unit));
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return fmt::format("{} {}", number, kNames[power]);
}

}  // namespace lzy
