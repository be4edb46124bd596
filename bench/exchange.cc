// Ways to do Communicator::ReduceScatterXor, timed in turn on the same data, under mpiexec. In each round every way
// does the same, in the same order, so disturbances meet all of them alike. The first round is not counted: it
// compares the results of all ways. `MPI` is MPI_Reduce_scatter as a program would call it, which waits in a loop; `mpi` is
// what lzy does with option exchange=mpi. `engine` is what lzy chooses by itself (docs/performance/exchange.md).
//
// With --waiting, it measures instead what waiting for other ranks costs.
//
// Each rank has words for every owner. Owner i gets the XOR of what all ranks have for it. With --owners, only the
// first ranks own something, as in a restore.

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi/finalize_progress.h"
#include "mpi/mpi_communicator.h"
#include "rows/xor_checks.h"
#include "transport/mpi_call.h"
#include "transport/pairwise_exchange.h"
#include "transport/reduce_exchange.h"
#include "transport/ring_exchange.h"
#include "transport/shared_exchange.h"
#include "command_line.h"

namespace {

using lzy::Status;
using Words = std::vector<std::uint64_t>;

// The command line. 0 owners: all ranks. No names in `only`: all ways. Sizes are bytes of one rank, for all owners
// together; `seconds` is the time for a way and size. With `waiting`, the rest does not matter.
struct Settings {
  std::vector<std::uint64_t> sizes = {1u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20};
  std::uint64_t owners = 0;
  std::vector<std::string> only;
  double seconds = 0.5;
  int most = 200;
  bool waiting = false;
};

// One way, by the name that the table shows. All ranks call it together. `send` has the words for all ranks one after
// the other, `counts` how many each gets; `receive` is as long as this rank's part.
struct Way {
  std::string name;
  std::function<Status(const Words& send, Words& receive, const Words& counts)> run;
};

// A block that is proven by one CRC, and a batch of the engine. Bytes.
constexpr std::uint64_t kBlock = 64u << 10;
constexpr std::uint64_t kBatch = 8u << 20;

// The bytes from word `at` on. XorChecks works on bytes, the exchanges on words.
const std::uint8_t* BytesOf(const Words& words, std::uint64_t at) {
  return reinterpret_cast<const std::uint8_t*>(&words[at]);
}

/// What a commit does with shares of parity (encode/encode_captured.cc): copies them into the send buffer block by
/// block, reduces, and takes the result out of the receive buffer. With `proven`, the CRC of each block is taken when
/// it was just copied, check words are exchanged, and each block is proven when it is taken out.
Status Combine(lzy::Communicator& comm, const Words& shares, Words& parity, const Words& counts, bool proven) {
  static lzy::XorChecks checks;
  static std::uint64_t turn = 0;
  // Kept from call to call, as the engine keeps them, so that fresh pages are not part of the time.
  static Words send, receive;
  // Sizes in 64-bit words. Batches are as large as the engine's, in whole blocks.
  const std::uint64_t part = counts[0];
  const std::uint64_t owners = shares.size() / part;
  const std::uint64_t block = std::min(kBlock / sizeof(std::uint64_t), part);
  const std::uint64_t most = std::min(kBatch / sizeof(std::uint64_t) / owners, part);
  const std::uint64_t step = std::max<std::uint64_t>(1, most / block) * block;
  send.resize(std::max<std::size_t>(send.size(), step * owners));
  receive.resize(std::max<std::size_t>(receive.size(), step));
  checks.Reserve(step * owners / block, static_cast<std::uint32_t>(block * sizeof(std::uint64_t)), counts.size());
  Words now(counts.size());
  // One batch: fill the send buffer, exchange, take out.
  for (std::uint64_t done = 0; done < part; done += step) {
    const std::uint64_t words = std::min(step, part - done) / block * block;
    std::uint64_t at = 0;
    for (std::uint64_t owner = 0; owner < owners; ++owner) {
      now[owner] = words;
      for (std::uint64_t w = 0; w < words; w += block, ++at) {
        std::copy_n(&shares[owner * part + done + w], block, &send[at * block]);
        if (proven) checks.Note(at, BytesOf(send, at * block));
      }
    }
    LZY_RETURN_IF_ERROR(comm.ReduceScatterXor(send.data(), receive.data(), now));
    if (proven) LZY_RETURN_IF_ERROR(checks.Exchange(comm, now, turn++));
    // This rank owns nothing, but has taken part.
    if (now[static_cast<std::size_t>(comm.rank())] == 0) continue;
    for (std::uint64_t w = 0; w < words; w += block) {
      if (proven && !checks.Proves(w / block, BytesOf(receive, w))) return {lzy::Code::kMpi, "a block is wrong"};
      std::copy_n(&receive[w], block, &parity[done + w]);
    }
  }
  return Status::Ok();
}

/// The same for data that lie in a send buffer already, all at once: only the exchange and the proof.
Status ProvenReduction(lzy::Communicator& comm, const Words& send, Words& receive, const Words& counts) {
  static lzy::XorChecks checks;
  static std::uint64_t turn = 0;
  // Sizes in 64-bit words.
  const std::uint64_t block = std::min(kBlock / sizeof(std::uint64_t), counts[0]);
  const std::uint64_t sent = send.size() / block;
  const std::uint64_t received = counts[static_cast<std::size_t>(comm.rank())] / block;
  checks.Reserve(sent, static_cast<std::uint32_t>(block * sizeof(std::uint64_t)), counts.size());
  for (std::uint64_t i = 0; i < sent; ++i) checks.Note(i, BytesOf(send, i * block));
  LZY_RETURN_IF_ERROR(comm.ReduceScatterXor(send.data(), receive.data(), counts));
  LZY_RETURN_IF_ERROR(checks.Exchange(comm, counts, turn++));
  for (std::uint64_t i = 0; i < received; ++i) {
    if (!checks.Proves(i, BytesOf(receive, i * block))) return {lzy::Code::kMpi, "a block is wrong"};
  }
  return Status::Ok();
}

// A way by messages. Its memory is kept from call to call, as the engine keeps it.
template <class Exchange>
Status ByMessages(const Words& send, Words& receive, const Words& counts) {
  static Words staging;
  const Exchange exchange(MPI_COMM_WORLD, Rank(), counts, 1u << 30);
  if (exchange.StagingWords() > staging.size()) staging.resize(exchange.StagingWords());
  return exchange.Run(send.data(), receive.data(), staging.data());
}

// All ways that are possible here; `shared` is null if ranks do not share memory.
std::vector<Way> Ways(lzy::SharedExchange* shared, lzy::Communicator* comm) {
  std::vector<Way> ways = {
      {"MPI",
       [](const Words& send, Words& receive, const Words& counts) {
         const std::vector<int> ints(counts.begin(), counts.end());
         return lzy::CheckMpi(MPI_Reduce_scatter(send.data(), receive.data(), ints.data(), MPI_UINT64_T, MPI_BXOR,
                                                 MPI_COMM_WORLD),
                              "MPI_Reduce_scatter");
       }},
      {"mpi", ByMessages<lzy::ReduceExchange>},
      {"pairwise", ByMessages<lzy::PairwiseExchange>},
      {"ring", ByMessages<lzy::RingExchange>}};
  if (shared != nullptr) {
    ways.push_back({"shared", [=](const Words& send, Words& receive, const Words& counts) {
                      shared->ReduceScatterXor(send.data(), receive.data(), counts);
                      return Status::Ok();
                    }});
  }
  // As the engine has it, with proof of each block and without.
  ways.push_back({"engine", [=](const Words& send, Words& receive, const Words& counts) {
                    return comm->ReduceScatterXor(send.data(), receive.data(), counts);
                  }});
  ways.push_back({"engine, proven", [=](const Words& send, Words& receive, const Words& counts) {
                    return ProvenReduction(*comm, send, receive, counts);
                  }});
  for (const bool proven : {false, true}) {
    ways.push_back({proven ? "commit, proven" : "commit", [=](const Words& send, Words& receive, const Words& counts) {
                      return Combine(*comm, send, receive, counts, proven);
                    }});
  }
  return ways;
}

// Those of the ways that have these names, in the order of the names; all if there are no names. Throws if there is no
// such way, for example "shared" between nodes.
std::vector<Way> Choose(const std::vector<Way>& ways, const std::vector<std::string>& names) {
  std::vector<Way> chosen;
  for (const std::string& name : names) {
    const auto way = std::ranges::find(ways, name, &Way::name);
    if (way == ways.end()) throw std::runtime_error("there is no way '" + name + "' here");
    chosen.push_back(*way);
  }
  return names.empty() ? ways : chosen;
}

// Times all ways for `bytes` that each rank brings, and prints a line of the table. Collective; rank 0 prints. Throws
// if two ways have different results.
void Measure(const Settings& settings, const std::vector<Way>& ways, std::uint64_t bytes) {
  const auto ranks = static_cast<std::uint64_t>(Ranks());
  const std::uint64_t owners = settings.owners == 0 ? ranks : std::min(settings.owners, ranks);
  const std::uint64_t part = std::max<std::uint64_t>(1, bytes / sizeof(std::uint64_t) / owners);
  // Other words on each rank: with equal ones, XOR gives zeros, and a way that adds a wrong part would pass.
  std::mt19937_64 random(static_cast<std::uint64_t>(Rank()) + 1);
  Words send(part * owners);
  for (std::uint64_t& word : send) word = random();
  Words counts(ranks, 0);
  std::fill_n(counts.begin(), owners, part);
  Words expected;
  // Of this rank, by way; only in rounds that count.
  std::vector<double> processor(ways.size());
  // All ways get the same number of rounds: as many as fit into their seconds together.
  const Rounds rounds{.most = settings.most, .seconds = settings.seconds * static_cast<double>(ways.size())};
  const std::vector<Times> times = TakeTurns(ways.size(), rounds, [&](std::size_t w, bool counted) {
    // Filled anew, so that a way which writes nothing cannot pass by the result of the way before.
    Words receive(part, 1);
    double used = 0;
    const double seconds = Timed([&] { Check(ways[w].run(send, receive, counts)); }, &used);
    if (counted) {
      processor[w] += used;
    } else {
      // Every way must give the result of the first one.
      if (w == 0) expected = receive;
      if (receive != expected) throw std::runtime_error(ways[w].name + ": another result");
    }
    return seconds;
  });
  std::vector<double> all(ways.size());
  MPI_Reduce(processor.data(), all.data(), static_cast<int>(all.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (Rank() != 0) return;
  fmt::print("{:>10}", bytes);
  for (std::size_t w = 0; w < ways.size(); ++w) {
    fmt::print("{:>32}", fmt::format("{:.3f} ({:.3f}) [{:.3f}]", Median(times[w]) * 1e3, Least(times[w]) * 1e3,
                                     all[w] / static_cast<double>(times[w].size()) * 1e3));
  }
  fmt::print("\n");
  // A long run shows each line when it is there, also through mpiexec's pipe.
  std::fflush(stdout);
}

// What waiting for other ranks costs: a blocking MPI_Allreduce of one word, beside Communicator::AllReduceMax, which
// waits by MPI_Test and offers the processor to others. With more ranks than cores, the difference is large. Prints a
// row for the table of the page: ranks, microseconds of each, ratio.
void MeasureWaiting(lzy::Communicator& comm) {
  // Calls that are timed together, because the clock is too coarse for one.
  constexpr int kCalls = 50;
  std::uint64_t value = 1, greatest = 0;
  // The number of rounds is fixed, so each rank may have times of its own; rank 0 prints its own.
  const std::vector<Times> times = TakeTurns(2, {.least = 9, .most = 9}, [&](std::size_t way, bool) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < kCalls; ++i) {
      if (way == 0) {
        MPI_Allreduce(&value, &greatest, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
      } else {
        Check(comm.AllReduceMax(value).status());
      }
    }
    return (MPI_Wtime() - begin) / kCalls * 1e6;
  });
  const double blocking = Median(times[0]), yielding = Median(times[1]);
  if (Rank() == 0) fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", Ranks(), blocking, yielding, blocking / yielding);
}

int Run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Ways to XOR what all ranks have for each of them", "bench_exchange");
  app.add_option("--size", settings.sizes, "bytes a rank brings in all")->transform(CLI::AsSizeValue(false));
  app.add_option("--owners", settings.owners, "ranks that get something: the first ones (default all)");
  app.add_option("--only", settings.only, "a way to be timed, more than once for several (default all in turn)");
  app.add_option("--seconds", settings.seconds, "how long to measure, a way and size")->capture_default_str();
  app.add_option("--most", settings.most, "measured calls at most, a way and size")->capture_default_str();
  app.add_flag("--waiting", settings.waiting, "measure instead what waiting for other ranks costs");
  if (const auto exit_code = Parse(app, argc, argv)) return *exit_code;
  if (Ranks() < 2) throw std::runtime_error("two ranks or more are needed");
  auto comm = lzy::MpiCommunicator(MPI_COMM_WORLD);
  Check(comm.status());
  if (settings.waiting) {
    MeasureWaiting(**comm);
    return 0;
  }
  lzy::Result<std::unique_ptr<lzy::SharedExchange>> shared(nullptr);
  // Making shared memory is done once per communicator, so it is told apart.
  const double setup = Timed([&] { shared = lzy::SharedExchange::Make(**comm, [] {}); });
  Check(shared.status());
  const std::vector<Way> ways = Choose(Ways(shared->get(), comm->get()), settings.only);
  if (Rank() == 0) {
    fmt::print("{} ranks; ms, median (least) [processor time of all ranks, mean]; shared memory: {}\n", Ranks(),
               *shared ? fmt::format("set up in {:.3f} ms", setup * 1e3) : "none");
    fmt::print("{:>10}", "bytes");
    for (const Way& way : ways) fmt::print("{:>32}", way.name);
    fmt::print("\n");
  }
  for (const std::uint64_t bytes : settings.sizes) Measure(settings, ways, bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // As lzy's tools do: over TCP, MPICH before 4.2 may hang in MPI_Finalize otherwise.
  lzy::ServeNetworkInFinalize();
  return UnderMpi("bench_exchange", argc, argv, Run);
}
