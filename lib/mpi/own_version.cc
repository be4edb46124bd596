#include "mpi/versions.h"

namespace lzy {

LzyVersion OwnVersion() {
  return {LZY_VERSION, kMessages};
}

}  // namespace lzy
