#pragma once
// Files that other nodes may change, of which this node is told late: clients of network file systems keep sizes, times and small
// contents for a second or more (docs/design/commit.md §5, "Pages of several nodes").

#include <memory>
#include <string>

#include "base/file.h"

namespace lzy {

/// What a File is, too, if that can be so.
class LateFile {
 public:
  virtual ~LateFile() = default;
  virtual bool may_see_late() = 0;
  virtual Status Refresh() = 0;
  virtual void ForgetPages() = 0;
};

/// Whether another node may have changed the file, so that this one is told a second or so later. False: surely not.
bool MaySeeLate(File& file);
/// For such a file: makes this node forget what it keeps of it (size, times, small contents), as far as there is a way to.
/// kNotFound: it is gone; its name may mean another one by now. Does nothing for any other file. Local.
Status Refresh(File& file);
/// Opens a file and refreshes it. What another node has just replaced or removed may be opened all the same: then the name is opened once
/// more. Parameters and errors are those of FileSystem::Open. Local.
Result<std::unique_ptr<File>> OpenRefreshed(FileSystem& fs, const std::string& path, OpenMode mode, bool follow);
/// For such a file: drops what this node has of it in memory and has not changed, so that it is read from the file system. For files that
/// others write, not for those that this node has just written itself: reading these again costs. Local.
void ForgetPages(File& file);

}  // namespace lzy
