#include "request/opened_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace lzy {

namespace {
constexpr char kMpiIo = 'M', kPlain = 'P';
}  // namespace

// A letter for the way, then the path and the message. These may have any byte but NUL, so NUL ends each.
Status AppendOpened(const std::string& file, const OpenedRecord& record) {
  const auto error = [&](const char* what) {
    return Status(Code::kIo, file + ": " + what + ": " + std::generic_category().message(errno));
  };
  int fd = -1;
  do fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return error("open");
  const std::string text = (record.plain ? kPlain : kMpiIo) + record.path + '\0' + record.why_not + '\0';
  ssize_t put = -1;
  do put = write(fd, text.data(), text.size());
  while (put < 0 && errno == EINTR);
  const Status status = put == static_cast<ssize_t>(text.size()) ? Status::Ok() : error("write");
  close(fd);
  return status;
}

std::vector<OpenedRecord> ReadOpened(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<OpenedRecord> out;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t middle = all.find('\0', at);
    const std::size_t end = middle == std::string::npos ? middle : all.find('\0', middle + 1);
    if (end == std::string::npos || middle == at) break;
    out.push_back({all.substr(at + 1, middle - at - 1), all.substr(middle + 1, end - middle - 1), all[at] == kPlain});
    at = end + 1;
  }
  return out;
}

}  // namespace lzy
