// Ways of Communicator::ReduceScatterXor, timed in turn on the same data, under mpiexec. Each round makes every way do
// the same, in the same order; the first round is not counted, and says whether all of them came to the same result.
// `MPI` (MPI_Reduce_scatter_block) and `ring` are here only: they won nowhere (docs/performance/exchange.md).

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

#include "comm/mpi_communicator.h"
#include "comm/pairwise_exchange.h"
#include "comm/shared_exchange.h"
#include "engine/xor_checks.h"
#include "under_mpi.h"

namespace {

using lzy::Status;
using Words = std::vector<std::uint64_t>;

struct Settings {
  std::vector<std::uint64_t> sizes = {1u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20};
  std::uint64_t piece = 1u << 20;
  double seconds = 0.5;
  int most = 200;
};

using ::Check;
void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A ring, as of redset: what is for rank r starts at r + 1, and every rank adds its share before it passes it on.
/// Pieces follow each other: piece p of step s is sent on while piece p + 1 of step s arrives.
void Ring(const Words& send, Words& receive, std::uint64_t part, std::uint64_t piece) {
  const auto rank = static_cast<std::uint64_t>(Rank());
  const auto size = static_cast<std::uint64_t>(Ranks());
  const int next = static_cast<int>((rank + 1) % size);
  const int before = static_cast<int>((rank + size - 1) % size);
  const std::uint64_t pieces = (part + piece - 1) / piece;
  const auto offset = [&](std::uint64_t p) { return p * piece; };
  const auto words = [&](std::uint64_t p) { return std::min(piece, part - p * piece); };
  static Words passing;  // sums on their way, of two steps
  passing.resize(2 * part);
  std::vector<MPI_Request> arriving(pieces, MPI_REQUEST_NULL);
  std::vector<MPI_Request> leaving(2 * pieces, MPI_REQUEST_NULL);
  // Step s sends the sum for rank - s, and receives that for rank - s - 1, to which this rank's share is added.
  const auto share = [&](std::uint64_t s) { return send.data() + (rank + 2 * size - s) % size * part; };
  const auto place = [&](std::uint64_t s) { return s + 1 == size ? receive.data() : passing.data() + s % 2 * part; };
  const auto bytes = [&](std::uint64_t p) { return static_cast<int>(words(p) * sizeof(std::uint64_t)); };
  for (std::uint64_t p = 0; p < pieces; ++p) {
    Check(MPI_Isend(share(1) + offset(p), bytes(p), MPI_BYTE, next, 0, MPI_COMM_WORLD, &leaving[pieces + p]),
          "MPI_Isend");
  }
  for (std::uint64_t s = 1; s < size; ++s) {
    for (std::uint64_t p = 0; p < pieces; ++p) {  // `place` was sent from two steps ago
      if (s > 2) Check(MPI_Wait(&leaving[s % 2 * pieces + p], MPI_STATUS_IGNORE), "MPI_Wait");
      Check(MPI_Irecv(place(s) + offset(p), bytes(p), MPI_BYTE, before, 0, MPI_COMM_WORLD, &arriving[p]), "MPI_Irecv");
    }
    for (std::uint64_t p = 0; p < pieces; ++p) {
      Check(MPI_Wait(&arriving[p], MPI_STATUS_IGNORE), "MPI_Wait");
      std::uint64_t* to = place(s) + offset(p);
      const std::uint64_t* own = share(s + 1) + offset(p);
      for (std::uint64_t i = 0, count = words(p); i < count; ++i) to[i] ^= own[i];
      if (s + 1 == size) continue;
      MPI_Request& sent = leaving[s % 2 * pieces + p];
      Check(MPI_Wait(&sent, MPI_STATUS_IGNORE), "MPI_Wait");
      Check(MPI_Isend(to, bytes(p), MPI_BYTE, next, 0, MPI_COMM_WORLD, &sent), "MPI_Isend");
    }
  }
  Check(MPI_Waitall(static_cast<int>(leaving.size()), leaving.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

struct Way {
  std::string name;
  std::function<void(const Words&, Words&, const Words& counts)> run;
};

/// With what engine/rows.cc does for the proof: sent and received blocks are hashed, and the check words exchanged.
Status ProvenReduction(lzy::Communicator& comm, const Words& send, Words& receive, const Words& counts) {
  constexpr std::uint64_t kBlock = 64u << 10;
  static lzy::XorChecks checks;
  static std::uint64_t turn = 0;
  const std::uint64_t block = std::min<std::uint64_t>(kBlock, counts[0] * sizeof(std::uint64_t));
  const auto bytes_of = [](const Words& words) { return reinterpret_cast<const std::uint8_t*>(words.data()); };
  const std::uint64_t sent = send.size() * sizeof(std::uint64_t) / block;
  checks.Reserve(sent, static_cast<std::uint32_t>(block));
  for (std::uint64_t i = 0; i < sent; ++i) checks.Note(i, bytes_of(send) + i * block);
  LZY_RETURN_IF_ERROR(comm.ReduceScatterXor(send.data(), receive.data(), counts));
  LZY_RETURN_IF_ERROR(checks.Exchange(comm, counts, turn++));
  for (std::uint64_t i = 0; i < receive.size() * sizeof(std::uint64_t) / block; ++i) {
    if (!checks.Proves(i, bytes_of(receive) + i * block)) return {lzy::Code::kMpi, "a block is wrong"};
  }
  return Status::Ok();
}

std::vector<Way> Ways(const Settings& settings, lzy::SharedExchange* shared, lzy::Communicator* comm) {
  const std::uint64_t piece = settings.piece / sizeof(std::uint64_t);
  std::vector<Way> ways;
  ways.push_back({"MPI", [](const Words& send, Words& receive, const Words& counts) {
                    Check(MPI_Reduce_scatter_block(send.data(), receive.data(), static_cast<int>(counts[0]),
                                                   MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD),
                          "MPI_Reduce_scatter_block");
                  }});
  ways.push_back({"pairwise", [](const Words& send, Words& receive, const Words& counts) {
                    static Words staging;
                    const lzy::PairwiseExchange exchange(MPI_COMM_WORLD, Rank(), counts, 1u << 30);
                    if (exchange.StagingWords() > staging.size()) staging.resize(exchange.StagingWords());
                    Check(exchange.Run(send.data(), receive.data(), staging.data()));
                  }});
  ways.push_back(
      {"ring", [=](const Words& send, Words& receive, const Words& counts) { Ring(send, receive, counts[0], piece); }});
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
  return ways;
}

struct Timing {
  double median = 0;
  double least = 0;
  double processor = 0;  // of all ranks together, a call
};

/// Elapsed seconds of the slowest rank.
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

std::vector<Timing> Measure(const Settings& settings, const std::vector<Way>& ways, std::uint64_t bytes) {
  const auto ranks = static_cast<std::uint64_t>(Ranks());
  const std::uint64_t part = std::max<std::uint64_t>(1, bytes / sizeof(std::uint64_t) / ranks);
  std::mt19937_64 random(static_cast<std::uint64_t>(Rank()) + 1);
  Words send(part * ranks);
  for (std::uint64_t& word : send) word = random();
  const Words counts(ranks, part);
  Words expected(part);
  std::vector<std::vector<double>> seconds(ways.size());
  std::vector<double> processor(ways.size());
  double spent = 0;
  for (int i = -1; i < settings.most && (i < 5 || spent < settings.seconds * static_cast<double>(ways.size())); ++i) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      Words receive(part, 1);
      double used = 0;
      const double one = Timed([&] { ways[w].run(send, receive, counts); }, &used);
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
  app.add_option("--piece", settings.piece, "bytes of a message of the ring")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
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
  const double setup = Timed([&] { shared = lzy::SharedExchange::Make(**comm, [] {}); });
  Check(shared.status());
  const std::vector<Way> ways = Ways(settings, shared->get(), comm->get());
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
