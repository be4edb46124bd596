#include "request/commit_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file.h"

namespace lzy {

std::string CommitRecord(const DatasetReport& report, std::optional<std::uint64_t> uncompared, std::uint64_t differing) {
  const Phases& phases = report.phases;
  nlohmann::ordered_json line = {
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
      {"bytes_differing", differing},
      {"root", report.root.Hex()},
  };
  if (report.seconds_blocked) line["seconds_blocked"] = *report.seconds_blocked;
  if (report.seconds_background) line["seconds_background"] = *report.seconds_background;
  if (uncompared) line["bytes_not_compared"] = *uncompared;
  // Paths may contain any bytes. Those that are not UTF-8 must not throw.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Nothing is created by the check: a program that fails before its first commit leaves no empty file. O_NONBLOCK, since
// a pipe without a reader would block the open.
Status CheckReportFile(const std::string& file) {
  const auto refuse = [&](const std::string& what, int error) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--report: '{}' is not accepted: {}: {}", file, what, std::generic_category().message(error)));
  };
  const int fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) {
    close(fd);
    return Status::Ok();
  }
  if (errno == ENXIO) return Status::Ok();  // a pipe without a reader
  if (errno != ENOENT) return refuse("open", errno);
  const std::string directory = DirectoryOf(file);
  if (faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return Status::Ok();
  return refuse(directory, errno);
}

// The file is opened anew for each record. So it may be rotated meanwhile, and no descriptor is held between commits.
Status AppendCommitRecord(const std::string& file, const DatasetReport& report, std::optional<std::uint64_t> uncompared,
                          std::uint64_t differing) {
  const std::string line = CommitRecord(report, uncompared, differing);
  const auto error = [&](const char* what) {
    return Status(Code::kIo, fmt::format("report: {}: {}: {}", file, what, std::generic_category().message(errno)));
  };
  int fd = -1;
  do fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return error("open");
  Status status;
  // With O_APPEND, each write goes to the end of the file, even if others write there. Usually one write is enough, so
  // lines of several programs stay whole.
  for (std::size_t done = 0; done < line.size() && status.ok();) {
    const ssize_t put = write(fd, line.data() + done, line.size() - done);
    if (put > 0) done += static_cast<std::size_t>(put);
    if (put == 0) errno = EIO;
    if (put == 0 || (put < 0 && errno != EINTR)) status = error("write");
  }
  if (close(fd) != 0 && status.ok()) status = error("close");
  return status;
}

}  // namespace lzy
