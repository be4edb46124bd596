#pragma once
// A replica is another copy of a dataset's files, from which a restore takes what parity cannot rebuild
// (docs/design/repair.md §9, "Replicas").
//
// engine/verify calls FindInReplica after Examine. The plan counts the blocks that it found as not lost, and Repairer copies
// them. Invariant: a block of the replica is used only if it has the leaf that was committed here. So it does not matter
// whether the rest of the replica is right, or protected. The replica is never written.
//
// A rank that does not see the replica reads it through another rank (remote/files.h). Only hashes travel to find blocks;
// then each copied block travels once.

#include <map>
#include <string>
#include <vector>

#include "judge/examine.h"
#include "remote/files.h"

namespace lzy {

/// The replica of a dataset. The same on all ranks.
struct ReplicaPlace {
  std::string path;             ///< path of the replica of a shared file, or the pattern of the replica of a set
  RemoteRanks* ranks = nullptr;  ///< the ranks that may see it; the workers are the ranks of the dataset
  bool force = false;           ///< RestoreRequest::force
  // FindInReplica sets:
  bool elsewhere = false;      ///< some ranks read it through other ranks
  std::vector<int> readers = {};  ///< shared file: the ranks of the dataset's communicator that read it
  /// True if each rank of the dataset has opened the replicas that it may need.
  bool IsSeenByAll(const Communicator& comm) const { return !elsewhere && readers.size() == static_cast<std::size_t>(comm.size()); }
};

/// Looks in the replica for lost blocks of rows that have lost more than parity covers. Notes in FileFindings::in_replica
/// those that are as committed. If the hashes of a member are lost, proves them by the whole replica of the member
/// (FileView::proven_data). Opens FileView::replica on ranks that need it and see it.
///
/// If no rank that works on a file sees its replica, uses the replica that the first of `place.ranks` sees. If some ranks do
/// not see the replica, edited blocks are left out unless place.force is set. Adds sentences to `warnings` about blocks that
/// the replica does not have. kInvalidArgument if the replica is the file itself. Collective over context.comm; `place`,
/// `findings` and `warnings` are the same on all ranks.
Status FindInReplica(const Context& context, DatasetView& view, ReplicaPlace& place, Findings& findings,
                     std::vector<std::string>& warnings);

/// Opens the replica `path` on the first other rank that sees it. `caller` must outlive the file.
Result<std::unique_ptr<File>> OpenElsewhere(Caller& caller, const RemoteRanks& ranks, const std::string& path);

/// The path of the replica of `dataset` below `directory`. `dataset` was found by the user's PATH `path`; its replica has
/// the same relative name. `is_directory`: `path` is a directory. kInvalidArgument if `dataset` is not below `path`. No I/O.
Result<std::string> ReplicaBelow(const std::string& directory, const std::string& path, bool is_directory, const DatasetRef& dataset);

/// Finds the replicas of `datasets`, which are all that the PATH `path` stands for. `replica` is what the user named: a
/// file, the pattern of a set, or a directory (ReplicaBelow). The result is by DatasetRef::path. kInvalidArgument if
/// `replica` does not fit the datasets, or no rank sees any replica. Collective.
Result<std::map<std::string, std::string>> FindReplicas(FileSystem& fs, Communicator& comm, const std::string& path,
                                                        const std::vector<DatasetRef>& datasets, const std::string& replica);

/// Presents a data file with some blocks taken from its replica, as a source of rows. Read-only.
class PatchedFile : public ReadOnlyFile {
 public:
  /// `data` is null if the file is missing. `from_replica`: sorted byte ranges. `data` and `replica` must outlive the
  /// object.
  PatchedFile(std::string path, File* data, File& replica, std::vector<Interval> from_replica)
      : ReadOnlyFile(std::move(path)), data_(data), replica_(replica), from_replica_(std::move(from_replica)) {}

  Result<std::size_t> ReadAt(std::uint64_t offset, MutableByteSpan to) override { return Read(offset, to, &File::ReadAt); }
  Result<std::size_t> ReadAtUncached(std::uint64_t offset, MutableByteSpan to) override {
    return Read(offset, to, &File::ReadAtUncached);
  }

 private:
  using Reading = Result<std::size_t> (File::*)(std::uint64_t offset, MutableByteSpan to);
  Result<std::size_t> Read(std::uint64_t offset, MutableByteSpan to, Reading read);

  File* const data_;
  File& replica_;
  const std::vector<Interval> from_replica_;
};

}  // namespace lzy
