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

// The first look comes before any waiting, so a request that is done costs one MPI_Test. Help costs little if no task
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
