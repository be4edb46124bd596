#include "transport/mpi_call.h"

#include <sched.h>

#include <array>
#include <ctime>
#include <string_view>

#include "fmt/format.h"
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
  if (waits_ < spins + kYields) ++waits_;
  if (waits_ <= spins) return;
  if (waits_ < spins + kYields) {
    sched_yield();
  } else {
    nanosleep(&kNap, nullptr);
  }
}

// The first test comes before any waiting, so a request that is done costs one MPI_Test. Help costs little if no task
// waits.
Status AwaitMpi(MPI_Request& request, const char* call) {
  for (Patience patience;; patience.Wait()) {
    int done = 0;
    const int error = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS || done) return CheckMpi(error, call);
    validated::Pump::OfProcess().Help();
  }
}

}  // namespace lzy
