#pragma once
// The one result type of the project. Nothing below the tools prints or exits: everything that can go wrong comes back
// as a Status, and no exception crosses a layer (std::bad_alloc is turned into Code::kNoMemory at the engine's edge).

#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace lzy {

/// What went wrong. The tools' exit codes follow from these (request/report.h).
enum class Code {
  kOk = 0,
  kInvalidArgument,  ///< bad option, value or path: the caller's mistake
  kNotFound,         ///< the named file does not exist
  kIo,               ///< the operating system refused or failed (message has path and strerror)
  kUnreadable,       ///< the device returned EIO for this range: an erasure, not a failure of the program
  kCorrupt,          ///< bytes read do not have the hash or the form they must have
  kNewerFormat,      ///< written by a newer lzy with features this one must not ignore
  kUnprotected,      ///< no usable sidecar
  kBusy,             ///< another process holds the dataset's commit lock
  kInterrupted,      ///< the user wanted it to end before it was done
  kTimeout,          ///< ranks awaited did not arrive
  kBeyondRepair,     ///< more erasures in a row than parity can mend
  kWriteFailed,      ///< a repair or restore could not be written or did not verify afterwards
  kNoMemory,
  kMpi,       ///< an MPI call failed
  kInternal,  ///< a broken invariant: a bug in lzy
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// Names the thing, the value and what is accepted; empty when ok().
  const std::string& message() const { return message_; }

  /// The same failure seen from further out: "context: message".
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

/// A T, or the Status that says why there is none. `value()` may be called only when ok().
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
/// Returns early with the Status of `expr` unless it is ok. (Names are counted, so that `expr` may be a lambda in which it is used
/// again.)
#define LZY_RETURN_IF_ERROR(expr) LZY_RETURN_IF_ERROR_INNER(LZY_CONCAT(lzy_status_, __COUNTER__), expr)
#define LZY_RETURN_IF_ERROR_INNER(tmp, expr)                 \
  do {                                                       \
    if (::lzy::Status tmp = (expr); !tmp.ok()) return tmp;   \
  } while (false)
/// `LZY_ASSIGN_OR_RETURN(auto x, F())`: x = F()'s value, or returns its Status.
#define LZY_ASSIGN_OR_RETURN(lhs, expr) LZY_ASSIGN_OR_RETURN_INNER(LZY_CONCAT(lzy_result_, __COUNTER__), lhs, expr)
#define LZY_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return tmp.status();              \
  lhs = std::move(tmp).value()

/// Runs `work`, which returns a Status or nothing; whatever it throws becomes a Status. (Texts this short need no memory.)
template <class Work>
Status NoThrow(const Work& work) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (const std::bad_alloc&) {
    return {Code::kNoMemory, "out of memory"};
  } catch (...) {
    return {Code::kInternal, "an exception"};
  }
}

}  // namespace lzy
