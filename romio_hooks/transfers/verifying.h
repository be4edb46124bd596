#pragma once
// Option verify-reads: what a program has read is held to what was committed, and put right where it is damaged, before the
// call that completes the read returns (docs/design.md "Verified reads"). Checking belongs to MPI's buffers and not to the file: so whatever
// moved the data, be it another rank that read for this one, is checked along with it.

#include <memory>

#include "hooks/files/open_file.h"
#include "hooks/layer/layer.h"

namespace lzy::hooks {

/// Makes the read and checks it; of one that is not done at return, remembers to. For files with a ReadCheck.
int ReadChecked(RealCall real, const DataCall& call, const std::shared_ptr<OpenFile>& file);

}  // namespace lzy::hooks
