#include "objects/ask.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/descriptor.h"
#include "base/record.h"
#include "objects/cdf.h"

namespace lzy {
namespace {

using Clock = std::chrono::steady_clock;

Status SystemError(const std::string& what) {
  return {Code::kIo, fmt::format("{}: {}", what, std::strerror(errno))};
}

// A file in memory instead of a pipe, which a helper that does not read could fill.
Result<Descriptor> FileWith(ByteSpan bytes) {
  Descriptor file(memfd_create("lzy-request", MFD_CLOEXEC));
  if (!file.valid()) return SystemError("memfd_create");
  while (!bytes.empty()) {
    const ssize_t count = write(file.get(), bytes.data(), bytes.size());
    if (count < 0) return SystemError("write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

/// The process, which does not outlive this.
class Child {
 public:
  // Keeps only the search paths of libraries from the caller's environment. Other variables are meant for the job, not for
  // the helper.
  static Result<Child> Start(const Helper& helper, int request, int answer, int file) {
    std::vector<std::string> kept;
    for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
      if (const char* const value = std::getenv(name)) kept.push_back(fmt::format("{}={}", name, value));
    }
    std::vector<char*> variables;
    for (std::string& one : kept) variables.push_back(one.data());
    variables.push_back(nullptr);
    std::string name = helper.program;
    std::array<char*, 2> words = {name.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, request, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, answer, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, file, 3);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    Child child;
    const int failed = posix_spawn(&child.process_, name.c_str(), &actions, nullptr, words.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    if (failed == 0) return child;
    child.process_ = 0;
    return Status(Code::kIo, fmt::format("{} could not be started: {}", helper.program, std::strerror(failed)));
  }
  Child(Child&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
  Child& operator=(Child&&) = delete;
  ~Child() { Kill(); }

  void Kill() {
    if (process_ > 0) kill(process_, SIGKILL);
    (void)Wait();
  }

  // For one that has closed its answer, and so has nothing left to do.
  Status WaitShortly() {
    constexpr auto kMost = std::chrono::seconds(5);
    constexpr auto kLook = std::chrono::milliseconds(1);
    siginfo_t ended{};
    const auto end = Clock::now() + kMost;
    while (waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) {
      if (Clock::now() >= end) return Status(Code::kInternal, "the process that parses it does not end");
      std::this_thread::sleep_for(kLook);
    }
    return Wait();
  }

  // How it ended.
  Status Wait() {
    if (process_ <= 0) return Status::Ok();
    int how = 0;
    pid_t ended = 0;
    do {
      ended = waitpid(process_, &how, 0);
    } while (ended < 0 && errno == EINTR);
    process_ = 0;
    if (ended < 0) return Status::Ok();  // a caller that ignores SIGCHLD
    if (WIFSIGNALED(how)) return {Code::kInternal, fmt::format("signal {} ended the process that parses it", WTERMSIG(how))};
    if (WEXITSTATUS(how) != 0) return {Code::kInternal, fmt::format("the process that parses it ended with exit code {}", WEXITSTATUS(how))};
    return Status::Ok();
  }

 private:
  Child() = default;
  pid_t process_ = 0;
};

// Everything that comes out of `from`, until it ends or time is up.
Status ReadAnswer(const Helper& helper, int from, FrameReader& reader, std::vector<std::uint8_t>* frames) {
  constexpr int kLook = 200;  // ms
  const auto end = Clock::now() + helper.most_time;
  std::vector<std::uint8_t> buffer(std::size_t{1} << 16);
  std::uint64_t told = 0;
  while (true) {
    if (helper.stop && helper.stop()) return {Code::kInterrupted, "interrupted"};
    if (Clock::now() >= end) return {Code::kTimeout, fmt::format("it takes longer than {} seconds", helper.most_time.count())};
    pollfd waits{from, POLLIN, 0};
    const int ready = poll(&waits, 1, kLook);
    if (ready < 0 && errno != EINTR) return SystemError("poll");
    if (ready <= 0) continue;
    const ssize_t count = read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read");
    if (count == 0) return Status::Ok();
    const ByteSpan bytes(buffer.data(), static_cast<std::size_t>(count));
    told += bytes.size();
    if (told > helper.most_bytes) return {Code::kNoMemory, "it has too many objects"};
    LZY_RETURN_IF_ERROR(reader.Add(bytes));
    if (frames != nullptr) frames->insert(frames->end(), bytes.begin(), bytes.end());
  }
}

Status AskInto(const Helper& helper, const File& of, const MapRequest& request, FrameReader& reader,
               std::vector<std::uint8_t>* frames) {
  // Uses descriptors from 10 on, so that they do not collide with those of the child.
  const auto above = [](int fd) { return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 10)); };
  LZY_ASSIGN_OR_RETURN(const Descriptor asked, FileWith(EncodeRecord(request)));
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return SystemError("pipe");
  const Descriptor out(ends[0]);
  Descriptor in(ends[1]);
  const Descriptor file = above(of.SystemDescriptor()), input = above(asked.get());
  Descriptor answer = above(in.get());
  if (!file.valid() || !input.valid() || !answer.valid()) return SystemError("dup");
  LZY_ASSIGN_OR_RETURN(Child child, Child::Start(helper, input.get(), answer.get(), file.get()));
  // The answer ends when the child does.
  in = Descriptor();
  { const Descriptor closed = std::move(answer); }
  if (Status read = ReadAnswer(helper, out.get(), reader, frames); !read.ok()) {
    child.Kill();
    return read;
  }
  LZY_RETURN_IF_ERROR(child.WaitShortly());
  if (!reader.ended()) return {Code::kInternal, "the process that parses it ended early"};
  return Status::Ok();
}

constexpr std::array<std::uint8_t, 8> kHdf5 = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};

std::string IndicesText(const std::vector<std::uint64_t>& all) {
  return fmt::format("[{}]", fmt::join(all, ", "));
}

}  // namespace

Answer Ask(const Helper& helper, const File& file, const MapRequest& request) {
  Answer answer;
  FrameReader reader(answer.map);
  answer.failed = AskInto(helper, file, request, reader, request.wanted.empty() ? &answer.frames : nullptr);
  answer.map.Seal(answer.failed.ok() && reader.complete());
  return answer;
}

// HDF5 begins at 0, 512, 1024, 2048, ...; the bytes before belong to other programs.
bool HasObjects(File& file) {
  std::array<std::uint8_t, kHdf5.size()> head{};
  constexpr std::uint64_t kMostUserBlock = std::uint64_t{1} << 40;
  for (std::uint64_t at = 0; at <= kMostUserBlock; at = at == 0 ? 512 : at * 2) {
    const auto count = file.ReadAt(at, head);
    if (!count.ok()) continue;
    if (at == 0 && *count >= 4 && IsCdf(head)) return true;
    if (*count == head.size() && head == kHdf5) return true;
    if (*count == 0) return false;
  }
  return false;
}

void NameObjects(const ObjectMap& index, const std::vector<Damage*>& damage) {
  for (Damage* one : damage) {
    FoundObjects found = index.Find({one->offset, one->offset + one->length});
    one->objects = std::move(found.objects);
    one->objects_left_off = found.left_off;
  }
}

Status NameObjects(const Helper& helper, const File& file, const std::vector<Damage*>& damage) {
  MapRequest request;
  for (const Damage* one : damage) {
    if (one->length == 0) continue;
    const Interval range{one->offset, one->offset + one->length};
    request.wanted.push_back(range);
    // Edited bytes are right for their writer.
    if (!one->repaired && !one->transient && !IsEdit(one->cause)) request.wrong.push_back(range);
  }
  if (request.wanted.empty()) return Status::Ok();
  SortAndJoin(request.wanted);
  SortAndJoin(request.wrong);
  const Answer answer = Ask(helper, file, request);
  NameObjects(answer.map, damage);
  return answer.failed;
}

std::string Text(const DamagedObject& object) {
  if (object.kind == "unused") return "unused space";
  if (object.kind == "metadata") return object.name + " (metadata)";
  std::string out = object.name + " (raw data";
  if (object.chunk) out += ", chunk " + IndicesText(*object.chunk);
  if (object.chunks > 1) out += fmt::format(", {} chunks", object.chunks);
  if (object.filtered) out += object.chunks > 1 ? ", compressed or filtered" : ", all of it, because it is compressed or filtered";
  if (object.elements) {
    const auto& [first, last] = *object.elements;
    if (!first.empty()) out += first == last ? ", element " + IndicesText(first) : ", elements " + IndicesText(first) + " to " + IndicesText(last);
  }
  return out + ")";
}

std::string ShortText(const DamagedObject& object) {
  if (object.kind == "unused") return "unused space";
  if (object.kind == "metadata") return object.name + " (metadata)";
  if (object.chunk) return object.name + " chunk " + IndicesText(*object.chunk);
  return object.chunks > 1 ? fmt::format("{} ({} chunks)", object.name, object.chunks) : object.name;
}

}  // namespace lzy
