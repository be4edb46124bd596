// lzy-run: runs a command with the interposition library preloaded and lzy's options in the environment. Not an MPI
// program.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "common/arguments.h"
#include "request/commit_record.h"

namespace {

using lzy::Code;
using lzy::Result;
using lzy::Status;

constexpr int kExitInternal = 7;
constexpr int kExitCannotExecute = 126;  // as shells have it
constexpr int kExitNoCommand = 127;

constexpr const char* kLibrary = "liblzy_mpiio.so";
/// How the names of programs begin that may be Open MPI's launcher.
constexpr std::string_view kOpenMpiLaunchers[] = {"mpirun", "mpiexec", "orterun", "prterun"};

/// The library that belongs to this program: where a build or an installation has it.
Result<std::string> FindLibrary() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Status(Code::kInternal, fmt::format("/proc/self/exe: {}", error.message()));
  const auto above = self.parent_path().parent_path();
  for (const char* place : {"lib", "lib64"}) {
    const std::string path = above / place / kLibrary;
    if (access(path.c_str(), R_OK) != 0) continue;
    // The dynamic linker splits LD_PRELOAD at both and knows no way to quote them.
    if (path.find_first_of(": ") == std::string::npos) return path;
    return Status(Code::kInternal,
                  fmt::format("'{}' cannot be preloaded: there is a space or a colon in its path", path));
  }
  return Status(Code::kInternal, fmt::format("{} is not in {} nor in {}", kLibrary, (above / "lib").string(),
                                             (above / "lib64").string()));
}

void SetVariable(const std::string& name, const std::string& value) {
  setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
}

void Append(const char* name, const std::string& value, char separator) {
  const char* old = std::getenv(name);
  SetVariable(name, old == nullptr || *old == '\0' ? value : old + (separator + value));
}

/// Whether Open MPI's launcher is to be told what to pass on to other nodes: it passes nothing else, and others do not
/// mind. Not when COMMAND itself does that (-x): Open MPI 4 refuses to be told in both ways. Nor when it is no
/// launcher, but a script, say, that may call one so.
bool TakesList(const std::vector<std::string>& command) {
  const std::string launcher = std::filesystem::path(command.front()).filename();
  const bool known = std::any_of(std::begin(kOpenMpiLaunchers), std::end(kOpenMpiLaunchers),
                                 [&](std::string_view name) { return launcher.starts_with(name); });
  return known && std::none_of(command.begin(), command.end(),
                               [](const std::string& word) { return word == "-x" || word == "--x"; });
}

void TellOpenMpi() {
  std::string names = "LD_PRELOAD";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "LZY_", 4) == 0) names += ";" + std::string(*entry, std::strcspn(*entry, "="));
  }
  Append("OMPI_MCA_mca_base_env_list", names, ';');
}

int Fail(int exit_code, const std::string& message) {
  fmt::print(stderr, "lzy-run: {}\n", lzy::Printable(message));
  return exit_code;
}

int Run(int argc, char** argv) {
  lzy::Arguments arguments("lzy-run",
                           "lzy-run [options] -- COMMAND [arguments]\n\n"
                           "Runs COMMAND with its MPI-IO protected: sets the environment and preload for every rank.\n"
                           "--quiet is --log=error",
                           "nothing itself");
  // Accepted, as by all tools; but what is printed is COMMAND's.
  for (const char* idle : {"--json", "--no-progress"}) arguments.app().get_option(idle)->group("");
  arguments.AddTableOptions({"parity", "group", "block-size", "stripe", "set", "include", "exclude", "device-dirs",
                             "on-error", "capture", "domain", "verify-reads", "verify-writes", "set-sync", "timeout", "report", "heal", "summary"});
  arguments.app().prefix_command();
  const auto outcome = arguments.Parse(argc, argv);
  if (outcome.exit_code == 0) {
    fmt::print("{}", outcome.output);
    return 0;
  }
  if (outcome.exit_code) return Fail(*outcome.exit_code, outcome.error);
  std::vector<std::string> command = arguments.app().remaining();
  const bool separated = !command.empty() && command.front() == "--";
  if (separated) command.erase(command.begin());
  if (command.empty() || command.front().empty()) {
    return Fail(lzy::kExitUsage, "no COMMAND given: lzy-run [options] -- COMMAND [arguments]");
  }
  if (!separated && command.front().starts_with("-")) {
    return Fail(lzy::kExitUsage, arguments.UnknownOption(command.front()));
  }
  const auto options = arguments.MakeOptions();
  if (!options.ok()) return Fail(lzy::kExitUsage, options.status().message());
  if (options->heal && options->set.empty()) {
    return Fail(lzy::kExitUsage, "--heal: no file set is declared that could be healed (--set PATTERNS or LZY_SET)");
  }
  // A report that the environment names may be for the ranks' nodes alone; they say so where it is not.
  for (const auto& option : arguments.given()) {
    if (option.name != "report") continue;
    if (const Status writable = lzy::CheckReportFile(option.value); !writable.ok()) return Fail(lzy::kExitUsage, writable.message());
  }
  const auto library = FindLibrary();
  if (!library.ok()) return Fail(kExitInternal, library.status().message());

  if (arguments.quiet) SetVariable(lzy::EnvironmentName("log"), "error");
  for (const auto& option : arguments.given()) {
    // The launcher may start ranks in other directories.
    const std::string value = option.name == "key" ? std::filesystem::absolute(option.value).string() : option.value;
    SetVariable(lzy::EnvironmentName(option.name), value);
  }
  // Behind what is there: tools that count or trace MPI calls stand in front of MPI_X and then call PMPI_X, where the
  // layer stands. The other way round they would not see the calls that it wraps.
  Append("LD_PRELOAD", *library, ':');
  if (TakesList(command)) TellOpenMpi();

  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  return Fail(error == ENOENT ? kExitNoCommand : kExitCannotExecute,
              fmt::format("{}: {}", command[0], std::strerror(error)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    return Fail(kExitInternal, error.what());
  }
}
