// The executor of schedules, and broadcasts by topology, on as many ranks as the program is started with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "mpi/mpi_communicator.h"
#include "transport/multicast_mpi.h"
#include "status_matchers.h"

namespace lzy {
namespace {

using Bytes = Communicator::Bytes;

Bytes BytesOf(int root, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(root) * 31 + i * 7);
  return bytes;
}

class MulticastTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &plain_), MPI_SUCCESS);
    ASSERT_EQ(MPI_Comm_set_errhandler(plain_, MPI_ERRORS_RETURN), MPI_SUCCESS);
  }
  void TearDown() override { MPI_Comm_free(&plain_); }

  /// All ranks in groups of `k`, the last of which may be smaller.
  RankGroups GroupsOf(int k) const {
    RankGroups groups;
    for (int r = 0; r < size_; ++r) {
      if (r % k == 0) groups.emplace_back();
      groups.back().push_back(r);
    }
    return groups;
  }

  int rank_ = 0;
  int size_ = 0;
  MPI_Comm plain_ = MPI_COMM_NULL;
};

TEST_F(MulticastTest, SchedulesBringTheRootsBytes) {
  for (const Topology shape : kShapes) {
    for (int k = 1; k <= size_; ++k) {
      for (int root = 0; root < size_; ++root) {
        for (const std::uint64_t most : {std::uint64_t{7}, std::uint64_t{1} << 30}) {
          for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{21}, std::size_t{300'000}}) {
            if (most == 7 && size > 21) continue;
            const Bytes sent = BytesOf(root, size);
            Bytes bytes = rank_ == root ? sent : Bytes(size, 9);
            const auto schedule = MakeSchedule(shape, GroupsOf(k), root);
            ASSERT_OK(RunSchedule(plain_, rank_, schedule, bytes.data(), size, most));
            ASSERT_EQ(bytes, sent) << TopologyName(shape) << " groups of " << k << " root " << root;
          }
        }
      }
    }
  }
}

TEST_F(MulticastTest, CostsAreMeasuredAndAgreedOn) {
  auto model = MeasureCosts(plain_, rank_, size_);
  ASSERT_OK(model);
  const double mine[] = {model->latency, model->gap, model->byte_time};
  double first[] = {mine[0], mine[1], mine[2]};
  MPI_Bcast(first, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(mine[i], first[i]);
  if (size_ == 1) return;
  EXPECT_GT(model->latency + model->gap, 0);
  EXPECT_LT(model->latency + model->gap, 10.0);
  EXPECT_GE(model->byte_time, 0);
  EXPECT_LT(model->byte_time, 1e-3);
}

// What one rank is told is nothing to the others, unless it is the root.
TEST_F(MulticastTest, BroadcastsGoByTheRootsTopology) {
  auto made = MpiCommunicator(MPI_COMM_WORLD);
  ASSERT_OK(made);
  for (int first = 0; first < 6; ++first) {
    (*made)->SetTopology({static_cast<Topology>((first + rank_) % 6), {}});
    for (int root = 0; root < size_; ++root) {
      const Bytes sent = BytesOf(root, 1000);
      Bytes bytes = rank_ == root ? sent : Bytes{};
      ASSERT_OK((*made)->Broadcast(bytes, root));
      ASSERT_EQ(bytes, sent);
    }
  }
}

TEST_F(MulticastTest, ASplitCommunicatorKeepsTheTopology) {
  auto made = MpiCommunicator(MPI_COMM_WORLD);
  ASSERT_OK(made);
  (*made)->SetTopology({Topology::kPipelined, {}});
  auto part = (*made)->Split(rank_ % 2);
  ASSERT_OK(part);
  Bytes bytes = (*part)->rank() == 0 ? BytesOf(3, 50) : Bytes{};
  ASSERT_OK((*part)->Broadcast(bytes, 0));
  EXPECT_EQ(bytes, BytesOf(3, 50));
}

// Rank 0, the last in line, has room for less than it is sent: it alone has an error, and everybody gets away.
TEST_F(MulticastTest, AnErrorOfMpiLeavesNobodyWaiting) {
  if (size_ == 1) GTEST_SKIP() << "no message";
  MPI_Errhandler before[2];
  const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
  for (int i = 0; i < 2; ++i) {  // MPICH 4.0 has forgotten what communicator a request was of by then
    MPI_Comm_get_errhandler(comms[i], &before[i]);
    MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
  }
  const auto schedule = MakeSchedule(Topology::kPipelined, GroupsOf(1), size_ - 1);
  Bytes bytes(64, 1);
  const Status status = RunSchedule(plain_, rank_, schedule, bytes.data(), rank_ == 0 ? 32 : 64, 1 << 20);
  if (rank_ == 0) {
    EXPECT_CODE(status, Code::kMpi);
  } else {
    EXPECT_OK(status);
  }
  EXPECT_EQ(MPI_Barrier(plain_), MPI_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    MPI_Comm_set_errhandler(comms[i], before[i]);
    MPI_Errhandler_free(&before[i]);
  }
}

}  // namespace
}  // namespace lzy
