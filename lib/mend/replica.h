#pragma once
// A replica: another copy of a dataset's files, from which a restore takes what parity cannot give back (docs/design/repair.md
// §9, "Replicas").
//
// engine/verify calls FindInReplica after Examine. Planner counts what was found as not lost, and Mender copies it.
// Invariant: a block of the replica is used only if it has the leaf that was committed here. So it does not matter what
// the replica has elsewhere, and whether it is protected. It is never written.
//
// A rank that does not see the replica reads it through another one (remote/files.h). To find blocks, only their hashes
// travel; then each block that is copied travels once.

#include <map>
#include <string>
#include <vector>

#include "judge/examine.h"
#include "remote/files.h"

namespace lzy {

/// The replica of a dataset. The same on all ranks.
struct ReplicaPlace {
  std::string path;             ///< of a shared file, or the pattern of that of a set
  RemoteRanks* ranks = nullptr;  ///< who may see it; the workers are the ranks of the dataset
  bool force = false;           ///< RestoreRequest::force
  // Found by FindInReplica:
  bool elsewhere = false;      ///< some ranks read it through others
  std::vector<int> readers = {};  ///< shared file: those who read it, by rank of the dataset's communicator
  /// Whether each rank of the dataset has the replicas open that it may need.
  bool IsSeenByAll(const Communicator& comm) const { return !elsewhere && readers.size() == static_cast<std::size_t>(comm.size()); }
};

/// Looks in the replica for lost blocks of rows that have lost more than parity covers, and notes those that are as
/// committed in FileFindings::in_replica. Of a member of a set whose hashes are lost, proves them by the whole replica
/// of the member (FileView::proven_data). Opens FileView::replica where it is needed and seen. If nobody who works on a file
/// sees its replica, that of the first of `place.ranks` that sees one counts. If ranks do not see it, blocks with edits are
/// not looked for unless they are to be reset. Sentences about what the replica does not have are added to `warnings`. kInvalidArgument: it
/// is the file itself. Collective over context.comm; `place`, `findings` and `warnings` are the same on all ranks.
Status FindInReplica(const Context& context, DatasetView& view, ReplicaPlace& place, Findings& findings,
                     std::vector<std::string>& warnings);

/// Opens the replica `path` of the first other rank that sees it. The file is of use as long as `caller`.
Result<std::unique_ptr<File>> OpenElsewhere(Caller& caller, const RemoteRanks& ranks, const std::string& path);

/// The replica of `dataset`, which was found by `path` (a PATH of the user), below the directory `directory`: it has the
/// same relative name there. kInvalidArgument: `dataset` is not below `path`. Pure text. `is_directory`: `path` is one.
Result<std::string> ReplicaBelow(const std::string& directory, const std::string& path, bool is_directory, const DatasetRef& dataset);

/// The replicas of `datasets`, which are all that `path` stands for, in what the user named as `replica`: a file, the pattern
/// of a set, or a directory (ReplicaBelow). By DatasetRef::path. kInvalidArgument: it does not fit them, or no rank sees it,
/// or any of them. Collective.
Result<std::map<std::string, std::string>> FindReplicas(FileSystem& fs, Communicator& comm, const std::string& path,
                                                        const std::vector<DatasetRef>& datasets, const std::string& replica);

/// A data file, with some of its blocks taken from its replica: for sources of rows. Reads only.
class PatchedFile : public ReadOnlyFile {
 public:
  /// `data` may be null, if the file is missing. `from_replica`: sorted byte ranges. All must outlive it.
  PatchedFile(std::string path, File* data, File& replica, std::vector<Interval> from_replica)
      : ReadOnlyFile(std::move(path)), data_(data), replica_(replica), from_replica_(std::move(from_replica)) {}

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override { return Read(offset, to, &File::ReadAt); }
  Result<std::size_t> ReadAtFromDevice(std::uint64_t offset, MutableByteSpan to) override {
    return Read(offset, to, &File::ReadAtFromDevice);
  }

 private:
  using Reading = Result<std::size_t> (File::*)(std::uint64_t offset, MutableByteSpan to);
  Result<std::size_t> Read(std::uint64_t offset, MutableByteSpan to, Reading read);

  File* const data_;
  File& replica_;
  const std::vector<Interval> from_replica_;
};

}  // namespace lzy
