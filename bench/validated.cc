// Validated messages beside plain ones, and beside two simple ways to prove a message: hash, send, hash and compare,
// one after the other, for the whole message (Sequential) or leaf by leaf (LeafByLeaf). Two ranks, under mpiexec. All
// ways take turns, there and back; times are half of that. The script `validated` runs it
// (docs/performance/validated.md).

#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "validated/transfer.h"
#include "validated/tree.h"
#include "under_mpi.h"

namespace {

using lzy::ByteSpan;
using lzy::Hash;
using lzy::MutableByteSpan;
using lzy::Status;
using lzy::validated::Arrival;
using lzy::validated::Link;
using lzy::validated::Part;
using lzy::validated::Payload;
using lzy::validated::Pump;
using lzy::validated::Sizes;
using lzy::validated::TransferTree;
using Bytes = std::vector<std::uint8_t>;

using ::Check;
void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// The command line.
struct Settings {
  std::vector<std::uint64_t> sizes = {64,         1u << 10, 4u << 10, 16u << 10, 64u << 10,
                                      256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20};
  Sizes cut;
  // Every so many leaves, one is damaged on its way. 0: none.
  std::uint64_t bad = 0;
  double seconds = 1;
  bool leaf_by_leaf = false;
  int most = 2000;
};

/// Damages the leaves in `bytes` whose turn it is; `bytes` begin at a leaf. The hook does not tell where a chunk
/// belongs, so leaves are counted from the beginning of each chunk. In one go or in chunks, there are as many.
void Strike(std::uint64_t leaf, std::uint64_t bad, MutableByteSpan bytes) {
  static std::uint64_t turn = 0;
  for (std::uint64_t at = 0; at < bytes.size(); at += leaf) {
    if (++turn % bad == 0) bytes[at] ^= 1;
  }
}

// For the fault hook, which is a plain function.
const Settings* striking = nullptr;

void StrikeChunks(const Arrival& arrival, MutableByteSpan content) {
  if (arrival.part == Part::kChunk) Strike(striking->cut.leaf, striking->bad, content);
}

int Other() {
  return 1 - Rank();
}

// What MPI alone takes.
void Plain(Bytes& bytes, bool sends) {
  const int count = static_cast<int>(bytes.size());
  if (sends) {
    Check(MPI_Send(bytes.data(), count, MPI_BYTE, Other(), 0, MPI_COMM_WORLD), "MPI_Send");
  } else {
    Check(MPI_Recv(bytes.data(), count, MPI_BYTE, Other(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  }
}

// Asked for instead of a leaf: all leaves are right.
constexpr int kDone = -1;

// The sender's side of Sequential after the message: sends each leaf that is asked for.
void AnswerLeaves(Bytes& bytes, const TransferTree& tree) {
  for (int leaf = 0;;) {
    Check(MPI_Recv(&leaf, 1, MPI_INT, Other(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    if (leaf == kDone) return;
    const auto range = tree.LeafRange(static_cast<std::size_t>(leaf));
    const int size = static_cast<int>(range.end - range.begin);
    Check(MPI_Send(bytes.data() + range.begin, size, MPI_BYTE, Other(), 3, MPI_COMM_WORLD), "MPI_Send");
  }
}

// The receiver's side: one round trip for each bad leaf, until it is right.
void AskLeaves(Bytes& bytes, TransferTree& tree, const std::vector<Hash>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    while (tree.node(0, i) != expected[i]) {
      int leaf = static_cast<int>(i);
      Check(MPI_Send(&leaf, 1, MPI_INT, Other(), 2, MPI_COMM_WORLD), "MPI_Send");
      const auto range = tree.LeafRange(i);
      const MutableByteSpan to(bytes.data() + range.begin, range.end - range.begin);
      const int size = static_cast<int>(to.size());
      Check(MPI_Recv(to.data(), size, MPI_BYTE, Other(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
      tree.SetLeaf(i, TransferTree::LeafOf(i, to));
    }
  }
  Check(MPI_Send(&kDone, 1, MPI_INT, Other(), 2, MPI_COMM_WORLD), "MPI_Send");
}

/// Hash, send, hash, compare: one after the other, and a round trip for each bad leaf.
void Sequential(const Settings& settings, Bytes& bytes, bool sends) {
  TransferTree tree(bytes.size(), settings.cut.leaf);
  std::vector<Hash> leaves(tree.levels() == 0 ? 0 : tree.Count(0));
  const int size = static_cast<int>(leaves.size() * sizeof(Hash));
  if (sends) {
    tree.HashLeaves(0, bytes);
    Plain(bytes, true);
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = tree.node(0, i);
    Check(MPI_Send(leaves.data(), size, MPI_BYTE, Other(), 1, MPI_COMM_WORLD), "MPI_Send");
    AnswerLeaves(bytes, tree);
    return;
  }
  Plain(bytes, false);
  if (settings.bad > 0) Strike(settings.cut.leaf, settings.bad, bytes);
  tree.HashLeaves(0, bytes);
  Check(MPI_Recv(leaves.data(), size, MPI_BYTE, Other(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  AskLeaves(bytes, tree, leaves);
}

// Lengths of answers, as the signals of validated messages are.
constexpr int kRight = 0, kWrong = 1;

/// Each leaf is hashed, sent with its hash, hashed, compared and answered, before the next one. It is sent again if
/// the answer is no. So there is a round trip for each leaf. Hash and leaf travel in one message, which is a copy on
/// both sides. Two messages are slower over TCP with leaves of 4 KiB; elsewhere there is no clear difference
/// (docs/performance/validated.md).
class LeafByLeaf {
 public:
  LeafByLeaf(const Settings& settings, std::uint64_t bytes)
      : settings_(settings), tree_(bytes, settings.cut.leaf), message_(sizeof(Hash) + settings.cut.leaf) {}

  void Run(Bytes& bytes, bool sends) {
    for (std::size_t leaf = 0; leaf < (tree_.levels() == 0 ? 0 : tree_.Count(0)); ++leaf) {
      const auto [begin, end] = tree_.LeafRange(leaf);
      const MutableByteSpan content = MutableByteSpan(bytes).subspan(begin, end - begin);
      sends ? Send(leaf, content) : Receive(leaf, content);
    }
  }

 private:
  void Send(std::size_t leaf, ByteSpan content) {
    const Hash hash = TransferTree::LeafOf(leaf, content);
    const int size = static_cast<int>(sizeof(Hash) + content.size());
    for (int length = kWrong; length != kRight;) {
      std::memcpy(message_.data(), hash.bytes.data(), sizeof(Hash));
      std::memcpy(message_.data() + sizeof(Hash), content.data(), content.size());
      Check(MPI_Send(message_.data(), size, MPI_BYTE, Other(), 1, MPI_COMM_WORLD), "MPI_Send");
      std::uint8_t nothing = 0;
      MPI_Status answer;
      Check(MPI_Recv(&nothing, kWrong, MPI_BYTE, Other(), 2, MPI_COMM_WORLD, &answer), "MPI_Recv");
      MPI_Get_count(&answer, MPI_BYTE, &length);
    }
  }

  void Receive(std::size_t leaf, MutableByteSpan content) {
    const int size = static_cast<int>(sizeof(Hash) + content.size());
    const MutableByteSpan came = MutableByteSpan(message_).subspan(sizeof(Hash), content.size());
    bool right = false;
    for (bool first = true; !right; first = false) {
      Check(MPI_Recv(message_.data(), size, MPI_BYTE, Other(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
      if (first && settings_.bad > 0) Strike(settings_.cut.leaf, settings_.bad, came);
      right = std::memcmp(TransferTree::LeafOf(leaf, came).bytes.data(), message_.data(), sizeof(Hash)) == 0;
      const std::uint8_t nothing = 0;
      Check(MPI_Send(&nothing, right ? kRight : kWrong, MPI_BYTE, Other(), 2, MPI_COMM_WORLD), "MPI_Send");
    }
    std::memcpy(content.data(), came.data(), content.size());
  }

  const Settings& settings_;
  const TransferTree tree_;
  Bytes message_;
};

// The library, as lzy_send and lzy_recv use it.
void Validated(const std::shared_ptr<Link>& link, Bytes& bytes, bool sends) {
  const Payload payload = Payload::Of(MutableByteSpan(bytes));
  lzy::validated::Envelope envelope;
  Pump& pump = Pump::OfProcess();
  Check(sends ? pump.Run(lzy::validated::Send(link, payload, Other(), 0, false))
              : pump.Run(lzy::validated::Receive(link, payload, Other(), 0, false, &envelope)));
}

using Way = std::function<void(Bytes&, bool sends)>;

/// Seconds there and back, halved; of rank 0.
double Timed(const Way& way, Bytes& bytes) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  way(bytes, Rank() == 0);
  way(bytes, Rank() != 0);
  return (MPI_Wtime() - start) / 2;
}

/// Median and least time of each way. Two rounds are not counted.
std::vector<std::pair<double, double>> Measure(const Settings& settings, const std::vector<Way>& ways,
                                               std::uint64_t size) {
  std::mt19937_64 random(1);
  Bytes good(size);
  for (auto& byte : good) byte = static_cast<std::uint8_t>(random());
  std::vector<std::vector<double>> times(ways.size());
  double spent = 0;
  for (int i = -2; i < settings.most && (i < 5 || spent < settings.seconds); ++i) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      Bytes bytes = good;
      double seconds = Timed(ways[w], bytes);
      // Whatever was damaged must be repaired.
      if (bytes != good) throw std::runtime_error("what was delivered is not what was sent");
      // So that both ranks end after the same round.
      MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
      spent += 2 * seconds;
      if (i >= 0) times[w].push_back(seconds);
    }
  }
  std::vector<std::pair<double, double>> result;
  for (auto& way : times) {
    std::sort(way.begin(), way.end());
    result.emplace_back(way[way.size() / 2], way[0]);
  }
  return result;
}

int Run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Messages that are proven beside plain ones", "bench_validated");
  const auto size = [&](const char* name, std::uint64_t& to, const char* what) {
    app.add_option(name, to, what)->transform(CLI::AsSizeValue(false))->capture_default_str();
  };
  app.add_option("--size", settings.sizes, "bytes of a message")->transform(CLI::AsSizeValue(false));
  size("--inline", settings.cut.most_inline, "longest inline message");
  size("--leaf", settings.cut.leaf, "bytes of a leaf");
  size("--first", settings.cut.first_chunk, "bytes of the first chunk");
  size("--whole", settings.cut.most_whole, "longest message of which the root travels first");
  size("--chunk", settings.cut.most_chunk, "bytes of the longest chunk");
  app.add_flag("--leaf-by-leaf", settings.leaf_by_leaf, "measure this way, too");
  app.add_option("--bad", settings.bad, "strike every so many leaves one on its way")->capture_default_str();
  app.add_option("--seconds", settings.seconds, "how long to measure a size")->capture_default_str();
  app.add_option("--most", settings.most, "measured rounds at most")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
  if (Ranks() != 2) throw std::runtime_error("two ranks are needed");
  auto link = Link::Make(MPI_COMM_WORLD, settings.cut);
  Check(link.status());
  striking = &settings;
  if (settings.bad > 0) lzy::validated::SetFaultHook(StrikeChunks);
  std::vector<Way> ways = {Plain, [&](Bytes& bytes, bool sends) { Validated(*link, bytes, sends); },
                           [&](Bytes& bytes, bool sends) { Sequential(settings, bytes, sends); }};
  std::string names = "plain validated sequential";
  if (settings.leaf_by_leaf) {
    ways.push_back([&](Bytes& bytes, bool sends) { LeafByLeaf(settings, bytes.size()).Run(bytes, sends); });
    names += " leaf-by-leaf";
  }
  if (Rank() == 0) fmt::print("bytes, median and least of each of: {} (us)\n", names);
  for (const std::uint64_t bytes : settings.sizes) {
    const auto times = Measure(settings, ways, bytes);
    if (Rank() != 0) continue;
    fmt::print("{}", bytes);
    for (const auto& [median, least] : times) fmt::print(" {:.2f} {:.2f}", median * 1e6, least * 1e6);
    fmt::print("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("bench_validated", argc, argv, Run);
}
