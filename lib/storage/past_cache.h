#pragma once
// A file that is read past the page cache of this node.
//
// On most file systems of several nodes, a node keeps old pages after another node has written, until it checks them again
// (docs/design/commit.md §5, "Pages of several nodes"). For bytes that another node may have written, only the file system
// itself has the right content.

#include <memory>

#include "base/file.h"

namespace lzy {

/// A file that makes every read of `file` by File::ReadAtFromDevice. All else is unchanged. Null stays null.
std::unique_ptr<File> ReadPastCache(std::unique_ptr<File> file);
/// True if ReadPastCache made `file`.
bool IsReadPastCache(const File& file);

}  // namespace lzy
