#include "transport/shared_exchange.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/node.h"
#include "comm/records.h"
#include "fmt/format.h"
#include "transport/beside.h"

namespace lzy {

namespace {

constexpr std::uint64_t kPage = 4096;
// The most words of a slot. Longer steps need fewer waits. Above this, the data of one rank for another leave the
// second-level cache before they are fetched (docs/performance/exchange.md).
constexpr std::uint64_t kMostStep = (std::uint64_t{256} << 10) / sizeof(std::uint64_t);
// Number of yields before sleeping. A short wait is for a rank that runs on another core, or could run on this one. Both
// take less time than a sleep. kNap bounds a sleep, so `idle` is called every millisecond.
constexpr int kYields = 20;
constexpr std::timespec kNap = {0, 1'000'000};

/// The information with which other ranks find the memory of rank 0. The random token is in the name of the memfd, so it
/// cannot be confused with another one. descriptor -1: there is no memory. `way`: the way that rank 0 chose.
struct Offer {
  std::uint64_t token = 0;
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::string node;
  ExchangeWay way = ExchangeWay::kAuto;

  std::string Name() const { return fmt::format("lzy-exchange-{:016x}", token); }
  std::string Path() const { return fmt::format("/proc/{}/fd/{}", process, descriptor); }

  LZY_FIELDS(token, process, descriptor, node, way)
};

/// A descriptor of new memory, invalid if there is none. Map allocates the memory later. The descriptor is closed after the
/// exchange of descriptors: a mapping needs none, so none stays open in the program.
Descriptor CreateMemory(std::uint64_t bytes, Offer& offer) {
  // A file beyond this limit would not be an error, but SIGXFSZ, which ends the program.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes > limit.rlim_cur) return Descriptor();
  offer.process = getpid();
  // GRND_NONBLOCK: early after boot, there may be no random numbers for minutes.
  if (getrandom(&offer.token, sizeof offer.token, GRND_NONBLOCK) != sizeof offer.token) return Descriptor();
  Descriptor made(memfd_create(offer.Name().c_str(), MFD_CLOEXEC));
  return ftruncate(made.get(), static_cast<off_t>(bytes)) == 0 ? std::move(made) : Descriptor();
}

/// Opens the memory of rank 0; invalid if this fails. On another node, or in another name space, the number may belong to
/// another process. So the link is read first, and other files are not even opened.
Descriptor OpenMemory(const Offer& offer) {
  const std::string expected = fmt::format("/memfd:{}", offer.Name());
  std::array<char, 128> target{};
  const ssize_t length = readlink(offer.Path().c_str(), target.data(), target.size());
  if (length < static_cast<ssize_t>(expected.size()) ||
      expected.compare(0, expected.size(), target.data(), expected.size()) != 0) {
    return Descriptor();
  }
  return Descriptor(open(offer.Path().c_str(), O_RDWR | O_CLOEXEC));
}

// Without FUTEX_PRIVATE_FLAG, because other processes wait on the same word.
long Futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const std::timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void Xor(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) to[i] = a[i] ^ b[i];
}

// Number of rounds with slots of their own: ReduceScatterXor explains why four are enough.
constexpr std::uint64_t kSlotRounds = 4;

// Words of a slot: a whole number of cache lines, so no line has words for two ranks.
std::uint64_t StepFor(std::size_t size, std::uint64_t memory) {
  const std::uint64_t slots = kSlotRounds * (size - 1);
  return std::clamp<std::uint64_t>(memory / sizeof(std::uint64_t) / slots / 8 * 8, 8, kMostStep);
}

}  // namespace

/// The messages of a rank to the others. It is on a page of its own in the rank's part, so no slot shares its cache line.
struct SharedExchange::Post {
  std::atomic<std::uint32_t> round{0};     // the last round for which this rank's slots are filled
  std::atomic<std::uint32_t> sleepers{0};  // number of ranks that wait for `round` to change
};

SharedExchange::SharedExchange(int rank, int size, std::uint64_t memory, std::function<void()> idle)
    : rank_(static_cast<std::size_t>(rank)),
      size_(static_cast<std::size_t>(size)),
      step_(StepFor(size_, memory)),
      idle_(std::move(idle)) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "other processes take no locks of this one");
}

SharedExchange::~SharedExchange() {
  if (base_ != nullptr) munmap(base_, PartBytes() * size_);
}

std::uint64_t SharedExchange::PartBytes() const {
  const std::uint64_t slots = kSlotRounds * (size_ - 1) * step_ * sizeof(std::uint64_t);
  return (kPage + slots + kPage - 1) / kPage * kPage;
}

// fallocate comes before the first access: it fails if there is no memory, where an access would raise SIGBUS. Every rank
// allocates its own part, so the pages are on its memory node.
bool SharedExchange::Map(int descriptor) {
  const auto at = static_cast<off_t>(rank_ * PartBytes());
  if (fallocate(descriptor, 0, at, static_cast<off_t>(PartBytes())) != 0) return false;
  void* mapped = mmap(nullptr, PartBytes() * size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return false;
  base_ = static_cast<std::uint8_t*>(mapped);
  new (base_ + at) Post();
  return true;
}

Result<std::unique_ptr<SharedExchange>> SharedExchange::Make(Communicator& comm, std::function<void()> idle,
                                                             std::uint64_t memory) {
  ExchangeWay way = ExchangeWay::kShared;
  return Make(comm, way, std::move(idle), memory);
}

// Rank 0's way comes with its offer, so ranks agree on it without a message of its own.
Result<std::unique_ptr<SharedExchange>> SharedExchange::Make(Communicator& comm, ExchangeWay& way, std::function<void()> idle,
                                                             std::uint64_t memory) {
  const auto shares = [&way] { return way == ExchangeWay::kAuto || way == ExchangeWay::kShared; };
  std::unique_ptr<SharedExchange> made(new SharedExchange(comm.rank(), comm.size(), memory, std::move(idle)));
  Offer offer;
  const Descriptor created = comm.rank() == 0 && shares() ? CreateMemory(made->PartBytes() * made->size_, offer) : Descriptor();
  offer.descriptor = created.get();
  offer.node = ThisNode();
  offer.way = way;
  LZY_RETURN_IF_ERROR(BroadcastRecord(comm, offer));
  way = offer.way;
  if (!shares()) return std::unique_ptr<SharedExchange>();
  bool mapped = false;
  if (offer.descriptor >= 0 && offer.node == ThisNode()) {
    const Descriptor opened = OpenMemory(offer);
    mapped = opened.valid() && made->Map(opened.get());
  }
  // This reduction is also a barrier. Rank 0 keeps its descriptor until all ranks have opened the memory. No rank reads a
  // Post until all have made theirs.
  LZY_ASSIGN_OR_RETURN(const std::uint64_t failures, comm.AllReduceSum(mapped ? 0 : 1));
  if (failures != 0) made.reset();
  return made;
}

SharedExchange::Post& SharedExchange::PostOf(std::size_t rank) const {
  return *std::launder(reinterpret_cast<Post*>(base_ + rank * PartBytes()));
}

// A rank has no slot for itself, so later ones move up by one place.
std::uint64_t* SharedExchange::Slot(std::uint32_t round, std::size_t from, std::size_t to) const {
  const std::size_t place = round % kSlotRounds * (size_ - 1) + (to < from ? to : to - 1);
  return reinterpret_cast<std::uint64_t*>(base_ + from * PartBytes() + kPage) + place * step_;
}

// This and Await close the gap between looking and sleeping. Here, `round` is stored before `sleepers` is read. There,
// `sleepers` is raised before `round` is read. All are sequentially consistent, so at least one side sees the other.
// If the sleeper missed the round, it is woken, or FUTEX_WAIT finds that the word has changed.
void SharedExchange::Announce(std::uint32_t round) {
  Post& post = PostOf(rank_);
  post.round.store(round);
  if (post.sleepers.load() != 0) Futex(post.round, FUTEX_WAKE, INT_MAX, nullptr);
}

// Rounds are compared by their difference, which is right even if the counter wraps around.
void SharedExchange::Await(std::uint32_t round, std::size_t rank) {
  Post& post = PostOf(rank);
  const auto before = [round](std::uint32_t reached) { return static_cast<std::int32_t>(reached - round) < 0; };
  for (int i = 0; i < kYields; ++i) {
    if (!before(post.round.load())) return;
    sched_yield();
  }
  for (;;) {
    post.sleepers.fetch_add(1);
    const std::uint32_t seen = post.round.load();
    if (before(seen)) Futex(post.round, FUTEX_WAIT, seen, &kNap);
    post.sleepers.fetch_sub(1);
    if (!before(post.round.load())) return;
    idle_();
    BesideProgram::StopIfEnding();
  }
}

void SharedExchange::Fill(std::uint32_t round, std::uint64_t done, const std::uint64_t* send,
                          std::span<const std::uint64_t> counts) {
  const std::uint64_t* part = send;
  for (std::size_t to = 0; to < size_; part += counts[to], ++to) {
    const std::uint64_t words = Words(counts[to], done);
    if (to != rank_ && words != 0) std::memcpy(Slot(round, rank_, to), part + done, words * sizeof(std::uint64_t));
  }
  Announce(round);
}

// Starts with the next rank, so ranks do not all read the same part at once. The first one is added to this rank's own
// share, so `receive` need not be cleared. A rank that gets no words still waits for all others: Fill relies on it.
void SharedExchange::Fetch(std::uint32_t round, std::uint64_t words, const std::uint64_t* own, std::uint64_t* receive) {
  for (std::size_t i = 1; i < size_; ++i) {
    const std::size_t from = (rank_ + i) % size_;
    Await(round, from);
    if (words != 0) Xor(receive, i == 1 ? own : receive, Slot(round, from, rank_), words);
  }
}

// In every round, each rank copies the next words of its data for the others into its slots, and announces this. Then it
// fetches the data of the others. It fills its slots for the next round before it fetches, so no rank waits if all are
// equally fast.
//
// No rank announces that it has fetched. A rank that has filled round r has fetched round r - 2. A rank that is about to
// fill r + 1 has fetched r - 1, hence has seen every other rank fill r - 1. So every rank has fetched r - 3, and the slots
// of r - 3 may be overwritten: r + 1 uses the same ones.
void SharedExchange::ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive,
                                      std::span<const std::uint64_t> counts) {
  const std::uint64_t longest = *std::max_element(counts.begin(), counts.end());
  if (longest == 0) return;
  const std::uint64_t* own = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank_), send,
                                             [](const std::uint64_t* at, std::uint64_t count) { return at + count; });
  Fill(++round_, 0, send, counts);
  for (std::uint64_t done = 0; done < longest; done += step_) {
    const std::uint32_t round = round_;
    if (done + step_ < longest) Fill(++round_, done + step_, send, counts);
    // `own` and `receive` may be null if there are no words for this rank.
    const std::uint64_t words = Words(counts[rank_], done);
    const std::uint64_t at = words == 0 ? 0 : done;
    Fetch(round, words, own + at, receive + at);
  }
}

}  // namespace lzy
