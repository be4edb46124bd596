#pragma once
// Single blocks of a protected file given back as they were committed: what option verify-reads needs (DESIGN §6.5).

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "engine/options.h"

namespace lzy {

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
  std::vector<std::uint64_t> blocks;  ///< ascending
  bool write = false;                 ///< mend on disk what is damaged, if the locks can be had within options.timeout_seconds
};

/// Reads the blocks, again past the page cache where they are not as committed, and rebuilds what is damaged from the rows:
/// of a set, from those members that this process sees. Judges as Verify does; rows of which an intent names any block, and
/// files that differ from their stamp, are not judged. Local: one process alone does it. In the order of `request.blocks`.
/// Fails where the dataset cannot be looked at at all.
Result<std::vector<HealedBlock>> HealBlocks(FileSystem& fs, const Options& options, const HealRequest& request);

}  // namespace lzy
