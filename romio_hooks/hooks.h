#pragma once
// What each wrapped call does around the real one. Every function here calls `real` exactly once, and returns its code
// unchanged, except that Sync and Close return MPI_ERR_IO with on-error=fail when redundancy could not be made. None
// throws. Handles are of the program's MPI and are looked at only when Active().

#include <atomic>
#include <cstdint>

#include "real.h"

namespace lzy::hooks {

/// Where a write goes.
enum class Place {
  kExplicit,       ///< to the offset in the call, in etypes of the view
  kOwnPointer,     ///< to the individual file pointer
  kSharedPointer,  ///< to the shared file pointer, alone or ordered by rank
};

struct WriteCall {
  Word fh;
  Place place;
  std::int64_t offset;  ///< kExplicit only
  std::int64_t count;
  Word type;
};

/// How many open files are tracked. While it is 0 a write costs this look and no more.
inline std::atomic<int> tracked_files{0};

int StartLayer(RealCall real);
template <class... Unused>
int Init(RealCall real, Unused...) {
  return StartLayer(real);
}
int Finalize(RealCall real);

int Open(RealCall real, Word comm, const char* name, int mode, Word info, Word* fh);
int Close(RealCall real, Word* fh);
int Sync(RealCall real, Word fh);
int Delete(RealCall real, const char* name, Word info);
int SetView(RealCall real, Word fh, std::int64_t displacement, Word etype, Word filetype, const char* representation,
            Word info);
/// Also for preallocate.
int SetSize(RealCall real, Word fh, std::int64_t size);

int TrackedWrite(RealCall real, const WriteCall& call);
inline int Write(RealCall real, const WriteCall& call) {
  return tracked_files.load(std::memory_order_relaxed) == 0 ? real() : TrackedWrite(real, call);
}

}  // namespace lzy::hooks
