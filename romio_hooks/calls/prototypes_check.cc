// Checks the list of wrapped calls against mpi.h. exports.cc cannot include mpi.h (see there), so without this a wrong
// parameter would show only when a program runs. Generates no code.
#include <mpi.h>

#include <cstdint>
#include <type_traits>

#include "hooks/contract/layer.h"
#include "hooks/contract/wrapped_calls.h"

namespace {

using Comm = MPI_Comm;
using Info = MPI_Info;
using File = MPI_File;
using Datatype = MPI_Datatype;
#ifdef LZY_SESSIONS
using Session = MPI_Session;
#endif
using Status = MPI_Status;
using Request = MPI_Request;
using RequestHandle = MPI_Request;
using Offset = MPI_Offset;
using Count = MPI_Count;

#define LZY_BEGIN(name, parameters, arguments)                                 \
  static_assert(std::is_same_v<decltype(PMPI_##name), int parameters>, #name); \
  static_assert(std::is_same_v<decltype(MPI_##name), int parameters>, #name);
#define LZY_FIRST(name, hook, parameters, arguments) LZY_BEGIN(name, parameters, arguments)
#define LZY_CALL(name, hook, parameters, arguments) LZY_BEGIN(name, parameters, arguments)
#define LZY_TRANSFER(name, hook, Buffer, place, N, shape) \
  LZY_BEGIN(name, LZY_PARAMETERS(place, Buffer, N, shape), LZY_ARGUMENTS(place, shape))
#define LZY_TRANSFER_END(name, hook, Buffer) LZY_BEGIN(name, LZY_PARAMETERS_END(Buffer), LZY_ARGUMENTS_END)
#define LZY_COMPLETE(name, parameters, arguments, completion) LZY_BEGIN(name, parameters, arguments)
#define LZY_UNWRAPPED(name, reason)
#include "hooks/contract/wrapped_calls.def"

// The types that exports.cc uses instead of these.
template <class Handle>
constexpr bool kFitsWord = sizeof(Handle) <= sizeof(lzy::hooks::Word) && std::is_scalar_v<Handle>;
static_assert(kFitsWord<Comm> && kFitsWord<Info> && kFitsWord<File> && kFitsWord<Datatype>);
static_assert(sizeof(Offset) == sizeof(std::int64_t) && sizeof(Count) == sizeof(std::int64_t));

}  // namespace
