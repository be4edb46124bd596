// Paths as text, and the helpers of base/file.h that work with any file system.

#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "fmt/format.h"

namespace lzy {

namespace {

constexpr std::int64_t kNsPerMillisecond = 1'000'000;

std::int64_t ToNs(const timespec& time) {
  return std::int64_t{time.tv_sec} * kNsPerSecond + time.tv_nsec;
}

/// The path without trailing slashes, except for the root.
std::string_view Trimmed(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

// Unique to this object and process.
std::string FileSystem::View() {
  return fmt::format("process {} at {}", getpid(), static_cast<const void*>(this));
}

Result<std::vector<DirectoryEntry>> FileSystem::ListEntries(const std::string& path) {
  LZY_ASSIGN_OR_RETURN(const auto names, List(path));
  std::vector<DirectoryEntry> entries;
  entries.reserve(names.size());
  for (const std::string& name : names) entries.push_back({.name = name});
  return entries;
}

bool IsDirectory(FileSystem& fs, const std::string& path) {
  const auto stat = fs.Stat(path);
  return stat.ok() && stat->type == FileStat::Type::kDirectory;
}

// The slash before the name stays with Trimmed, so that the directory of "/name" is "/" and not "".
std::string DirectoryOf(const std::string& path) {
  std::string_view rest = Trimmed(path);
  auto slash = rest.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(Trimmed(rest.substr(0, slash + 1)));
}

std::string BaseNameOf(const std::string& path) {
  std::string_view rest = Trimmed(path);
  auto slash = rest.rfind('/');
  return std::string(slash == std::string_view::npos ? rest : rest.substr(slash + 1));
}

std::string JoinPath(const std::string& dir, const std::string& name) {
  if (dir.empty() || dir == ".") return name;
  std::string path = dir;
  if (path.back() != '/') path += '/';
  return path + name;
}

std::vector<std::string> Components(const std::string& path) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) out.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// The temporary name contains process and time, so two processes do not write to one file.
Status ReplaceFile(FileSystem& fs, const std::string& path, const std::string& text, std::uint32_t mode) {
  const std::string aside = fmt::format("{}.{}-{}", path, getpid(), CoarseNowNs());
  const Status stored = [&]() -> Status {
    LZY_ASSIGN_OR_RETURN(auto file, fs.Open(aside, OpenMode::kCreateNew, /*follow=*/false, mode));
    LZY_RETURN_IF_ERROR(file->WriteAt(0, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}));
    return fs.Rename(aside, path);
  }();
  if (!stored.ok()) (void)fs.Remove(aside);
  return stored;
}

Status ReadExactly(File& file, std::uint64_t offset, MutableByteSpan to) {
  LZY_ASSIGN_OR_RETURN(std::size_t count, file.ReadAt(offset, to));
  if (count == to.size()) return Status::Ok();
  return Status(Code::kCorrupt, fmt::format("{}: ends early: {} bytes expected at offset {}, {} there", file.path(),
                                            to.size(), offset, count));
}

std::int64_t CoarseNowNs() {
  timespec now{};
  // The clock that the kernel stamps files with. CLOCK_REALTIME is ahead of it by up to a tick.
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return ToNs(now);
}

std::int64_t WallClockNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return ToNs(now);
}

std::int64_t CoarseGranularityNs() {
  timespec resolution{};
  clock_getres(CLOCK_REALTIME_COARSE, &resolution);
  // Callers wait for multiples of this, so it must not be zero.
  return std::max(ToNs(resolution), kNsPerMillisecond);
}

}  // namespace lzy
