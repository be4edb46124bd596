#pragma once
// The tracked files of this process, by MPI_File handle. calls/open.cc inserts, all other hooks look up.
//
// MPI reuses a handle after its close. So the hook of MPI_File_close takes the entry out before the real close; another
// thread may get the same handle for a new file at once. All functions are local and thread-safe.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/contract/real.h"
#include "hooks/files/open_file.h"

namespace lzy::hooks {

/// Number of entries, and number of entries with checked reads. Only the registry writes them. The exported calls
/// (preload/exports.cc) read them first: if they are 0, a write or a read goes straight to MPI.
inline std::atomic<int> tracked_files{0};
inline std::atomic<int> checked_files{0};

class Registry {
 public:
  /// The only registry. It is never destroyed, because files may be closed while the process ends.
  static Registry& Get();

  /// Adds a file. If it is open for writing, sets file->disk to the one DiskFile of `file_system` and `inode`, or to a new one
  /// if both are 0 (unknown), and counts the handle until Leave. A file that is only read gets no DiskFile.
  void Insert(Word handle, std::shared_ptr<OpenFile> file, std::uint64_t file_system, std::uint64_t inode);
  /// As Insert, for a file that is written without MPI-IO: it has no handle, and is not found by one.
  void Join(OpenFile& file, std::uint64_t file_system, std::uint64_t inode);
  std::shared_ptr<OpenFile> Find(Word handle);  ///< nullptr if it is not tracked
  /// Removes and returns the entry; nullptr if there is none. The handle still counts for its DiskFile until Leave.
  std::shared_ptr<OpenFile> Take(Word handle);
  /// Removes and returns all entries. Called in MPI_Finalize, for files that the program did not close.
  std::vector<std::shared_ptr<OpenFile>> TakeAll();

  /// Remembers the path of a file opened with MPI_MODE_DELETE_ON_CLOSE. Such a file is not tracked, but a sidecar that
  /// it already had is removed together with it.
  void InsertDoomed(Word handle, std::string path);
  /// Removes and returns the path; empty if InsertDoomed was not called for the handle.
  std::string TakeDoomed(Word handle);

  /// Counts the handle of `file` as closed. Call it once for each Insert, after Take, or Join. True if this process has another
  /// handle of the file. This function and the next two are not for files that are only read.
  bool Leave(const OpenFile& file);
  bool IsOpenElsewhere(const OpenFile& file);
  /// Makes the next commit by every other handle of this DiskFile cover the whole file.
  void TouchWholeElsewhere(const OpenFile& file);

 private:
  /// Counts a handle. The caller holds mutex_.
  void CountHandle(OpenFile& file, std::uint64_t file_system, std::uint64_t inode);

  std::mutex mutex_;
  std::unordered_map<Word, std::shared_ptr<OpenFile>> files_;
  std::unordered_map<Word, std::string> doomed_;  ///< paths
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<DiskFile>> disk_files_;
};

}  // namespace lzy::hooks
