// The calls of MPI-IO that write, and how each form of them is made.
#include <stdio.h>
#include <string.h>

#include "write_calls.h"

#if MPI_VERSION >= 4
#define CALL(PLACE, FORM, member, call, end)                                     \
  {#call, PLACE, FORM, false, {.member = MPI_File_##call}, end}, {               \
#call "_c", PLACE, FORM, true, {.large_##member = MPI_File_##call##_c }, end \
  }
#else
#define CALL(PLACE, FORM, member, call, end) \
  { #call, PLACE, FORM, false, {.member = MPI_File_##call }, end }
#endif

static const Call calls[] = {
    CALL(OWN_POINTER, BLOCKING, blocking, write, NULL),
    CALL(OWN_POINTER, BLOCKING, blocking, write_all, NULL),
    CALL(EXPLICIT, BLOCKING_AT, blocking_at, write_at, NULL),
    CALL(EXPLICIT, BLOCKING_AT, blocking_at, write_at_all, NULL),
    CALL(OWN_POINTER, NONBLOCKING, nonblocking, iwrite, NULL),
    CALL(OWN_POINTER, NONBLOCKING, nonblocking, iwrite_all, NULL),
    CALL(EXPLICIT, NONBLOCKING_AT, nonblocking_at, iwrite_at, NULL),
    CALL(EXPLICIT, NONBLOCKING_AT, nonblocking_at, iwrite_at_all, NULL),
    CALL(SHARED_POINTER, BLOCKING, blocking, write_shared, NULL),
    CALL(SHARED_POINTER, NONBLOCKING, nonblocking, iwrite_shared, NULL),
    CALL(SHARED_POINTER_IN_ORDER, BLOCKING, blocking, write_ordered, NULL),
    CALL(OWN_POINTER, SPLIT, split, write_all_begin, MPI_File_write_all_end),
    CALL(EXPLICIT, SPLIT_AT, split_at, write_at_all_begin, MPI_File_write_at_all_end),
    CALL(SHARED_POINTER_IN_ORDER, SPLIT, split, write_ordered_begin, MPI_File_write_ordered_end),
};
enum { CALLS = sizeof calls / sizeof calls[0] };

const Call* find_call(const char* name) {
  for (int i = 0; i < CALLS; ++i) {
    if (strcmp(calls[i].name, name) == 0) return &calls[i];
  }
  return NULL;
}

int initiate(const Call* c, MPI_File f, MPI_Offset at, const void* data, int count, MPI_Datatype type,
             MPI_Status* status, MPI_Request* request) {
  switch (c->form) {
    case BLOCKING:
      return c->large ? c->begin.large_blocking(f, data, count, type, status)
                      : c->begin.blocking(f, data, count, type, status);
    case BLOCKING_AT:
      return c->large ? c->begin.large_blocking_at(f, at, data, count, type, status)
                      : c->begin.blocking_at(f, at, data, count, type, status);
    case NONBLOCKING:
      return c->large ? c->begin.large_nonblocking(f, data, count, type, request)
                      : c->begin.nonblocking(f, data, count, type, request);
    case NONBLOCKING_AT:
      return c->large ? c->begin.large_nonblocking_at(f, at, data, count, type, request)
                      : c->begin.nonblocking_at(f, at, data, count, type, request);
    case SPLIT:
      return c->large ? c->begin.large_split(f, data, count, type) : c->begin.split(f, data, count, type);
    case SPLIT_AT:
      return c->large ? c->begin.large_split_at(f, at, data, count, type) : c->begin.split_at(f, at, data, count, type);
  }
  return MPI_ERR_OTHER;
}

bool shared_pointer(const Call* c) {
  return c->place == SHARED_POINTER || c->place == SHARED_POINTER_IN_ORDER;
}

void print_calls(void) {
  for (int i = 0; i < CALLS; ++i) puts(calls[i].name);
}
