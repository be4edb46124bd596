// The symbols of this library: MPI_X and PMPI_X for every wrapped call, both names of one function. "use mpi_f08" and
// some C programs call PMPI_X for open and MPI_X for writes, so a layer with only one of the names would see writes on
// handles it never saw opened. The real function is PMPI_X of the program's MPI (program_mpi.h); our own PMPI_X is
// never called from here. (Calls that complete requests are two functions each, see LZY_COMPLETE.)
//
// mpi.h is not included on purpose. Its handle types are those of the MPI this library is built for; with them, a
// handle of another MPI would be cut to the width of an int on its way through. prototypes_check.cc holds the list of
// calls against mpi.h.
#include <cstdint>

#include "hooks/layer/layer.h"
#include "hooks/layer/wrapped_calls.h"
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
}  // namespace

#define LZY_AFTER_COMMA(...) __VA_OPT__(, ) __VA_ARGS__

#define LZY_WRAP(name, layer_when, parameters, arguments, hook_call) \
  LZY_EXPORT int MPI_##name parameters {                             \
    static constinit Real<int parameters> real("PMPI_" #name);       \
    const void* const caller = __builtin_return_address(0);          \
    if (!real.Ready(caller)) return kNoRealFunction;                 \
    const Layer* const layer = layer_when(caller);                   \
    return layer == nullptr ? real arguments : (hook_call);          \
  }                                                                  \
  LZY_EXPORT decltype(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)));

#define LZY_BEGIN(name, parameters, arguments) \
  LZY_WRAP(name, StartLayer, parameters, arguments, layer->Init([&] { return real arguments; }))
#define LZY_FIRST(name, hook, parameters, arguments) \
  LZY_WRAP(name, StartLayer, parameters, arguments,  \
           layer->hook([&] { return real arguments; } LZY_AFTER_COMMA arguments))
#define LZY_CALL(name, hook, parameters, arguments)  \
  LZY_WRAP(name, LoadedLayer, parameters, arguments, \
           layer->hook([&] { return real arguments; } LZY_AFTER_COMMA arguments))
#define LZY_WRITE(name, place, N, shape)                                        \
  LZY_WRAP(name, LoadedLayer, LZY_PARAMETERS_##shape(N), LZY_ARGUMENTS_##shape, \
           layer->tracked_files->load(std::memory_order_relaxed) == 0           \
               ? real LZY_ARGUMENTS_##shape                                     \
               : layer->Write([&] { return real LZY_ARGUMENTS_##shape; },       \
                              DataCall{fh, Place::place, LZY_OFFSET_##shape, buffer, count, type, LZY_DONE_##shape}))
#define LZY_WRITE_END(name)                                      \
  LZY_WRAP(name, LoadedLayer, LZY_PARAMETERS_END, LZY_ARGUMENTS_END, \
           layer->WriteEnd([&] { return real LZY_ARGUMENTS_END; }, fh, &status))
// A read that moves the individual pointer, or may, is of interest where writes are followed; any other is where reads are
// checked.
#define LZY_INTEREST_kExplicit(done) (done == Done::kUntold ? layer->tracked_files : layer->checked_files)
#define LZY_INTEREST_kOwnPointer(done) layer->tracked_files
#define LZY_INTEREST_kSharedPointer(done) layer->checked_files
#define LZY_INTEREST_kOrdered(done) layer->checked_files
#define LZY_READ(name, place, N, shape)                                                                          \
  LZY_WRAP(name, LoadedLayer, LZY_READ_PARAMETERS_##shape(N), LZY_ARGUMENTS_##shape,                             \
           LZY_INTEREST_##place(LZY_FIRST_OF(LZY_DONE_##shape))->load(std::memory_order_relaxed) == 0            \
               ? real LZY_ARGUMENTS_##shape                                                                      \
               : layer->Read([&] { return real LZY_ARGUMENTS_##shape; },                                         \
                             DataCall{fh, Place::place, LZY_OFFSET_##shape, buffer, count, type, LZY_DONE_##shape}))
#define LZY_FIRST_OF(...) LZY_FIRST_OF_THEM(__VA_ARGS__)
#define LZY_FIRST_OF_THEM(first, ...) first
#define LZY_READ_END(name)                                                \
  LZY_WRAP(name, LoadedLayer, LZY_READ_PARAMETERS_END, LZY_ARGUMENTS_END, \
           layer->ReadEnd([&] { return real LZY_ARGUMENTS_END; }, fh, &status))

// All programs make these calls, not only those that do I/O, and tools that a program is linked with see them by their
// MPI_ names. So each of the two names goes on to the same name.
#define LZY_COMPLETE_BY(name, parameters, arguments, completion)                                \
  LZY_EXPORT int name parameters {                                                              \
    static constinit Real<int parameters> real(#name);                                          \
    const void* const caller = __builtin_return_address(0);                                     \
    if (!real.Ready(caller)) return kNoRealFunction;                                            \
    const Layer* const layer = LoadedLayer(caller);                                             \
    if (layer == nullptr || layer->pending_requests->load(std::memory_order_relaxed) == 0) {      \
      return real arguments;                                                                    \
    }                                                                                           \
    return layer->Complete([&] { return real arguments; }, Completion{LZY_INSIDE completion}); \
  }
#define LZY_INSIDE(...) __VA_ARGS__
#define LZY_COMPLETE(name, parameters, arguments, completion)       \
  LZY_COMPLETE_BY(MPI_##name, parameters, arguments, completion)    \
  LZY_COMPLETE_BY(PMPI_##name, parameters, arguments, completion)
#define LZY_UNWRAPPED(name, reason)

#include "hooks/layer/wrapped_calls.def"
