#pragma once
// The files that are tracked, by handle. Handles are reused by MPI after close, so an entry is taken out before the
// real close.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/files/open_file.h"
#include "hooks/layer/real.h"

namespace lzy::hooks {

/// How many entries there are, and how many of them are of files whose reads are checked. The registry alone sets them.
inline std::atomic<int> tracked_files{0};
inline std::atomic<int> checked_files{0};

class Registry {
 public:
  /// The only one; never destroyed, since files may be closed while the process ends.
  static Registry& Get();

  /// Sets file->disk (`device`, `inode`; 0, 0 when unknown) and counts the handle.
  void Insert(Word handle, std::shared_ptr<OpenFile> file, std::uint64_t device, std::uint64_t inode);
  /// A file opened for reading, whose reads are checked: it has no disk file.
  void InsertReader(Word handle, std::shared_ptr<OpenFile> file);
  std::shared_ptr<OpenFile> Find(Word handle);
  /// Takes the entry out; nullptr when there is none. The handle still counts as one of its disk file's.
  std::shared_ptr<OpenFile> Take(Word handle);
  std::vector<std::shared_ptr<OpenFile>> TakeAll();

  /// A file opened with MPI_MODE_DELETE_ON_CLOSE, which is not tracked: its sidecar from before goes when it goes.
  void InsertDoomed(Word handle, std::string path);
  /// Takes it out; empty when there is none.
  std::string TakeDoomed(Word handle);

  /// The handle of `file` is closed: whether this process has the file open by another one.
  bool Leave(const OpenFile& file);
  bool IsOpenElsewhere(const OpenFile& file);
  /// Makes the next commit by any other handle of this disk file cover all of it.
  void TouchWholeElsewhere(const OpenFile& file);

 private:
  std::shared_ptr<OpenFile> PutLocked(Word handle, std::shared_ptr<OpenFile> file);

  std::mutex mutex_;
  std::unordered_map<Word, std::shared_ptr<OpenFile>> files_;
  std::unordered_map<Word, std::string> doomed_;  ///< paths
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<DiskFile>> disk_files_;
};

}  // namespace lzy::hooks
