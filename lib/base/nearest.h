#pragma once
// "Did you mean ...?" for names that nobody knows.

#include <span>
#include <string>

namespace lzy {

/// The one of `known` that `word` most likely was meant to be: with at most two letters added, dropped, changed or swapped with
/// their neighbour, and less than half of its letters. Empty: none is.
std::string Nearest(const std::string& word, std::span<const std::string> known);

}  // namespace lzy
