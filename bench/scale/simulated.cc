// What is replaced in a simulation: lib/transport/mpi_call.cc, and aligned memory. The linker takes these definitions,
// because bench_scale does not link the library's.
#include "simulated.h"

#include <array>
#include <new>

// lib/transport/mpi_call.cc asks again and again for what has not come. A simulated process that waits is set aside
// until the message has come, in virtual time; it would make the clock go on by asking for it.
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

// lzy::AlignedBuffer is all that asks for aligned memory. With memory of their own, 4,096 ranks would need a hundred
// gigabytes. Here all buffers are the same pages; what is in them does not matter.
void* operator new(std::size_t size, std::align_val_t) {
  if (size > scale::kPool) throw std::bad_alloc();
  scale::HeldHere().Add(size);
  return scale::Pool();
}
// The peak counts all that was ever asked for: buffers are kept.
void operator delete(void*, std::align_val_t) noexcept {}
