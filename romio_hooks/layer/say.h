#pragma once
// The least that is needed to say something; for both halves of the layer, and for when there is no memory.

namespace lzy::hooks {

/// "lzy: WHERE: WHAT" on stderr with one write(2), cut to fit.
void Say(const char* where, const char* what) noexcept;

}  // namespace lzy::hooks
