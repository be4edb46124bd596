#pragma once
// The list of MPI calls that the layer wraps. The exported functions (exports.cc) and the check of their prototypes against
// mpi.h (prototypes_check.cc) are generated from it.
//
// Before including wrapped_calls.def, define
//   LZY_BEGIN(name, parameters, arguments)        a call that starts MPI
//   LZY_FIRST(name, hook, parameters, arguments)  a call that may be the first one of a program: hook (a member of
//                                                 Layer), C parameters, names of the parameters
//   LZY_CALL(name, hook, parameters, arguments)   any other call
//   LZY_TRANSFER(name, hook, Buffer, place, N, shape)
//                                                 a call that starts a write or a read: its Place, and its shape
//   LZY_TRANSFER_END(name, hook, Buffer)          a call that ends a split write or read
//   LZY_COMPLETE(name, parameters, arguments, completion)
//                                                 a call that may complete requests: arguments of Completion
//   LZY_UNWRAPPED(name, reason)                   a call of MPI-IO that the layer does not wrap
// and the parameter types Comm, Info, File, Datatype, Session, Status, Request, Offset and Count. Names come without
// "MPI_". LZY_LARGE_COUNTS and LZY_SESSIONS say whether to list what MPI-4 added.

// A call that writes or reads has a place and a shape. Only the place kExplicit has an offset parameter. The shape says how
// the call reports its completion: BLOCKING by its status, NONBLOCKING by its request, TOGETHER (nonblocking and
// collective) by a request that never fails, SPLIT by a second call. `Buffer` is const void* for a write, void* for a read.
// `N` is the type of the count.
#define LZY_PARAMETERS(place, Buffer, N, shape) \
  (File fh, LZY_EXPLICIT_##place(Offset offset, ) Buffer buffer, N count, Datatype type LZY_LAST_PARAMETER_##shape)
#define LZY_ARGUMENTS(place, shape) (fh, LZY_EXPLICIT_##place(offset, ) buffer, count, type LZY_LAST_ARGUMENT_##shape)
#define LZY_PARAMETERS_END(Buffer) (File fh, Buffer buffer, Status* status)
#define LZY_ARGUMENTS_END (fh, buffer, status)

// Expands to its arguments only for calls with an explicit offset.
#define LZY_EXPLICIT_kExplicit(...) __VA_ARGS__
#define LZY_EXPLICIT_kOwnPointer(...)
#define LZY_EXPLICIT_kSharedPointer(...)
#define LZY_EXPLICIT_kOrdered(...)

#define LZY_LAST_PARAMETER_BLOCKING , Status* status
#define LZY_LAST_PARAMETER_NONBLOCKING , Request* request
#define LZY_LAST_PARAMETER_TOGETHER , Request* request
#define LZY_LAST_PARAMETER_SPLIT
#define LZY_LAST_ARGUMENT_BLOCKING , status
#define LZY_LAST_ARGUMENT_NONBLOCKING , request
#define LZY_LAST_ARGUMENT_TOGETHER , request
#define LZY_LAST_ARGUMENT_SPLIT

// The last three fields of DataCall.
#define LZY_DONE_BLOCKING Done::kAtReturn, &status, nullptr
#define LZY_DONE_NONBLOCKING Done::kByRequest, nullptr, request
#define LZY_DONE_TOGETHER Done::kUntold, nullptr, request
#define LZY_DONE_SPLIT Done::kAtEnd, nullptr, nullptr

// Since MPI-4, every call that reads or writes has a twin for large counts.
#ifdef LZY_LARGE_COUNTS
#define LZY_TWINS(name, hook, Buffer, place, shape)    \
  LZY_TRANSFER(name, hook, Buffer, place, int, shape) \
  LZY_TRANSFER(name##_c, hook, Buffer, place, Count, shape)
#else
#define LZY_TWINS(name, hook, Buffer, place, shape) LZY_TRANSFER(name, hook, Buffer, place, int, shape)
#endif
#define LZY_WRITE_TWINS(name, place, shape) LZY_TWINS(name, Write, const void*, place, shape)
#define LZY_READ_TWINS(name, place, shape) LZY_TWINS(name, Read, void*, place, shape)
#define LZY_WRITE_END(name) LZY_TRANSFER_END(name, WriteEnd, const void*)
#define LZY_READ_END(name) LZY_TRANSFER_END(name, ReadEnd, void*)
