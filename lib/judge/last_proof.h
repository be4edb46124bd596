#pragma once
// What a commit of edits would take away for good: the last proof of what another file holds, the committed content of a file that
// may only be damaged, or a set whose members were moved among those of this one. lzy-protect asks before it commits, and lzy-verify before it advises to.

#include "judge/examine.h"

namespace lzy {

/// Call it after Describe, for a dataset with edits. If they are not to be committed without force: DatasetReport::another, and
/// warnings why. Reads files that may hold what edited ones were. Collective; the same on all ranks.
Status WarnWhyNotToCommit(const Context& context, const DatasetView& view, DatasetReport& report);
/// True if another file has the name of a committed one, by inode or birth. Then WarnOfRotten is worth its reads.
bool HasReplacedFile(const DatasetView& view);
/// The part of it that looks only for files that were renamed or moved, and are damaged. lzy-verify calls it if another file has taken
/// the name of the committed one.
Status WarnOfRotten(const Context& context, const DatasetView& view, DatasetReport& report);

}  // namespace lzy
