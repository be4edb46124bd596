#include "request/deletion_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/file.h"

namespace lzy {
namespace {

constexpr std::uint64_t kMostBytes = 4u << 20;

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) {
    do fd_ = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    while (fd_ < 0 && errno == EINTR);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

std::string OldPath(const std::string& deletions) {
  return deletions + ".old";
}

// Any path is one line.
std::string Escaped(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c == '\\' || c == '\n') out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

std::string Unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 1 < text.size();
    if (escaped) ++i;
    out += escaped && text[i] == 'n' ? '\n' : text[i];
  }
  return out;
}

// Another process may have done it just now, and then there is a new file of this name.
void MakeOld(const std::string& deletions, const struct stat& full) {
  struct stat now {};
  if (stat(deletions.c_str(), &now) != 0 || now.st_ino != full.st_ino || now.st_dev != full.st_dev) return;
  (void)rename(deletions.c_str(), OldPath(deletions).c_str());
}

void ReadInto(const std::string& path, std::uint32_t owner, std::vector<DeletionRecord>& out) {
  const Descriptor file(path, O_RDONLY);
  struct stat about {};
  if (file.get() < 0 || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  if (about.st_uid != owner && about.st_uid != 0) return;
  std::string text(std::min<std::uint64_t>(static_cast<std::uint64_t>(about.st_size), 2 * kMostBytes), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  const std::string_view all(text.data(), done);
  for (std::size_t at = 0, end = 0; (end = all.find('\n', at)) != std::string_view::npos; at = end + 1) {
    const std::string_view line = all.substr(at, end - at);
    DeletionRecord record;
    const auto [rest, failed] = std::from_chars(line.data(), line.data() + line.size(), record.time);
    const auto number = static_cast<std::size_t>(rest - line.data());
    if (failed != std::errc() || line.substr(number, 2) != " /" || record.time < 0) continue;
    record.path = Unescaped(line.substr(number + 1));
    out.push_back(std::move(record));
  }
}

}  // namespace

std::string CatalogPathBelow(const std::string& home) {
  return JoinPath(home, ".local/state/lzy/catalog.sqlite");
}

std::string DefaultCatalogPath(const std::function<const char*(const char*)>& getenv_like) {
  const auto get = [&](const char* name) { return getenv_like ? getenv_like(name) : std::getenv(name); };
  // The XDG specification says to ignore paths that are not absolute.
  const auto absolute = [](const char* path) { return path != nullptr && *path == '/'; };
  if (const char* state = get("XDG_STATE_HOME"); absolute(state)) return JoinPath(state, "lzy/catalog.sqlite");
  if (const char* home = get("HOME"); absolute(home)) return CatalogPathBelow(home);
  return "";
}

std::string DeletionsPath(const std::string& catalog) {
  return catalog + ".deleted";
}

// Opens the file for each record: the program could close a descriptor that stays open, and reuse its number for another
// file.
Status AppendDeletion(const std::string& catalog, const DeletionRecord& record) {
  if (access(catalog.c_str(), F_OK) != 0) return Status::Ok();
  const std::string path = DeletionsPath(catalog);
  const auto error = [&](const char* what) {
    return Status(Code::kIo, fmt::format("{}: {}: {}", path, what, std::generic_category().message(errno)));
  };
  const Descriptor file(path, O_WRONLY | O_APPEND | O_CREAT);
  if (file.get() < 0) return error("open");
  const std::string line = fmt::format("{} {}\n", record.time, Escaped(record.path));
  ssize_t put = -1;
  do put = write(file.get(), line.data(), line.size());
  while (put < 0 && errno == EINTR);
  if (put != static_cast<ssize_t>(line.size())) return error("write");
  struct stat about {};
  if (fstat(file.get(), &about) == 0 && static_cast<std::uint64_t>(about.st_size) > kMostBytes) MakeOld(path, about);
  return Status::Ok();
}

std::vector<DeletionRecord> ReadDeletions(const std::string& catalog, std::uint32_t owner) {
  std::vector<DeletionRecord> out;
  for (const std::string& path : {OldPath(DeletionsPath(catalog)), DeletionsPath(catalog)}) ReadInto(path, owner, out);
  return out;
}

}  // namespace lzy
