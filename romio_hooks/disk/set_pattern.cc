// Matches patterns of sets with the paths of files that a rank opens. Directories are compared by their real paths, because
// ranks may use different paths to one file.

#include "hooks/disk/set_pattern.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "names/set_names.h"
#include "request/options.h"
#include "sidecar/names.h"

namespace lzy::hooks {
namespace {

/// True if `glob` matches `text`. Appends the text of each '*' to `values`; each is as short as possible.
bool MatchComponent(std::string_view glob, std::string_view text, std::vector<std::string>& values) {
  const std::size_t star = glob.find('*');
  if (star == std::string_view::npos) return glob == text;
  if (text.substr(0, star) != glob.substr(0, star)) return false;
  text.remove_prefix(star);
  const std::size_t depth = values.size();
  for (std::size_t length = 0; length <= text.size(); ++length) {
    values.emplace_back(text.substr(0, length));
    if (MatchComponent(glob.substr(star + 1), text.substr(length), values)) return true;
    values.resize(depth);
  }
  return false;
}

/// `pattern` with its '*'s replaced, in order.
std::string Filled(const std::string& pattern, const std::vector<std::string>& values) {
  std::string out;
  std::size_t next = 0;
  for (char c : pattern) {
    out += c == '*' && next < values.size() ? EscapePercent(values[next++]) : std::string(1, c);
  }
  return out;
}

/// Replaces the directory above the first component with a rank by its real path, as in the paths of members.
std::string WithRealRoot(FileSystem& fs, const std::string& pattern) {
  const std::string tail = PatternTail(pattern);
  const std::string root = pattern.substr(0, pattern.size() - tail.size());
  const auto real = fs.RealPath(ExpandPattern(root, 0));  // removes escapes; `root` has no %r
  return real.ok() ? JoinPath(EscapePercent(*real), tail) : pattern;
}

}  // namespace

// '*' never stands for a slash, so the path must have exactly as many components as the pattern.
std::optional<SetName> MatchSet(FileSystem& fs, const std::string& pattern, const std::string& directory,
                                std::uint32_t rank, const std::string& path) {
  const bool absolute = pattern.starts_with('/');
  const std::vector<std::string> wanted = Components(ExpandPattern(pattern, rank));
  if (wanted.empty() || path.empty()) return std::nullopt;

  // The components before the first '*' are one directory, compared by its real path.
  std::size_t fixed = 0;
  while (fixed + 1 < wanted.size() && wanted[fixed].find('*') == std::string::npos) ++fixed;
  std::string root = absolute ? "/" : directory;
  for (std::size_t i = 0; i < fixed; ++i) root = JoinPath(root, wanted[i]);
  const auto real_root = fs.RealPath(root);
  const auto real_directory = fs.RealPath(DirectoryOf(path));
  if (!real_root.ok() || !real_directory.ok()) return std::nullopt;

  const std::vector<std::string> above = Components(*real_root);
  std::vector<std::string> have = Components(*real_directory);
  have.push_back(BaseNameOf(path));
  if (have.size() != above.size() + wanted.size() - fixed) return std::nullopt;
  if (!std::equal(above.begin(), above.end(), have.begin())) return std::nullopt;
  std::vector<std::string> values;
  for (std::size_t i = fixed; i < wanted.size(); ++i) {
    if (!MatchComponent(wanted[i], have[above.size() + i - fixed], values)) return std::nullopt;
  }
  SetName name;
  // The id keeps the pattern's %r, so it is the same for all members.
  name.id = Filled(pattern, values);
  const std::string whole = absolute ? name.id : JoinPath(EscapePercent(directory), name.id);
  name.pattern = WithRealRoot(fs, whole);
  name.values = std::move(values);
  return name;
}

std::optional<std::string> DrainTarget(FileSystem& fs, const std::vector<std::string>& pairs, const std::string& directory,
                                       std::uint32_t rank, const std::string& path) {
  for (const std::string& pair : pairs) {
    const auto [from, to] = DrainPatterns(pair);
    const auto set = MatchSet(fs, from, directory, rank, path);
    if (!set) continue;
    const std::string target = ExpandPattern(Filled(to, set->values), rank);
    return target.starts_with('/') ? target : JoinPath(directory, target);
  }
  return std::nullopt;
}

}  // namespace lzy::hooks
