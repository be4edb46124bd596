#pragma once
// Hard links: a repair in place changes the file under all of its names (docs/design/commit.md §7, "Hard links").

#include <string>
#include <vector>

#include "base/file.h"
#include "merkle/tree.h"
#include "sidecar/sidecar_format.h"

namespace lzy {

/// The content that a repair writes.
struct Written {
  std::vector<ByteRange> ranges;  ///< whole blocks
  std::uint64_t size = 0;         ///< of the file afterwards
  std::uint64_t block_size = 0;
  const Tree& leaves;             ///< of the committed content
};

/// Looks for a sidecar that was committed for another name (hard link) of the file `data_path`, with other content than
/// `written`. Searches the directory of the file, and the directories in reach (names/content_match). Returns the path of the
/// sidecar; empty if there is none. A sidecar whose hashes cannot be compared (another block size, another key) counts as one
/// with other content. `stat`: the stat of the file. Local.
std::string SidecarThatDiffers(FileSystem& fs, const std::string& data_path, const FileStat& stat, const Written& written);

}  // namespace lzy
