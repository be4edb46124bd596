// lzy: one name for all tools. "lzy verify PATH" becomes lzy-verify by exec, so arguments, exit codes and signals are those
// of the tool, also under mpiexec. It knows the tools from tool_list.h, which the build makes from their descriptions
// (Arguments::Describe).
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "base/printable.h"
#include "common/streams.h"
#include "tool_list.h"

namespace {

// The same as for all tools: docs/reference/tools.md "Exit codes".
constexpr int kExitUsage = 3;
constexpr int kExitInternal = 7;

int Fail(int exit_code, const std::string& message) {
  lzy::Put(stderr, fmt::format("lzy: {}\n", lzy::Printable(message)));
  return exit_code;
}

std::string Help() {
  std::string out =
      "lzy protects the files of MPI programs with parity and hashes, finds damage, and repairs it.\n"
      "Usage: lzy TOOL [arguments]\n\n";
  for (const ListedTool& tool : kToolList) out += fmt::format("  {:<10}{}\n", tool.name, tool.summary);
  out +=
      "\n\"lzy TOOL\" is the program lzy-TOOL. \"lzy help TOOL\" prints its options.\n"
      "Options: --help, --version.\n";
  return out;
}

/// Becomes the tool. Returns only if it cannot be started.
int Become(const std::string& name, const std::vector<std::string>& arguments) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Fail(kExitInternal, fmt::format("/proc/self/exe: {}", error.message()));
  // The tools lie beside this program, wherever that is.
  const std::string program = self.parent_path() / ("lzy-" + name);
  std::string shown = "lzy-" + name;
  std::vector<std::string> kept = arguments;
  std::vector<char*> words = {shown.data()};
  for (std::string& word : kept) words.push_back(word.data());
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  return Fail(kExitInternal, fmt::format("{}: {}. Install lzy again", program, std::strerror(errno)));
}

int Run(const std::vector<std::string>& words) {
  const std::string first = words.empty() ? "" : words.front();
  if (first == "--version") {
    lzy::Put(stdout, fmt::format("lzy {}\n", LZY_VERSION));
    return 0;
  }
  const bool helps = first == "help" || first == "--help" || first == "-h";
  if (helps && words.size() < 2) {
    lzy::Put(stdout, Help());
    return 0;
  }
  const std::string name = helps ? words[1] : first;
  if (name.empty()) return Fail(kExitUsage, "no TOOL given (see lzy --help)");
  std::vector<std::string> names;
  for (const ListedTool& tool : kToolList) {
    names.emplace_back(tool.name);
    if (name != tool.name) continue;
    return Become(name, helps ? std::vector<std::string>{"--help"} : std::vector<std::string>(words.begin() + 1, words.end()));
  }
  const std::string nearest = lzy::Nearest(name, names);
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
  return Fail(kExitUsage, fmt::format("{}: there is no such tool{} (see lzy --help)", name, meant));
}

}  // namespace

int main(int argc, char** argv) {
  lzy::KeepStandardDescriptors();
  try {
    return lzy::EndStreams("lzy", Run(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const std::exception& error) {
    return Fail(kExitInternal, error.what());
  }
}
