#include "run/written.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "common/launcher_variables.h"
#include "common/streams.h"
#include "names/peek.h"
#include "run/child.h"

namespace lzy {
namespace {

/// Without --sweep, a current directory with more names is not searched: on a slow file system this takes minutes.
constexpr std::uint64_t kMostNames = 100'000;
/// Most bytes of one command line of lzy-protect. The system allows more.
constexpr std::size_t kMostBytes = 100'000;
/// The most names in a sentence.
constexpr std::size_t kMostNamed = 4;

void Print(const std::string& text) {
  Put(stderr, fmt::format("lzy-run: {}\n", Printable(text)));
}

void Warn(const std::string& text) {
  Print(text);
}

std::string CurrentDirectory() {
  std::error_code error;
  const auto path = std::filesystem::canonical(".", error);
  return error ? "/" : path.string();
}

/// Creates an empty file that only this user can read. Its name is hidden, so TreeLook does not find it. Empty: failed.
std::string MakeRecordsFile() {
  const char* given = std::getenv("TMPDIR");
  std::string path = JoinPath(given != nullptr && *given == '/' ? given : "/tmp", ".lzy-run.XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return "";
  close(fd);
  return path;
}

/// Waits until the clock of files is later than `newest_ns`, so that a later change gets another time. On file systems with
/// times in whole seconds this takes up to a second, if a file was changed just before.
void WaitForClock(std::int64_t newest_ns) {
  const std::int64_t tick = newest_ns % kNsPerSecond == 0 ? kNsPerSecond : CoarseGranularityNs();
  const std::int64_t wait = newest_ns + tick - CoarseNowNs();
  if (wait > 0 && wait <= 2 * kNsPerSecond) std::this_thread::sleep_for(std::chrono::nanoseconds(wait + CoarseGranularityNs()));
}

/// Whether lzy-run writes its output to this file, so the file changes even while it is protected.
bool IsOwnOutput(const FileStat& file) {
  return std::ranges::any_of(std::initializer_list<int>{STDOUT_FILENO, STDERR_FILENO}, [&](int fd) {
    struct stat own {};
    return fstat(fd, &own) == 0 && own.st_ino == file.inode && own.st_dev == file.file_system;
  });
}

std::string Plural(std::size_t count) {
  return fmt::format("{} file{}", count, count == 1 ? "" : "s");
}

/// Prepares the environment of lzy-protect: it runs alone, and writes nothing to the standard output of the command.
void PrepareTool() {
  unsetenv("LD_PRELOAD");
  unsetenv(kOpenedVariable);
  for (const char* name : kLauncherVariables) unsetenv(name);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

/// Splits `paths` into parts that fit a command line.
std::vector<std::vector<std::string>> Portions(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> portions;
  std::size_t bytes = kMostBytes;
  for (const std::string& path : paths) {
    bytes += path.size() + 1;
    if (bytes > kMostBytes) portions.emplace_back();
    if (bytes > kMostBytes) bytes = path.size() + 1;
    portions.back().push_back(path);
  }
  return portions;
}

}  // namespace

Written::Written(const Wish& wish, const Options& options)
    : fs_(PosixFileSystem()), wish_(wish), options_(options), here_(CurrentDirectory()) {
  for (const std::string& directory : wish.sweep) {
    const auto real = fs_.RealPath(directory);
    sweep_.push_back(real.ok() ? *real : JoinPath(here_, directory));
  }
}

Written::~Written() {
  Clean();
}

void Written::Clean() {
  if (!records_.empty()) unlink(records_.c_str());
  records_.clear();
}

Status Written::Check() const {
  for (std::size_t i = 0; i < sweep_.size(); ++i) {
    const auto stat = fs_.Stat(sweep_[i]);
    const bool usable = stat.ok() ? stat->type == FileStat::Type::kDirectory : stat.status().code() == Code::kNotFound;
    if (wish_.sweep[i].empty() || !usable) {
      return {Code::kInvalidArgument, fmt::format("--sweep: '{}' is not accepted: directories, separated by ':'", wish_.sweep[i])};
    }
  }
  return Status::Ok();
}

void Written::LookBefore() {
  const bool beside = (wish_.explain || wish_.summary) &&
                      std::ranges::none_of(sweep_, [&](const std::string& one) { return IsBelow(here_, one); });
  std::vector<std::string> all = sweep_;
  if (beside) all.push_back(here_);
  before_ = std::make_unique<TreeLook>(fs_, all, beside ? kMostNames : TreeLook::kNoLimit);
  if (!before_->whole()) {
    Warn(fmt::format("{}: there are more than {} files and directories, so nobody looks which of them the command changes. Name "
                     "the directories of its output: --sweep DIR", here_, kMostNames));
    before_ = std::make_unique<TreeLook>(fs_, sweep_);
  }
  troubles_ = before_->troubles();
  WaitForClock(before_->newest_ns());
  records_ = MakeRecordsFile();
  if (!records_.empty()) setenv(kOpenedVariable, records_.c_str(), /*overwrite=*/1);
  began_ns_ = WallClockNs();
}

void Written::Add(const std::string& path, const FileStat& stat) {
  File& file = files_[path];
  file.below_sweep = std::ranges::any_of(sweep_, [&](const std::string& one) { return IsBelow(path, one); });
  const auto report = options_.report.empty() ? Result<std::string>(Code::kNotFound, "") : fs_.RealPath(options_.report);
  if (IsOwnOutput(stat)) file.why_not = "it is where lzy-run and the command write their messages";
  if (report.ok() && *report == path) file.why_not = "it is the file of option report";
  if (!IsSelected(options_, path)) file.why_not = "option include or exclude leaves it out";
  file.left_out = !file.why_not.empty();
}

void Written::LookAfter() {
  std::vector<Status> troubles;
  for (const std::string& path : before_->ChangedSince(fs_, troubles)) {
    if (const auto stat = fs_.Stat(path, /*follow=*/false); stat.ok()) Add(path, *stat);
  }
  troubles_.insert(troubles_.end(), troubles.begin(), troubles.end());
  std::set<std::string> said;
  for (const Status& trouble : troubles_) {
    if (said.insert(trouble.message()).second) Warn(fmt::format("{}; what is written there is not looked at", trouble.message()));
  }
  for (const OpenedRecord& record : ReadOpened(records_)) {
    const auto stat = fs_.Stat(record.path, /*follow=*/false);
    if (!stat.ok() || stat->type != FileStat::Type::kRegular) continue;  // it was deleted, or is on another machine
    if (!files_.contains(record.path)) Add(record.path, *stat);
    (record.plain ? files_[record.path].by_plain_calls : files_[record.path].by_mpi_io) = true;
    if (!record.why_not.empty()) files_[record.path].why_not = record.why_not;
  }
  Clean();
  JudgeAll();
  for (auto& [path, file] : files_) file.while_it_ran = file.is_protected;
}

void Written::JudgeAll() {
  CommitsSeen commits(fs_);
  for (auto& [path, file] : files_) file.is_protected = commits.CommitOf(path).has_value();
}

std::vector<std::string> Written::ToSweep() const {
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) {
    if (file.below_sweep && !file.is_protected && !file.left_out) paths.push_back(path);
  }
  return paths;
}

void Written::Sweep(const std::string& lzy_protect) {
  for (std::size_t i = 0; i < sweep_.size(); ++i) {
    if (fs_.Stat(sweep_[i]).ok()) continue;
    Warn(fmt::format("--sweep: {}: there is no such directory, so nothing in it was protected", wish_.sweep[i]));
  }
  const std::vector<std::string> wanted = ToSweep();
  for (auto& words : Portions(PathsToProtect(fs_, wanted, options_.set).paths)) {
    words.insert(words.begin(), {lzy_protect, "--quiet", "--"});
    const ChildEnd end = RunChild(std::move(words), PrepareTool);
    if (end.error != 0) Warn(fmt::format("--sweep: {}: {}", lzy_protect, std::generic_category().message(end.error)));
    if (end.signal != 0 || end.exit_code >= 128) break;  // the user or a scheduler ended it
  }
  // A file that vanished meanwhile needs no protection.
  std::erase_if(files_, [&](const auto& one) { return !fs_.Stat(one.first, /*follow=*/false).ok(); });
  JudgeAll();
  ReportSweep(wanted.size());
}

void Written::ReportSweep(std::size_t wanted) const {
  const auto failed = PathsToProtect(fs_, ToSweep(), options_.set).paths;
  std::size_t below = 0;
  for (const auto& [path, file] : files_) below += file.below_sweep && !file.left_out ? 1 : 0;
  if (!failed.empty()) {
    const std::set<std::string> shown = Shown(failed);
    Warn(fmt::format("--sweep: not protected, because lzy-protect failed or the file is still being written: {}; when nobody writes "
                     "any more, type {}", FirstOf(shown, kMostNamed), ProtectCommand(shown)));
  } else if (options_.log != Options::Log::kError) {
    Print(below == 0 ? "--sweep: the command wrote nothing there"
                     : fmt::format("--sweep: the command wrote {}; all are protected, {} of them by the sweep", Plural(below), wanted));
  }
}

void Written::PrintRequested() const {
  if (wish_.explain) Explain();
  if (wish_.summary) Summarize();
}

std::string Written::Shown(const std::string& path) const {
  return here_ != "/" && path.starts_with(here_ + "/") ? path.substr(here_.size() + 1) : path;
}

std::set<std::string> Written::Shown(const std::vector<std::string>& paths) const {
  std::set<std::string> shown;
  for (const std::string& path : paths) shown.insert(Shown(path));
  return shown;
}

std::vector<Written::Group> Written::Groups() const {
  std::vector<std::string> all;
  for (const auto& [path, file] : files_) all.push_back(path);
  const ProtectPaths plan = PathsToProtect(fs_, all, options_.set);
  // Members of a set are committed together, but perhaps not every rank could write a record.
  std::set<std::string> by_mpi_io;
  for (const auto& [path, file] : files_) {
    if (file.by_mpi_io && file.while_it_ran) by_mpi_io.insert(plan.path_of.at(path));
  }
  std::map<std::string, Group> groups;
  for (const auto& [path, file] : files_) {
    const std::string& stands = plan.path_of.at(path);
    Group group{Shown(stands), 1, file};
    if (file.while_it_ran && by_mpi_io.contains(stands)) group.file.by_mpi_io = true;
    const auto [at, is_new] = groups.try_emplace(stands + '\0' + Fate(group) + '\0' + Way(group.file), group);
    if (!is_new) ++at->second.files;
  }
  std::vector<Group> out;
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  return out;
}

std::string Written::Way(const File& file) {
  if (file.by_mpi_io) return "MPI-IO";
  if (file.by_plain_calls) return "other, seen by option posix";
  return file.while_it_ran ? "MPI-IO on another machine, or a tool of lzy" : "other";
}

std::string Written::Fate(const Group& group) const {
  const File& file = group.file;
  if (file.is_protected) return file.while_it_ran ? "protected" : "protected by --sweep";
  if (!file.why_not.empty()) return "not protected: " + file.why_not;
  const std::string command = "lzy-protect " + ShellQuote(group.path);
  if (file.below_sweep) return "not protected: --sweep could not; type " + command;
  const std::string directory = group.path.starts_with('/') ? DirectoryOf(group.path) : ".";
  if (!file.by_mpi_io && !file.by_plain_calls) return fmt::format("not protected; lzy-run --sweep {} would do it, or now: {}", ShellQuote(directory), command);
  return "not protected: it changed after its last commit, or its commit failed; type " + command;
}

void Written::Explain() const {
  if (files_.empty()) return Print("the command wrote no files that lzy-run knows of");
  Print("files that the command wrote (\"other\" is POSIX, C or Fortran I/O, a library without MPI-IO, or a rank on another machine):");
  for (const Group& group : Groups()) {
    const std::string name = group.files == 1 ? group.path : fmt::format("{} ({})", group.path, Plural(group.files));
    Print(fmt::format("  {}: {}; {}", name, Way(group.file), Fate(group)));
  }
}

std::string Written::ProtectCommand(const std::set<std::string>& paths) {
  std::set<std::string> words = paths;
  if (words.size() > kMostNamed) {
    words.clear();
    for (const std::string& path : paths) words.insert(DirectoryOf(path));
  }
  if (words.size() > kMostNamed) words = {"."};
  std::string command = "lzy-protect";
  for (const std::string& word : words) command += " " + ShellQuote(word);
  return command;
}

// Without files that are excluded from protection: the user need not do anything for them.
void Written::Summarize() const {
  std::size_t kept = 0;
  std::set<std::string> open;
  for (const auto& [path, file] : files_) kept += file.is_protected ? 1 : 0;
  for (const Group& group : Groups()) {
    if (!group.file.is_protected && !group.file.left_out) open.insert(group.path);
  }
  std::string text = fmt::format("{} {} protected", Plural(kept), kept == 1 ? "is" : "are");
  if (!open.empty()) text += fmt::format("; not protected: {}; type {}", FirstOf(open, kMostNamed), ProtectCommand(open));
  Print(text);
}

}  // namespace lzy
