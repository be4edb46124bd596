#pragma once
// Single blocks of a protected file given back as they were committed: what option verify-reads needs (docs/design/repair.md
// "Verified reads").
//
// romio_hooks/disk/read_check finds blocks that a read returned and that do not have their leaf, and asks here.
// Everything else is the same code as for repairs: Examine's checks, CauseOf, RebuildRows, Mend. Invariant: bytes with
// the verdict kAsCommitted have the leaf of the commit that the caller knows, whoever writes meanwhile.

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "request/options.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// One block of the request: what is known of it now.
struct HealedBlock {
  enum class Verdict {
    kAsCommitted,  ///< `bytes` is what was committed
    kNotJudged,    ///< edited, or in a row that somebody may be changing: nobody but its writer knows what is right
    kLost,         ///< damaged, and it cannot be had from here: `why`
  };
  std::uint64_t index = 0;  ///< of the data's blocks
  Verdict verdict = Verdict::kNotJudged;
  std::vector<std::uint8_t> bytes;
  bool damaged = false;  ///< the file had something else there, past the page cache too (kAsCommitted)
  bool mended = false;   ///< and has it no more
  std::string why;
};

struct HealRequest {
  std::string path;                   ///< the data file, a shared one or a set's member
  std::uint64_t inode = 0;            ///< what is not this file (0: whichever has the name) is not judged
  Uuid uuid{};                        ///< nor what another commit than this is said of: the caller knows no other blocks
  std::uint64_t generation = 0;
  std::vector<std::uint64_t> blocks;  ///< ascending
  bool write = false;                 ///< mend on disk what is damaged, if the locks can be had within options.timeout_seconds
  bool patient = true;                ///< wait, some seconds at most, for a repair by somebody else that is under way
};

struct HealReport {
  std::vector<HealedBlock> blocks;  ///< in the order of HealRequest::blocks
  bool other_commit = false;        ///< nothing was judged, since another commit than the caller's counts
  bool gave_up_waiting = false;     ///< a repair's note stands, but nobody brings it to an end
};

/// Reads the blocks, again past the page cache where they are not as committed, and rebuilds what is damaged from the
/// rows: of a set, from those members that this process sees. Judges as Verify does; rows of which an intent names any
/// block, and files that differ from their stamp, are not judged. Nor is a file of another inode or birth (put back from a
/// backup, or another one in its place) if half of its blocks differ, nor content that another sidecar proves. Nothing is written while any intent is set, a
/// repair's that broke off included: its mtime tells edits made since. Local: one process alone does it. Fails where
/// the dataset cannot be looked at.
Result<HealReport> HealBlocks(FileSystem& fs, const Options& options, const HealRequest& request);

}  // namespace lzy
