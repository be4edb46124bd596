#pragma once
// Option verify-reads: compares what a program has read with what was committed, before the call that completes the
// read returns. Damaged data are put right (docs/design/repair.md "Verified reads").
//
// The check looks at the program's buffer, not at the file. So whatever moved the data is checked too, for example
// another rank that read for this one. This module finds out which bytes of the file are where in the buffer; ReadCheck
// (disk/read_check.h) compares and heals them. Data in an epoch of this process are not checked.

#include <memory>

#include "hooks/files/open_file.h"
#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// The hook of all reads of files with a ReadCheck: makes the real call once, and checks the data. A nonblocking or
/// split read is remembered and checked when it is done (pending.h, OpenFile::split_read). Returns the code of the real
/// call; or, if data are damaged and cannot be rebuilt, an error of class MPI_ERR_IO. A read that failed may become a
/// success if all its data could be rebuilt. Local, except ordered reads, which are collective over the file's
/// communicator.
int ReadChecked(RealCall real, const DataCall& call, const std::shared_ptr<OpenFile>& file);

}  // namespace lzy::hooks
