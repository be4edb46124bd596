#include "base/node.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace lzy {

std::string RunningKernel() {
  // A random number drawn at boot (random(4)). Where there is no /proc the host's name has to do.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id) return id;
  char name[65] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

namespace {

// Lines of /proc/PID/fdinfo/FD: "lock:	1: OFDLCK ADVISORY  WRITE -1 00:1b:568564 0 EOF", the inode after the device.
bool HasLock(const std::filesystem::path& fdinfo, const std::string& inode) {
  std::ifstream lines(fdinfo);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("lock:") && line.find("OFDLCK") != std::string::npos && line.find(inode) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string LockHolderHere(std::uint64_t inode) {
  namespace fs = std::filesystem;
  const std::string wanted = fmt::format(":{} ", inode);
  std::error_code error;  // processes come and go, and most are other people's
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string id = process.path().filename();
    if (id.find_first_not_of("0123456789") != std::string::npos) continue;
    for (auto fd = fs::directory_iterator(process.path() / "fdinfo", error); !error && fd != fs::directory_iterator();
         fd.increment(error)) {
      if (!HasLock(fd->path(), wanted)) continue;
      std::string name;
      std::ifstream(process.path() / "comm") >> name;
      return fmt::format("{}, process {}", name, id);
    }
  }
  return {};
}

}  // namespace lzy
