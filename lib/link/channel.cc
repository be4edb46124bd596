#include "link/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace lzy {
namespace {

constexpr std::size_t kHeaderBytes = 1 + 1 + 3 * 8 + 3 * 8 + 4 + 16;
constexpr std::size_t kCopyBytes = kHeaderBytes + 8;  // with its check
// The messages that are on their way (plan of a copy, report of many files) may be large, but not endless.
constexpr std::uint64_t kMostBytes = 16ull << 30;

std::uint64_t CheckOf(ByteSpan header) {
  const Hash hash = HashBytes(HashTag::kTransferMessage, 0, header);
  return LoadLe<std::uint64_t>(hash.bytes.data());
}

Hash HashOf(std::uint64_t message, std::uint64_t piece, ByteSpan bytes) {
  return HashBytes(HashTag::kTransferLeaf, (message << 24 ^ piece) & ((1ull << 56) - 1), bytes);
}

// Returns the number of bytes, less than `size` only at the end of the stream; -1: errno.
ssize_t ReadFully(int fd, std::uint8_t* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = read(fd, to + done, size - done);
    if (got == 0) break;
    if (got < 0 && errno == EAGAIN) {  // ssh may have made a shared descriptor non-blocking
      pollfd ready{fd, POLLIN, 0};
      (void)poll(&ready, 1, -1);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool WriteFully(int fd, std::array<iovec, 2> parts) {
  std::size_t first = 0;
  while (first < parts.size()) {
    if (parts[first].iov_len == 0) {
      ++first;
      continue;
    }
    const ssize_t written = writev(fd, &parts[first], static_cast<int>(parts.size() - first));
    if (written < 0 && errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      (void)poll(&ready, 1, -1);
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    auto left = static_cast<std::size_t>(written);
    for (std::size_t i = first; i < parts.size(); ++i) {
      const std::size_t taken = std::min(left, parts[i].iov_len);
      parts[i].iov_base = static_cast<char*>(parts[i].iov_base) + taken;
      parts[i].iov_len -= taken;
      left -= taken;
    }
  }
  return true;
}

std::uint64_t PiecesOf(std::uint64_t bytes) { return std::max<std::uint64_t>(1, (bytes + Channel::kPiece - 1) / Channel::kPiece); }

}  // namespace

Channel::Channel(std::string peer, std::function<void(ChannelMessage)> receive, std::function<void()> failed)
    : peer_(std::move(peer)), receive_(std::move(receive)), failed_(std::move(failed)) {}

Channel::~Channel() {
  std::list<Stream> streams;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = closing_ = other_closed_ = true;
    streams.swap(streams_);
  }
  changed_.notify_all();
  // The write end goes first: then the other end ends, and with it the read end here. An end that hangs, or a failure, must not hold up
  // this process.
  const auto wait = [&](const unsigned& running) {
    std::unique_lock lock(mutex_);
    return status_.ok() && changed_.wait_for(lock, kPatience, [&] { return running == 0; });
  };
  if (!wait(writers_)) {
    for (Stream& stream : streams) (void)shutdown(stream.in.get(), SHUT_RDWR), (void)shutdown(stream.out.get(), SHUT_RDWR);
  }
  for (Stream& stream : streams) {
    stream.writer.join();
    stream.out = Descriptor();
  }
  if (!wait(readers_)) {
    for (Stream& stream : streams) (void)shutdown(stream.in.get(), SHUT_RDWR);
  }
  for (Stream& stream : streams) stream.reader.join();
}

Status Channel::Add(Descriptor in, Descriptor out, std::function<std::string()> why_ended, Begin begin) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return Status::Ok();
  return NoThrow([&] {
    streams_.emplace_back();
    Stream& stream = streams_.back();
    stream.in = std::move(in);
    stream.out = std::move(out);
    stream.why_ended = std::move(why_ended);
    stream.begin = begin;
    stream.begun = begin != Begin::kWait;
    // The mutex is held, so no thread ends before it counts.
    stream.reader = StartThread([this, &stream] {
      const Status done = NoThrow([&] { return ReadAll(stream); });
      if (!done.ok()) Fail(done);
      Leave(readers_);
    });
    ++readers_;
    stream.writer = StartThread([this, &stream] {
      const Status done = NoThrow([&] { return WriteAll(stream); });
      if (!done.ok()) Fail(done);
      Leave(writers_);
    });
    ++writers_;
  });
}

void Channel::Send(const MessageLabel& label, std::vector<std::uint8_t> bytes) {
  const auto owner = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
  Enqueue(std::unique_lock(mutex_), label, owner, *owner);
}

void Channel::Send(const MessageLabel& label, std::shared_ptr<const void> owner, ByteSpan bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !status_.ok() || queued_ <= kMostQueued; });
  Enqueue(std::move(lock), label, std::move(owner), bytes);
}

void Channel::Enqueue(std::unique_lock<std::mutex> lock, const MessageLabel& label, std::shared_ptr<const void> owner, ByteSpan bytes) {
  if (!status_.ok()) return;
  const std::uint64_t message = ++last_message_;
  outgoing_[message] = {label, owner, bytes, {}};
  for (std::uint64_t piece = 0; piece < PiecesOf(bytes.size()); ++piece) {
    const ByteSpan part = bytes.subspan(piece * kPiece, std::min<std::uint64_t>(kPiece, bytes.size() - piece * kPiece));
    queue_.push_back({{Type::kPiece, label, message, bytes.size(), piece, static_cast<std::uint32_t>(part.size()), {}}, owner, part});
    queued_ += part.size();
  }
  lock.unlock();
  changed_.notify_all();
}

void Channel::Close(std::chrono::milliseconds patience) {
  if (!EndInOrder(patience)) GiveUp("did not answer at the end of the work");
}

// False if the other end does not take part in time.
bool Channel::EndInOrder(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (streams_.empty() || !status_.ok()) return true;
  const auto end = std::chrono::steady_clock::now() + patience;
  if (!changed_.wait_until(lock, end, [&] { return !status_.ok() || outgoing_.empty(); })) return false;
  if (!status_.ok()) return true;
  closing_ = true;
  queue_.push_back({{Type::kEnd, {}, 0, 0, 0, 0, {}}, nullptr, {}});
  changed_.notify_all();
  return changed_.wait_until(lock, end, [&] {
    return !status_.ok() || ended_ == streams_.size() || (other_closed_ && queue_.empty() && writing_ == 0);
  });
}

void Channel::GiveUp(const std::string& why) { Fail({Code::kIo, fmt::format("{}: {}", peer_, why)}); }

std::chrono::steady_clock::time_point Channel::last_heard() const {
  const std::lock_guard lock(mutex_);
  return last_heard_;
}

void Channel::Leave(unsigned& threads) {
  {
    const std::lock_guard lock(mutex_);
    --threads;
  }
  changed_.notify_all();
}

Status Channel::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}
unsigned Channel::streams() const {
  const std::lock_guard lock(mutex_);
  return static_cast<unsigned>(streams_.size());
}
std::uint64_t Channel::sent_again() const {
  const std::lock_guard lock(mutex_);
  return sent_again_;
}
std::uint64_t Channel::damaged() const {
  const std::lock_guard lock(mutex_);
  return damaged_;
}

void Channel::Fail(const Status& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!status_.ok() || stopping_) return;
    status_ = failure;
    queue_.clear();
    queued_ = 0;
    outgoing_.clear();
  }
  changed_.notify_all();
  failed_();
}

// The thread that writes a stream. Ends at the end of the channel, or with an error.
Status Channel::WriteAll(Stream& stream) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || stream.begun || !status_.ok(); });
  }
  // If it cannot be written, the reader of this stream finds out why.
  if (stream.begin == Begin::kTell && !Write(stream, {Type::kBegin, {}, 0, 0, 0, 0, {}}, {})) return Status::Ok();
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty() || !status_.ok(); });
      if (stopping_ || !status_.ok()) return Status::Ok();
      job = std::move(queue_.front());
      queue_.pop_front();
      queued_ -= job.bytes.size();
      ++writing_;
    }
    changed_.notify_all();
    if (job.header.length > 0) job.header.hash = HashOf(job.header.message, job.header.piece, job.bytes);
    const bool written = Write(stream, job.header, job.bytes);
    const int error = errno;
    const std::lock_guard lock(mutex_);
    --writing_;
    changed_.notify_all();
    if (written || closing_ || stopping_) continue;
    // The reader of this stream finds out why.
    if (error == EPIPE) return Status::Ok();
    return {Code::kIo, fmt::format("{}: cannot be written to: {}", peer_, std::strerror(error))};
  }
}

// The header goes twice.
bool Channel::Write(Stream& stream, const Header& header, ByteSpan bytes) {
  std::vector<std::uint8_t> headers = EncodeRecord(header);
  headers.resize(2 * kCopyBytes);
  StoreLe(headers.data() + kHeaderBytes, CheckOf({headers.data(), kHeaderBytes}));
  std::copy_n(headers.begin(), kCopyBytes, headers.begin() + kCopyBytes);
  return WriteFully(stream.out.get(),
                    {iovec{headers.data(), headers.size()}, iovec{const_cast<std::uint8_t*>(bytes.data()), bytes.size()}});
}

// The thread that reads a stream. Ends when the other end has closed the stream, or with an error.
Status Channel::ReadAll(Stream& stream) {
  for (bool ended = false; !ended;) LZY_RETURN_IF_ERROR(ReadOne(stream, ended));
  return Status::Ok();
}

Status Channel::Ended(const Stream& stream) const {
  const std::string why = stream.why_ended ? stream.why_ended() : std::string();
  return {Code::kIo, fmt::format("{}: the connection ended in the middle of the work{}{}", peer_, why.empty() ? "" : ": ", why)};
}

Status Channel::ReadOne(Stream& stream, bool& ended) {
  std::array<std::uint8_t, 2 * kCopyBytes> headers{};
  const ssize_t got = ReadFully(stream.in.get(), headers.data(), headers.size());
  if (got != static_cast<ssize_t>(headers.size())) {
    {
      const std::lock_guard lock(mutex_);
      ended = other_closed_ || stopping_ || closing_ || !stream.begun;
      if (ended) ++ended_;
      changed_.notify_all();
    }
    if (ended) return Status::Ok();
    return Ended(stream);
  }
  for (const std::size_t at : {std::size_t{0}, kCopyBytes}) {
    const ByteSpan copy = ByteSpan(headers).subspan(at, kHeaderBytes);
    if (CheckOf(copy) != LoadLe<std::uint64_t>(headers.data() + at + kHeaderBytes)) continue;
    LZY_ASSIGN_OR_RETURN(const Header header, DecodeRecord<Header>(copy));
    return TakePiece(stream, header);
  }
  return {Code::kIo, fmt::format("{}: the connection damages too many bytes", peer_)};
}

Status Channel::TakePiece(Stream& stream, const Header& header) {
  {
    const std::lock_guard lock(mutex_);
    last_heard_ = std::chrono::steady_clock::now();
  }
  if (header.type == Type::kBegin) {
    const std::lock_guard lock(mutex_);
    stream.begun = true;
    changed_.notify_all();
    return Status::Ok();
  }
  if (header.type == Type::kEnd) {
    const std::lock_guard lock(mutex_);
    other_closed_ = true;
    changed_.notify_all();
    return Status::Ok();
  }
  if (header.type == Type::kHas) {
    const std::lock_guard lock(mutex_);
    outgoing_.erase(header.message);
    changed_.notify_all();
    return Status::Ok();
  }
  if (header.type == Type::kDamaged) {
    SendAgain(header);
    return status();
  }
  const std::shared_ptr<AlignedBuffer> buffer = BeginPiece(header);
  if (buffer == nullptr) return {Code::kInternal, fmt::format("{}: sent a malformed message", peer_)};
  const MutableByteSpan to(buffer->data() + header.piece * kPiece, header.length);
  if (ReadFully(stream.in.get(), to.data(), to.size()) != static_cast<ssize_t>(to.size())) {
    return Ended(stream);
  }
  if (header.length > 0 && HashOf(header.message, header.piece, to) != header.hash) {
    {
      const std::lock_guard lock(mutex_);
      incoming_.at(header.message).taken[header.piece] = false;
    }
    Answer(Type::kDamaged, header);
    return Status::Ok();
  }
  {
    const std::lock_guard lock(mutex_);
    const auto incoming = incoming_.find(header.message);
    if (--incoming->second.missing > 0) return Status::Ok();
    expected_ -= incoming->second.total;
    incoming_.erase(incoming);
  }
  Answer(Type::kHas, header);
  receive_({header.label, buffer, header.total});
  return Status::Ok();
}

// Where the piece belongs. nullptr: it does not fit to what came before. The other end may be hostile, so nothing that it says of a
// message is believed: all pieces must name one size, and each comes once.
std::shared_ptr<AlignedBuffer> Channel::BeginPiece(const Header& header) {
  if (header.total > kMostBytes || header.piece >= PiecesOf(header.total) ||
      header.length != std::min(kPiece, header.total - header.piece * kPiece)) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  auto at = incoming_.find(header.message);
  if (at == incoming_.end()) {
    if (header.total > kMostBytes - expected_) return nullptr;
    const std::uint64_t pieces = PiecesOf(header.total);
    auto buffer = std::make_shared<AlignedBuffer>(std::max<std::uint64_t>(1, header.total));
    Incoming fresh{std::move(buffer), header.total, std::vector<bool>(pieces), pieces};
    at = incoming_.emplace(header.message, std::move(fresh)).first;
    expected_ += header.total;
  }
  Incoming& incoming = at->second;
  if (incoming.total != header.total || incoming.taken[header.piece]) return nullptr;
  incoming.taken[header.piece] = true;
  return incoming.buffer;
}

// Answers are sent before everything else that waits.
void Channel::Answer(Type type, const Header& header) {
  {
    const std::lock_guard lock(mutex_);
    if (type == Type::kDamaged) damaged_ += header.length;
    queue_.push_front({{type, header.label, header.message, header.total, header.piece, 0, {}}, nullptr, {}});
  }
  changed_.notify_all();
}

void Channel::SendAgain(const Header& asked) {
  unsigned tries = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto at = outgoing_.find(asked.message);
    if (at == outgoing_.end() || asked.piece >= PiecesOf(at->second.bytes.size())) return;
    Outgoing& message = at->second;
    const std::uint64_t begin = asked.piece * kPiece;
    const ByteSpan part = message.bytes.subspan(begin, std::min<std::uint64_t>(kPiece, message.bytes.size() - begin));
    tries = ++message.again[asked.piece];
    sent_again_ += part.size();
    queued_ += part.size();
    queue_.push_front({{Type::kPiece, message.label, asked.message, message.bytes.size(), asked.piece, static_cast<std::uint32_t>(part.size()), {}},
                       message.owner, part});
  }
  changed_.notify_all();
  if (tries > kTries) {
    Fail({Code::kIo,
          fmt::format("{}: the connection damages bytes: a piece of {} bytes arrived damaged {} times", peer_, kPiece, tries)});
  }
}

}  // namespace lzy
