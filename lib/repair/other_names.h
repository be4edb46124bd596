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

/// A sidecar that was committed for another name of the file `data_path`, with other content than `written`, beside it or in reach
/// (names/content_match). Its path; empty if there is none. A sidecar whose hashes cannot be compared counts as one, such as one
/// with other blocks or another key. `stat`: that of the file. Local.
std::string SidecarThatDiffers(FileSystem& fs, const std::string& data_path, const FileStat& stat, const Written& written);

}  // namespace lzy
