#pragma once
// Reads a file past the page cache of this node.
//
// After another node has written a file, most parallel file systems still return old pages from the cache of this node
// until they check them again (docs/design/commit.md §5, "Pages of several nodes"). So bytes that another node may have
// written must be read from the file system itself.

#include <memory>

#include "base/file.h"

namespace lzy {

/// Returns a file that calls File::ReadAtUncached of `file` for every read, and is otherwise equal. Null stays null.
std::unique_ptr<File> ReadPastCache(std::unique_ptr<File> file);
/// True if ReadPastCache returned `file`.
bool IsReadPastCache(const File& file);

}  // namespace lzy
