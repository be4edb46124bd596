#pragma once
// The options a file is protected with: hint, then environment, then default (docs/reference/options.md).

#include <mpi.h>

#include <string>
#include <vector>

#include "base/record.h"
#include "base/status.h"
#include "request/options.h"

namespace lzy::hooks {

/// Options as text, in the order in which they apply; what rank 0 of a file sends to the other ranks, so that all
/// of them do the same whatever their own environment says.
struct OptionTexts {
  struct One {
    std::string name;
    std::string value;
    LZY_FIELDS(name, value)
  };
  std::vector<One> list;
  LZY_FIELDS(list)
};

/// The environment's options, read once. An error is that of the first unusable variable.
struct Settings {
  Status status;
  Options options;
  OptionTexts texts;
  /// The working directory at that time, which relative patterns and file names in options start from.
  std::string directory;
};
const Settings& EnvironmentSettings();

/// The environment's options with those of `info` (lzy_*) on top.
Result<OptionTexts> TextsWithHints(MPI_Info info);
/// Where one of them is unusable: which of the others say what files are meant and what to do about trouble.
OptionTexts UsableTexts(MPI_Info info);
Result<Options> Parse(const OptionTexts& texts);

/// Adds what a file is protected with to `info`, as hints (lzy_*).
void AddHints(MPI_Info info, const Options& options);

}  // namespace lzy::hooks
