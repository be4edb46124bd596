#include "engine/rehome.h"

#include <algorithm>
#include <vector>

#include "engine/lookup.h"
#include "sidecar/names.h"
#include "sidecar/sidecar.h"

namespace lzy {
namespace {

// The sidecar at `path` and where it belongs.
struct Claim {
  bool there = false;
  std::string home;  // empty: no file in the directory has its stamp
};

Result<Claim> ClaimOf(FileSystem& fs, const std::string& directory, const std::string& path) {
  Claim claim;
  auto sidecar = Sidecar::Load(fs, path, OpenMode::kRead);
  claim.there = sidecar.ok() || sidecar.status().code() != Code::kNotFound;
  if (!sidecar.ok() || (*sidecar)->contents().superblock.state != SidecarState::kCommitted) return claim;
  if (auto home = Directory(fs, directory).HomeOf(BaseNameOf(path))) {
    LZY_ASSIGN_OR_RETURN(claim.home, SidecarPath(JoinPath(directory, *home)));
  }
  return claim;
}

// Sends the sidecar `own` to the file it belongs to, and whatever sits at its new place to where that belongs, and so on: files
// may have been rotated (a to b, b to c) or swapped. No sidecar that belongs to a file is overwritten.
Status SendHome(FileSystem& fs, const std::string& directory, const std::string& own) {
  std::vector<std::string> chain{own};
  bool cycle = false;
  for (;;) {
    LZY_ASSIGN_OR_RETURN(const Claim claim, ClaimOf(fs, directory, chain.back()));
    if (!claim.there || claim.home.empty()) break;            // the end: free, or nobody's
    if (claim.home == chain.back()) return Status::Ok();      // at home already: what wants to go there has to stay
    cycle = claim.home == chain.front();
    if (cycle) break;
    if (std::find(chain.begin(), chain.end(), claim.home) != chain.end()) return Status::Ok();
    chain.push_back(claim.home);
  }
  if (chain.size() == 1) return Status::Ok();
  const std::string aside = TemporarySidecarPath(own);
  if (cycle) LZY_RETURN_IF_ERROR(fs.Rename(chain.back(), aside));
  for (std::size_t i = chain.size() - 1; i > 0; --i) LZY_RETURN_IF_ERROR(fs.Rename(chain[i - 1], chain[i]));
  if (cycle) LZY_RETURN_IF_ERROR(fs.Rename(aside, own));
  return fs.SyncDirectory(directory);
}

}  // namespace

Result<std::string> Rehome(FileSystem& fs, const std::string& data_path) {
  LZY_ASSIGN_OR_RETURN(const std::string real, fs.RealPath(data_path));
  LZY_ASSIGN_OR_RETURN(const std::string own, SidecarPath(real));
  const std::string directory = DirectoryOf(real);
  auto data = fs.Stat(real);
  auto sidecar = Sidecar::Load(fs, own, OpenMode::kRead);
  if (sidecar.ok() && (*sidecar)->committed()) {
    if (data.ok() && data->inode != (*sidecar)->contents().superblock.stamp.inode) {
      const auto home = Directory(fs, directory).HomeOf(BaseNameOf(own));
      if (home && *home != BaseNameOf(real)) LZY_RETURN_IF_ERROR(SendHome(fs, directory, own));
    }
  }
  auto found = FindSidecar(fs, real);
  LZY_ASSIGN_OR_RETURN(const Claim occupant, ClaimOf(fs, directory, own));
  if (found.ok() && BaseNameOf(*found) != BaseNameOf(own) && occupant.home.empty()) {
    LZY_RETURN_IF_ERROR(fs.Rename(*found, own));
    LZY_RETURN_IF_ERROR(fs.SyncDirectory(directory));
  }
  return own;
}

}  // namespace lzy
