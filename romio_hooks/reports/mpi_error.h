#pragma once
// Error codes of the layer's own: of class MPI_ERR_IO, with a text that says what happened to which file.

#include <string>

#include "hooks/layer/real.h"

namespace lzy::hooks {

/// A code whose MPI_Error_class is MPI_ERR_IO and whose MPI_Error_string is `text`, cut to what MPI allows. MPI never gives
/// codes back, so there are only so many: later texts take the places of the first. MPI_ERR_IO itself where MPI makes none.
int IoErrorCode(const std::string& text) noexcept;

/// MPI_Error_class: the classes that some MPI libraries give to codes made by programs are not the standard's own.
int ErrorClass(RealCall real, int code, int* error_class) noexcept;

}  // namespace lzy::hooks
