#pragma once
// Option verify-reads: what a program has read is held to what was committed, and put right where it is damaged, before the
// call that completes the read returns (DESIGN §6.5). Checking belongs to MPI's buffers and not to the file: so whatever
// moved the data, be it another rank that read for this one, is checked along with it.

#include <memory>

#include "layer.h"
#include "open_file.h"

namespace lzy::hooks {

/// A read that is under way.
class CheckedRead;

/// Makes the read and checks it; of one that is not done at return, remembers to. For files with a ReadCheck.
int ReadChecked(RealCall real, const DataCall& call, const std::shared_ptr<OpenFile>& file);

/// The read is done, with `code` and `status` (an MPI_Status, or null where there is none): the code to return, and what the
/// status then says. The file's error handler has been told of an error that is not `code`.
int FinishRead(CheckedRead& read, int code, void* status);

}  // namespace lzy::hooks
