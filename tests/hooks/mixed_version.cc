// What a layer or a tool of another installation tells of itself; instead of lib/mpi/own_version.cc.
#include "mpi/versions.h"

namespace lzy {

LzyVersion OwnVersion() {
  return {"0.1.77", kMessages + MIXED_MESSAGES};
}

}  // namespace lzy
