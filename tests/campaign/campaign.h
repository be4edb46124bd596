#pragma once
// Random damage to random datasets, judged by somebody who knows the truth: seeds in, verdicts out. Files are in
// memory, so that a case takes a millisecond. (engine/damage_test.cc holds fewer cases to more: what exactly is named,
// on real files.)

#include <cstdint>
#include <map>
#include <string>

namespace lzy::campaign {

struct Verdict {
  std::string wrong;                           ///< empty: nothing was; else what, and all that was done before it
  std::map<std::string, std::uint64_t> count;  ///< what kinds of damages, tools and outcomes there were
};

/// One dataset, one to four damages, and one to three tools after them.
Verdict RunCase(std::uint64_t seed);

}  // namespace lzy::campaign
