// lzy-run: runs a command with the interposition library preloaded and the options of lzy in the environment. Not an
// MPI program itself: it sets variables and becomes the command by exec. So signals and exit codes are the command's
// own. Only if something is to be done when the command has ended (--sweep, --explain, --summary), it stays and waits for it
// (run/child.h).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "common/arguments.h"
#include "common/beside.h"
#include "common/streams.h"
#include "request/commit_record.h"
#include "run/child.h"
#include "run/ranks.h"
#include "run/written.h"

namespace {

using lzy::Code;
using lzy::Result;
using lzy::Status;

// Exit codes of lzy-run itself: docs/reference/tools.md. 126 and 127 are those of shells.
constexpr int kExitInternal = 7;
constexpr int kExitCannotExecute = 126;
constexpr int kExitNoCommand = 127;

// The preloaded half (docs/design/hooks.md §10, "Two halves").
constexpr const char* kLibrary = "liblzy_mpiio.so";
/// Programs whose names begin like this may be Open MPI's launcher.
constexpr std::string_view kOpenMpiLaunchers[] = {"mpirun", "mpiexec", "orterun", "prterun"};

/// The library that belongs to this program: as it was installed, then as in a build.
Result<std::string> FindLibrary() {
  std::vector<std::string> searched;
  for (const auto& directory : lzy::PlacesBesideProgram({LZY_BIN_TO_LAYER, "../lib", "../lib64"})) {
    const std::string path = directory / kLibrary;
    searched.push_back(directory.string());
    if (access(path.c_str(), R_OK) != 0) continue;
    // The dynamic linker splits LD_PRELOAD at spaces and colons, and there is no way to quote them.
    if (path.find_first_of(": ") == std::string::npos) return path;
    return Status(Code::kInternal,
                  fmt::format("'{}' cannot be preloaded: there is a space or a colon in its path", path));
  }
  if (searched.empty()) return Status(Code::kInternal, "/proc/self/exe: cannot be read, so lzy-run does not know where it is");
  return Status(Code::kInternal, fmt::format("{} is in none of these directories: {}. Install or build lzy again", kLibrary,
                                             fmt::join(searched, ", ")));
}

// Adds `value` to the end of a variable that is a list.
void Append(const char* name, const std::string& value, char separator) {
  const char* old = std::getenv(name);
  setenv(name, (old == nullptr || *old == '\0' ? value : old + (separator + value)).c_str(), /*overwrite=*/1);
}

/// True if Open MPI's launcher needs a list of the variables to pass to other nodes. It passes no others; other launchers
/// ignore the list. False if COMMAND passes variables by itself (-x), because Open MPI 4 refuses both together. False if
/// COMMAND is a script that may start a launcher, because that may use -x.
bool TakesList(const std::vector<std::string>& command) {
  const std::string launcher = std::filesystem::path(command.front()).filename();
  const bool known = std::any_of(std::begin(kOpenMpiLaunchers), std::end(kOpenMpiLaunchers),
                                 [&](std::string_view name) { return launcher.starts_with(name); });
  return known && std::none_of(command.begin(), command.end(),
                               [](const std::string& word) { return word == "-x" || word == "--x"; });
}

// The list has the names of LD_PRELOAD and of all variables of lzy, from any source.
void HintOpenMpi() {
  std::string names = "LD_PRELOAD";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "LZY_", 4) == 0) names += ";" + std::string(*entry, std::strcspn(*entry, "="));
  }
  Append("OMPI_MCA_mca_base_env_list", names, ';');
}

// Writes the reason on stderr. Returns the exit code.
int Fail(int exit_code, const std::string& message) {
  lzy::Put(stderr, fmt::format("lzy-run: {}\n", lzy::Printable(message)));
  return exit_code;
}

// Only options of the command line are set. The environment has the others already.
void SetEnvironment(const lzy::Arguments& arguments, const std::string& library,
                    const std::vector<std::string>& command) {
  if (arguments.quiet) setenv(lzy::EnvironmentName("log").c_str(), "error", /*overwrite=*/1);
  for (const auto& option : arguments.given()) {
    // The launcher may start ranks in other directories, so the path of the key is made absolute.
    const std::string value = option.name == "key" ? std::filesystem::absolute(option.value).string() : option.value;
    setenv(lzy::EnvironmentName(option.name).c_str(), value.c_str(), /*overwrite=*/1);
  }
  // Appended behind the present value. Tools that count or trace MPI calls wrap MPI_X and then call PMPI_X, which the layer
  // wraps for them. In the other order, they would not see the calls that the layer wraps.
  Append("LD_PRELOAD", library, ':');
  if (TakesList(command)) HintOpenMpi();
}

/// The directories of all --sweep.
std::vector<std::string> SplitAtColons(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (const std::string& value : values) {
    for (std::size_t at = 0; at <= value.size();) {
      const std::size_t end = std::min(value.find(':', at), value.size());
      out.push_back(value.substr(at, end - at));
      at = end + 1;
    }
  }
  return out;
}

// Returns only if the command could not be started; then errno says why.
void BecomeCommand(std::vector<std::string>& command) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
}

/// As BecomeCommand, with the work before and after the command. This work does not change the result of the command, so
/// its end is returned in any case. Returns errno if the command could not be started.
int RunWatched(lzy::Written& written, const std::vector<std::string>& command, bool sweep) {
  const lzy::ChildEnd end = lzy::RunChild(command);
  if (end.error != 0) return end.error;
  try {
    lzy::WaitForOtherRanks();
    written.LookAfter();
    const auto places = lzy::PlacesBesideProgram({"."});
    if (sweep) written.Sweep(places.empty() ? "lzy-protect" : (places.front() / "lzy-protect").string());
    written.PrintRequested();
  } catch (const std::exception& error) {
    lzy::Put(stderr, fmt::format("lzy-run: what the command wrote: {}\n", error.what()));
  }
  written.Clean();
  lzy::EndLike(end);
}

// In this order: parse, check everything that can be wrong before ranks start, set the environment, exec. Returns
// only if COMMAND could not be started.
int Run(int argc, char** argv) {
  lzy::Arguments arguments("lzy-run",
                           "Runs COMMAND with its MPI-IO protected: sets the environment and preload for every rank.\n"
                           "--quiet is --log=error.",
                           "nothing itself; with --sweep, sidecars and the catalogue");
  // All tools accept these options. Here they have no effect, because COMMAND makes the output; so --help does not show
  // them.
  for (const char* idle : {"--json", "--no-progress"}) arguments.Hide(idle);
  arguments.AddTableOptions({"parity", "group", "block-size", "stripe", "set", "commit", "posix", "drain", "include", "exclude", "device-dirs",
                             "on-error", "capture", "domain", "verify-reads", "verify-writes", "set-sync", "timeout", "report", "heal", "summary"});
  bool background = false;
  arguments.AddFlag("--background", background,
                    "short for --commit background: MPI_File_close and MPI_File_sync return at once, and the files are protected meanwhile");
  lzy::Written::Wish wish;
  std::vector<std::string> sweep;
  arguments.AddValues("--sweep", "DIR[:DIR]", sweep,
                      "when COMMAND has ended, protect what it made or changed below these directories, whichever calls wrote it "
                      "and however it is linked: sets by option set or by names that end in 0, 1, 2 and so on; hidden files and "
                      "links are left out");
  arguments.AddFlag("--explain", wish.explain,
                    "when COMMAND has ended, list on stderr what it wrote: by which way, whether it is protected, and what would "
                    "protect it");
  arguments.TakeCommand("-- COMMAND [arguments]",
                        "Options may also be given as environment variables: --block-size as LZY_BLOCK_SIZE.\n"
                        "Exit code: that of COMMAND; 3 bad option; 126 or 127 COMMAND could not be started.");
  const auto outcome = arguments.Parse(argc, argv);
  if (outcome.exit_code == 0) {
    lzy::Put(stdout, outcome.output);
    return 0;
  }
  if (outcome.exit_code) return Fail(*outcome.exit_code, outcome.error);
  // Without "--", the first word that is not an option begins the command. A misspelled option would begin it, too.
  std::vector<std::string> command = arguments.command();
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
  const bool waits = std::ranges::any_of(arguments.given(), [](const auto& one) { return one.name == "commit" && one.value == "wait"; });
  if (background && waits) return Fail(lzy::kExitUsage, "--background: --commit wait is the opposite; give one of them");
  if (options->heal && options->set.empty()) {
    return Fail(lzy::kExitUsage, "--heal: no file set is declared; declare one with --set PATTERNS or LZY_SET");
  }
  if (!options->drain.empty() && options->set.empty()) {
    return Fail(lzy::kExitUsage, "--drain: no file set is declared; declare one with --set PATTERNS or LZY_SET");
  }
  // A report on the command line is checked here, where the user sees the error. One from the environment may be a
  // path on the nodes of the ranks; the ranks report it if they cannot write it.
  for (const auto& option : arguments.given()) {
    if (option.name != "report") continue;
    if (const Status writable = lzy::CheckReportFile(option.value); !writable.ok()) return Fail(lzy::kExitUsage, writable.message());
  }
  wish.sweep = SplitAtColons(sweep);
  wish.summary = options->summary;
  lzy::Written written(wish, *options);
  if (const Status usable = written.Check(); !usable.ok()) return Fail(lzy::kExitUsage, usable.message());
  const auto library = FindLibrary();
  if (!library.ok()) return Fail(kExitInternal, library.status().message());
  // If a launcher started one lzy-run in each rank, the one of rank 0 looks for all.
  const bool watches = wish.any() && lzy::OwnRank() == "0";
  if (watches) written.LookBefore();
  if (background) setenv(lzy::EnvironmentName("commit").c_str(), "background", /*overwrite=*/1);
  SetEnvironment(arguments, *library, command);
  if (!watches) BecomeCommand(command);
  const int error = watches ? RunWatched(written, command, !wish.sweep.empty()) : errno;
  return Fail(error == ENOENT ? kExitNoCommand : kExitCannotExecute,
              fmt::format("{}: {}", command[0], std::strerror(error)));
}

}  // namespace

int main(int argc, char** argv) {
  lzy::KeepStandardDescriptors();
  try {
    return lzy::EndStreams("lzy-run", Run(argc, argv));
  } catch (const std::exception& error) {
    return Fail(kExitInternal, error.what());
  }
}
