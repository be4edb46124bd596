#pragma once
// Writes a message with the simplest means, for both halves of the layer, and if there is no memory.

namespace lzy::hooks {

/// Writes "lzy: WHERE: WHAT" to stderr with one write(2), cut to fit.
void Say(const char* where, const char* what) noexcept;

}  // namespace lzy::hooks
