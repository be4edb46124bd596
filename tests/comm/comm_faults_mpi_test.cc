// What lzy itself sends, with faults in its way: MpiCommunicator delivers what was sent or says on every rank alike
// that it cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "mpi/mpi_communicator.h"
#include "exchange_fixture.h"
#include "status_matchers.h"

namespace lzy::validated {
namespace {

using Bytes = Communicator::Bytes;

/// By how much fits one MPI call, by topology, and by whether each rank is on a node of its own.
class CommFaultsTest : public ::testing::TestWithParam<std::tuple<std::uint64_t, TopologyChoice, bool>> {
 protected:
  void SetUp() override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const bool apart = std::get<2>(GetParam());
    auto made = MpiCommunicator(MPI_COMM_WORLD, std::get<0>(GetParam()), apart ? "node" + std::to_string(rank) : "");
    ASSERT_OK(made);
    comm_ = std::move(*made);
    comm_->SetTopology(std::get<1>(GetParam()));
    if (comm_->size() < 2) GTEST_SKIP() << "nothing is sent";
  }

  /// What rank `rank` brings in round `i`: nothing, a little, what just fits a record, much.
  static Bytes Brought(int i, int rank) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i) * 100 + static_cast<std::uint64_t>(rank));
    const std::size_t most[] = {1, 40, kMostInRecord + 1, kMostInRecord + 2, 3000, 100000};
    return BytesOf(random() % most[random() % std::size(most)], random());
  }

  /// Whether the call failed, which all ranks say alike. Without the hook: what it tells must be right.
  bool FailedEverywhere(const Status& status) {
    int mine = status.ok() ? 0 : 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_TRUE(sum == 0 || sum == comm_->size()) << sum << " ranks failed; here: " << status.message();
    if (!status.ok()) {
      EXPECT_CODE(status, Code::kMpi);
    }
    return sum != 0;
  }

  /// One call of each kind.
  void Exchange(int i) {
    const int root = i % comm_->size();
    const Bytes mine = Brought(i, comm_->rank());
    const auto all = comm_->AllGather(mine);
    failures_ += FailedEverywhere(all.status()) ? 1 : 0;
    for (int r = 0; all.ok() && r < comm_->size(); ++r) {
      ASSERT_EQ((*all)[static_cast<std::size_t>(r)], Brought(i, r)) << i;
    }
    const auto gathered = comm_->Gather(mine, root);
    failures_ += FailedEverywhere(gathered.status()) ? 1 : 0;
    if (gathered.ok()) {
      ASSERT_EQ(gathered->empty(), comm_->rank() != root);
      for (std::size_t r = 0; r < gathered->size(); ++r) ASSERT_EQ((*gathered)[r], Brought(i, static_cast<int>(r))) << i;
    }
    Bytes bytes = comm_->rank() == root ? Brought(i, root) : Bytes(static_cast<std::size_t>(comm_->rank()));
    const Status told = comm_->Broadcast(bytes, root);
    failures_ += FailedEverywhere(told) ? 1 : 0;
    if (told.ok()) {
      ASSERT_EQ(bytes, Brought(i, root)) << i;
    }
  }

  std::unique_ptr<Communicator> comm_;
  int failures_ = 0;
};

TEST_P(CommFaultsTest, AreRepaired) {
  Faults faults(11);
  faults.share = 0.1;
  for (int i = 0; i < 60 && !HasFatalFailure(); ++i) Exchange(i);
  EXPECT_GT(faults.Print("own traffic"), 20u);
  EXPECT_LT(failures_, 5) << "eight attempts in a row with one in ten";
}

// Whatever the share of messages that err, and wherever.
TEST_P(CommFaultsTest, AreRepairedOrAnErrorOnAllRanksAlike) {
  int failures = 0;
  for (const double share : {0.5, 0.9}) {
    Faults faults(12);
    faults.share = share;
    for (int i = 0; i < 15 && !HasFatalFailure(); ++i) Exchange(i);
    failures += failures_;
  }
  EXPECT_GT(failures, 0) << "this proves little";
}

// To one rank nothing comes right: not even what would tell it how much the others bring.
TEST_P(CommFaultsTest, ThatAreEverywhereAreAnErrorAndNothingElse) {
  for (int i = 0; i < 10 && !HasFatalFailure(); ++i) {
    static int deaf = 0;
    deaf = i % comm_->size();
    SetFaultHook([](const Arrival& arrival, MutableByteSpan content) {
      if (arrival.at != deaf || arrival.part == MessagePart::kRequest) return;
      for (std::uint8_t& byte : content) byte ^= 0x5a;
    });
    const auto all = comm_->AllGather(Brought(i, comm_->rank()));
    SetFaultHook(nullptr);
    EXPECT_TRUE(FailedEverywhere(all.status()));
    EXPECT_NE(all.status().message().find("rank"), std::string::npos) << all.status().message();
    Exchange(i);
    EXPECT_EQ(failures_, 0);
  }
}

constexpr CostModel kCosts{1e-6, 1e-6, 1e-9};

INSTANTIATE_TEST_SUITE_P(CommFaults, CommFaultsTest,
                         ::testing::Values(std::tuple(std::uint64_t{1} << 30, TopologyChoice{Topology::kBcast, {}}, false),
                                           std::tuple(std::uint64_t{1} << 30, TopologyChoice{Topology::kAuto, {}}, true),
                                           std::tuple(std::uint64_t{1} << 30, TopologyChoice{Topology::kAuto, kCosts}, true),
                                           std::tuple(std::uint64_t{1} << 30, TopologyChoice{Topology::kDaisy, {}}, true),
                                           std::tuple(std::uint64_t{700}, TopologyChoice{Topology::kHypercube, {}}, true),
                                           std::tuple(std::uint64_t{700}, TopologyChoice{Topology::kBcast, {}}, false)));

}  // namespace
}  // namespace lzy::validated
