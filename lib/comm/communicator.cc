// SelfCommunicator, SplitIntoParts and Agree. Nothing here includes MPI.

#include "comm/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/named_ranks.h"
#include "comm/records.h"
#include "fmt/format.h"

namespace lzy {

namespace {

// A single rank. Checks arguments as MpiCommunicator does, so that a bug shows without mpiexec, too.
class Self final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string ProcessorName() const override {
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
    return name.data();
  }

  Status Barrier() override { return Status::Ok(); }
  Status Broadcast(Bytes&, int root) override { return CheckRoot(root); }
  Result<std::vector<Bytes>> AllGather(ByteSpan mine) override {
    return std::vector<Bytes>{Bytes(mine.begin(), mine.end())};
  }
  Result<std::vector<Bytes>> Gather(ByteSpan mine, int root) override {
    LZY_RETURN_IF_ERROR(CheckRoot(root));
    return AllGather(mine);
  }
  Result<std::uint64_t> AllReduceMax(std::uint64_t value) override { return value; }
  Result<std::uint64_t> AllReduceSum(std::uint64_t value) override { return value; }
  Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive,
                          std::span<const std::uint64_t> counts) override {
    if (counts.size() != 1) {
      return Status(Code::kInternal, fmt::format("ReduceScatterXor: {} counts for 1 rank", counts.size()));
    }
    if (counts[0] != 0) std::memcpy(receive, send, counts[0] * sizeof(std::uint64_t));
    return Status::Ok();
  }
  Result<std::unique_ptr<Communicator>> Split(int color) override {
    return color < 0 ? std::unique_ptr<Communicator>() : std::make_unique<Self>();
  }
  Status RunWithCalls(const CallHandler& handler, const std::function<void(Caller&)>& work) override {
    class ToItself final : public Caller {
     public:
      explicit ToItself(const CallHandler& handler) : handler_(handler) {}
      void Begin(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer, Done done) override {
        if (const Status known = CheckRoot(rank); !known.ok()) return done(known);
        done(handler_.answer(0, call, answer));
      }

     private:
      const CallHandler& handler_;
    } caller(handler);
    return NoThrow([&] { work(caller); });
  }

 private:
  static Status CheckRoot(int root) {
    if (root == 0) return Status::Ok();
    return Status(Code::kInternal, fmt::format("root {} in a communicator of 1 rank", root));
  }
};

/// From harmless to gravest: first codes about the state of a dataset, then errors that the caller can correct, then
/// damage, then failures to do the work, then errors after which nothing is reliable. An interrupt comes last, because it
/// may be the cause of all other errors.
constexpr Code kByGravity[] = {
    Code::kOk,           Code::kUnprotected, Code::kNotFound,
    Code::kBusy,         Code::kTimeout,     Code::kInvalidArgument,
    Code::kNewerFormat,  Code::kUnreadable,  Code::kCorrupt,
    Code::kBeyondRepair, Code::kIo,          Code::kWriteFailed,
    Code::kNoMemory,     Code::kMpi,         Code::kInternal,
    Code::kInterrupted,
};

std::uint64_t GravityOf(Code code) {
  return static_cast<std::uint64_t>(std::find(std::begin(kByGravity), std::end(kByGravity), code) -
                                    std::begin(kByGravity));
}

}  // namespace

std::unique_ptr<Communicator> SelfCommunicator() {
  return std::make_unique<Self>();
}

Result<std::vector<std::unique_ptr<Communicator>>> SplitIntoParts(Communicator& comm,
                                                                 std::span<const std::set<int>> parts) {
  std::vector<std::unique_ptr<Communicator>> out;
  std::vector<std::size_t> rounds;  // by Split: the part of this rank; parts.size() if there is none
  // Greedy: each part goes into the first round in which none of its ranks is busy. All ranks compute the same rounds
  // from the same parts, without communication.
  LZY_RETURN_IF_ERROR(AgreeOn(comm, [&] {
    out.resize(parts.size());
    std::vector<std::set<int>> busy;  // in each round
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto free = std::find_if(busy.begin(), busy.end(), [&](const std::set<int>& ranks) {
        return std::none_of(parts[i].begin(), parts[i].end(), [&](int rank) { return ranks.contains(rank); });
      });
      const auto round = static_cast<std::size_t>(free - busy.begin());
      if (free == busy.end()) {
        busy.emplace_back();
        rounds.push_back(parts.size());
      }
      busy[round].insert(parts[i].begin(), parts[i].end());
      if (parts[i].contains(comm.rank())) rounds[round] = i;
    }
  }));
  // One Split per round. Ranks without a part in it take part with a negative color.
  for (const std::size_t part : rounds) {
    LZY_ASSIGN_OR_RETURN(auto made, comm.Split(part == parts.size() ? -1 : static_cast<int>(part)));
    if (made) out[part] = std::move(made);
  }
  return out;
}

// Usually the first reduction finds that all ranks succeeded, and nothing else is sent.
Status Agree(Communicator& comm, const Status& mine) {
  // One reduction finds both the gravest code and its lowest rank. The code is in the upper half of the key. The
  // lower half is larger for a lower rank.
  constexpr std::uint64_t kLowHalf = 0xffffffff;
  const auto rank = static_cast<std::uint64_t>(comm.rank());
  const std::uint64_t key = mine.ok() ? 0 : GravityOf(mine.code()) << 32 | (kLowHalf - rank);
  LZY_ASSIGN_OR_RETURN(const std::uint64_t worst, comm.AllReduceMax(key));
  if (worst == 0) return Status::Ok();

  // The rank that was found sends code and message to all.
  const std::uint64_t speaker = kLowHalf - (worst & kLowHalf);
  Status said = mine;
  LZY_RETURN_IF_ERROR(BroadcastRecord(comm, said, static_cast<int>(speaker)));
  // All ranks may have the same error, such as a missing file. Then naming a single rank would mislead.
  const bool differs = mine.code() != said.code() || mine.message() != said.message();
  LZY_ASSIGN_OR_RETURN(const std::uint64_t differing, comm.AllReduceSum(differs ? 1 : 0));
  const std::string name = NameOfRank(comm, static_cast<int>(speaker));
  return differing == 0 || name.empty() || said.message().starts_with(name + ":") ? said : said.WithContext(name);
}

}  // namespace lzy
