// Ranks are threads here; tests/comm/comm_exchange_mpi_test.cc has them as processes.
#include "transport/shared_exchange.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "status_matchers.h"
#include "thread_communicator.h"
#include "xor_exchange_cases.h"

namespace lzy {
namespace {

using ::lzy::testing::CheckXorExchange;
using ::lzy::testing::RunRanks;
using ::lzy::testing::Words;
using ::lzy::testing::XorCounts;

std::unique_ptr<SharedExchange> Make(Communicator& comm, std::uint64_t memory = SharedExchange::kMemory) {
  auto made = SharedExchange::Make(
      comm, [] {}, memory);
  EXPECT_OK(made);
  return std::move(*made);
}

TEST(SharedExchange, AddsUpTheSharesOfAllRanks) {
  for (const int ranks : {2, 3, 5}) {
    for (const std::uint64_t memory : {std::uint64_t{1}, std::uint64_t{4096}, SharedExchange::kMemory}) {
      RunRanks(ranks, [&](Communicator& comm) {
        const auto shared = Make(comm, memory);
        ASSERT_NE(shared, nullptr);
        for (const Words& counts : XorCounts(static_cast<std::size_t>(ranks), 3000)) {
          CheckXorExchange(comm.rank(), counts, [&](auto... arguments) { shared->ReduceScatterXor(arguments...); });
        }
      });
    }
  }
}

// Rank 1 comes only after rank 0 has called `idle`, as a peer in a call of MPI that needs rank 0 to make progress.
TEST(SharedExchange, ARankThatWaitsMakesProgressForOthers) {
  std::atomic<bool> idled = false;
  RunRanks(2, [&](Communicator& comm) {
    auto shared = SharedExchange::Make(comm, [&] { idled = true; });
    ASSERT_OK(shared);
    ASSERT_NE(*shared, nullptr);
    while (comm.rank() == 1 && !idled) std::this_thread::yield();
    CheckXorExchange(comm.rank(), {5, 7}, [&](auto... arguments) { (*shared)->ReduceScatterXor(arguments...); });
  });
}

/// Sets a limit of this process for a while.
class Limited {
 public:
  Limited(__rlimit_resource what, rlim_t value) : what_(what) {
    getrlimit(what, &before_);
    const rlimit now{std::min(value, before_.rlim_max), before_.rlim_max};
    setrlimit(what, &now);
  }
  ~Limited() { setrlimit(what_, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  const __rlimit_resource what_;
  rlimit before_{};
};

TEST(SharedExchange, IsUnavailableWithoutMemoryOrDescriptors) {
  {
    const Limited files(RLIMIT_FSIZE, 1000);  // whatever grows a file past this gets SIGXFSZ
    RunRanks(2, [](Communicator& comm) { EXPECT_EQ(Make(comm), nullptr); });
  }
  {
    const Limited descriptors(RLIMIT_NOFILE, 0);
    RunRanks(2, [](Communicator& comm) { EXPECT_EQ(Make(comm), nullptr); });
  }
  RunRanks(2, [](Communicator& comm) { EXPECT_NE(Make(comm), nullptr); });
}

}  // namespace
}  // namespace lzy
