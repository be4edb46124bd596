#include "sidecar/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/node.h"

namespace lzy {
namespace {

constexpr std::size_t kNameMax = 255;

// Length of the placeholder at pattern[at] ("%r", "%04r") and its padding width, or length 0.
// Widths of 100 and more are malformed; this bound also keeps the number from overflowing.
struct Placeholder {
  std::size_t length = 0;
  std::size_t width = 0;
};
Placeholder PlaceholderAt(const std::string& pattern, std::size_t at) {
  std::size_t end = at + 1;
  std::size_t width = 0;
  if (end < pattern.size() && pattern[end] == '0') {
    ++end;
    while (end < pattern.size() && pattern[end] >= '0' && pattern[end] <= '9' && width < 100) {
      width = width * 10 + static_cast<std::size_t>(pattern[end++] - '0');
    }
  }
  if (end < pattern.size() && pattern[end] == 'r' && width < 100) return {end + 1 - at, width};
  return {};
}

// Room for the longest prefix, and for the random number in a temporary name (ten digits and a dot).
constexpr std::size_t kLongest = kNameMax - (sizeof(kNewDataPrefix) - 1) - 11;

// The name, or, if there is no room for it behind a prefix, its beginning and its FNV-1a hash.
std::string FittingName(const std::string& name) {
  if (name.size() <= kLongest) return name;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{}.{:016x}", name.substr(0, kLongest - 17), hash);
}

}  // namespace

Result<std::string> SidecarPath(const std::string& data_path) {
  const std::string name = BaseNameOf(data_path);
  if (name.empty() || name == "." || name == "..") {
    return {Code::kInvalidArgument, fmt::format("'{}' does not name a file", data_path)};
  }
  if (name.size() > kLongest) {
    return {Code::kInvalidArgument,
            fmt::format("{}: the name has {} bytes; at most {} leave room for the sidecar's prefix", data_path,
                        name.size(), kLongest)};
  }
  return JoinPath(DirectoryOf(data_path), kSidecarPrefix + name);
}

std::string NewSidecarPath(const std::string& data_path) {
  return JoinPath(DirectoryOf(data_path), kNewSidecarPrefix + BaseNameOf(data_path));
}

std::string NewDataPath(const std::string& data_path) {
  return JoinPath(DirectoryOf(data_path), kNewDataPrefix + BaseNameOf(data_path));
}

std::string NewCopyPath(const std::string& data_path) {
  return JoinPath(DirectoryOf(data_path), kCopyPrefix + FittingName(BaseNameOf(data_path)));
}

std::string CopyJournalPath(const std::string& data_path) {
  return JoinPath(DirectoryOf(data_path), kJournalPrefix + FittingName(BaseNameOf(data_path)));
}

// A temporary name with a random number that no other process draws.
std::string CopySidecarPath(const std::string& data_path) {
  return JoinPath(DirectoryOf(data_path), fmt::format("{}0.{}", kTemporaryPrefix, BaseNameOf(data_path)));
}

std::string IndexPath(const std::string& data_path) {
  return JoinPath(DirectoryOf(data_path), kIndexPrefix + BaseNameOf(data_path));
}

std::optional<std::string> DataPathOfTemporary(const std::string& path) {
  const std::string name = BaseNameOf(path);
  const std::size_t prefix = sizeof(kTemporaryPrefix) - 1, dot = name.find('.', prefix);
  if (!name.starts_with(kTemporaryPrefix) || dot == std::string::npos) return std::nullopt;
  return JoinPath(DirectoryOf(path), name.substr(dot + 1));
}

std::string TemporarySidecarPath(const std::string& sidecar_path) {
  const std::string name = BaseNameOf(sidecar_path).substr(sizeof(kSidecarPrefix) - 1);
  // A random number, not the process's: processes on other nodes or in other containers may have the same number.
  // 0 is for copies.
  const std::uint32_t number = std::max(1u, DrawRandom<std::uint32_t>());
  return JoinPath(DirectoryOf(sidecar_path), fmt::format("{}{}.{}", kTemporaryPrefix, number, name));
}

std::string PartName(const std::string& data_path, std::uint64_t id) {
  return fmt::format("{}{:016x}.{}", kPartPrefix, id, BaseNameOf(data_path)).substr(0, kNameMax);
}

std::optional<std::string> DataPathOf(const std::string& sidecar_path) {
  const std::string name = BaseNameOf(sidecar_path);
  const std::size_t prefix = sizeof(kSidecarPrefix) - 1;
  if (name.size() <= prefix || name.compare(0, prefix, kSidecarPrefix) != 0) return std::nullopt;
  return JoinPath(DirectoryOf(sidecar_path), name.substr(prefix));
}

bool IsLzyName(const std::string& base_name) {
  constexpr const char* kPrefixes[] = {kSidecarPrefix, kNewSidecarPrefix, kNewDataPrefix, kCopyPrefix,
                                       kJournalPrefix, kIndexPrefix,      kTemporaryPrefix, kPartPrefix};
  return std::ranges::any_of(kPrefixes, [&](const char* prefix) { return base_name.starts_with(prefix); });
}

// No error here: callers use this to find out whether PATH is a pattern at all.
bool HasRankPlaceholder(const std::string& pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') continue;
    if (PlaceholderAt(pattern, i).length > 0) return true;
    ++i;  // %% or an error that CheckPattern reports
  }
  return false;
}

Status CheckPattern(const std::string& pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') continue;
    if (Placeholder p = PlaceholderAt(pattern, i); p.length > 0) {
      i += p.length - 1;
    } else if (i + 1 < pattern.size() && pattern[i + 1] == '%') {
      ++i;
    } else {
      return {Code::kInvalidArgument,
              fmt::format("pattern '{}': '%' at character {} is none of %r, %0<width>r, %%", pattern, i + 1)};
    }
  }
  return Status::Ok();
}

// A malformed pattern expands to something, too; CheckPattern comes before.
std::string ExpandPattern(const std::string& pattern, std::uint32_t rank) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
    } else if (Placeholder p = PlaceholderAt(pattern, i); p.length > 0) {
      out += fmt::format("{:0{}d}", rank, p.width);
      i += p.length - 1;
    } else {
      out += '%';
      if (i + 1 < pattern.size() && pattern[i + 1] == '%') ++i;
    }
  }
  return out;
}

std::optional<std::uint32_t> MatchPattern(const std::string& pattern, const std::string& path) {
  // Text up to the first placeholder must be equal. The placeholder gives candidates for the rank. Expanding the whole
  // pattern decides, so that widths and further placeholders are exact.
  std::size_t i = 0, j = 0;
  while (i < pattern.size() && j < path.size()) {
    if (pattern[i] == '%' && PlaceholderAt(pattern, i).length > 0) {
      std::uint64_t rank = 0;
      std::size_t digits = 0;
      std::optional<std::uint32_t> found;
      // The text behind the placeholder may begin with digits, too. So every prefix of the digits is tried; the longest
      // one that fits wins.
      while (j + digits < path.size() && path[j + digits] >= '0' && path[j + digits] <= '9') {
        rank = rank * 10 + static_cast<std::uint64_t>(path[j + digits++] - '0');
        if (rank > 0xffffffffu) break;
        if (ExpandPattern(pattern, static_cast<std::uint32_t>(rank)) == path) {
          found = static_cast<std::uint32_t>(rank);
        }
      }
      return found;
    }
    if (pattern[i] == '%' && i + 1 < pattern.size() && pattern[i + 1] == '%') ++i;
    if (pattern[i++] != path[j++]) return std::nullopt;
  }
  return std::nullopt;
}

// `start` follows the last slash before the first placeholder. "%%" is skipped as a pair, or its second half could be
// taken for the beginning of a placeholder.
std::string PatternTail(const std::string& pattern) {
  std::size_t start = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '/') start = i + 1;
    if (pattern[i] == '%' && PlaceholderAt(pattern, i).length > 0) return pattern.substr(start);
    if (pattern[i] == '%') ++i;
  }
  return BaseNameOf(pattern);
}

}  // namespace lzy
