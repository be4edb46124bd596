#pragma once
// The result types of the project: `Status` (a code and a message), and `Result<T>` (a value or a Status).
//
// Code below the tools never prints or exits: every failure is returned as a Status. No exception leaves a room. Functions
// may throw std::bad_alloc within lib/; at its edges NoThrow turns that into Code::kNoMemory. Both types are [[nodiscard]].
// Write `(void)` before a call whose failure does not matter, and say why.

#include <exception>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace lzy {

/// The kind of an error. Callers use the code, users read the message. The exit codes of the tools follow from these
/// (request/report.h). Ranks exchange the numbers, so all ranks must run the same build.
enum class Code {
  kOk = 0,
  kInvalidArgument,  ///< bad option, value or path: the caller's mistake
  kNotFound,         ///< the named file does not exist
  kIo,               ///< the operating system refused or failed (message has path and strerror)
  kUnreadable,       ///< the storage returned EIO for this range: an erasure, not a failure of the program
  kCorrupt,          ///< bytes that were read have a wrong hash or form
  kNewerFormat,      ///< written by a newer lzy, with features that this one must not ignore
  kUnprotected,      ///< no usable sidecar
  kBusy,             ///< another process holds the dataset's commit lock
  kInterrupted,      ///< the user stopped it
  kTimeout,          ///< other ranks did not arrive
  kBeyondRepair,     ///< more erasures in a row than parity can repair
  kWriteFailed,      ///< a repair or restore could not be written, or was not right afterwards
  kNoMemory,
  kMpi,       ///< an MPI call failed
  kInternal,  ///< a broken invariant: a bug in lzy
};

/// The outcome of an operation: ok, or a code with a message. A value type; copies are independent.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// Names the object (with its path), the value, and the accepted values. Empty if ok().
  const std::string& message() const { return message_; }

  /// The same failure with context: "context: message". An ok Status stays as it is.
  Status WithContext(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_);
  }

  /// As LZY_FIELDS (base/record.h).
  auto Fields() { return std::tie(code_, message_); }
  auto Fields() const { return std::tie(code_, message_); }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A T, or the Status of the failure. Call `value()`, `*` and `->` only if ok(). Never construct one from an ok Status:
/// ok() would be false although status() is ok.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {}  // NOLINT
  Result(Code code, std::string message) : Result(Status(code, std::move(message))) {}

  bool ok() const { return state_.index() == 1; }
  Status status() const { return ok() ? Status() : std::get<0>(state_); }
  T& value() & { return std::get<1>(state_); }
  const T& value() const& { return std::get<1>(state_); }
  T&& value() && { return std::get<1>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::variant<Status, T> state_;
};

#define LZY_CONCAT_INNER(a, b) a##b
#define LZY_CONCAT(a, b) LZY_CONCAT_INNER(a, b)
/// Returns early with the Status of `expr` unless it is ok. The name of the temporary has a counter, so `expr` may be a
/// lambda that uses the macro again.
#define LZY_RETURN_IF_ERROR(expr) LZY_RETURN_IF_ERROR_INNER(LZY_CONCAT(lzy_status_, __COUNTER__), expr)
#define LZY_RETURN_IF_ERROR_INNER(tmp, expr)                 \
  do {                                                       \
    if (::lzy::Status tmp = (expr); !tmp.ok()) return tmp;   \
  } while (false)
/// `LZY_ASSIGN_OR_RETURN(auto x, F())`: x = the value of F(), or returns its Status. Expands to several statements, so
/// use it only within braces.
#define LZY_ASSIGN_OR_RETURN(lhs, expr) LZY_ASSIGN_OR_RETURN_INNER(LZY_CONCAT(lzy_result_, __COUNTER__), lhs, expr)
#define LZY_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return tmp.status();              \
  lhs = std::move(tmp).value()

/// Thrown by functions that cannot return a Status, for failures as rare as a failed allocation: see merkle/tree.h. NoThrow
/// makes it a Status again.
struct StatusError : std::exception {
  explicit StatusError(Status what_failed) : status(std::move(what_failed)) {}
  const char* what() const noexcept override { return status.message().c_str(); }
  Status status;
};

/// Runs `work`, which returns a Status or nothing, and turns any exception into a Status. Use it around the work of one
/// rank between collective calls, so that no rank leaves the others waiting. The messages are short enough to be stored
/// without allocating memory.
template <class Work>
Status NoThrow(const Work& work) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (StatusError& error) {
    return std::move(error.status);
  } catch (const std::bad_alloc&) {
    return {Code::kNoMemory, "out of memory"};
  } catch (...) {
    return {Code::kInternal, "an exception"};
  }
}

}  // namespace lzy
