#pragma once
// "Did you mean ...?" for misspelt names of options, variables and tools' switches. Pure. The option parsers
// (request/options, tools/common/arguments) call it after a name was not found.

#include <span>
#include <string>

namespace lzy {

/// The name in `known` that the user most likely meant by `word`; empty if none is near. A name is near if at most two
/// letters of `word` were added, dropped, changed or swapped with a neighbour, and fewer than half of its letters.
std::string Nearest(const std::string& word, std::span<const std::string> known);

}  // namespace lzy
