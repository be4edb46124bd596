#pragma once
// What each wrapped call does around the real one: the functions of Layer. layer.h says what all of them keep to: the
// program gets the result of the real call, nothing is thrown, and calls for files that are not tracked cost next to
// nothing.
//
// This half is built for one MPI, so it can look at its handles. The preloaded half (preload/) knows none.

#include "hooks/layer/layer.h"

namespace lzy::hooks {

int StartMpi(RealCall real);
int Finalize(RealCall real);
int SessionFinalize(RealCall real, void* session);

int Open(RealCall real, Word comm, const char* name, int mode, Word info, Word* fh);
int Close(RealCall real, Word* fh);
int Sync(RealCall real, Word fh);
int Delete(RealCall real, const char* name, Word info);
int SetView(RealCall real, Word fh, std::int64_t displacement, Word etype, Word filetype, const char* representation,
            Word info);
int SetSize(RealCall real, Word fh, std::int64_t size);
int Preallocate(RealCall real, Word fh, std::int64_t size);
int Seek(RealCall real, Word fh, std::int64_t offset, int whence);
int SeekShared(RealCall real, Word fh, std::int64_t offset, int whence);
int GetInfo(RealCall real, Word fh, void* info);
int TrackedWrite(RealCall real, const DataCall& call);
int WriteEnd(RealCall real, Word fh, void** status);
int TrackedRead(RealCall real, const DataCall& call);
int ReadEnd(RealCall real, Word fh, void** status);

}  // namespace lzy::hooks
