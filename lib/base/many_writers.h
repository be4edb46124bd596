#pragma once
// Files to which many threads write at the same time. A kernel lets one call at a time write to a file, so such a file may
// have a faster way (docs/design/overview.md §3, "Many writers of one file").
//
// commit/, encode/ and repair/ call ExpectWriters for the files that they make.

#include <cstddef>

#include "base/file.h"

namespace lzy {

/// An interface that a File also implements if it may have such a way.
class ManyWriters {
 public:
  virtual ~ManyWriters() = default;
  /// See the function.
  virtual void ExpectWriters(unsigned here, unsigned elsewhere) = 0;
};

/// A hint: from now on, `here` threads of this process and `elsewhere` threads of other processes will write large pieces at
/// different places of the file, at the same time. The file has its final size, and no other thread uses `file` during the
/// call. WriteAt then takes the fastest way; its results and errors are the same. Does nothing for other files. Local.
void ExpectWriters(File& file, unsigned here, unsigned elsewhere);

/// The second argument, if `ranks` processes with `threads` threads each share their writes among `files` files.
unsigned WritersElsewhere(unsigned threads, unsigned ranks, unsigned files);

/// The hint for one of `files` files among which `ranks` processes with `threads` threads each share their writes.
void ExpectWritersOfRanks(File& file, unsigned threads, int ranks, std::size_t files);

}  // namespace lzy
