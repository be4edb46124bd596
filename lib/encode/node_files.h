#pragma once
// Files that one rank of a communicator has open, opened by the others as well: on one node all ranks can work on all
// members of a set through one page cache, and nothing has to be exchanged.

#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/file.h"
#include "comm/communicator.h"

namespace lzy {

/// Every rank tells the others what it has (`tell`), and takes what each of them told (`take`). True when all
/// ranks run on one node (ThisNode) and none of these calls failed anywhere: whatever stands in the way is a reason to go another
/// way, and no failure. Collective.
Result<bool> ShareOnNode(Communicator& comm, const std::function<Status(ByteWriter&)>& tell,
                         const std::function<Status(ByteReader&)>& take);

/// For `tell`: an open file.
Status PutOpenFile(ByteWriter& out, File& file);
/// For `take`: opens the same one; an error if that name is another file here.
Result<std::unique_ptr<File>> OpenTheSame(ByteReader& in, FileSystem& fs, OpenMode mode);

}  // namespace lzy
