#include "names/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "names/peek.h"

namespace lzy {
namespace {

/// Directories of the system, which have no files of users.
bool IsOfTheSystem(const std::string& path) {
  return path == "/proc" || path == "/sys" || path == "/dev";
}

/// The directories without those that lie below others; each once.
std::vector<std::string> Outermost(std::vector<std::string> directories) {
  std::ranges::sort(directories);
  std::vector<std::string> out;
  for (const std::string& one : directories) {
    if (std::ranges::none_of(out, [&](const std::string& above) { return IsBelow(one, above); })) out.push_back(one);
  }
  return out;
}

/// A number that is the same for a file that did not change. For a changed file, it is the same with a chance of 2^-64.
std::uint64_t Fingerprint(const std::string& path, const FileStat& file) {
  return std::hash<std::string>()(fmt::format("{}/{}/{}/{}/{}", file.inode, file.size, file.mtime_ns, file.ctime_ns, path));
}

/// Calls `visit` for the files of TreeLook. Below returns false after more than `most_names` names.
class Walk {
 public:
  using Visit = std::function<void(std::string path, const FileStat&)>;
  Walk(FileSystem& fs, std::uint64_t most_names, std::vector<Status>& troubles, Visit visit)
      : fs_(fs), left_(most_names), troubles_(troubles), visit_(std::move(visit)) {}

  bool Below(const std::string& directory) {
    if (IsOfTheSystem(directory)) return true;
    const auto entries = fs_.ListEntries(directory);
    if (!entries.ok()) {
      if (entries.status().code() != Code::kNotFound) troubles_.push_back(entries.status());
      return true;
    }
    for (const DirectoryEntry& entry : *entries) {
      if (entry.name.starts_with('.')) continue;
      if (left_-- == 0) return false;
      std::string path = JoinPath(directory, entry.name);
      const auto stat = fs_.Stat(path, /*follow=*/false);
      if (!stat.ok()) continue;  // it vanished
      if (stat->type == FileStat::Type::kDirectory && !Below(path)) return false;
      if (stat->type == FileStat::Type::kRegular) visit_(std::move(path), *stat);
    }
    return true;
  }

 private:
  FileSystem& fs_;
  std::uint64_t left_;
  std::vector<Status>& troubles_;
  const Visit visit_;
};

}  // namespace

bool IsBelow(const std::string& path, const std::string& directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || directory.ends_with('/') || path[directory.size()] == '/');
}

TreeLook::TreeLook(FileSystem& fs, const std::vector<std::string>& directories, std::uint64_t most_names)
    : directories_(Outermost(directories)) {
  Walk walk(fs, most_names, troubles_, [&](const std::string& path, const FileStat& file) {
    seen_.push_back(Fingerprint(path, file));
    newest_ns_ = std::max(newest_ns_, file.ctime_ns);
  });
  for (const std::string& directory : directories_) whole_ = whole_ && walk.Below(directory);
  std::ranges::sort(seen_);
}

std::vector<std::string> TreeLook::ChangedSince(FileSystem& fs, std::vector<Status>& troubles) const {
  std::vector<std::string> changed;
  Walk walk(fs, kNoLimit, troubles, [&](std::string path, const FileStat& file) {
    if (!std::ranges::binary_search(seen_, Fingerprint(path, file))) changed.push_back(std::move(path));
  });
  for (const std::string& directory : directories_) (void)walk.Below(directory);
  std::ranges::sort(changed);
  return changed;
}

std::optional<Peek> CommitsSeen::SidecarOf(const std::string& path) {
  const std::string above = DirectoryOf(path);
  Directory& directory = directories_.try_emplace(above, fs_, above).first->second;
  const std::string sidecar = directory.SidecarOf(BaseNameOf(path));
  if (sidecar.empty()) return std::nullopt;
  const auto& peek = directory.PeekAt(sidecar);
  return peek.ok() ? std::optional<Peek>(*peek) : std::nullopt;
}

std::optional<Peek> CommitsSeen::CommitOf(const std::string& path) {
  auto peek = SidecarOf(path);
  const auto file = fs_.Stat(path, /*follow=*/false);
  if (!peek || !peek->committed || !file.ok() || !HasSizeAndTime(*file, peek->stamp)) return std::nullopt;
  return peek;
}

}  // namespace lzy
