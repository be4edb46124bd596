#pragma once
// The layer's words to the user: single lines on stderr that begin with "lzy: ".

#include <string>

#include "hooks/layer/say.h"
#include "request/options.h"

namespace lzy::hooks {

/// Writes "lzy: TEXT\n" with one write(2), so that lines of several processes do not mix. TEXT says what happened to
/// which file and what follows from it.
void Say(const std::string& text) noexcept;

/// Says it unless option `log` leaves such messages out.
void Say(const Options& options, Options::Log level, const std::string& text) noexcept;

/// The same, but once in the life of the process for each `about` (a file) and `kind` (a word for what happened to it).
void SayOnce(const Options& options, Options::Log level, const std::string& about, const char* kind,
             const std::string& text) noexcept;

}  // namespace lzy::hooks
