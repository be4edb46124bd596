#pragma once
// Copies of directories and of several sources: what there is to copy, and copying it.
//
// tools/lzy_copy calls PlanTogether and then CopyAll, on all ranks. Files go by copy/copy. Names of lzy's own are left
// out: a copy gets a sidecar of its own. No link below the sources or the destination is followed.

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

/// What is to be copied. The same on all ranks.
struct CopyPlan {
  /// One name at the source and at the destination.
  struct Entry {
    std::string from;  ///< of a symbolic link: its text; of a further name of a file: its first name at the destination
    std::string to;
    FileStat stat;
    LZY_FIELDS(from, to, stat)
  };
  std::vector<Entry> directories;  ///< each after the one that it is in
  std::map<std::string, Attributes> attributes;  ///< of directories that have some, by their paths at the destination
  std::vector<Entry> files;        ///< each file once
  std::vector<Entry> links;
  std::vector<Entry> further_names;
  std::vector<CopyReport> failures;  ///< what could not be looked at, or cannot be copied
  std::uint64_t bytes = 0;           ///< of all files
  std::string destination;           ///< as the user named it: if it is a link, it is followed, and no link below it is
  CopySight sight = {};              ///< who copies; empty: all ranks, which see everything
  LZY_FIELDS(directories, attributes, files, links, further_names, failures, bytes, destination, sight)
};

/// Looks at what `sources` mean. Copies go below `destination` if it ends with a slash, if there are several sources,
/// or if it is a directory and the source is a file. Otherwise the copy gets its name. If the source is a directory and
/// that name is taken, this is an error unless `resume`: then the same command means the same again. kInvalidArgument:
/// so, or a source is missing, or the destination is a source or in one. Reads no data and writes nothing. Local.
/// `is_directory`: given if this process does not see the destination: whether it is a directory where it is seen.
Result<CopyPlan> PlanCopy(FileSystem& fs, const std::vector<std::string>& sources, const std::string& destination,
                          bool resume, std::optional<bool> is_directory = std::nullopt);
/// The same, for all ranks, by ranks that see what it takes (LookAround). Collective; the result is the same on all.
Result<CopyPlan> PlanTogether(Communicator& comm, FileSystem& fs, const std::vector<std::string>& sources,
                              const std::string& destination, bool resume, bool dry_run);

/// Copies all of it. Small files are copied by several threads at once, large ones one after the other. `finished`:
/// called on all ranks for each file, and for whatever else failed, in the order of the plan; first for failures of the
/// plan. A failure does not stop the rest. Once context.stop returns true, nothing more is begun; kInterrupted then.
/// Other errors are failures of ranks to talk to each other. Collective over context.comm: files are dealt to the ranks
/// that plan.sight names. Ranks that do not see the sources read them by way of those that do (copy/remote.h).
Status CopyAll(const Context& context, const CopyPlan& plan, const CopyRequest& request,
               const std::function<void(CopyReport)>& finished);

}  // namespace lzy
