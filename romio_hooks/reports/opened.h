#pragma once
// Reports to lzy-run which files were opened for writing, and why some are not protected (request/opened_record.h).

#include <string>

namespace lzy::hooks {

/// Records that `path` was opened for writing, if lzy-run asked for that. `why_not`: why it is not protected; empty if it
/// is. `plain`: without MPI-IO. Local and thread-safe; ignores failures. The last record of a path counts.
void NoteOpened(const std::string& path, const std::string& why_not, bool plain = false) noexcept;

}  // namespace lzy::hooks
