#include "base/many_writers.h"

#include <algorithm>

namespace lzy {

void ExpectWriters(File& file, unsigned here, unsigned elsewhere) {
  if (auto* const many = dynamic_cast<ManyWriters*>(&file)) many->ExpectWriters(here, elsewhere);
}

// With as many files as processes, two processes rarely meet in one file.
unsigned WritersElsewhere(unsigned threads, unsigned ranks, unsigned files) {
  const unsigned at_once = ranks * threads / std::max(1u, files);
  return at_once > threads ? at_once - threads : 0;
}

void ExpectWritersOfRanks(File& file, unsigned threads, int ranks, std::size_t files) {
  ExpectWriters(file, threads, WritersElsewhere(threads, static_cast<unsigned>(ranks), static_cast<unsigned>(files)));
}

}  // namespace lzy
