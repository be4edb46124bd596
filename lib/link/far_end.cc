#include "link/far_end.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>

#include "base/node.h"
#include "base/printable.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

// What the other end writes to a stream that was handed over.
constexpr char kJoined[] = "LZYJOIN1";
constexpr std::size_t kJoinedBytes = 8;
constexpr int kJoinMs = 30'000;
// How long a host may be silent after the user has stopped the work.
constexpr std::chrono::seconds kMostSilence{10};

// An address without a file, which goes with the process. Only processes of the same user are listened to.
std::pair<sockaddr_un, socklen_t> AddressOf(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size)};
}

bool IsOfThisUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// A message of one byte, with room for two descriptors.
struct Envelope {
  Envelope() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::array<int, 2>))> space{};
  msghdr message{};
};

// Hands over two descriptors, or takes them.
bool SendDescriptors(int socket, const std::array<int, 2>& given) {
  Envelope envelope;
  msghdr& message = envelope.message;
  cmsghdr* const control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof given);
  std::memcpy(CMSG_DATA(control), given.data(), sizeof given);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}
bool TakeDescriptors(int socket, std::array<Descriptor, 2>& taken) {
  Envelope envelope;
  msghdr& message = envelope.message;
  std::array<int, 2> got{-1, -1};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return false;
  const cmsghdr* const control = CMSG_FIRSTHDR(&message);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS || control->cmsg_len != CMSG_LEN(sizeof got)) return false;
  std::memcpy(got.data(), CMSG_DATA(control), sizeof got);
  for (std::size_t i = 0; i < got.size(); ++i) taken[i] = Descriptor(got[i]);
  return true;
}

// Standard input and output as descriptors that nothing else uses.
Result<std::array<Descriptor, 2>> TakeOverStreams() {
  std::array<Descriptor, 2> taken{Descriptor(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)), Descriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3))};
  const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  const bool done = taken[0].valid() && taken[1].valid() && nothing.valid() && dup2(nothing.get(), STDIN_FILENO) >= 0 &&
                    dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
  if (!done) return Status(Code::kIo, fmt::format("standard input and output: {}", std::strerror(errno)));
  return taken;
}

// Waits until the other end of this stream was handed over.
bool HasJoined(const ChildProcess& child) {
  std::array<char, kJoinedBytes> joined{};
  std::size_t got = 0;
  pollfd ready{child.output.get(), POLLIN, 0};
  while (got < joined.size() && poll(&ready, 1, kJoinMs) > 0) {
    const ssize_t more = read(child.output.get(), joined.data() + got, joined.size() - got);
    if (more <= 0) return false;
    got += static_cast<std::size_t>(more);
  }
  return std::memcmp(joined.data(), kJoined, kJoinedBytes) == 0;
}

std::string NodeName() { return SelfCommunicator()->ProcessorName(); }

}  // namespace

// ------------------------------------------------------------------------------------------------ the user's end

Result<std::unique_ptr<NearEnd>> NearEnd::Start(Request request) {
  auto end = std::unique_ptr<NearEnd>(new NearEnd(std::move(request)));
  const Request& wanted = end->request_;
  auto child = ChildProcess::Start(wanted.command, ChildProcess::WhenThisEnds::kEnd);
  if (child.status().code() == Code::kNotFound) return Status(Code::kInvalidArgument, child.status().message());
  LZY_RETURN_IF_ERROR(child.status());
  LZY_ASSIGN_OR_RETURN(end->other_, end->Greet(**child, wanted.assignment));
  end->link_ = std::make_unique<Link>(Link::Ends{0, NodeName(), wanted.host, wanted.host, wanted.signal, {}});
  ChildProcess* const first = child->get();
  end->children_.push_back(std::move(*child));
  LZY_RETURN_IF_ERROR(end->channel().Add(std::move(first->output), std::move(first->input), [first] { return first->HowItEnded(); }));
  // Without it, a host that hangs can be left only by ending this process.
  if (wanted.signal) (void)NoThrow([&] { end->watching_ = StartThread([raw = end.get()] { (void)NoThrow([&] { raw->Watch(); }); }); });
  return end;
}

// A host may hang, or be gone, while all threads of this process wait for it. Ctrl-C then ends the connection.
void NearEnd::Watch() {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> stopped;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return ending_; })) {
    if (!stopped && request_.signal() != 0) stopped = Clock::now();
    if (!stopped || Clock::now() - std::max(*stopped, channel().last_heard()) < kMostSilence) continue;
    lock.unlock();
    return channel().GiveUp(fmt::format("did not answer for {} seconds after the work was stopped", kMostSilence.count()));
  }
}

NearEnd::~NearEnd() {
  if (link_) link_->Close();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    // They may wait for a host that does not answer, or write to one.
    const bool failed = link_ && !link_->channel().status().ok();
    for (const auto& child : children_) {
      if (!failed && !child->output.valid()) continue;
      child->Disconnect();
      child->Stop();
    }
  }
  changed_.notify_all();
  if (watching_.joinable()) watching_.join();
  if (starting_.joinable()) starting_.join();
  link_.reset();
}

// Both ends speak at once, so this takes one round trip.
Result<Hello> NearEnd::Greet(ChildProcess& child, const Assignment& assignment) {
  const Hello own{request_.messages, request_.version, NodeName(), ""};
  Status sent = SendFirst(child.input.get(), EncodeRecord(own));
  if (sent.ok()) sent = SendFirst(child.input.get(), EncodeRecord(assignment));
  const auto first = TakeFirst(child.output.get());
  if (!first.ok()) return NoAnswer(child, first.status());
  LZY_ASSIGN_OR_RETURN(const Hello other, DecodeRecord<Hello>(*first));
  if (other.messages != own.messages) {
    return Status(Code::kIo, fmt::format("lzy on {} has version {} (messages {}), here it has version {} (messages {}): install one version",
                                         request_.host, Printable(other.version), other.messages, own.version, own.messages));
  }
  if (!sent.ok()) return NoAnswer(child, sent);
  return other;
}

// The user has already seen what ssh and the other end printed.
Status NearEnd::NoAnswer(ChildProcess& child, const Status& failure) const {
  const std::string& host = request_.host;
  if (failure.code() == Code::kCorrupt) {
    return {Code::kIo, fmt::format("{}: the answer does not come from {}, but is '{}'. Programs that a shell of {} runs at its start must "
                                   "print nothing if there is no terminal",
                                   host, request_.tool, failure.message(), host)};
  }
  child.EndInput();
  const int code = child.Wait(2);
  constexpr int kNotExecutable = 126, kNotFound = 127, kSshFailed = 255, kUsage = 3;
  if (code == kNotFound || code == kNotExecutable) {
    return {Code::kIo, fmt::format("{0} is not installed on {1}, or not in the PATH of a shell there that is not interactive; if it is "
                                   "installed, add --remote-command PATH",
                                   request_.tool, host)};
  }
  if (code == kSshFailed) return {Code::kIo, fmt::format("{}: there is no connection: {}", host, child.HowItEnded())};
  if (code == kUsage) return {Code::kIo, fmt::format("{}: {} there does not copy between machines: install one version", host, request_.tool)};
  const std::string how = child.HowItEnded();
  return {Code::kIo, fmt::format("{}: {} did not answer{}{}", host, request_.tool, how.empty() ? "" : ": ", how)};
}

// A server may count connections that fail, and then refuse others of this machine. So one is tried first.
void NearEnd::AddStreams(unsigned count) {
  (void)NoThrow([&] {
    starting_ = StartThread([this, count] {
      (void)NoThrow([&] {
        if (AddStream()) ParallelFor(count - 1, count - 1, [this](std::size_t) { (void)AddStream(); });
      });
    });
  });
}

// A stream is one of the channel only when the other end has it.
bool NearEnd::AddStream() {
  auto started = ChildProcess::Start(request_.more_command);
  if (!started.ok()) return false;
  ChildProcess* child = started->get();
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return false;
    children_.push_back(std::move(*started));
  }
  Assignment join;
  join.join = other_.socket;
  if (!Greet(*child, join).ok() || !HasJoined(*child)) {
    child->Stop();
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (ending_) return false;
  return channel().Add(std::move(child->output), std::move(child->input), [child] { return child->HowItEnded(); }, Channel::Begin::kTell).ok();
}

// ------------------------------------------------------------------------------------------------- the other end

Result<std::unique_ptr<FarEnd>> FarEnd::Serve(std::uint32_t messages, const std::string& version, std::function<void(int)> stop) {
  LZY_ASSIGN_OR_RETURN(auto streams, TakeOverStreams());
  auto end = std::unique_ptr<FarEnd>(new FarEnd());
  const std::string name = fmt::format("lzy-{:016x}{:016x}", DrawRandom<std::uint64_t>(), DrawRandom<std::uint64_t>());
  LZY_RETURN_IF_ERROR(SendFirst(streams[1].get(), EncodeRecord(Hello{messages, version, NodeName(), name})));
  LZY_ASSIGN_OR_RETURN(const auto hello, TakeFirst(streams[0].get()));
  LZY_ASSIGN_OR_RETURN(const Hello near, DecodeRecord<Hello>(hello));
  if (near.messages != messages) return Status(Code::kIo, "");  // the user's end says so
  LZY_ASSIGN_OR_RETURN(const auto assignment, TakeFirst(streams[0].get()));
  LZY_ASSIGN_OR_RETURN(end->assignment_, DecodeRecord<Assignment>(assignment));
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!end->assignment_.join.empty()) {
    const auto [address, size] = AddressOf(end->assignment_.join);
    const bool joined = connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 && IsOfThisUser(socket.get()) &&
                        SendDescriptors(socket.get(), {streams[0].get(), streams[1].get()});
    for (Descriptor& stream : streams) stream = Descriptor();
    // The stream lives as long as this process.
    char byte = 0;
    while (joined && read(socket.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    if (joined) return std::unique_ptr<FarEnd>();
    return Status(Code::kIo, "");  // that process has ended, or is on another machine of the same name; the user's end has fewer streams
  }
  const std::string& prefix = end->assignment_.prefix;
  const std::string host = prefix.substr(0, prefix.find_last_of(':'));
  end->link_ = std::make_unique<Link>(Link::Ends{1, NodeName(), near.node, host, {}, std::move(stop)});
  const auto [address, size] = AddressOf(name);
  end->ending_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  const bool listens = bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 && listen(socket.get(), 64) == 0;
  LZY_RETURN_IF_ERROR(end->link_->channel().Add(std::move(streams[0]), std::move(streams[1]), {}));
  end->socket_ = std::move(socket);
  // Without it, there is one stream.
  if (listens) (void)NoThrow([&] { end->accepting_ = StartThread([raw = end.get()] { (void)NoThrow([&] { raw->Accept(); }); }); });
  return end;
}

FarEnd::~FarEnd() {
  if (link_) link_->Close();
  const std::uint64_t one = 1;
  if (ending_.valid()) (void)!write(ending_.get(), &one, sizeof one);
  if (accepting_.joinable()) accepting_.join();
  link_.reset();
}

void FarEnd::Accept() {
  for (;;) {
    std::array<pollfd, 2> ready{pollfd{socket_.get(), POLLIN, 0}, pollfd{ending_.get(), POLLIN, 0}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    if (ready[0].revents == 0) continue;
    Descriptor joined(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<Descriptor, 2> streams;
    if (!joined.valid() || !IsOfThisUser(joined.get()) || !TakeDescriptors(joined.get(), streams)) continue;
    if (write(streams[1].get(), kJoined, kJoinedBytes) != static_cast<ssize_t>(kJoinedBytes)) continue;
    if (!link_->channel().Add(std::move(streams[0]), std::move(streams[1]), {}, Channel::Begin::kWait).ok()) return;
    joined_.push_back(std::move(joined));
  }
}

}  // namespace lzy
