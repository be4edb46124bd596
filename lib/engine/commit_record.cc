#include "engine/commit_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

namespace lzy {

std::string CommitRecord(const DatasetReport& report) {
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
      {"bytes_captured", report.bytes_captured},
      {"bytes_encoded", report.bytes_encoded},
      {"root", report.root.Hex()},
  };
  // Paths are bytes; those that are not UTF-8 must not throw.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status AppendCommitRecord(const std::string& file, const DatasetReport& report) {
  const std::string line = CommitRecord(report);
  const auto error = [&](const char* what) {
    return Status(Code::kIo, fmt::format("report: {}: {}: {}", file, what, std::generic_category().message(errno)));
  };
  const int fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return error("open");
  Status status;
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) status = error("write");
  if (close(fd) != 0 && status.ok()) status = error("close");
  return status;
}

}  // namespace lzy
