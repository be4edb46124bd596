// What lib/transport/mpi_call.cc does, for SMPI: a process that waits there is set aside until the message has come, in
// virtual time, and would make the clock go on by asking for it.
#include <array>

#include "transport/mpi_call.h"

namespace lzy {

Status CheckMpi(int error, const char* call) {
  if (error == MPI_SUCCESS) return Status::Ok();
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  PMPI_Error_string(error, text.data(), &length);
  return Status(Code::kMpi, std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

Status AwaitMpi(MPI_Request& request, const char* call) {
  return CheckMpi(PMPI_Wait(&request, MPI_STATUS_IGNORE), call);
}

}  // namespace lzy
