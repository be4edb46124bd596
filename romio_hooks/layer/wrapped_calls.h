#pragma once
// The calls of MPI that the layer stands in front of: the one list from which the exported functions (exports.cc) and
// the check of their prototypes against mpi.h (prototypes_check.cc) are made.
//
// Before including wrapped_calls.def, define
//   LZY_BEGIN(name, parameters, arguments)        a call that MPI begins with
//   LZY_FIRST(name, hook, parameters, arguments)  a call that the layer may meet first: its hook (Layer), its C
//   parameters,
//                                                 their names
//   LZY_CALL(name, hook, parameters, arguments)   any other call
//   LZY_WRITE(name, place, Count, shape)          a call that starts a write: where it writes (Place) and its form
//   LZY_WRITE_END(name)                           a call that ends a split write
//   LZY_READ(name, place, Count, shape)           a call that starts a read, likewise
//   LZY_READ_END(name)                            a call that ends a split read
//   LZY_COMPLETE(name, parameters, arguments, completion)  a call that requests may be done after: what Completion is
//                                                 made of
//   LZY_UNWRAPPED(name, reason)                   a call of MPI-IO that the layer need not see
// and the parameter types Comm, Info, File, Datatype, Session, Status, Request, Offset and Count. Names come without
// "MPI_". LZY_LARGE_COUNTS and LZY_SESSIONS say whether to list what MPI-4 added.

/// Forms of the calls that write: how they say where, and how they tell that they are done.
#define LZY_PARAMETERS_BLOCKING(N) (File fh, const void* buffer, N count, Datatype type, Status* status)
#define LZY_PARAMETERS_BLOCKING_AT(N) \
  (File fh, Offset offset, const void* buffer, N count, Datatype type, Status* status)
#define LZY_PARAMETERS_NONBLOCKING(N) (File fh, const void* buffer, N count, Datatype type, Request* request)
#define LZY_PARAMETERS_NONBLOCKING_AT(N) \
  (File fh, Offset offset, const void* buffer, N count, Datatype type, Request* request)
#define LZY_PARAMETERS_TOGETHER(N) LZY_PARAMETERS_NONBLOCKING(N)
#define LZY_PARAMETERS_TOGETHER_AT(N) LZY_PARAMETERS_NONBLOCKING_AT(N)
#define LZY_PARAMETERS_SPLIT(N) (File fh, const void* buffer, N count, Datatype type)
#define LZY_PARAMETERS_SPLIT_AT(N) (File fh, Offset offset, const void* buffer, N count, Datatype type)

#define LZY_PARAMETERS_END (File fh, const void* buffer, Status* status)
#define LZY_READ_PARAMETERS_END (File fh, void* buffer, Status* status)
#define LZY_ARGUMENTS_END (fh, buffer, status)

#define LZY_READ_PARAMETERS_BLOCKING(N) (File fh, void* buffer, N count, Datatype type, Status* status)
#define LZY_READ_PARAMETERS_BLOCKING_AT(N) \
  (File fh, Offset offset, void* buffer, N count, Datatype type, Status* status)
#define LZY_READ_PARAMETERS_NONBLOCKING(N) (File fh, void* buffer, N count, Datatype type, Request* request)
#define LZY_READ_PARAMETERS_NONBLOCKING_AT(N) \
  (File fh, Offset offset, void* buffer, N count, Datatype type, Request* request)
#define LZY_READ_PARAMETERS_TOGETHER(N) LZY_READ_PARAMETERS_NONBLOCKING(N)
#define LZY_READ_PARAMETERS_TOGETHER_AT(N) LZY_READ_PARAMETERS_NONBLOCKING_AT(N)
#define LZY_READ_PARAMETERS_SPLIT(N) (File fh, void* buffer, N count, Datatype type)
#define LZY_READ_PARAMETERS_SPLIT_AT(N) (File fh, Offset offset, void* buffer, N count, Datatype type)

#define LZY_ARGUMENTS_BLOCKING (fh, buffer, count, type, status)
#define LZY_ARGUMENTS_BLOCKING_AT (fh, offset, buffer, count, type, status)
#define LZY_ARGUMENTS_NONBLOCKING (fh, buffer, count, type, request)
#define LZY_ARGUMENTS_NONBLOCKING_AT (fh, offset, buffer, count, type, request)
#define LZY_ARGUMENTS_TOGETHER (fh, buffer, count, type, request)
#define LZY_ARGUMENTS_TOGETHER_AT (fh, offset, buffer, count, type, request)
#define LZY_ARGUMENTS_SPLIT (fh, buffer, count, type)
#define LZY_ARGUMENTS_SPLIT_AT (fh, offset, buffer, count, type)

#define LZY_OFFSET_BLOCKING 0
#define LZY_OFFSET_BLOCKING_AT offset
#define LZY_OFFSET_NONBLOCKING 0
#define LZY_OFFSET_NONBLOCKING_AT offset
#define LZY_OFFSET_TOGETHER 0
#define LZY_OFFSET_TOGETHER_AT offset
#define LZY_OFFSET_SPLIT 0
#define LZY_OFFSET_SPLIT_AT offset

#define LZY_DONE_BLOCKING Done::kAtReturn, &status, nullptr
#define LZY_DONE_BLOCKING_AT Done::kAtReturn, &status, nullptr
#define LZY_DONE_NONBLOCKING Done::kByRequest, nullptr, request
#define LZY_DONE_NONBLOCKING_AT Done::kByRequest, nullptr, request
#define LZY_DONE_TOGETHER Done::kUntold, nullptr, request
#define LZY_DONE_TOGETHER_AT Done::kUntold, nullptr, request
#define LZY_DONE_SPLIT Done::kAtEnd, nullptr, nullptr
#define LZY_DONE_SPLIT_AT Done::kAtEnd, nullptr, nullptr

/// Every call that reads or writes has a twin for large counts since MPI-4.
#ifdef LZY_LARGE_COUNTS
#define LZY_WRITE_TWINS(name, place, shape) \
  LZY_WRITE(name, place, int, shape)        \
  LZY_WRITE(name##_c, place, Count, shape)
#define LZY_READ_TWINS(name, place, shape) \
  LZY_READ(name, place, int, shape)        \
  LZY_READ(name##_c, place, Count, shape)
#else
#define LZY_WRITE_TWINS(name, place, shape) LZY_WRITE(name, place, int, shape)
#define LZY_READ_TWINS(name, place, shape) LZY_READ(name, place, int, shape)
#endif
