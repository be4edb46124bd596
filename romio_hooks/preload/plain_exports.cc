// The exported calls of POSIX and C that open, close, rename and remove files (option posix; docs/design/posix.md). The
// program's I/O libraries (C++, Fortran, HDF5, Python) make these calls, too.
//
// Each makes the real call exactly once, with the same arguments, and returns its result and its errno. The real function is
// the next one in the order of the dynamic linker. In a process without patterns, a call costs one look at an atomic.
//
// The headers that declare these functions are not included, because some of them define them as macros or as inline
// functions, and because their attributes differ.
#include <dlfcn.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>

#include "hooks/preload/plain_files.h"
#include "hooks/preload/plain_names.h"

#define LZY_EXPORT extern "C" __attribute__((visibility("default")))

// Of <fcntl.h> and <stdio.h>, which this file does not include.
struct _IO_FILE;
extern "C" int fileno(_IO_FILE* stream);

namespace {
using namespace lzy::hooks;  // NOLINT: as in exports.cc

constexpr int kWriteOnly = 1, kReadWrite = 2, kAccessMode = 3, kCreate = 0100, kTemporary = 020200000, kHere = -100;
constexpr int kDuplicate = 0, kDuplicateCloseOnExec = 1030;
constexpr int kRemovesDirectory = 0x200;
constexpr unsigned kExchanges = 2;

/// The next function of this name in the order of the dynamic linker. constinit, and looked up at the first call.
template <class Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}
  Function* Get() {
    Function* function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      const int saved = errno;
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_release);
      errno = saved;
    }
    return function;
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

/// Calls the real function, or fails as one that the system lacks.
template <class Function, class... Arguments>
auto CallNext(Next<Function>& next, Arguments... arguments) -> decltype(next.Get()(arguments...)) {
  Function* const real = next.Get();
  using Returned = decltype(real(arguments...));
  if (real == nullptr) {
    errno = ENOSYS;
    if constexpr (std::is_pointer_v<Returned>) {
      return nullptr;
    } else if constexpr (std::is_void_v<Returned>) {
      return;
    } else {
      return static_cast<Returned>(-1);
    }
  }
  return real(arguments...);
}

bool Writes(int flags) {
  return (flags & kAccessMode) == kWriteOnly || (flags & kAccessMode) == kReadWrite;
}
bool TakesMode(int flags) {
  return (flags & kCreate) != 0 || (flags & kTemporary) == kTemporary;
}
/// Of fopen: everything but "r" without '+'.
bool Writes(const char* mode) {
  return mode != nullptr && (mode[0] == 'w' || mode[0] == 'a' || std::strchr(mode, '+') != nullptr);
}

template <class Call>
int Open(int directory, const char* path, bool writes, const void* caller, const Call& call) {
  if (!writes || !AnyPlainNames()) return call();
  PlainOpen open(directory, path, writes, caller);
  const int descriptor = call();
  open.End(descriptor);
  return descriptor;
}

template <class Call>
_IO_FILE* OpenStream(const char* path, const char* mode, const void* caller, const Call& call) {
  const bool writes = Writes(mode);
  if (!writes || !AnyPlainNames()) return call();
  PlainOpen open(kHere, path, writes, caller);
  _IO_FILE* const stream = call();
  open.End(stream == nullptr ? -1 : fileno(stream));
  return stream;
}

template <class Call>
int Close(int descriptor, const Call& call) {
  const PlainFile file = TakeDescriptor(descriptor);
  const int result = call();
  Closed(file);
  return result;
}

/// A rename or a removal. `paths`: what PlainMove takes before `caller`.
template <class Call, class... Paths>
int Move(const void* caller, const Call& call, Paths... paths) {
  if (!AnyPlainNames()) return call();
  PlainMove move(paths..., caller);
  const int result = call();
  move.End(result == 0);
  return result;
}

/// A call that changes or makes the file `path`, without a descriptor.
template <class Call>
int Change(int directory, const char* path, const void* caller, const Call& call) {
  if (!AnyPlainNames()) return call();
  PlainOpen open(directory, path, /*writes=*/true, caller);
  const int result = call();
  open.EndWithoutDescriptor(result == 0);
  return result;
}

}  // namespace

#define LZY_CALLER __builtin_return_address(0)
#define LZY_NEXT(function, ...) static constinit Next<__VA_ARGS__> next(#function)

// The mode is passed by the program only if the flags ask for it.
#define LZY_TAKE_MODE(flags)       \
  mode_t mode = 0;                 \
  if (TakesMode(flags)) {          \
    va_list rest;                  \
    va_start(rest, flags);         \
    mode = va_arg(rest, mode_t);   \
    va_end(rest);                  \
  }
#define LZY_OPEN(name)                                                                              \
  LZY_EXPORT int name(const char* path, int flags, ...) {                                           \
    LZY_NEXT(name, int(const char*, int, ...));                                                     \
    LZY_TAKE_MODE(flags)                                                                            \
    return Open(kHere, path, Writes(flags), LZY_CALLER, [&] { return CallNext(next, path, flags, mode); }); \
  }
#define LZY_OPEN_AT(name)                                                                           \
  LZY_EXPORT int name(int directory, const char* path, int flags, ...) {                            \
    LZY_NEXT(name, int(int, const char*, int, ...));                                                \
    LZY_TAKE_MODE(flags)                                                                            \
    return Open(directory, path, Writes(flags), LZY_CALLER, [&] { return CallNext(next, directory, path, flags, mode); }); \
  }
// The forms that programs call if they are compiled with _FORTIFY_SOURCE.
#define LZY_OPEN_2(name)                                                                            \
  LZY_EXPORT int name(const char* path, int flags) {                                                \
    LZY_NEXT(name, int(const char*, int));                                                          \
    return Open(kHere, path, Writes(flags), LZY_CALLER, [&] { return CallNext(next, path, flags); }); \
  }
#define LZY_OPEN_AT_2(name)                                                                         \
  LZY_EXPORT int name(int directory, const char* path, int flags) {                                 \
    LZY_NEXT(name, int(int, const char*, int));                                                     \
    return Open(directory, path, Writes(flags), LZY_CALLER, [&] { return CallNext(next, directory, path, flags); }); \
  }
#define LZY_CREAT(name)                                                                             \
  LZY_EXPORT int name(const char* path, mode_t mode) {                                              \
    LZY_NEXT(name, int(const char*, mode_t));                                                       \
    return Open(kHere, path, true, LZY_CALLER, [&] { return CallNext(next, path, mode); });          \
  }
#define LZY_FOPEN(name)                                                                             \
  LZY_EXPORT _IO_FILE* name(const char* path, const char* mode) {                                   \
    LZY_NEXT(name, _IO_FILE*(const char*, const char*));                                            \
    return OpenStream(path, mode, LZY_CALLER, [&] { return CallNext(next, path, mode); });           \
  }
#define LZY_FREOPEN(name)                                                                           \
  LZY_EXPORT _IO_FILE* name(const char* path, const char* mode, _IO_FILE* stream) {                 \
    LZY_NEXT(name, _IO_FILE*(const char*, const char*, _IO_FILE*));                                 \
    const PlainFile old = stream == nullptr || !AnyPlainNames() ? 0 : TakeDescriptor(fileno(stream)); \
    if (path == nullptr) { /* the same file in another mode */                                      \
      _IO_FILE* const same = CallNext(next, path, mode, stream);                                     \
      if (same == nullptr) {                                                                        \
        Closed(old);                                                                                \
      } else {                                                                                      \
        GiveBack(fileno(same), old);                                                                \
      }                                                                                             \
      return same;                                                                                  \
    }                                                                                               \
    _IO_FILE* const result = OpenStream(path, mode, LZY_CALLER, [&] { return CallNext(next, path, mode, stream); }); \
    Closed(old);                                                                                    \
    return result;                                                                                  \
  }

LZY_OPEN(open)
LZY_OPEN(open64)
LZY_OPEN_AT(openat)
LZY_OPEN_AT(openat64)
LZY_OPEN_2(__open_2)
LZY_OPEN_2(__open64_2)
LZY_OPEN_AT_2(__openat_2)
LZY_OPEN_AT_2(__openat64_2)
LZY_CREAT(creat)
LZY_CREAT(creat64)
LZY_FOPEN(fopen)
LZY_FOPEN(fopen64)
LZY_FREOPEN(freopen)
LZY_FREOPEN(freopen64)

LZY_EXPORT int close(int descriptor) {
  LZY_NEXT(close, int(int));
  return Close(descriptor, [&] { return CallNext(next, descriptor); });
}

LZY_EXPORT int fclose(_IO_FILE* stream) {
  LZY_NEXT(fclose, int(_IO_FILE*));
  if (stream == nullptr || !AnyPlainNames()) return CallNext(next, stream);
  return Close(fileno(stream), [&] { return CallNext(next, stream); });
}

LZY_EXPORT int close_range(unsigned first, unsigned last, int flags) {
  LZY_NEXT(close_range, int(unsigned, unsigned, int));
  const int result = CallNext(next, first, last, flags);
  constexpr int kOnlyOnExec = 4;
  if (result == 0 && (flags & kOnlyOnExec) == 0) ClosedRange(first, last);
  return result;
}

LZY_EXPORT void closefrom(int first) {
  LZY_NEXT(closefrom, void(int));
  CallNext(next, first);
  ClosedRange(first < 0 ? 0 : static_cast<unsigned>(first), ~0U);
}

LZY_EXPORT int dup(int descriptor) noexcept {
  LZY_NEXT(dup, int(int));
  const int copy = CallNext(next, descriptor);
  Duplicated(descriptor, copy);
  return copy;
}

// The real call closes `copy`, unless it fails.
#define LZY_DUP_OVER(descriptor, copy, call)                                      \
  const PlainFile old = descriptor == copy ? 0 : TakeDescriptor(copy);            \
  const int result = call;                                                        \
  if (result < 0) {                                                               \
    GiveBack(copy, old);                                                          \
  } else {                                                                        \
    Duplicated(descriptor, result);                                               \
    Closed(old);                                                                  \
  }                                                                               \
  return result;

LZY_EXPORT int dup2(int descriptor, int copy) noexcept {
  LZY_NEXT(dup2, int(int, int));
  LZY_DUP_OVER(descriptor, copy, CallNext(next, descriptor, copy))
}
LZY_EXPORT int dup3(int descriptor, int copy, int flags) noexcept {
  LZY_NEXT(dup3, int(int, int, int));
  LZY_DUP_OVER(descriptor, copy, CallNext(next, descriptor, copy, flags))
}

// The third argument is an int, a pointer, or missing, and is passed in the same way: as one word.
#define LZY_FCNTL(name)                                                                     \
  LZY_EXPORT int name(int descriptor, int command, ...) {                                   \
    LZY_NEXT(name, int(int, int, ...));                                                     \
    va_list rest;                                                                           \
    va_start(rest, command);                                                                \
    void* const argument = va_arg(rest, void*);                                             \
    va_end(rest);                                                                           \
    const int result = CallNext(next, descriptor, command, argument);                       \
    if (command == kDuplicate || command == kDuplicateCloseOnExec) Duplicated(descriptor, result); \
    return result;                                                                          \
  }
LZY_FCNTL(fcntl)
LZY_FCNTL(fcntl64)

LZY_EXPORT int rename(const char* from, const char* to) noexcept {
  LZY_NEXT(rename, int(const char*, const char*));
  return Move(LZY_CALLER, [&] { return CallNext(next, from, to); }, kHere, from, kHere, to);
}
LZY_EXPORT int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  LZY_NEXT(renameat, int(int, const char*, int, const char*));
  return Move(LZY_CALLER, [&] { return CallNext(next, from_directory, from, to_directory, to); }, from_directory, from, to_directory, to);
}
LZY_EXPORT int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  LZY_NEXT(renameat2, int(int, const char*, int, const char*, unsigned));
  // After an exchange, tools find each sidecar by the inode.
  if ((flags & kExchanges) != 0) return CallNext(next, from_directory, from, to_directory, to, flags);
  return Move(LZY_CALLER, [&] { return CallNext(next, from_directory, from, to_directory, to, flags); }, from_directory, from, to_directory,
              to);
}

LZY_EXPORT int unlink(const char* path) noexcept {
  LZY_NEXT(unlink, int(const char*));
  return Move(LZY_CALLER, [&] { return CallNext(next, path); }, kHere, path);
}
LZY_EXPORT int remove(const char* path) noexcept {
  LZY_NEXT(remove, int(const char*));
  return Move(LZY_CALLER, [&] { return CallNext(next, path); }, kHere, path);
}
LZY_EXPORT int unlinkat(int directory, const char* path, int flags) noexcept {
  LZY_NEXT(unlinkat, int(int, const char*, int));
  if ((flags & kRemovesDirectory) != 0) return CallNext(next, directory, path, flags);
  return Move(LZY_CALLER, [&] { return CallNext(next, directory, path, flags); }, directory, path);
}

#define LZY_TRUNCATE(name)                                                             \
  LZY_EXPORT int name(const char* path, off64_t size) noexcept {                       \
    LZY_NEXT(name, int(const char*, off64_t));                                         \
    return Change(kHere, path, LZY_CALLER, [&] { return CallNext(next, path, size); }); \
  }
LZY_TRUNCATE(truncate)
LZY_TRUNCATE(truncate64)

// A file gets its final name by a link, as by a rename.
LZY_EXPORT int link(const char* from, const char* to) noexcept {
  LZY_NEXT(link, int(const char*, const char*));
  return Change(kHere, to, LZY_CALLER, [&] { return CallNext(next, from, to); });
}
LZY_EXPORT int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  LZY_NEXT(linkat, int(int, const char*, int, const char*, int));
  return Change(to_directory, to, LZY_CALLER, [&] { return CallNext(next, from_directory, from, to_directory, to, flags); });
}
