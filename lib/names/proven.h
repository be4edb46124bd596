#pragma once
// The sidecars that content has proven to be those of files (names/provers). lookup.h uses them until the file changes.
//
// Kept with the file system; nothing is written. Thread-safe.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/record.h"

namespace lzy {

/// Remembers that `sidecar` is proven to be that of the file `name`. Both are names in `directory`.
void RememberProven(FileSystem& fs, const std::string& directory, const std::string& name, const std::string& sidecar);
/// The name of the sidecar that is proven to be that of the file `name`; nullopt if file or sidecar have changed since.
std::optional<std::string> ProvenSidecar(FileSystem& fs, const std::string& directory, const std::string& name);
/// The inverse of ProvenSidecar: the file for which `sidecar` is proven.
std::optional<std::string> ProvenHome(FileSystem& fs, const std::string& directory, const std::string& sidecar);
/// What is remembered of these sidecars holds under their new names. `names`: old and new name of each. Call it after they were
/// renamed; else stamps would give them back to other files.
void RenameProven(FileSystem& fs, const std::string& directory, const std::map<std::string, std::string>& names);

/// A file without a sidecar: AdoptByContent gave the sidecar that it was judged by to the file `by`.
struct LeftBare {
  std::string path;
  std::string by;
  std::string sidecar;  ///< its former path
  LZY_FIELDS(path, by, sidecar)
};
/// Such files, if they still exist and nothing else tells of them: also if the sidecar has kept its name. From any thread.
std::vector<LeftBare> FindLeftBare(FileSystem& fs);
/// The same, but returns each file once.
std::vector<LeftBare> TakeLeftBare(FileSystem& fs);
/// Remembers such a file for TakeLeftBare.
void RememberLeftBare(FileSystem& fs, const LeftBare& file);

}  // namespace lzy
