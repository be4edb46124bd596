#pragma once
// The options that a file is protected with: a hint of MPI_File_open wins over the environment, and that over the
// default (docs/reference/options.md).
//
// Rank 0 of a file reads its hints and environment and sends the texts to the other ranks, which parse them again. So
// all ranks go by the same options even if their environments differ. All functions are local.

#include <mpi.h>

#include <string>
#include <vector>

#include "base/record.h"
#include "base/status.h"
#include "request/options.h"

namespace lzy::hooks {

/// Options as text, in the order in which they apply: the last of one name counts. This is what rank 0 sends.
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

/// The environment's options, then those of the hints lzy_* in `info` (may be MPI_INFO_NULL). Fails with the first
/// option that is unusable, or that does not fit the others.
Result<OptionTexts> TextsWithHints(MPI_Info info);
/// For when TextsWithHints fails: the usable ones among include, exclude, on-error and log. They decide whether the
/// file is meant at all, and how to report that it is not protected.
OptionTexts UsableTexts(MPI_Info info);
/// The options that `texts` stand for. A relative `report` file becomes absolute.
Result<Options> Parse(const OptionTexts& texts);

/// Adds the options that a file is protected with to `info`, as hints lzy_*. Values too long for a hint are left out.
void AddHints(MPI_Info info, const Options& options);

}  // namespace lzy::hooks
