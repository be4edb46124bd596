#pragma once
// The messages of the layer to the user: single lines on stderr that begin with "lzy: ".
//
// All rooms of the half that is built for one MPI use these. (layer/say.h is for code without memory or options.) Each
// function is local and thread-safe, keeps errno, and never throws: if memory runs out, it writes nothing. If every rank
// called it, every rank would write, so callers select one rank.

#include <string>

#include "hooks/contract/say.h"
#include "request/options.h"

namespace lzy::hooks {

/// Writes "lzy: TEXT\n" with one write(2), so that lines of several processes do not mix. TEXT says what happened to which
/// file, the consequence, and the command to type next. Control characters are made visible.
void Say(const std::string& text) noexcept;

/// Writes `text` if option `log` includes messages of this `level`.
void Say(const Options& options, Options::Log level, const std::string& text) noexcept;

/// The same, but only once per process for each pair of `about` (a file) and `kind` (a word for the event). A message that
/// `log` suppresses does not count as written.
void SayOnce(const Options& options, Options::Log level, const std::string& about, const char* kind,
             const std::string& text) noexcept;

}  // namespace lzy::hooks
