#include "link/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/printable.h"
#include "merkle/hash.h"

namespace lzy {
namespace {

constexpr char kMagic[] = "LZYLINK1";
constexpr std::size_t kMagicBytes = 8;
constexpr std::uint32_t kMostOfRecord = 16u << 20;

std::uint64_t CheckOfRecord(ByteSpan record) {
  const Hash hash = HashBytes(HashTag::kTransferMessage, 1, record);
  return LoadLe<std::uint64_t>(hash.bytes.data());
}

// True if `error` of `fd` passes: after that, the call is made again. ssh may have made a shared descriptor non-blocking.
bool Passes(int fd, short events, int error) {
  if (error == EAGAIN) {
    pollfd ready{fd, events, 0};
    (void)poll(&ready, 1, -1);
  }
  return error == EAGAIN || error == EINTR;
}

// The number of bytes that came before the end of the stream.
std::size_t ReadUpTo(int fd, std::uint8_t* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = read(fd, to + done, size - done);
    if (got < 0 && Passes(fd, POLLIN, errno)) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

// What came instead: the first line, with what comes at once.
Status Other(int fd, std::string text) {
  pollfd ready{fd, POLLIN, 0};
  char more[200];
  if (poll(&ready, 1, 200) > 0) {
    const ssize_t got = read(fd, more, sizeof more);
    if (got > 0) text.append(more, static_cast<std::size_t>(got));
  }
  return {Code::kCorrupt, Printable(text.substr(0, text.find('\n')))};
}

}  // namespace

Status SendFirst(int fd, const std::vector<std::uint8_t>& record) {
  std::vector<std::uint8_t> bytes(kMagicBytes + 4 + record.size() + 8);
  std::memcpy(bytes.data(), kMagic, kMagicBytes);
  StoreLe(bytes.data() + kMagicBytes, static_cast<std::uint32_t>(record.size()));
  std::ranges::copy(record, bytes.begin() + kMagicBytes + 4);
  StoreLe(bytes.data() + kMagicBytes + 4 + record.size(), CheckOfRecord(record));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(fd, bytes.data() + done, bytes.size() - done);
    if (written < 0 && Passes(fd, POLLOUT, errno)) continue;
    if (written < 0) return {Code::kIo, std::strerror(errno)};
    done += static_cast<std::size_t>(written);
  }
  return Status::Ok();
}

Result<std::vector<std::uint8_t>> TakeFirst(int fd) {
  std::uint8_t head[kMagicBytes + 4];
  const std::size_t got = ReadUpTo(fd, head, kMagicBytes);
  if (got == 0) return Status(Code::kNotFound, "nothing came");
  if (got < kMagicBytes || std::memcmp(head, kMagic, kMagicBytes) != 0) return Other(fd, std::string(head, head + got));
  if (ReadUpTo(fd, head + kMagicBytes, 4) < 4) return Status(Code::kNotFound, "the stream ended");
  const auto size = LoadLe<std::uint32_t>(head + kMagicBytes);
  if (size > kMostOfRecord) return Status(Code::kCorrupt, "damaged bytes");
  std::vector<std::uint8_t> record(size + std::size_t{8});
  if (ReadUpTo(fd, record.data(), record.size()) < record.size()) return Status(Code::kNotFound, "the stream ended");
  const auto check = LoadLe<std::uint64_t>(record.data() + size);
  record.resize(size);
  if (check != CheckOfRecord(record)) return Status(Code::kCorrupt, "damaged bytes");
  return record;
}

}  // namespace lzy
