#pragma once
// The options of a file: a hint of MPI_File_open overrides the environment, and the environment overrides the default
// (docs/reference/options.md).
//
// Rank 0 of a file reads its hints and environment and sends the texts to the other ranks, which parse them again. So all
// ranks use the same options even if their environments differ. All functions are local.

#include <mpi.h>

#include <string>
#include <vector>

#include "base/record.h"
#include "base/status.h"
#include "request/options.h"

namespace lzy::hooks {

/// An option as text. Later options of one name override earlier ones. Rank 0 sends a list of these.
struct GivenOption {
  std::string name;
  std::string value;
  LZY_FIELDS(name, value)
};
using OptionTexts = std::vector<GivenOption>;

/// The options of the environment (LZY_*), read once. If a variable is unusable, `status` names the first one, and
/// nothing is protected.
struct Settings {
  Status status;
  Options options;
  OptionTexts texts;
  /// The working directory when the environment was read. Relative patterns and file names in options start from it.
  std::string directory;
};
const Settings& EnvironmentSettings();

/// The options of the environment, then those of the hints lzy_* in `info` (may be MPI_INFO_NULL). Fails at the first
/// option that is unusable, or that does not fit the others.
Result<OptionTexts> TextsWithHints(MPI_Info info);
/// Call it if TextsWithHints fails: returns the usable options among include, exclude, on-error and log. They decide
/// whether the file is to be protected at all, and how to report that it is not.
OptionTexts UsableTexts(MPI_Info info);
/// Parses `texts`. A relative path in option `report` becomes absolute.
Result<Options> Parse(const OptionTexts& texts);

/// Whether members of sets that are written without MPI-IO are committed in the background: unless the user chose commit=wait
/// (the default is wait for MPI-IO only), or posix=off.
bool AnnouncesMembers(const Options& options);

/// Adds the options of a file to `info`, as hints lzy_*. Leaves out values that are too long for a hint.
void AddHints(MPI_Info info, const Options& options);

}  // namespace lzy::hooks
