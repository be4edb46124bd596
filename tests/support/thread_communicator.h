#pragma once
// Several ranks as threads of one process: the collectives without MPI, so that sanitizers see all of them.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace lzy::testing {

/// What calls between ranks were made; those of a rank to itself do not count.
struct CallTraffic {
  std::atomic<std::uint64_t> calls = 0;
  std::atomic<std::uint64_t> answer_bytes = 0;
};

class ThreadCommunicator final : public Communicator {
 public:
  /// What happens on its way to the sum that rank `rank` of a communicator gets. Ranks call it at the same time.
  using Spoil = std::function<void(int rank, std::span<std::uint64_t> received)>;
  /// What the ranks of one communicator share.
  struct Hub {
    explicit Hub(int size)
        : barrier(size),
          calls(static_cast<std::size_t>(size)),
          bytes(static_cast<std::size_t>(size)),
          parts(static_cast<std::size_t>(size)),
          handlers(static_cast<std::size_t>(size)) {}
    std::barrier<> barrier;
    std::vector<const char*> calls;
    std::vector<Bytes> bytes;
    std::vector<const std::uint64_t*> parts;
    std::vector<const CallHandler*> handlers;
    std::mutex mutex;
    std::map<int, std::shared_ptr<Hub>> children;
    Spoil spoil;
    CallTraffic* traffic = nullptr;
    std::function<void(int rank, int size, double seconds)> measured;
  };

  ThreadCommunicator(std::shared_ptr<Hub> hub, int rank, std::vector<std::string> names)
      : hub_(std::move(hub)), rank_(rank), names_(std::move(names)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->bytes.size()); }
  std::string ProcessorName() const override { return names_[static_cast<std::size_t>(rank_)]; }

  Status Barrier() override {
    Meet("Barrier");
    return Status::Ok();
  }
  Status Broadcast(Bytes& bytes, int root) override {
    auto all = Exchange("Broadcast", rank_ == root ? ByteSpan(bytes) : ByteSpan());
    bytes = std::move(all[static_cast<std::size_t>(root)]);
    return Status::Ok();
  }
  Result<std::vector<Bytes>> AllGather(ByteSpan mine) override { return Exchange("AllGather", mine); }
  Result<std::vector<Bytes>> Gather(ByteSpan mine, int root) override {
    return Exchange("Gather", mine, rank_ == root);
  }
  Result<std::uint64_t> AllReduceMax(std::uint64_t value) override {
    std::uint64_t out = 0;
    for (std::uint64_t one : Numbers("AllReduceMax", value)) out = std::max(out, one);
    return out;
  }
  Result<std::uint64_t> AllReduceSum(std::uint64_t value) override {
    std::uint64_t out = 0;
    for (std::uint64_t one : Numbers("AllReduceSum", value)) out += one;
    return out;
  }
  Status RunWithCalls(const CallHandler& handler, const std::function<void(Caller&)>& work) override {
    class Direct final : public Caller {
     public:
      Direct(Hub& hub, int rank) : hub_(hub), rank_(rank) {}
      void Begin(int rank, std::vector<std::uint8_t> call, MutableByteSpan answer, Done done) override {
        const CallHandler& handler = *hub_.handlers[static_cast<std::size_t>(rank)];
        const std::size_t length = handler.answer(rank_, call, answer.first(handler.most_answer));
        if (hub_.traffic != nullptr && rank != rank_) {
          ++hub_.traffic->calls;
          hub_.traffic->answer_bytes += length;
        }
        done(length);
      }

     private:
      Hub& hub_;
      const int rank_;
    } caller(*hub_, rank_);
    hub_->handlers[static_cast<std::size_t>(rank_)] = &handler;
    Meet("RunWithCalls");
    const Status worked = NoThrow([&] { work(caller); });
    hub_->barrier.arrive_and_wait();
    return worked;
  }
  Status ReduceScatterXor(const std::uint64_t* send, std::uint64_t* receive,
                          std::span<const std::uint64_t> counts) override {
    hub_->parts[static_cast<std::size_t>(rank_)] = send;
    Meet("ReduceScatterXor");
    std::uint64_t first = 0;
    for (int r = 0; r < rank_; ++r) first += counts[static_cast<std::size_t>(r)];
    for (std::uint64_t i = 0; i < counts[static_cast<std::size_t>(rank_)]; ++i) {
      std::uint64_t word = 0;
      for (const std::uint64_t* part : hub_->parts) word ^= part[first + i];
      receive[i] = word;
    }
    if (hub_->spoil) hub_->spoil(rank_, {receive, counts[static_cast<std::size_t>(rank_)]});
    hub_->barrier.arrive_and_wait();
    return Status::Ok();
  }
  Status MeasureExchange(double seconds, bool /*again*/) override {
    Meet("MeasureExchange");
    if (hub_->measured) hub_->measured(rank_, size(), seconds);
    hub_->barrier.arrive_and_wait();
    return Status::Ok();
  }
  Result<std::unique_ptr<Communicator>> Split(int color) override {
    std::vector<std::uint64_t> colors = Numbers("Split", static_cast<std::uint64_t>(color));
    int size = 0, rank = 0;
    std::vector<std::string> names;
    for (std::size_t r = 0; r < colors.size(); ++r) {
      if (static_cast<int>(colors[r]) != color) continue;
      if (static_cast<int>(r) < rank_) ++rank;
      ++size;
      names.push_back(names_[r]);
    }
    std::shared_ptr<Hub> child;
    if (color >= 0) {
      std::lock_guard lock(hub_->mutex);
      auto& slot = hub_->children[color];
      if (!slot) slot = std::make_shared<Hub>(size);
      slot->spoil = hub_->spoil;
      slot->traffic = hub_->traffic;
      slot->measured = hub_->measured;
      child = slot;
    }
    hub_->barrier.arrive_and_wait();
    if (rank_ == 0) hub_->children.clear();
    hub_->barrier.arrive_and_wait();
    if (color < 0) return std::unique_ptr<Communicator>();
    return std::unique_ptr<Communicator>(std::make_unique<ThreadCommunicator>(child, rank, names));
  }

 private:
  /// All ranks are here, in the same call: anything else is what MPI would hang in, or worse.
  void Meet(const char* call) {
    hub_->calls[static_cast<std::size_t>(rank_)] = call;
    hub_->barrier.arrive_and_wait();
    for (const char* other : hub_->calls) {
      if (std::string(other) == call) continue;
      std::fprintf(stderr, "rank %d is in %s while another is in %s\n", rank_, call, other);
      std::abort();
    }
  }
  std::vector<Bytes> Exchange(const char* call, ByteSpan mine, bool receives = true) {
    hub_->bytes[static_cast<std::size_t>(rank_)].assign(mine.begin(), mine.end());
    Meet(call);
    std::vector<Bytes> all;
    if (receives) all = hub_->bytes;
    hub_->barrier.arrive_and_wait();
    return all;
  }
  std::vector<std::uint64_t> Numbers(const char* call, std::uint64_t value) {
    std::uint8_t raw[8];
    StoreLe(raw, value);
    std::vector<std::uint64_t> out;
    for (const Bytes& one : Exchange(call, raw)) out.push_back(LoadLe<std::uint64_t>(one.data()));
    return out;
  }

  std::shared_ptr<Hub> hub_;
  const int rank_;
  const std::vector<std::string> names_;
};

/// Calls work(communicator) on `ranks` threads at once. `names`: processor names by rank; all "node" when empty.
inline void RunRanks(int ranks, const std::function<void(Communicator&)>& work, std::vector<std::string> names = {},
                     ThreadCommunicator::Spoil spoil = nullptr, CallTraffic* traffic = nullptr,
                     std::function<void(int rank, int size, double seconds)> measured = nullptr) {
  if (names.empty()) names.assign(static_cast<std::size_t>(ranks), "node");
  auto hub = std::make_shared<ThreadCommunicator::Hub>(ranks);
  hub->spoil = std::move(spoil);
  hub->traffic = traffic;
  hub->measured = std::move(measured);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator comm(hub, rank, names);
      work(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lzy::testing
