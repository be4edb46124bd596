// Preloaded into programs on the test cluster: MPI_Finalize goes on with what other ranks need to come to their own.
//
// MPICH 4.0 over UCX waits there until its own connections are closed, and then for the other ranks, in a read from its launcher
// during which it looks at no network (MPIDI_UCX_mpi_finalize_hook). A rank whose closing needs an answer of one that is there
// already waits for ever: over TCP, on a busy machine, in every fifth run or so, with or without lzy. So here that read lets
// UCX go on until there is something to read.
//
// Linked to nothing, since it is loaded into shells and launchers as well. UCX's handles are pointers, its ucs_status_t is
// a packed enum.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

enum { MOST_WORKERS = 64 };
static void* workers[MOST_WORKERS];
static _Thread_local int closing = 0;  // of the thread that is in MPI_Finalize; UCX has others, which read as well

signed char ucp_worker_create(void* context, const void* parameters, void** worker);
signed char ucp_worker_create(void* context, const void* parameters, void** worker) {
  signed char (*next)(void*, const void*, void**) = dlsym(RTLD_NEXT, "ucp_worker_create");
  const signed char status = next(context, parameters, worker);
  for (int i = 0; status == 0 && i < MOST_WORKERS; ++i) {
    if (workers[i] != NULL) continue;
    workers[i] = *worker;
    break;
  }
  return status;
}

void ucp_worker_destroy(void* worker);
void ucp_worker_destroy(void* worker) {
  for (int i = 0; i < MOST_WORKERS; ++i) {
    if (workers[i] == worker) workers[i] = NULL;
  }
  void (*next)(void*) = dlsym(RTLD_NEXT, "ucp_worker_destroy");
  next(worker);
}

// Called by MPI_Finalize only.
void* ucp_disconnect_nb(void* endpoint);
void* ucp_disconnect_nb(void* endpoint) {
  void* (*next)(void*) = dlsym(RTLD_NEXT, "ucp_disconnect_nb");
  closing = 1;
  return next(endpoint);
}

static int any_workers(void) {
  for (int i = 0; i < MOST_WORKERS; ++i) {
    if (workers[i] != NULL) return 1;
  }
  return 0;
}

ssize_t read(int file, void* buffer, size_t length) {
  static ssize_t (*next)(int, void*, size_t) = NULL;
  if (next == NULL) next = dlsym(RTLD_NEXT, "read");
  if (closing && any_workers() && (fcntl(file, F_GETFL) & O_NONBLOCK) == 0) {
    unsigned (*progress)(void*) = dlsym(RTLD_NEXT, "ucp_worker_progress");
    struct pollfd from = {.fd = file, .events = POLLIN};
    closing = 0;  // what UCX reads meanwhile is its own affair
    while (poll(&from, 1, 1) == 0) {
      for (int i = 0; i < MOST_WORKERS; ++i) {
        if (workers[i] != NULL) progress(workers[i]);
      }
    }
    closing = 1;
  }
  return next(file, buffer, length);
}
