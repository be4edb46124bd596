#pragma once
// MPI error codes of the layer's own. A program that asks for their class gets MPI_ERR_IO; the error string says what
// happened to which file. transfers/verifying.cc returns them from reads of data that cannot be rebuilt.
//
// MPI keeps an error code until the process ends. So the layer makes a bounded number of them and gives them new texts.
// Both functions are local and thread-safe.

#include <string>

#include "hooks/contract/real.h"

namespace lzy::hooks {

/// A code whose MPI_Error_class is MPI_ERR_IO and whose MPI_Error_string is `text`, cut to MPI_MAX_ERROR_STRING. The
/// same text gives the same code. After 64 different texts, a new one replaces the oldest: an old code then has a new
/// string. Returns MPI_ERR_IO itself if MPI makes no code.
int IoErrorCode(const std::string& text) noexcept;

/// The hook of MPI_Error_class: calls `real` and returns its code. If `code` is one of the layer's, or has the class
/// that the layer made for them, it sets *error_class to MPI_ERR_IO.
int ErrorClass(RealCall real, int code, int* error_class) noexcept;

}  // namespace lzy::hooks
