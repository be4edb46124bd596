#pragma once
// A replica: another copy of a dataset's files, from which a restore takes what parity cannot give back (docs/design.md
// §9, "Replicas").
//
// engine/verify calls FindInReplica after Examine. Planner counts what was found as not lost, and Mender copies it.
// Invariant: a block of the replica is used only if it has the leaf that was committed here. So it does not matter what
// the replica has elsewhere, and whether it is protected. It is never written.

#include <map>
#include <string>
#include <vector>

#include "judge/examine.h"

namespace lzy {

/// Looks in the replica for lost blocks of rows that have lost more than parity covers, and notes those that are as
/// committed in FileFindings::in_replica. Of a member of a set whose hashes are lost, proves them by the whole replica
/// of the member (FileView::proven_data). `path`: the replica of a shared file, or the pattern of that of a set. Opens
/// FileView::replica where needed. Sentences about what the replica does not have are added to `warnings`.
/// kInvalidArgument: some ranks do not see it, or it is the file itself. Collective over context.comm; `findings` and
/// `warnings` are the same on all ranks.
Status FindInReplica(const Context& context, DatasetView& view, const std::string& path, Findings& findings,
                     std::vector<std::string>& warnings);

/// The replica of `dataset`, which was found by `path` (a PATH of the user), below the directory `directory`: it has the
/// same relative name there. kInvalidArgument: `dataset` is not below `path`. Pure text. `is_directory`: `path` is one.
Result<std::string> ReplicaBelow(const std::string& directory, const std::string& path, bool is_directory, const DatasetRef& dataset);

/// The replicas of `datasets`, which are all that `path` stands for, in what the user named as `replica`: a file, the pattern
/// of a set, or a directory (ReplicaBelow). By DatasetRef::path. kInvalidArgument: it does not fit them. Collective.
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
