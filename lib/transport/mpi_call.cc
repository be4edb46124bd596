#include "transport/mpi_call.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include "fmt/format.h"
#include "transport/beside.h"
#include "transport/task.h"

namespace lzy {

Status CheckMpi(int error, const char* call) {
  if (error == MPI_SUCCESS) return Status::Ok();
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (PMPI_Error_string(error, text.data(), &length) != MPI_SUCCESS) {
    return Status(Code::kMpi, fmt::format("{}: error {}", call, error));
  }
  return Status(Code::kMpi,
                fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

// MPI_Comm_dup would copy the attributes, and call callbacks of the program. So a new communicator is made of the same
// group. It does not inherit the program's error handler either: errors are returned as a Status.
Status CopyComm(MPI_Comm comm, MPI_Comm& copy) {
  MPI_Group group = MPI_GROUP_NULL;
  LZY_RETURN_IF_ERROR(CheckMpi(PMPI_Comm_group(comm, &group), "MPI_Comm_group"));
  // The group is freed even if the call failed.
  const Status made = CheckMpi(PMPI_Comm_create(comm, group, &copy), "MPI_Comm_create");
  PMPI_Group_free(&group);
  LZY_RETURN_IF_ERROR(made);
  return CheckMpi(PMPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

// The count stops where sleeping begins, so it cannot overflow.
void Patience::Wait(int spins) {
  constexpr int kYields = 5000;
  constexpr std::timespec kNap = {0, 50'000};
  if (BesideProgram::Here()) return WaitBeside();
  if (waits_ < spins + kYields) ++waits_;
  if (waits_ <= spins) return;
  if (waits_ < spins + kYields) {
    sched_yield();
  } else {
    nanosleep(&kNap, nullptr);
  }
}

// A test of MPI takes a lock that the program's own calls need, so there are few of them.
void Patience::WaitBeside() {
  constexpr int kSpinsBeside = 20;
  constexpr int kFirstNap = 20'000;      // nanoseconds
  constexpr int kLongestNap = 2'000'000;
  BesideProgram::StopIfEnding();
  if (waits_ < kSpinsBeside) {
    ++waits_;
    sched_yield();
    return;
  }
  nap_ns_ = nap_ns_ == 0 ? kFirstNap : std::min(nap_ns_ + nap_ns_ / 4, kLongestNap);
  const std::timespec nap = {0, nap_ns_};
  nanosleep(&nap, nullptr);
}

// The first test comes before any waiting, so a request that is done costs one MPI_Test. Help costs little if no task
// waits.
Status AwaitMpi(MPI_Request& request, const char* call) {
  BesideProgram::StopIfEnding();
  for (Patience patience;; patience.Wait()) {
    int done = 0;
    const int error = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS || done) return CheckMpi(error, call);
    validated::Pump::OfProcess().Help();
  }
}

}  // namespace lzy
