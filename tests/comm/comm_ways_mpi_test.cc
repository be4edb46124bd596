// Each way of option `exchange` in a Communicator: whose choice counts, what it calls, and that XorChecks finds what goes
// wrong beneath it. The functions of MPI that lzy calls are replaced here, so calls can be counted and contributions
// damaged on their way.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exchange_fixture.h"
#include "mpi/mpi_communicator.h"
#include "rows/xor_checks.h"
#include "status_matchers.h"
#include "tuning/exchange_tuning.h"
#include "xor_exchange_cases.h"

namespace lzy::testing {
namespace {

/// What lzy called since the last Clear, and damage to be done.
struct Beneath {
  int scatters = 0, blocks = 0, reduces = 0, messages = 0;
  int damages = 0;           // number of calls, or messages, of which a bit is flipped
  int least = 0;             // bytes of the shortest message to be damaged
  std::deque<Words> copies;  // of what was sent damaged, kept until the end
  void Clear() { *this = Beneath(); }

  const void* Pass(const void* data, std::uint64_t bytes) {
    if (damages == 0 || bytes < static_cast<std::uint64_t>(std::max(least, 8))) return data;
    --damages;
    Words& copy = copies.emplace_back((bytes + 7) / 8);
    std::memcpy(copy.data(), data, bytes);
    copy[bytes / 16] ^= 0x40;
    return copy.data();
  }
};
Beneath beneath;

template <class Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace lzy::testing

using lzy::testing::beneath;
using lzy::testing::Real;

extern "C" int PMPI_Ireduce_scatter(const void* send, void* receive, const int counts[], MPI_Datatype type, MPI_Op op,
                                    MPI_Comm comm, MPI_Request* request) {
  ++beneath.scatters;
  int size = 0;
  MPI_Comm_size(comm, &size);
  std::uint64_t words = 0;
  for (int i = 0; i < size; ++i) words += static_cast<std::uint64_t>(counts[i]);
  const auto real = Real<decltype(PMPI_Ireduce_scatter)>("PMPI_Ireduce_scatter");
  return real(beneath.Pass(send, 8 * words), receive, counts, type, op, comm, request);
}

extern "C" int PMPI_Ireduce_scatter_block(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                                          MPI_Comm comm, MPI_Request* request) {
  ++beneath.blocks;
  int size = 0;
  MPI_Comm_size(comm, &size);
  const std::uint64_t bytes = 8 * static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
  const auto real = Real<decltype(PMPI_Ireduce_scatter_block)>("PMPI_Ireduce_scatter_block");
  return real(beneath.Pass(send, bytes), receive, count, type, op, comm, request);
}

extern "C" int PMPI_Ireduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                            MPI_Request* request) {
  ++beneath.reduces;
  const auto real = Real<decltype(PMPI_Ireduce)>("PMPI_Ireduce");
  return real(beneath.Pass(send, 8 * static_cast<std::uint64_t>(count)), receive, count, type, op, root, comm, request);
}

extern "C" int PMPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++beneath.messages;
  const auto bytes = type == MPI_BYTE ? static_cast<std::uint64_t>(count) : 0;
  const auto real = Real<decltype(PMPI_Isend)>("PMPI_Isend");
  return real(beneath.Pass(data, bytes), count, type, to, tag, comm, request);
}

namespace lzy::testing {
namespace {

constexpr ExchangeWay kWays[] = {ExchangeWay::kAuto, ExchangeWay::kMpi, ExchangeWay::kPairwise, ExchangeWay::kRing,
                                 ExchangeWay::kShared};

class ExchangeWaysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    ranks_ = static_cast<std::size_t>(size_);
    if (size_ == 1) GTEST_SKIP() << "nobody to exchange with";
    beneath.Clear();
  }

  /// A communicator in which this rank asks for `way`.
  std::unique_ptr<Communicator> Make(ExchangeWay way, std::uint64_t max_transfer = std::uint64_t{1} << 30) const {
    auto made = MpiCommunicator(MPI_COMM_WORLD, max_transfer);
    EXPECT_OK(made);
    (*made)->SetExchange(way);
    return std::move(*made);
  }

  void Check(Communicator& comm, const Words& counts) const {
    CheckXorExchange(comm.rank(), counts, [&](const std::uint64_t* send, std::uint64_t* receive, auto all) {
      EXPECT_OK(comm.ReduceScatterXor(send, receive, all));
    });
  }
  Words OneOwner(std::uint64_t words) const {
    Words counts(ranks_, 0);
    counts.back() = words;
    return counts;
  }
  Words Unequal(std::uint64_t words) const {
    Words counts(ranks_, words);
    counts.front() -= 1;
    return counts;
  }

  int rank_ = 0;
  int size_ = 0;
  std::size_t ranks_ = 0;
};

TEST_F(ExchangeWaysTest, AllGiveTheSameSums) {
  for (const ExchangeWay way : kWays) {
    SCOPED_TRACE(ExchangeWayName(way));
    for (const std::uint64_t max_transfer : {std::uint64_t{1} << 30, std::uint64_t{4096}, std::uint64_t{80}}) {
      const auto comm = Make(way, max_transfer);
      for (const Words& counts : XorCounts(ranks_, max_transfer < 4096 ? 300 : 5000)) Check(*comm, counts);
    }
  }
}

TEST_F(ExchangeWaysTest, MpiReducesAndSendsNothingItself) {
  const auto comm = Make(ExchangeWay::kMpi);
  Check(*comm, Words(ranks_, 1));  // agrees on the way
  beneath.Clear();
  Check(*comm, Words(ranks_, 1000));
  EXPECT_EQ(beneath.blocks, 1);
  Check(*comm, Unequal(1000));
  EXPECT_EQ(beneath.scatters, 1);
  Check(*comm, OneOwner(1000));
  EXPECT_EQ(beneath.reduces, 1);
  EXPECT_EQ(beneath.messages, 0);
}

TEST_F(ExchangeWaysTest, OtherWaysDoNotReduce) {
  for (const ExchangeWay way : {ExchangeWay::kAuto, ExchangeWay::kPairwise, ExchangeWay::kRing, ExchangeWay::kShared}) {
    SCOPED_TRACE(ExchangeWayName(way));
    const auto comm = Make(way);
    Check(*comm, Words(ranks_, 1));
    beneath.Clear();
    Check(*comm, Unequal(1000));
    Check(*comm, OneOwner(1000));
    EXPECT_EQ(beneath.scatters + beneath.blocks + beneath.reduces, 0);
    const bool in_memory = way == ExchangeWay::kAuto || way == ExchangeWay::kShared;  // the ranks are on one node
    int messages = 0;
    MPI_Allreduce(&beneath.messages, &messages, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(messages == 0, in_memory);
  }
}

// Counts of MPI-3.1 are ints: here as if they were small.
TEST_F(ExchangeWaysTest, MpiReducesLongPartsInPieces) {
  const auto comm = Make(ExchangeWay::kMpi, 8 * 100 * static_cast<std::uint64_t>(size_));  // pieces of 100 words
  Check(*comm, Words(ranks_, 1));
  beneath.Clear();
  Check(*comm, Words(ranks_, 250));
  EXPECT_EQ(beneath.blocks, 3);
  beneath.Clear();
  Check(*comm, Unequal(250));  // the parts differ in the last piece
  EXPECT_EQ(beneath.blocks, 2);
  EXPECT_EQ(beneath.scatters, 1);
  beneath.Clear();
  Check(*comm, OneOwner(250 * ranks_));
  EXPECT_EQ(beneath.reduces, 3);
}

// More than 16 MiB in pieces: the memory for one call has a limit.
TEST_F(ExchangeWaysTest, MpiReducesInPiecesOfLimitedMemory) {
  const auto comm = Make(ExchangeWay::kMpi, 24 << 20);
  Check(*comm, Words(ranks_, 1));
  beneath.Clear();
  Check(*comm, Words(ranks_, (std::uint64_t{40} << 20) / 8 / ranks_));
  EXPECT_EQ(beneath.blocks, 3);
}

TEST_F(ExchangeWaysTest, TheChoiceOfRank0Counts) {
  for (std::size_t first = 0; first < std::size(kWays); ++first) {
    const ExchangeWay mine = kWays[(first + static_cast<std::size_t>(rank_)) % std::size(kWays)];
    const auto comm = Make(mine);
    Check(*comm, Words(ranks_, 1));
    beneath.Clear();
    for (const Words& counts : XorCounts(ranks_, 700)) Check(*comm, counts);
    EXPECT_EQ(beneath.blocks > 0, kWays[first] == ExchangeWay::kMpi) << ExchangeWayName(kWays[first]);
  }
}

TEST_F(ExchangeWaysTest, ALaterChoiceIsForCommunicatorsThatAreSplitOff) {
  const auto comm = Make(ExchangeWay::kPairwise);
  Check(*comm, Words(ranks_, 1));
  comm->SetExchange(ExchangeWay::kMpi);
  beneath.Clear();
  Check(*comm, Words(ranks_, 500));
  EXPECT_EQ(beneath.blocks, 0);
  const auto part = comm->Split(0);
  ASSERT_OK(part);
  Check(**part, Words(ranks_, 500));
  EXPECT_EQ(beneath.blocks, 1);
}

/// An exchange of blocks with its proof, as the row pipeline makes it.
class ProvenExchange {
 public:
  static constexpr std::uint64_t kBlocks = 6;  // of each part
  static constexpr std::uint32_t kBlockBytes = 4096;
  static constexpr std::uint64_t kBlockWords = kBlockBytes / 8;

  /// Blocks that arrived at this rank and are not proven. Those that are proven must be right.
  static int Unproven(Communicator& comm, std::uint64_t turn) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const Words counts(ranks, kBlocks * kBlockWords);
    XorChecks checks;
    checks.Reserve(kBlocks * ranks, kBlockBytes, ranks);
    Words send(kBlocks * kBlockWords * ranks);
    for (std::uint64_t i = 0; i < send.size(); ++i) send[i] = WordOf(comm.rank(), i);
    for (std::uint64_t block = 0; block < kBlocks * ranks; ++block) checks.Note(block, AsBytes(send, block));
    Words receive(kBlocks * kBlockWords);
    EXPECT_OK(comm.ReduceScatterXor(send.data(), receive.data(), counts));
    EXPECT_OK(checks.Exchange(comm, counts, turn));
    int unproven = 0;
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      const bool proven = checks.Proves(block, AsBytes(receive, block));
      unproven += proven ? 0 : 1;
      EXPECT_EQ(proven, IsRight(comm, receive, block)) << "block " << block;
    }
    return unproven;
  }

 private:
  static const std::uint8_t* AsBytes(const Words& words, std::uint64_t block) {
    return reinterpret_cast<const std::uint8_t*>(words.data() + block * kBlockWords);
  }
  static bool IsRight(const Communicator& comm, const Words& receive, std::uint64_t block) {
    const std::uint64_t first = static_cast<std::uint64_t>(comm.rank()) * receive.size();
    for (std::uint64_t i = block * kBlockWords; i < (block + 1) * kBlockWords; ++i) {
      std::uint64_t expected = 0;
      for (int r = 0; r < comm.size(); ++r) expected ^= WordOf(r, first + i);
      if (receive[i] != expected) return false;
    }
    return true;
  }
};

int OnAllRanks(int mine) {
  int sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

// One rank's contribution gets a wrong bit on its way: in a call of MPI, or in a message. Exactly one block is wrong then.
TEST_F(ExchangeWaysTest, AWrongContributionIsFound) {
  for (const ExchangeWay way : {ExchangeWay::kMpi, ExchangeWay::kPairwise, ExchangeWay::kRing}) {
    SCOPED_TRACE(ExchangeWayName(way));
    const auto comm = Make(way);
    EXPECT_EQ(OnAllRanks(ProvenExchange::Unproven(*comm, 1)), 0) << "without damage";
    beneath.Clear();
    beneath.least = ProvenExchange::kBlockBytes;
    beneath.damages = rank_ == size_ - 1 ? 1 : 0;
    EXPECT_EQ(OnAllRanks(ProvenExchange::Unproven(*comm, 2)), 1);
    EXPECT_EQ(beneath.damages, 0) << "nothing was damaged";
    EXPECT_EQ(OnAllRanks(ProvenExchange::Unproven(*comm, 3)), 0) << "made again";
  }
}

// The same for sums that are wrong when they have arrived, which is all that can be damaged in shared memory from here.
TEST_F(ExchangeWaysTest, AWrongSumIsFound) {
  for (const ExchangeWay way : kWays) {
    SCOPED_TRACE(ExchangeWayName(way));
    const auto comm = Make(way);
    EXPECT_EQ(OnAllRanks(ProvenExchange::Unproven(*comm, 1)), 0) << "without damage";
    static int damaged = 0;
    damaged = 0;
    validated::SetFaultHook([](const validated::Arrival& arrival, MutableByteSpan content) {
      if (arrival.part != validated::MessagePart::kSum || content.size() < ProvenExchange::kBlockBytes || arrival.at != 0) return;
      content[content.size() / 2] ^= 1;
      ++damaged;
    });
    const int unproven = ProvenExchange::Unproven(*comm, 2);
    validated::SetFaultHook(nullptr);
    EXPECT_EQ(unproven, rank_ == 0 ? 1 : 0);
    EXPECT_EQ(damaged, rank_ == 0 ? 1 : 0);
  }
}

/// Ranks that cannot share memory, as on several nodes, and a cache directory for each rank.
class MeasuredExchangeTest : public ExchangeWaysTest {
 protected:
  void SetUp() override {
    ExchangeWaysTest::SetUp();
    std::string name = (std::filesystem::temp_directory_path() / "lzy-exchange-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    cache_ = name;
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    if (!cache_.empty()) std::filesystem::remove_all(cache_);
  }

  /// With a name of a node for each rank, or one for all.
  std::unique_ptr<Communicator> MakeApart(bool many_nodes) const {
    auto made = MpiCommunicator(MPI_COMM_WORLD, std::uint64_t{1} << 30, many_nodes ? "node" + std::to_string(rank_) : "node");
    EXPECT_OK(made);
    return std::move(*made);
  }
  ExchangePlace PlaceOf(bool many_nodes) const {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    const std::uint64_t nodes = many_nodes ? ranks_ : 1;
    return {std::string(text.data(), static_cast<std::size_t>(length)), ranks_, nodes, ranks_ / nodes};
  }
  /// Runs `work` while the last rank can open nothing, so no memory is shared.
  template <class Work>
  void WithoutSharedMemory(const Work& work) const {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit limit{rank_ == size_ - 1 ? 0 : before.rlim_cur, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    work();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  static ExchangeTimes Fastest(std::size_t way) {
    ExchangeTimes times;
    for (std::size_t i = 0; i < kExchangeClasses; ++i) {
      ExchangeTimes::Ways ways = {100, 100, 100};
      ways[way] = 50;
      EXPECT_TRUE(times.Set(ExchangeClass::At(i), ways));
    }
    return times;
  }
  /// The way that exchanges of `comm` go, by what they call.
  std::optional<ExchangeWay> WayOf(Communicator& comm) const {
    beneath.Clear();
    Check(comm, Words(ranks_, 20'000));  // to a ring, this is more than a message each
    if (beneath.blocks == 1 && beneath.messages == 0) return ExchangeWay::kMpi;
    if (beneath.blocks == 0 && beneath.messages == size_ - 1) return ExchangeWay::kPairwise;
    if (beneath.blocks == 0 && beneath.messages > size_ - 1) return ExchangeWay::kRing;
    return std::nullopt;
  }

  std::string cache_;
};

// The other ranks have files that say something else, and the last one has a damaged one.
TEST_F(MeasuredExchangeTest, TheFileOfRank0Counts) {
  const ExchangePlace place = PlaceOf(true);
  const std::string path = ExchangeCachePath(place);
  std::filesystem::create_directories(DirectoryOf(path));
  std::string text = EncodeExchange(place, Fastest(rank_ == 0 ? 1 : 2));
  if (rank_ == size_ - 1) text.resize(text.size() / 2);
  ASSERT_OK(ReplaceFile(PosixFileSystem(), path, text, 0600));
  const auto comm = MakeApart(true);
  WithoutSharedMemory([&] { Check(*comm, Words(ranks_, 1)); });
  EXPECT_EQ(WayOf(*comm), ExchangeWay::kPairwise);
  EXPECT_OK(comm->MeasureExchange(1));  // everything is known
  EXPECT_EQ(WayOf(*comm), ExchangeWay::kPairwise);
}

TEST_F(MeasuredExchangeTest, MpiIsUsedIfNothingWasMeasured) {
  KeepExchange(PlaceOf(false), {});
  for (const ExchangeWay way : {ExchangeWay::kAuto, ExchangeWay::kShared}) {
    const auto comm = MakeApart(false);
    comm->SetExchange(way);
    WithoutSharedMemory([&] { Check(*comm, Words(ranks_, 1)); });
    EXPECT_EQ(WayOf(*comm), ExchangeWay::kMpi);
  }
}

TEST_F(MeasuredExchangeTest, IsMeasuredAndKept) {
  KeepExchange(PlaceOf(false), {});
  const auto comm = MakeApart(false);
  WithoutSharedMemory([&] { Check(*comm, Words(ranks_, 1)); });
  EXPECT_OK(comm->MeasureExchange(0));  // a later commit may have more time
  EXPECT_TRUE(RecallExchange(PlaceOf(false)).times.empty());
  EXPECT_OK(comm->MeasureExchange(100));
  EXPECT_EQ(RecallExchange(PlaceOf(false)).times.complete(), rank_ == 0);
  EXPECT_EQ(std::filesystem::exists(ExchangeCachePath(PlaceOf(false))), rank_ == 0);
  // Whatever was the fastest: all ranks go the same way.
  for (const Words& counts : XorCounts(ranks_, 300'000)) Check(*comm, counts);
  const auto later = MakeApart(false);
  WithoutSharedMemory([&] { Check(*later, Words(ranks_, 1)); });
  const auto mine = static_cast<std::uint64_t>(WayOf(*later).value_or(ExchangeWay::kAuto));
  EXPECT_EQ(*comm->AllReduceMax(mine), mine);
  EXPECT_NE(mine, 0u);
}

TEST_F(MeasuredExchangeTest, TakesNoTimeThatThereIsNot) {
  KeepExchange(PlaceOf(false), {});
  const auto comm = MakeApart(false);
  WithoutSharedMemory([&] { Check(*comm, Words(ranks_, 1)); });
  EXPECT_OK(comm->MeasureExchange(0, /*again=*/true));
  EXPECT_TRUE(RecallExchange(PlaceOf(false)).times.empty());
  EXPECT_FALSE(std::filesystem::exists(ExchangeCachePath(PlaceOf(false))));
  EXPECT_EQ(WayOf(*comm), ExchangeWay::kMpi);
}

// Not even a message: rank 0 alone could not send one.
TEST_F(MeasuredExchangeTest, DoesNothingWhereThereIsNothingToChoose) {
  const auto unused = MakeApart(false);
  if (rank_ == 0) EXPECT_OK(unused->MeasureExchange(100));
  const auto shared = Make(ExchangeWay::kAuto);
  Check(*shared, Words(ranks_, 1));
  if (rank_ == 0) EXPECT_OK(shared->MeasureExchange(100, /*again=*/true));
  const auto forced = Make(ExchangeWay::kRing);
  Check(*forced, Words(ranks_, 1));
  if (rank_ == 0) EXPECT_OK(forced->MeasureExchange(100, /*again=*/true));
}

}  // namespace
}  // namespace lzy::testing
