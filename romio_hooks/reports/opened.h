#pragma once
// Tells lzy-run which files were opened for writing, and why some are not protected (request/opened_record.h).

#include <string>

namespace lzy::hooks {

/// Notes that `path` was opened for writing, if lzy-run asked for that. `why_not`: why it is not protected; empty: it is.
/// Local and thread-safe; failures are not told. The last note of a path counts.
void NoteOpened(const std::string& path, const std::string& why_not) noexcept;

}  // namespace lzy::hooks
