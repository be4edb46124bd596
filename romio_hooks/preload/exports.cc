// The exported symbols of this library: MPI_X and PMPI_X for every wrapped call, as two names of one function. Programs
// that use mpi_f08, and some in C, call PMPI_X for open and MPI_X for writes. With only one of the names, the layer
// would see writes on handles that it never saw opened. The real function is PMPI_X of the program's MPI
// (program_mpi.h); the PMPI_X of this file is never called from here. Calls that complete requests are two functions
// each (LZY_COMPLETE).
//
// mpi.h is not included on purpose. Its handle types belong to one MPI. A wider handle of another MPI would be cut to
// an int on its way through, so handles are machine words here. calls/prototypes_check.cc compares the list of calls
// with mpi.h.
//
// Each macro below is the expansion of one kind of line in layer/wrapped_calls.def.
#include <cstddef>
#include <cstdint>

#include "hooks/contract/layer.h"
#include "hooks/contract/wrapped_calls.h"
#include "hooks/preload/plain_files.h"
#include "hooks/preload/program_mpi.h"

#define LZY_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
using namespace lzy::hooks;  // NOLINT: the list names things without it
using Comm = Word;
using Info = Word;  // as an argument; what an Info* points to may be narrower
using File = Word;
using Datatype = Word;
using Session = Word;
using Status = void;
using Request = void;
using RequestHandle = Word;  // as an argument; begins with the handle, little-endian as this library is built for
using Offset = std::int64_t;
using Count = std::int64_t;

// Relaxed is enough: a thread that uses a handle got it from the open, which synchronises the two.
bool IsZero(const std::atomic<int>* counter) {
  return counter->load(std::memory_order_relaxed) == 0;
}

// The layer may ask for a higher thread level than the program (option commit).
int StartWith(const Layer& layer, RealCall real, const void* caller, int* argc, char*** argv, const int* required, int* provided) {
  static constinit Real<int(int*, char***, int, int*)> init_thread("PMPI_Init_thread");
  int level = 0;
  int got = 0;
  auto with_level = [&] { return init_thread.Ready(caller) ? init_thread(argc, argv, level, &got) : kNoRealFunction; };
  OwnPlainFiles();
  const int code = layer.Init({real, with_level, &level, &got, required, provided});
  AdoptPlainFiles(layer);
  return code;
}
int Start(const Layer& layer, RealCall real, const void* caller, int* argc, char*** argv) {
  return StartWith(layer, real, caller, argc, argv, nullptr, nullptr);
}
int Start(const Layer& layer, RealCall real, const void* caller, int* argc, char*** argv, int required, int* provided) {
  return StartWith(layer, real, caller, argc, argv, &required, provided);
}

// While no file is tracked, a write costs one look at an atomic.
int Write(const Layer& layer, RealCall real, const DataCall& call) {
  return IsZero(layer.tracked_files) ? real() : layer.Write(real, call);
}

// A read that may move the individual pointer matters to every tracked file, because writes follow that pointer. Any
// other read matters only if reads are checked.
int Read(const Layer& layer, RealCall real, const DataCall& call) {
  const bool moves_pointer = call.place == Place::kOwnPointer || call.done == Done::kUntold;
  return IsZero(moves_pointer ? layer.tracked_files : layer.checked_files) ? real() : layer.Read(real, call);
}
}  // namespace

#define LZY_AFTER_COMMA(...) __VA_OPT__(, ) __VA_ARGS__

// One wrapped call: without a real function it fails, without a layer it passes through, else the layer's hook runs.
// The hook gets the real call as a function, and calls it exactly once. `layer_when` is StartLayer or LoadedLayer. The
// return address must be taken here, in the exported function itself: it says which object calls MPI.
#define LZY_WRAP(name, layer_when, parameters, arguments, hook_call) \
  LZY_EXPORT int MPI_##name parameters {                             \
    static constinit Real<int parameters> real("PMPI_" #name);       \
    const void* const caller = __builtin_return_address(0);          \
    if (!real.Ready(caller)) return kNoRealFunction;                 \
    const InsideMpi inside;                                          \
    const Layer* const layer = layer_when(caller);                   \
    return layer == nullptr ? real arguments : (hook_call);          \
  }                                                                  \
  LZY_EXPORT decltype(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)));

// Calls that a program may begin with load the layer: MPI_Init and its variant (BEGIN), open and delete (FIRST).
#define LZY_BEGIN(name, parameters, arguments)            \
  LZY_WRAP(name, StartLayer, parameters, arguments,        \
           Start(*layer, [&] { return real arguments; }, caller LZY_AFTER_COMMA arguments))
#define LZY_HOOKED(name, layer_when, hook, parameters, arguments) \
  LZY_WRAP(name, layer_when, parameters, arguments, layer->hook([&] { return real arguments; } LZY_AFTER_COMMA arguments))
#define LZY_FIRST(name, hook, parameters, arguments) LZY_HOOKED(name, StartLayer, hook, parameters, arguments)
#define LZY_CALL(name, hook, parameters, arguments) LZY_HOOKED(name, LoadedLayer, hook, parameters, arguments)
#define LZY_TRANSFER(name, hook, Buffer, place, N, shape)                                                     \
  LZY_WRAP(name, LoadedLayer, LZY_PARAMETERS(place, Buffer, N, shape), LZY_ARGUMENTS(place, shape),           \
           hook(*layer, [&] { return real LZY_ARGUMENTS(place, shape); },                                     \
                {fh, Place::place, LZY_EXPLICIT_##place(offset +) 0, buffer, count, type, LZY_DONE_##shape}))
#define LZY_TRANSFER_END(name, hook, Buffer)                                    \
  LZY_WRAP(name, LoadedLayer, LZY_PARAMETERS_END(Buffer), LZY_ARGUMENTS_END, \
           layer->hook([&] { return real LZY_ARGUMENTS_END; }, fh, &status))

// All programs make these calls, not only those that do I/O. A tool that the program is linked with sees them by their
// MPI_ names and must go on seeing them. So MPI_X goes on to the next MPI_X, and PMPI_X to PMPI_X.
#define LZY_COMPLETE_BY(name, parameters, arguments, completion)                                \
  LZY_EXPORT int name parameters {                                                              \
    static constinit Real<int parameters> real(#name);                                          \
    const void* const caller = __builtin_return_address(0);                                     \
    if (!real.Ready(caller)) return kNoRealFunction;                                            \
    const Layer* const layer = LoadedLayer(caller);                                             \
    if (layer == nullptr || IsZero(layer->pending_requests)) return real arguments;             \
    return layer->Complete([&] { return real arguments; }, Completion{LZY_INSIDE completion}); \
  }
#define LZY_INSIDE(...) __VA_ARGS__
#define LZY_COMPLETE(name, parameters, arguments, completion)       \
  LZY_COMPLETE_BY(MPI_##name, parameters, arguments, completion)    \
  LZY_COMPLETE_BY(PMPI_##name, parameters, arguments, completion)
#define LZY_UNWRAPPED(name, reason)

#include "hooks/contract/wrapped_calls.def"

// For liblzy.so (lib/capi), which finds it by its name. Without a layer, nothing is committed in the background.
LZY_EXPORT int lzy_mpiio_await_commits(const char* path, double seconds, char* why, std::size_t why_size) {
  const Layer* const layer = LoadedLayer(nullptr);
  return layer == nullptr ? static_cast<int>(CommitWait::kDone) : layer->AwaitCommits(path, seconds, why, why_size);
}
