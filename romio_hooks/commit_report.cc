#include "commit_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <nlohmann/json.hpp>

#include "messages.h"

namespace lzy::hooks {
namespace {

std::string JsonLine(const DatasetReport& report) {
  const Phases& phases = report.phases;
  const nlohmann::ordered_json line = {
      {"path", report.path},
      {"kind", report.kind == DatasetKind::kSet ? "set" : "shared"},
      {"state", Name(report.state)},
      {"generation", report.generation},
      {"bytes", report.bytes},
      {"seconds",
       {{"read", phases.read},
        {"hash", phases.hash},
        {"encode", phases.encode},
        {"exchange", phases.exchange},
        {"write", phases.write},
        {"sync", phases.sync},
        {"total", phases.total}}},
      {"bytes_reread", report.bytes_read},
      {"bytes_captured", 0},
      {"bytes_encoded", report.bytes_encoded},
      {"root", report.root.Hex()},
  };
  // Paths are bytes; those that are not UTF-8 must not throw.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// One write(2) with O_APPEND, so that lines of several jobs do not mix.
Status Append(const std::string& path, const std::string& line) {
  const auto error = [&](const char* what) {
    return Status(Code::kIo, fmt::format("{}: {}: {}", path, what, std::generic_category().message(errno)));
  };
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return error("open");
  Status status;
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) status = error("write");
  if (close(fd) != 0 && status.ok()) status = error("close");
  return status;
}

void TellOfDamage(const Options& options, const DatasetReport& report) {
  std::uint64_t bytes = 0;
  for (const Damage& damage : report.damage) bytes += damage.length;
  if (bytes == 0) return;
  Say(options, Options::Log::kWarn,
      fmt::format("{}: {} not written by this program differ from their hashes; their old hashes were kept. To see "
                  "and mend them: lzy-verify --repair '{}'",
                  report.path, FormatSize(bytes), report.path));
}

}  // namespace

void TellOfCommit(const Options& options, const DatasetReport& report) {
  if (!report.status.ok()) return;
  for (const std::string& warning : report.warnings) {
    const bool names_it = warning.find(report.path) != std::string::npos;
    SayOnce(options, Options::Log::kWarn, report.path, warning.c_str(),
            names_it ? warning : fmt::format("{}: {}", report.path, warning));
  }
  TellOfDamage(options, report);
  Say(options, Options::Log::kInfo,
      fmt::format("{}: generation {} of {} made in {:.3f} s", report.path, report.generation, FormatSize(report.bytes),
                  report.phases.total));
  if (options.report.empty()) return;
  const Status status = Append(options.report, JsonLine(report));
  if (!status.ok()) SayOnce(options, Options::Log::kWarn, options.report, "report", status.message());
}

void TellOfFailure(const Options& options, const std::string& path, const Status& status) {
  SayOnce(
      options, Options::Log::kWarn, path, "commit",
      fmt::format("{}: no redundancy was made: {}; it stays at risk until the next commit", path, status.message()));
}

}  // namespace lzy::hooks
