// A library that calls a function of another one (lib/base/imported_function_test.cc). It is built twice: ASKS_PROCESS is the
// name of its function.
#include <sys/types.h>
#include <unistd.h>

pid_t ASKS_PROCESS(void);
pid_t ASKS_PROCESS(void) {
  return getpid();
}
