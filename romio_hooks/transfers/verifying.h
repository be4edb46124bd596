#pragma once
// Option verify-reads: compares data that a program has read with the committed hashes, before the call that completes the
// read returns. Corrects damaged data (docs/design/repair.md "Verified reads").
//
// The check examines the program's buffer, not the file. So it also covers data that another rank read for this one. This
// module determines where in the buffer the bytes of the file are. ReadCheck (disk/read_check.h) compares and heals them.
// Data in an epoch of this process are not checked.

#include <memory>

#include "hooks/contract/layer.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// The hook of all reads of files with a ReadCheck: makes the real call once, and checks the data. A nonblocking or split
/// read is checked when it completes (pending.h, OpenFile::split_read). Returns the code of the real call, or an error of
/// class MPI_ERR_IO if data are damaged and cannot be rebuilt. A read that failed may become a success if all its data were
/// rebuilt. Local, except ordered reads, which are collective over the file's communicator.
int ReadChecked(RealCall real, const DataCall& call, const std::shared_ptr<OpenFile>& file);

}  // namespace lzy::hooks
