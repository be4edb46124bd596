#pragma once
// A file that is read past the page cache of this node.
//
// On most file systems of several nodes, a node keeps pages that another node has written since, until it happens to look
// (docs/design/commit.md §5, "Pages of several nodes"). For bytes that another node may have written, only the file system itself
// can tell.

#include <memory>

#include "base/file.h"

namespace lzy {

/// `file`, of which every reading is one by File::ReadAtFromDevice. All else is as it was. Null stays null.
std::unique_ptr<File> ReadPastCache(std::unique_ptr<File> file);
/// Whether `file` is such a one.
bool IsReadPastCache(const File& file);

}  // namespace lzy
