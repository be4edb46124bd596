#include "run/ranks.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

namespace lzy {
namespace {

/// The first variable that is set is used. A batch script of Slurm has SLURM_PROCID=0.
constexpr const char* kRanks[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};

const char* RankVariable() {
  for (const char* name : kRanks) {
    if (std::getenv(name) != nullptr) return name;
  }
  return nullptr;
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Parent of a process that has not ended; otherwise 0. Read from /proc/PID/stat, after the name, which may contain any
/// characters.
pid_t ParentOf(const std::filesystem::path& process) {
  const std::string text = ReadAll(process / "stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > text.size() || text[name_end + 2] == 'Z') return 0;
  pid_t parent = 0;
  (void)std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

/// True if the launcher gave the process another value of `variable` than this one. Other processes of a launcher (ssh)
/// have no value.
bool IsOtherRank(const std::filesystem::path& process, const std::string& variable, std::string_view own) {
  const std::string environment = std::string(1, '\0') + ReadAll(process / "environ");
  const std::string mark = std::string(1, '\0') + variable + "=";
  const std::size_t at = environment.find(mark);
  if (at == std::string::npos) return false;
  const std::size_t begin = at + mark.size();
  return std::string_view(environment).substr(begin, environment.find('\0', begin) - begin) != own;
}

void WaitForEnd(pid_t pid) {
#ifdef SYS_pidfd_open
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) {
    pollfd end{fd, POLLIN, 0};
    while (poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
    close(fd);
    return;
  }
  if (errno == ESRCH) return;
#endif
  // Linux before 5.3 has no pidfd_open.
  while (ParentOf("/proc/" + std::to_string(pid)) == getppid()) usleep(100'000);
}

}  // namespace

std::string OwnRank() {
  const char* variable = RankVariable();
  return variable == nullptr ? "0" : std::getenv(variable);
}

void WaitForOtherRanks() {
  const char* variable = RankVariable();
  if (variable == nullptr) return;
  const std::string own = OwnRank();
  std::vector<pid_t> others;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failed != std::errc() || end != name.data() + name.size() || pid == getpid()) continue;
    if (ParentOf(entry.path()) == getppid() && IsOtherRank(entry.path(), variable, own)) others.push_back(pid);
  }
  for (const pid_t pid : others) WaitForEnd(pid);
}

}  // namespace lzy
