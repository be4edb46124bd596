#pragma once
// What reads bytes that somebody else may have written: one function for each kind, in libFuzzer's form. It must come
// back from any input, in little time and memory, and stops the process where a promise is broken (fuzz_target_test.cc
// goes through the corpus with them; scripts/fuzz has libFuzzer look for more).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace lzy::fuzz {

using Input = std::vector<std::uint8_t>;

struct Target {
  const char* name;
  void (*run)(const std::uint8_t* bytes, std::size_t size);
  std::vector<Input> (*seeds)();  ///< valid inputs to begin with
};

/// A sidecar, of a shared file or a member of a set, under all of the engine's operations.
extern const Target kSidecar;
/// Superblocks, info records, intents, and what ranks tell each other about members, one by one.
extern const Target kFormat;
/// Patterns of sets, globs, sizes, and the values of options and hints.
extern const Target kNames;
/// The JSON that measured speeds are kept in.
extern const Target kTuning;

inline const Target* const kTargets[] = {&kSidecar, &kFormat, &kNames, &kTuning};

/// A promise that was not kept.
inline void Require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace lzy::fuzz
