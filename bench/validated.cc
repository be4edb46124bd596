// Validated messages beside plain ones, and beside two simple ways to prove a message: hash, send, hash and compare,
// one after the other, for the whole message (Sequential) or leaf by leaf (LeafByLeaf). Two ranks, under mpiexec. All
// ways take turns, there and back; times are half of that. The script `validated` runs it
// (docs/performance/validated.md).

#include <fmt/format.h>
#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "validated/transfer.h"
#include "validated/transfer_tree.h"
#include "command_line.h"

namespace {

using lzy::ByteSpan;
using lzy::Hash;
using lzy::MutableByteSpan;
using lzy::Status;
namespace validated = lzy::validated;
using validated::Link;
using validated::TransferTree;
using Bytes = std::vector<std::uint8_t>;

// The command line.
struct Settings {
  std::vector<std::uint64_t> sizes = {64,         1u << 10, 4u << 10, 16u << 10, 64u << 10,
                                      256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20};
  validated::Sizes cut;
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

void StrikeChunks(const validated::Arrival& arrival, MutableByteSpan content) {
  if (arrival.part == validated::MessagePart::kChunk) Strike(striking->cut.leaf, striking->bad, content);
}

// The other one of the two ranks.
int Other() {
  return 1 - Rank();
}

// What a message carries, as its tag.
enum Tag { kContent, kHashes, kAnswer, kLeaf };

// Blocking and not validated, as is Receive: what the simple ways are made of.
void Send(const void* from, std::size_t size, Tag tag) {
  Check(MPI_Send(from, static_cast<int>(size), MPI_BYTE, Other(), tag, MPI_COMM_WORLD), "MPI_Send");
}

// Receives at most `size` bytes. Returns how many came.
int Receive(void* to, std::size_t size, Tag tag) {
  MPI_Status status;
  int length = 0;
  Check(MPI_Recv(to, static_cast<int>(size), MPI_BYTE, Other(), tag, MPI_COMM_WORLD, &status), "MPI_Recv");
  MPI_Get_count(&status, MPI_BYTE, &length);
  return length;
}

// What MPI alone takes.
void Plain(Bytes& bytes, bool sends) {
  sends ? Send(bytes.data(), bytes.size(), kContent) : void(Receive(bytes.data(), bytes.size(), kContent));
}

// The bytes of a leaf of the message `bytes`, of which `tree` is the tree.
MutableByteSpan LeafIn(Bytes& bytes, const TransferTree& tree, std::size_t leaf) {
  const auto [begin, end] = tree.LeafRange(leaf);
  return MutableByteSpan(bytes).subspan(begin, end - begin);
}

// Asked for instead of a leaf: all leaves are right.
constexpr std::size_t kDone = -1;

// The sender's side of Sequential after the message: sends each leaf that is asked for.
void AnswerLeaves(Bytes& bytes, const TransferTree& tree) {
  for (std::size_t leaf = 0;;) {
    Receive(&leaf, sizeof leaf, kAnswer);
    if (leaf == kDone) return;
    const ByteSpan content = LeafIn(bytes, tree, leaf);
    Send(content.data(), content.size(), kLeaf);
  }
}

// The receiver's side: one round trip for each bad leaf, until it is right.
void AskLeaves(Bytes& bytes, TransferTree& tree, const std::vector<Hash>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    while (tree.node(0, i) != expected[i]) {
      Send(&i, sizeof i, kAnswer);
      const MutableByteSpan to = LeafIn(bytes, tree, i);
      Receive(to.data(), to.size(), kLeaf);
      tree.SetLeaf(i, TransferTree::LeafOf(i, to));
    }
  }
  Send(&kDone, sizeof kDone, kAnswer);
}

/// Hash, send, hash, compare: one after the other, and a round trip for each bad leaf.
void Sequential(const Settings& settings, Bytes& bytes, bool sends) {
  TransferTree tree(bytes.size(), settings.cut.leaf);
  std::vector<Hash> leaves(tree.levels() == 0 ? 0 : tree.Count(0));
  const std::size_t size = leaves.size() * sizeof(Hash);
  if (sends) {
    tree.HashLeaves(0, bytes);
    Plain(bytes, true);
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = tree.node(0, i);
    Send(leaves.data(), size, kHashes);
    AnswerLeaves(bytes, tree);
    return;
  }
  Plain(bytes, false);
  if (settings.bad > 0) Strike(settings.cut.leaf, settings.bad, bytes);
  tree.HashLeaves(0, bytes);
  Receive(leaves.data(), size, kHashes);
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
      const MutableByteSpan content = LeafIn(bytes, tree_, leaf);
      sends ? SendLeaf(leaf, content) : ReceiveLeaf(leaf, content);
    }
  }

 private:
  void SendLeaf(std::size_t leaf, ByteSpan content) {
    const Hash hash = TransferTree::LeafOf(leaf, content);
    std::uint8_t nothing = 0;
    do {
      std::memcpy(message_.data(), hash.bytes.data(), sizeof(Hash));
      std::memcpy(message_.data() + sizeof(Hash), content.data(), content.size());
      Send(message_.data(), sizeof(Hash) + content.size(), kContent);
    } while (Receive(&nothing, kWrong, kAnswer) != kRight);
  }

  void ReceiveLeaf(std::size_t leaf, MutableByteSpan content) {
    const MutableByteSpan came = MutableByteSpan(message_).subspan(sizeof(Hash), content.size());
    // Only the first attempt is struck, as in Sequential: what is sent again arrives undamaged.
    bool right = false;
    for (bool first = true; !right; first = false) {
      Receive(message_.data(), sizeof(Hash) + content.size(), kContent);
      if (first && settings_.bad > 0) Strike(settings_.cut.leaf, settings_.bad, came);
      right = std::memcmp(TransferTree::LeafOf(leaf, came).bytes.data(), message_.data(), sizeof(Hash)) == 0;
      const std::uint8_t nothing = 0;
      Send(&nothing, right ? kRight : kWrong, kAnswer);
    }
    std::memcpy(content.data(), came.data(), content.size());
  }

  const Settings& settings_;
  const TransferTree tree_;
  Bytes message_;
};

// The library, as lzy_send and lzy_recv use it.
void Validated(const std::shared_ptr<Link>& link, Bytes& bytes, bool sends) {
  const auto payload = validated::Payload::Of(MutableByteSpan(bytes));
  validated::Envelope envelope;
  auto& pump = validated::Pump::OfProcess();
  Check(sends ? pump.Run(validated::Send(link, payload, Other(), 0, false))
              : pump.Run(validated::Receive(link, payload, Other(), 0, false, &envelope)));
}

// One way to move a message from the rank that `sends` to the other one. Returns when the message is there and, except
// for plain, proven.
struct Way {
  const char* name;
  std::function<void(Bytes&, bool sends)> run;
};

// Seconds there and back, halved; of rank 0. The clocks of two ranks cannot be compared to the microsecond, so one rank
// must see the message leave and come back.
double ThereAndBack(const Way& way, Bytes& bytes) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  way.run(bytes, Rank() == 0);
  way.run(bytes, Rank() != 0);
  double seconds = (MPI_Wtime() - start) / 2;
  // So that both ranks end after the same round.
  MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return seconds;
}

// Times all ways for messages of `size` bytes, and prints a line: for each way the median and the least, microseconds.
// The script `validated` reads that.
void Measure(const Settings& settings, const std::vector<Way>& ways, std::uint64_t size) {
  std::mt19937_64 random(1);
  // Random bytes, so that a wrong leaf cannot be right by chance. Both ranks make the same.
  Bytes good(size);
  for (auto& byte : good) byte = static_cast<std::uint8_t>(random());
  // Two rounds do not count, since connections are made in them. Half of the seconds, because times are halved.
  const Rounds rounds{.most = settings.most, .seconds = settings.seconds / 2, .uncounted = 2};
  const std::vector<Times> times = TakeTurns(ways.size(), rounds, [&](std::size_t w, bool) {
    // A copy, because the receiver's side must not have the right bytes from the round before.
    Bytes bytes = good;
    const double seconds = ThereAndBack(ways[w], bytes);
    // Whatever was damaged must be repaired.
    if (bytes != good) throw std::runtime_error("what was delivered is not what was sent");
    return seconds;
  });
  if (Rank() != 0) return;
  fmt::print("{}", size);
  for (const Times& way : times) fmt::print(" {:.2f} {:.2f}", Median(way) * 1e6, Least(way) * 1e6);
  fmt::print("\n");
  std::fflush(stdout);
}

// Collective; two ranks. Options but --size, --leaf, --bad, --leaf-by-leaf and --seconds are for trying other cuts by
// hand (docs/performance/validated.md, "How messages are cut").
int Run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Messages that are proven beside plain ones", "bench_validated");
  app.add_option("--size", settings.sizes, "bytes of a message")->transform(CLI::AsSizeValue(false));
  AddSize(app, "--inline", settings.cut.most_inline, "longest inline message");
  AddSize(app, "--leaf", settings.cut.leaf, "bytes of a leaf");
  AddSize(app, "--first", settings.cut.first_chunk, "bytes of the first chunk");
  AddSize(app, "--whole", settings.cut.most_whole, "longest message of which the root travels first");
  AddSize(app, "--chunk", settings.cut.most_chunk, "bytes of the longest chunk");
  app.add_flag("--leaf-by-leaf", settings.leaf_by_leaf, "measure this way, too");
  app.add_option("--bad", settings.bad, "strike every so many leaves one on its way")->capture_default_str();
  app.add_option("--seconds", settings.seconds, "how long to measure a size")->capture_default_str();
  app.add_option("--most", settings.most, "measured rounds at most")->capture_default_str();
  if (const auto exit_code = Parse(app, argc, argv)) return *exit_code;
  if (Ranks() != 2) throw std::runtime_error("two ranks are needed");
  auto link = Link::Make(MPI_COMM_WORLD, settings.cut);
  Check(link.status());
  // The hook strikes what the library receives. The other ways strike what they receive themselves.
  striking = &settings;
  if (settings.bad > 0) validated::SetFaultHook(StrikeChunks);
  std::vector<Way> ways = {
      {"plain", Plain},
      {"validated", [&](Bytes& bytes, bool sends) { Validated(*link, bytes, sends); }},
      {"sequential", [&](Bytes& bytes, bool sends) { Sequential(settings, bytes, sends); }},
      {"leaf-by-leaf", [&](Bytes& bytes, bool sends) { LeafByLeaf(settings, bytes.size()).Run(bytes, sends); }}};
  if (!settings.leaf_by_leaf) ways.pop_back();
  if (Rank() == 0) {
    fmt::print("bytes, median and least of each of:");
    for (const Way& way : ways) fmt::print(" {}", way.name);
    fmt::print(" (us)\n");
  }
  for (const std::uint64_t bytes : settings.sizes) Measure(settings, ways, bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return UnderMpi("bench_validated", argc, argv, Run);
}
