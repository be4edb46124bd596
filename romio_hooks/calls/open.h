#pragma once
// Opening and deleting files: decides whether a file is protected or its reads are checked, and removes the sidecars of
// deleted files.
//
// Open and Delete are hooks (layer.h). After Open, the registry has the handle on all ranks of its communicator or on none.
// The other hooks find the handle there.

#include <mpi.h>

#include <optional>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "hooks/contract/layer.h"
#include "hooks/disk/set_pattern.h"
#include "hooks/files/open_file.h"
#include "hooks/files/settings.h"
#include "request/options.h"

namespace lzy::hooks {

/// The findings of rank 0 of the file's communicator, which all its ranks use. For a file that is only read, each rank
/// makes its own.
struct Candidate {
  bool wanted = false;
  std::string path;
  OptionTexts texts;
  Options options;
  FileStat stat;
  Status refused;  ///< with on-error=fail: why there can be no protection, which sync and close report
  std::string why_not;  ///< if the file is not protected and `path` is known: the reason, for lzy-run --explain
};

/// Decides whether the file is wanted, from name, hints and environment. Changes none of them. If an option is unusable,
/// on-error decides whether the file still gets an entry, through which sync and close can report the error.
Candidate ConsiderFile(const char* name, MPI_Info info);
/// The set that has the file as this rank's member. An error if the file is the member of another rank.
Result<std::optional<SetName>> FindSet(const OptionTexts& texts, const Options& options, const std::string& path);
/// Reports once why a file is not protected although options ask for it.
void Refuse(const Options& options, const std::string& path, const Status& why);
/// The same for a file that can be protected after something is corrected.
void RefuseForNow(const OpenFile& file);

/// The hook of MPI_File_open. Collective over `comm`, as the call itself. On `comm` the layer only calls MPI_Allreduce, and
/// not even that for a file opened for reading without verify-reads. All other messages use a duplicate of `comm`.
int Open(RealCall real, Word comm, const char* name, int mode, Word info, Word* fh);

/// The hook of MPI_File_delete. Removes the sidecar together with the file. Local, as the call itself.
int Delete(RealCall real, const char* name, Word info);

/// The path whose sidecar a call that deletes `name` must delete, too; empty if none. For a symbolic link only the link is
/// removed, and its target stays protected.
std::string PathToDelete(const char* name);
/// After the program deleted `path`: deletes its sidecar, and records the deletion for lzy-scrub.
void ForgetDeleted(const std::string& path);

/// Call it after the close of a file that was opened with MPI_MODE_DELETE_ON_CLOSE. Removes the sidecar of `path` if the
/// file is gone. All ranks call it, because any rank may delete the file.
void AfterCloseOfDoomed(const std::string& path);

}  // namespace lzy::hooks
