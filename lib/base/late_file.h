#pragma once
// Files that other nodes may change. Clients of network file systems keep sizes, times and small contents for a second or
// more (docs/design/commit.md §5, "Pages of several nodes"), so this node sees such changes late.

#include <memory>
#include <string>

#include "base/file.h"

namespace lzy {

/// An interface that a File also implements if another node may change it.
class LateFile {
 public:
  virtual ~LateFile() = default;
  virtual bool may_see_late() = 0;
  virtual Status Refresh() = 0;
  virtual void ForgetPages() = 0;
};

/// True if another node may have changed the file and this node may not see the change yet. False if no other node can
/// change the file.
bool MaySeeLate(File& file);
/// If MaySeeLate(file): makes this node ask the server for size, times and small contents again, if there is a way to do
/// so. kNotFound: the file is gone, and its name may mean another file now. Does nothing for other files. Local.
Status Refresh(File& file);
/// Opens a file and refreshes it. This node may open a file that another node has just replaced or removed; then it opens
/// the name once more. Parameters and errors are those of FileSystem::Open. Local.
Result<std::unique_ptr<File>> OpenRefreshed(FileSystem& fs, const std::string& path, OpenMode mode, bool follow);
/// If MaySeeLate(file): drops the unchanged pages of the file from the memory of this node, so that the next read asks the
/// file system. Use it for files that others write, not for files that this node has just written: reading these again is
/// slow. Local.
void ForgetPages(File& file);

}  // namespace lzy
