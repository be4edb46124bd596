#pragma once
// Returns the committed contents of single blocks of a protected file, for option verify-reads (docs/design/repair.md §9
// "Verified reads").
//
// romio_hooks/disk/read_check calls HealBlocks with blocks that a read returned and that do not have their leaf. The checks
// and the repair are those of Examine, CauseOf, RebuildRows and Repair. Invariant: bytes with the verdict kAsCommitted have
// the leaf of the commit that the caller knows, whatever other processes write meanwhile.

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "request/options.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// The result for one block of the request.
struct HealedBlock {
  enum class Verdict {
    kAsCommitted,  ///< `bytes` has the committed content
    kNotJudged,    ///< edited, or in a row that a program may be changing: lzy does not know what is right
    kLost,         ///< damaged, and this process cannot rebuild it; `why` has the reason
  };
  std::uint64_t index = 0;  ///< number of the block in the data
  Verdict verdict = Verdict::kNotJudged;
  std::vector<std::uint8_t> bytes;
  bool damaged = false;   ///< the block was damaged in the file, not only in the page cache
  bool repaired = false;  ///< the block was repaired in the file
  std::string why;
};

struct HealRequest {
  std::string path;                   ///< the data file: a shared file, or a member of a set
  std::uint64_t inode = 0;            ///< if not 0: a file with another inode is refused (kUnprotected)
  Uuid uuid{};                        ///< blocks are judged only if the sidecar still has this uuid and generation
  std::uint64_t generation = 0;       ///< 0: any commit
  std::vector<std::uint64_t> blocks;  ///< ascending
  bool write = false;                 ///< repair damaged blocks in the file, if the locks are free within options.timeout_seconds
  bool patient = true;                ///< wait some seconds for the repair of another process
};

struct HealReport {
  std::vector<HealedBlock> blocks;  ///< in the order of HealRequest::blocks
  bool other_commit = false;        ///< nothing was judged, because the dataset has another commit now
  bool gave_up_waiting = false;     ///< a repair intent is set, but no process has finished the repair
};

/// Reads the blocks, and reads those that differ again past the page cache. Rebuilds damaged blocks from their rows; of a set,
/// from the members that this process sees. Local: one process does all of it. Fails if the dataset cannot be opened or
/// read.
///
/// Judges as Verify does. Not judged are:
///  - rows in which an intent covers any block;
///  - files that differ from their stamp;
///  - a file with another inode or birth, if more than half of its blocks differ;
///  - a file whose content another sidecar proves.
///
/// Nothing is written while any intent is set, also that of an interrupted repair: the mtime is then the only sign of later
/// edits.
Result<HealReport> HealBlocks(FileSystem& fs, const Options& options, const HealRequest& request);

}  // namespace lzy
