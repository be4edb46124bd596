#pragma once
// Copies directories and several sources: plans what to copy, and copies it.
//
// tools/lzy_copy calls PlanTogether and then CopyAll, on all ranks. copy/copy copies each file. lzy's own files are left
// out, because a copy gets a sidecar of its own. No link below the sources or the destination is followed.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/communicator.h"
#include "copy/copy.h"
#include "copy/sight.h"

namespace lzy {

/// What to copy. The same on all ranks.
struct CopyPlan {
  /// One entry: its names at the source and at the destination.
  struct Entry {
    std::string from;  ///< symbolic link: its text; hard link: the first name of the file at the destination
    std::string to;
    FileStat stat;
    LZY_FIELDS(from, to, stat)
  };
  std::vector<Entry> directories;  ///< each after its parent
  std::map<std::string, Attributes> attributes;  ///< attributes of directories, by path at the destination
  std::vector<Entry> files;        ///< each file once
  std::vector<Entry> links;
  std::vector<Entry> further_names;
  std::vector<CopyReport> failures;  ///< entries that could not be examined, or cannot be copied
  std::uint64_t bytes = 0;           ///< of all files
  std::string destination;           ///< as the user named it; a link is followed here, but not below
  CopySight sight = {};              ///< the ranks that copy; empty: all ranks, which see everything
  LZY_FIELDS(directories, attributes, files, links, further_names, failures, bytes, destination, sight)
};

/// Plans a copy of `sources`. Copies go below `destination` if it ends with a slash, if there are several sources, or if it
/// is a directory and the source is a file. Otherwise the copy gets the name `destination`. If the source is a directory and
/// this name exists, that is an error unless `resume`, so that the same command always means the same.
///
/// kInvalidArgument: the error above; a source is missing; or the destination is a source or in one. `is_directory`: if this
/// process does not see the destination, whether it is a directory on the ranks that do; else nullopt. Reads no data and
/// writes nothing. Local.
Result<CopyPlan> PlanCopy(FileSystem& fs, const std::vector<std::string>& sources, const std::string& destination,
                          bool resume, std::optional<bool> is_directory = std::nullopt);
/// Calls PlanCopy on a rank that LookAround chose. Collective; the result is the same on all ranks.
Result<CopyPlan> PlanTogether(Communicator& comm, FileSystem& fs, const std::vector<std::string>& sources,
                              const std::string& destination, bool resume, bool dry_run);

/// Copies everything in `plan`. Several threads copy small files at once; large files are copied one after the other. Files
/// are dealt to the ranks in plan.sight; those that do not see the sources read them through ranks that do (copy/remote.h).
/// Collective over context.comm.
///
/// `finished` is called on all ranks: first for failures of the plan, then for each file and other failure, in the order of
/// the plan. A failure does not stop the rest. After context.stop returns true, no new copy begins, and the result is
/// kInterrupted. Other errors are failures of communication.
Status CopyAll(const Context& context, const CopyPlan& plan, const CopyRequest& request,
               const std::function<void(CopyReport)>& finished);

}  // namespace lzy
