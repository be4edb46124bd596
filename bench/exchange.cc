// Ways to do Communicator::ReduceScatterXor, timed in turn on the same data, under mpiexec. In each round every way
// does the same, in the same order, so disturbances meet all of them alike. The first round is not counted: it
// compares the results of all ways. `MPI` (MPI_Reduce_scatter) is only here, not in the library: it was the fastest
// nowhere (docs/performance/exchange.md).

#include <fmt/format.h>
#include <mpi.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi/mpi_communicator.h"
#include "rows/xor_checks.h"
#include "transport/pairwise_exchange.h"
#include "transport/ring_exchange.h"
#include "transport/shared_exchange.h"
#include "under_mpi.h"

namespace {

using lzy::Status;
using Words = std::vector<std::uint64_t>;

// The command line.
struct Settings {
  std::vector<std::uint64_t> sizes = {1u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20};
  std::uint64_t owners = 0;
  std::vector<std::string> only;
  double seconds = 0.5;
  int most = 200;
};

using ::Check;
void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// Processor time of this process. A way that spins while it waits takes it from other ranks.
double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One way, by the name that the table shows. `counts` as in ReduceScatterXor.
struct Way {
  std::string name;
  std::function<void(const Words&, Words&, const Words& counts)> run;
};

/// What a commit does with shares of parity (encode/encode_captured.cc): copies them into the send buffer block by
/// block, reduces, and takes the result out of the receive buffer. With `proven`, the CRC of each block is taken when
/// it was just copied, check words are exchanged, and each block is proven when it is taken out.
Status Combine(lzy::Communicator& comm, const Words& shares, Words& parity, const Words& counts, bool proven) {
  constexpr std::uint64_t kBlock = 64u << 10;
  constexpr std::uint64_t kBatch = 8u << 20;
  static lzy::XorChecks checks;
  static std::uint64_t turn = 0;
  static Words send, receive;
  // Sizes in 64-bit words. Batches are as large as the engine's, in whole blocks.
  const std::uint64_t part = counts[0];
  const std::uint64_t owners = shares.size() / part;
  const std::uint64_t block = std::min(kBlock / sizeof(std::uint64_t), part);
  const std::uint64_t most = std::min(kBatch / sizeof(std::uint64_t) / owners, part);
  const std::uint64_t step = std::max<std::uint64_t>(1, most / block) * block;
  const auto bytes_of = [](const Words& words) { return reinterpret_cast<const std::uint8_t*>(words.data()); };
  const std::uint64_t block_bytes = block * sizeof(std::uint64_t);
  send.resize(std::max<std::size_t>(send.size(), step * owners));
  receive.resize(std::max<std::size_t>(receive.size(), step));
  checks.Reserve(step * owners / block, static_cast<std::uint32_t>(block_bytes), counts.size());
  Words now(counts.size());
  // One batch: fill the send buffer, exchange, take out.
  for (std::uint64_t done = 0; done < part; done += step) {
    const std::uint64_t words = std::min(step, part - done) / block * block;
    std::uint64_t at = 0;
    for (std::uint64_t owner = 0; owner < owners; ++owner) {
      now[owner] = words;
      for (std::uint64_t w = 0; w < words; w += block, ++at) {
        std::copy_n(shares.begin() + static_cast<std::ptrdiff_t>(owner * part + done + w), block,
                    send.begin() + static_cast<std::ptrdiff_t>(at * block));
        if (proven) checks.Note(at, bytes_of(send) + at * block_bytes);
      }
    }
    LZY_RETURN_IF_ERROR(comm.ReduceScatterXor(send.data(), receive.data(), now));
    if (proven) LZY_RETURN_IF_ERROR(checks.Exchange(comm, now, turn++));
    // This rank owns nothing, but has taken part.
    if (now[static_cast<std::size_t>(comm.rank())] == 0) continue;
    for (std::uint64_t w = 0; w < words; w += block) {
      if (proven && !checks.Proves(w / block, bytes_of(receive) + w * sizeof(std::uint64_t))) {
        return {lzy::Code::kMpi, "a block is wrong"};
      }
      std::copy_n(receive.begin() + static_cast<std::ptrdiff_t>(w), block,
                  parity.begin() + static_cast<std::ptrdiff_t>(done + w));
    }
  }
  return Status::Ok();
}

/// The same for data that lie in a send buffer already, all at once: only the exchange and the proof.
Status ProvenReduction(lzy::Communicator& comm, const Words& send, Words& receive, const Words& counts) {
  constexpr std::uint64_t kBlock = 64u << 10;
  static lzy::XorChecks checks;
  static std::uint64_t turn = 0;
  const std::uint64_t block = std::min<std::uint64_t>(kBlock, counts[0] * sizeof(std::uint64_t));
  const auto bytes_of = [](const Words& words) { return reinterpret_cast<const std::uint8_t*>(words.data()); };
  const std::uint64_t sent = send.size() * sizeof(std::uint64_t) / block;
  checks.Reserve(sent, static_cast<std::uint32_t>(block), counts.size());
  for (std::uint64_t i = 0; i < sent; ++i) checks.Note(i, bytes_of(send) + i * block);
  LZY_RETURN_IF_ERROR(comm.ReduceScatterXor(send.data(), receive.data(), counts));
  LZY_RETURN_IF_ERROR(checks.Exchange(comm, counts, turn++));
  const std::uint64_t received = counts[static_cast<std::size_t>(comm.rank())] * sizeof(std::uint64_t) / block;
  for (std::uint64_t i = 0; i < received; ++i) {
    if (!checks.Proves(i, bytes_of(receive) + i * block)) return {lzy::Code::kMpi, "a block is wrong"};
  }
  return Status::Ok();
}

// A way by messages. Its memory is kept from call to call, as the engine keeps it.
template <class Exchange>
Way ByMessages(const char* name) {
  return {name, [](const Words& send, Words& receive, const Words& counts) {
            static Words staging;
            const Exchange exchange(MPI_COMM_WORLD, Rank(), counts, 1u << 30);
            if (exchange.StagingWords() > staging.size()) staging.resize(exchange.StagingWords());
            Check(exchange.Run(send.data(), receive.data(), staging.data()));
          }};
}

// All ways that are possible here; `shared` is null if ranks do not share memory.
std::vector<Way> Ways(lzy::SharedExchange* shared, lzy::Communicator* comm) {
  std::vector<Way> ways;
  ways.push_back({"MPI", [](const Words& send, Words& receive, const Words& counts) {
                    const std::vector<int> ints(counts.begin(), counts.end());
                    Check(MPI_Reduce_scatter(send.data(), receive.data(), ints.data(), MPI_UINT64_T, MPI_BXOR,
                                             MPI_COMM_WORLD),
                          "MPI_Reduce_scatter");
                  }});
  ways.push_back(ByMessages<lzy::PairwiseExchange>("pairwise"));
  ways.push_back(ByMessages<lzy::RingExchange>("ring"));
  if (shared != nullptr) {
    ways.push_back({"shared", [=](const Words& send, Words& receive, const Words& counts) {
                      shared->ReduceScatterXor(send.data(), receive.data(), counts);
                    }});
  }
  // As the engine has it, with proof of each block and without.
  ways.push_back({"engine", [comm](const Words& send, Words& receive, const Words& counts) {
                    Check(comm->ReduceScatterXor(send.data(), receive.data(), counts));
                  }});
  ways.push_back({"engine, proven", [comm](const Words& send, Words& receive, const Words& counts) {
                    Check(ProvenReduction(*comm, send, receive, counts));
                  }});
  ways.push_back({"commit", [comm](const Words& send, Words& receive, const Words& counts) {
                    Check(Combine(*comm, send, receive, counts, false));
                  }});
  ways.push_back({"commit, proven", [comm](const Words& send, Words& receive, const Words& counts) {
                    Check(Combine(*comm, send, receive, counts, true));
                  }});
  return ways;
}

// Seconds of one call.
struct Timing {
  double median = 0;
  double least = 0;
  // Of all ranks together.
  double processor = 0;
};

/// Elapsed seconds of the slowest rank; the same on all ranks. Adds this rank's processor time to `*processor`.
double Timed(const std::function<void()>& work, double* processor = nullptr) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double used = ProcessorSeconds();
  const double start = MPI_Wtime();
  work();
  double mine = MPI_Wtime() - start;
  if (processor != nullptr) *processor += ProcessorSeconds() - used;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

// Times all ways for `bytes` that each rank brings. All ranks do the same number of rounds, because `spent` is the
// same on all.
std::vector<Timing> Measure(const Settings& settings, const std::vector<Way>& ways, std::uint64_t bytes) {
  const auto ranks = static_cast<std::uint64_t>(Ranks());
  const std::uint64_t owners = settings.owners == 0 ? ranks : std::min(settings.owners, ranks);
  const std::uint64_t part = std::max<std::uint64_t>(1, bytes / sizeof(std::uint64_t) / owners);
  std::mt19937_64 random(static_cast<std::uint64_t>(Rank()) + 1);
  Words send(part * owners);
  for (std::uint64_t& word : send) word = random();
  Words counts(ranks, 0);
  std::fill_n(counts.begin(), owners, part);
  Words expected(part);
  std::vector<std::vector<double>> seconds(ways.size());
  std::vector<double> processor(ways.size());
  double spent = 0;
  // Round -1 is not counted. At least five rounds are.
  for (int i = -1; i < settings.most && (i < 5 || spent < settings.seconds * static_cast<double>(ways.size())); ++i) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      Words receive(part, 1);
      double used = 0;
      const double one = Timed([&] { ways[w].run(send, receive, counts); }, &used);
      // Every way must give the result of the first one.
      if (i < 0) {
        if (w == 0) expected = receive;
        if (receive != expected) throw std::runtime_error(ways[w].name + ": another result");
        continue;
      }
      spent += one;  // the same on all ranks
      seconds[w].push_back(one);
      processor[w] += used;
    }
  }
  std::vector<Timing> timings;
  for (std::size_t w = 0; w < ways.size(); ++w) {
    std::sort(seconds[w].begin(), seconds[w].end());
    double all = 0;
    MPI_Allreduce(&processor[w], &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    timings.push_back({seconds[w][seconds[w].size() / 2], seconds[w][0], all / static_cast<double>(seconds[w].size())});
  }
  return timings;
}

int Run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Ways to XOR what all ranks have for each of them", "bench_exchange");
  app.add_option("--size", settings.sizes, "bytes a rank brings in all")->transform(CLI::AsSizeValue(false));
  app.add_option("--owners", settings.owners, "ranks that get something: the first ones (default all)");
  app.add_option("--only", settings.only, "a way to be timed, more than once for several (default all in turn)");
  app.add_option("--seconds", settings.seconds, "how long to measure, a way and size")->capture_default_str();
  app.add_option("--most", settings.most, "measured calls at most, a way and size")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
  if (Ranks() < 2) throw std::runtime_error("two ranks or more are needed");
  auto comm = lzy::MpiCommunicator(MPI_COMM_WORLD);
  Check(comm.status());
  lzy::Result<std::unique_ptr<lzy::SharedExchange>> shared(nullptr);
  // Making shared memory is done once per communicator, so it is told apart.
  const double setup = Timed([&] { shared = lzy::SharedExchange::Make(**comm, [] {}); });
  Check(shared.status());
  std::vector<Way> ways = Ways(shared->get(), comm->get());
  for (const std::string& only : settings.only) {
    const bool there = std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return way.name == only; });
    if (!there) throw std::runtime_error("there is no way '" + only + "' here");
  }
  if (!settings.only.empty()) {
    const auto unwanted = [&](const Way& way) {
      return std::ranges::find(settings.only, way.name) == settings.only.end();
    };
    std::erase_if(ways, unwanted);
  }
  if (Rank() == 0) {
    fmt::print("{} ranks; ms, median (least) [processor time of all ranks, mean]; shared memory: {}\n", Ranks(),
               *shared ? fmt::format("set up in {:.3f} ms", setup * 1e3) : "none");
    fmt::print("{:>10}", "bytes");
    for (const Way& way : ways) fmt::print("{:>32}", way.name);
    fmt::print("\n");
  }
  for (const std::uint64_t bytes : settings.sizes) {
    const std::vector<Timing> timings = Measure(settings, ways, bytes);
    if (Rank() != 0) continue;
    fmt::print("{:>10}", bytes);
    for (const Timing& t : timings) {
      fmt::print("{:>32}", fmt::format("{:.3f} ({:.3f}) [{:.3f}]", t.median * 1e3, t.least * 1e3, t.processor * 1e3));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("bench_exchange", argc, argv, Run);
}
