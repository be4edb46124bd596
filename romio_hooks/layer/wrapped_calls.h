#pragma once
// The calls of MPI that the layer stands in front of: the one list from which the exported functions (exports.cc) and
// the check of their prototypes against mpi.h (prototypes_check.cc) are made.
//
// Before including wrapped_calls.def, define
//   LZY_BEGIN(name, parameters, arguments)        a call that MPI begins with
//   LZY_FIRST(name, hook, parameters, arguments)  a call that the layer may meet first: its hook (Layer), its C
//                                                 parameters, their names
//   LZY_CALL(name, hook, parameters, arguments)   any other call
//   LZY_TRANSFER(name, hook, Buffer, place, N, shape)
//                                                 a call that starts a write or a read: where (Place), and its shape
//   LZY_TRANSFER_END(name, hook, Buffer)          a call that ends a split one
//   LZY_COMPLETE(name, parameters, arguments, completion)
//                                                 a call after which requests may be done: what Completion is made of
//   LZY_UNWRAPPED(name, reason)                   a call of MPI-IO that the layer need not see
// and the parameter types Comm, Info, File, Datatype, Session, Status, Request, Offset and Count. Names come without
// "MPI_". LZY_LARGE_COUNTS and LZY_SESSIONS say whether to list what MPI-4 added.

// A call that writes or reads, in two independent respects. Its Place says whether it has an offset: only kExplicit
// does. Its shape says how it tells that it is done: BLOCKING by its status, NONBLOCKING by its request, TOGETHER
// (nonblocking and collective) by a request that never fails, SPLIT by a second call. `Buffer` is const void* for a
// write, void* for a read. `N` is the type of the count.
#define LZY_PARAMETERS(place, Buffer, N, shape) \
  (File fh, LZY_EXPLICIT_##place(Offset offset, ) Buffer buffer, N count, Datatype type LZY_LAST_PARAMETER_##shape)
#define LZY_ARGUMENTS(place, shape) (fh, LZY_EXPLICIT_##place(offset, ) buffer, count, type LZY_LAST_ARGUMENT_##shape)
#define LZY_PARAMETERS_END(Buffer) (File fh, Buffer buffer, Status* status)
#define LZY_ARGUMENTS_END (fh, buffer, status)

// What only calls with an explicit offset have.
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
