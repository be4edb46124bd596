#include "base/node.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include "base/printable.h"

namespace lzy {

// Variables of PMI and PMIx; hydra (MPICH, Intel MPI); Open MPI and its PRRTE; MVAPICH2.
bool IsOfMpiLauncher(std::string_view variable) {
  constexpr std::string_view kPrefixes[] = {"PMI_", "PMIX_", "MPI_LOCAL", "HYDI_", "HYDRA_", "OMPI_", "PRTE_", "MV2_COMM"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

std::string ThisNode() {
  // boot_id is a random number drawn at boot (random(4)), so it is unique to this kernel. Without /proc, use the host name.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (!(file >> id)) {
    char name[65] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
  }
  // The mount name space does not count, because launchers of containers give each rank of a node its own; file system and inode
  // identify the file. The network name space does not matter here.
  for (const char* space : {"uts", "pid", "ipc"}) {
    std::error_code none;  // a kernel without such name spaces has only one: an empty text is the same for all
    id.append(" ").append(std::filesystem::read_symlink(fmt::format("/proc/self/ns/{}", space), none).string());
  }
  return id;
}

namespace {

// True if one open file of a process has the lock. A line of /proc/PID/fdinfo/FD says "lock:      1: OFDLCK ADVISORY  WRITE
// -1 00:1b:568564 0 EOF": the inode follows the device. The device is not compared, because the result is only for
// messages.
bool HasLock(const std::filesystem::path& fdinfo, const std::string& inode) {
  std::ifstream lines(fdinfo);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("lock:") && line.find("OFDLCK") != std::string::npos &&
        line.find(inode) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// When a process started, in seconds since 1970; nullopt if that is not known.
std::optional<std::int64_t> StartOf(const std::filesystem::path& process) {
  std::string stat;
  std::getline(std::ifstream(process / "stat"), stat);
  // proc(5): the start is field 22, in ticks since boot. The name in field 2 may contain anything, including spaces and
  // parentheses, so count from the last ')', which ends field 2.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  constexpr int kSkipped = 22 - 3;
  std::string field;
  for (int i = 0; i < kSkipped; ++i) fields >> field;
  std::int64_t started = 0;
  // Add the time of boot, in seconds since 1970.
  std::ifstream machine("/proc/stat");
  std::string line;
  while (std::getline(machine, line) && !line.starts_with("btime ")) continue;
  const long ticks = sysconf(_SC_CLK_TCK);
  if (!(fields >> started) || line.empty() || ticks <= 0) return std::nullopt;
  const std::int64_t boot = std::strtoll(line.c_str() + std::strlen("btime "), nullptr, 10);
  return boot + started / ticks;
}

// ", running since TIME"; empty if the time is not known.
std::string RunningSince(const std::filesystem::path& process) {
  const auto started = StartOf(process);
  return started ? ", running since " + TimeText(*started * 1'000'000'000) : "";
}

}  // namespace

bool RanAt(std::uint32_t pid, std::int64_t at_ns) {
  constexpr std::int64_t kClocksDiffer = 5;  // seconds
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
  const auto started = StartOf(fmt::format("/proc/{}", pid));
  return !started || *started <= at_ns / 1'000'000'000 + kClocksDiffer;
}

std::string LockHolderHere(std::uint64_t inode) {
  namespace fs = std::filesystem;
  const std::string wanted = fmt::format(":{} ", inode);
  // Processes start and end, and most belong to other users. Skip those that cannot be examined.
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string id = process.path().filename();
    if (id.find_first_not_of("0123456789") != std::string::npos) continue;
    for (auto fd = fs::directory_iterator(process.path() / "fdinfo", error); !error && fd != fs::directory_iterator();
         fd.increment(error)) {
      if (!HasLock(fd->path(), wanted)) continue;
      std::string name;
      std::ifstream(process.path() / "comm") >> name;
      return fmt::format("{}, process {}{}", name, id, RunningSince(process.path()));
    }
  }
  return {};
}

}  // namespace lzy
