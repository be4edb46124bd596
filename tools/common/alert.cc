#include "common/alert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/node.h"
#include "base/printable.h"
#include "common/print.h"

namespace lzy {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using TemporaryFile = std::unique_ptr<std::FILE, CloseFile>;

// A file instead of a pipe: a command that does not read it cannot stop the tool.
Result<TemporaryFile> FileWith(const std::string& text) {
  TemporaryFile file(std::tmpfile());
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
                       std::fflush(file.get()) == 0 && std::fseek(file.get(), 0, SEEK_SET) == 0;
  if (!written) return Status(Code::kIo, fmt::format("its input could not be written: {}", std::strerror(errno)));
  return file;
}

// Without the launcher's variables: with them, a tool of lzy in the command would consider itself a rank of this job.
std::vector<std::string> Environment(const Alert& alert) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    if (!variable.starts_with("LZY_EVENT_") && !IsOfMpiLauncher(variable)) out.emplace_back(variable);
  }
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  out.push_back("LZY_EVENT_TOOL=" + alert.tool);
  out.push_back(fmt::format("LZY_EVENT_HOST={}", host.data()));
  out.push_back(fmt::format("LZY_EVENT_EXIT_CODE={}", alert.exit_code));
  out.push_back(fmt::format("LZY_EVENT_DATASETS={}", alert.datasets.size()));
  out.push_back("LZY_EVENT_SUMMARY=" + SummaryOf(alert.datasets));
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::string DocumentOf(const Alert& alert) {
  Json datasets = Json::array();
  for (const DatasetReport& report : alert.datasets) datasets.push_back(ToJson(report));
  return Dump({{"schema", "lzy-report/1"},
               {"tool", alert.tool},
               {"exit_code", alert.exit_code},
               {"seconds", alert.seconds},
               {"datasets", std::move(datasets)}},
              false);
}

}  // namespace

// Names in it are printable: the summary may become the subject of a mail.
std::string SummaryOf(const std::vector<DatasetReport>& datasets) {
  constexpr std::size_t kMostNamed = 3;
  std::string out = fmt::format("{} new damage: ", datasets.size() == 1 ? "1 dataset has" : fmt::format("{} datasets have", datasets.size()));
  for (std::size_t i = 0; i < datasets.size() && i < kMostNamed; ++i) out += (i == 0 ? "" : ", ") + Printable(datasets[i].path);
  return datasets.size() > kMostNamed ? out + ", ..." : out;
}

// The output of the command goes to standard error: standard output may be a JSON document.
Status RunAlert(const std::string& command, const Alert& alert) {
  LZY_ASSIGN_OR_RETURN(const TemporaryFile input, FileWith(DocumentOf(alert)));
  std::vector<std::string> words = {"/bin/sh", "-c", command};
  std::vector<std::string> variables = Environment(alert);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(input.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failed = posix_spawn(&child, words[0].c_str(), &actions, nullptr, Pointers(words).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {Code::kIo, fmt::format("it could not be started: {}", std::strerror(failed))};
  int how = 0;
  while (waitpid(child, &how, 0) < 0) {
    if (errno != EINTR) return {Code::kIo, fmt::format("how it ended is not known: {}", std::strerror(errno))};
  }
  if (WIFSIGNALED(how)) return {Code::kIo, fmt::format("signal {} ended it", WTERMSIG(how))};
  if (WEXITSTATUS(how) != 0) return {Code::kIo, fmt::format("it ended with exit code {}", WEXITSTATUS(how))};
  return Status::Ok();
}

}  // namespace lzy
