#pragma once
// The messages of the layer to the user: single lines on stderr that begin with "lzy: ".
//
// All rooms of the half that is built for one MPI use these. (layer/say.h is for where there is no memory, or no
// options.) Each function is local and thread-safe, keeps errno, and never throws: if memory runs out, it says nothing.
// A function that every rank calls makes every rank speak, so callers pick the rank.

#include <string>

#include "hooks/layer/say.h"
#include "request/options.h"

namespace lzy::hooks {

/// Writes "lzy: TEXT\n" with one write(2), so that lines of several processes do not mix. TEXT says what happened to
/// which file, what follows from it, and what to type next. Characters that a terminal would obey are made visible.
void Say(const std::string& text) noexcept;

/// Says it if option `log` includes messages of this `level`.
void Say(const Options& options, Options::Log level, const std::string& text) noexcept;

/// The same, but only once in the life of the process for each pair of `about` (a file) and `kind` (a word for what
/// happened to it). A message that `log` leaves out does not count as said.
void SayOnce(const Options& options, Options::Log level, const std::string& about, const char* kind,
             const std::string& text) noexcept;

}  // namespace lzy::hooks
