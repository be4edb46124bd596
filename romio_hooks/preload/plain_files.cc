#include "hooks/preload/plain_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "hooks/preload/plain_names.h"
#include "hooks/preload/program_mpi.h"

namespace lzy::hooks {
namespace {

/// Descriptors from this number on are not tracked.
constexpr std::size_t kMostDescriptors = 65536;
/// A file that was opened before the layer was loaded has such a number instead of one of the layer.
constexpr PlainFile kEarly = PlainFile{1} << 63;

/// The file of each descriptor; 0: none. Zero pages cost no memory until they are used.
constinit std::array<std::atomic<PlainFile>, kMostDescriptors> files{};
/// Number of entries above that are not 0.
constinit std::atomic<int> used{0};
/// The process that tracks. A child has other descriptors of the same numbers, or, after vfork, the same memory.
constinit std::atomic<pid_t> owner{0};
/// How deep this thread is in MPI, in the layer, or in here. Initial-exec, so that a signal handler can read it.
[[gnu::tls_model("initial-exec")]] constinit thread_local int inside = 0;

/// The counts of descriptors and the early paths. Never destroyed: files are closed at exit, too.
struct Book {
  std::mutex mutex;
  std::map<PlainFile, int> descriptors;      // how many each file has
  std::map<PlainFile, std::string> early;    // paths of files that the layer does not know yet
  PlainFile last_early = kEarly;
};
Book& TheBook() {
  static auto& book = *new Book;
  return book;
}

/// The work of a wrapper. Keeps errno, and lets nothing that it calls be tracked.
class Quietly {
 public:
  Quietly() noexcept : saved_(errno) { ++inside; }
  ~Quietly() {
    --inside;
    errno = saved_;
  }
  Quietly(const Quietly&) = delete;
  Quietly& operator=(const Quietly&) = delete;

 private:
  const int saved_;
};

/// Whether an object of this file name is a part of MPI. Calls of MPI that lzy does not wrap also make files: shared memory.
bool IsOfMpi(const char* object) {
  constexpr std::array<std::string_view, 12> kParts = {"libmpi",  "libpmpi", "libopen-pal", "libopen-rte", "mca_",    "libpmix",
                                                       "libprrte", "libuc",  "libfabric",   "libpsm",      "libhwloc", "libpmi"};
  const std::string_view whole(object);
  const std::string_view name = whole.substr(whole.rfind('/') + 1);
  return std::ranges::any_of(kParts, [&](std::string_view part) { return name.starts_with(part); });
}

/// False if code of lzy or of MPI makes the call: in a thread of the layer, and in a call that is not wrapped, nothing else tells
/// it from the program.
bool IsOfProgram(const void* caller) {
  static std::atomic<const void*> layer_base{nullptr};
  Dl_info info{};
  const Layer* const layer = loaded_layer.load(std::memory_order_acquire);
  if (layer != nullptr && layer_base.load() == nullptr && dladdr(reinterpret_cast<const void*>(layer->Open), &info) != 0) {
    layer_base.store(info.dli_fbase);
  }
  if (dladdr(caller, &info) == 0) return true;
  const bool of_layer = layer != nullptr && info.dli_fbase == layer_base.load();
  return !of_layer && !IsOfMpi(info.dli_fname);
}

bool IsTracked(int descriptor) {
  return descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMostDescriptors && inside == 0 &&
         used.load(std::memory_order_relaxed) != 0 &&
         files[static_cast<std::size_t>(descriptor)].load(std::memory_order_acquire) != 0 && owner.load() == getpid();
}

/// Whether this process tracks. Before MPI_Init, the first process that opens a file that matches claims it.
bool IsOwner() {
  const pid_t self = getpid();
  pid_t known = owner.load();
  if (known == 0 && loaded_layer.load() == nullptr) owner.compare_exchange_strong(known, self);
  return owner.load() == self;
}

void Track(int descriptor, PlainFile file) {
  Book& book = TheBook();
  const std::lock_guard lock(book.mutex);
  ++book.descriptors[file];
  used.fetch_add(1);
  files[static_cast<std::size_t>(descriptor)].store(file, std::memory_order_release);
}

/// `path` from `directory`, as a path that works by itself. False if it is too long.
bool Name(int directory, const char* path, char* to, std::size_t size) {
  const bool alone = directory == AT_FDCWD || path[0] == '/';
  const int length = alone ? std::snprintf(to, size, "%s", path) : std::snprintf(to, size, "/proc/self/fd/%d/%s", directory, path);
  return length > 0 && static_cast<std::size_t>(length) < size;
}

}  // namespace

InsideMpi::InsideMpi() noexcept {
  ++inside;
}
InsideMpi::~InsideMpi() {
  --inside;
}

PlainOpen::PlainOpen(int directory, const char* path, bool writes, const void* caller) noexcept {
  if (!writes || inside != 0 || !MayBePlainName(path)) return;
  const Quietly quietly;
  if (!IsOwner()) return;
  if (!IsOfProgram(caller) || !Name(directory, path, path_, sizeof path_)) return;
  counts_ = true;
  if (const Layer* const layer = LoadedLayer(nullptr)) file_ = layer->PlainWillOpen(path_);
}

void PlainOpen::End(int descriptor) noexcept {
  if (!counts_) return;
  const Quietly quietly;
  const bool opened = descriptor >= 0;
  const bool fits = opened && static_cast<std::size_t>(descriptor) < kMostDescriptors;
  try {
    if (const Layer* const layer = LoadedLayer(nullptr)) {
      const PlainFile file = layer->PlainDidOpen(path_, file_, opened);
      if (file == 0) return;
      if (fits) return Track(descriptor, file);
      return layer->PlainDidClose(file);
    }
    if (!fits) return;
    // The program may change its working directory before MPI_Init.
    char* const resolved = realpath(path_, nullptr);
    if (resolved == nullptr) return;
    const std::string path(resolved);
    std::free(resolved);
    Book& book = TheBook();
    PlainFile file = 0;
    {
      const std::lock_guard lock(book.mutex);
      file = ++book.last_early;
      book.early[file] = path;
    }
    Track(descriptor, file);
  } catch (...) {  // no memory: the file is not tracked
  }
}

void PlainOpen::EndWithoutDescriptor(bool done) noexcept {
  if (!counts_) return;
  const Quietly quietly;
  const Layer* const layer = LoadedLayer(nullptr);
  if (layer == nullptr) return;
  const PlainFile file = layer->PlainDidOpen(path_, file_, done);
  if (file != 0) layer->PlainDidClose(file);
}

PlainMove::PlainMove(int from_directory, const char* from, int to_directory, const char* to, const void* caller) noexcept {
  if (from == nullptr || to == nullptr || inside != 0 || !AnyPlainNames() || (!MayBePlainName(from) && !MayBePlainName(to))) return;
  const Quietly quietly;
  const Layer* const layer = LoadedLayer(nullptr);
  if (layer == nullptr || !IsOwner() || !IsOfProgram(caller)) return;
  char from_path[4096 + 32];
  char to_path[4096 + 32];
  if (!Name(from_directory, from, from_path, sizeof from_path) || !Name(to_directory, to, to_path, sizeof to_path)) return;
  layer_ = layer;
  token_ = layer->PlainWillRename(from_path, to_path);
}

PlainMove::PlainMove(int directory, const char* path, const void* caller) noexcept : removes_(true) {
  if (inside != 0 || !MayBePlainName(path)) return;
  const Quietly quietly;
  const Layer* const layer = LoadedLayer(nullptr);
  if (layer == nullptr || !IsOwner() || !IsOfProgram(caller)) return;
  char whole[4096 + 32];
  if (!Name(directory, path, whole, sizeof whole)) return;
  layer_ = layer;
  token_ = layer->PlainWillRemove(whole);
}

void PlainMove::End(bool done) noexcept {
  if (layer_ == nullptr || token_ == nullptr) return;
  const Quietly quietly;
  if (removes_) {
    layer_->PlainDidRemove(token_, done);
  } else {
    layer_->PlainDidRename(token_, done);
  }
}

PlainFile TakeDescriptor(int descriptor) noexcept {
  if (!IsTracked(descriptor)) return 0;
  const PlainFile file = files[static_cast<std::size_t>(descriptor)].exchange(0);
  if (file != 0) used.fetch_sub(1);
  return file;
}

void GiveBack(int descriptor, PlainFile file) noexcept {
  if (file == 0) return;
  if (descriptor < 0 || static_cast<std::size_t>(descriptor) >= kMostDescriptors) return Closed(file);
  used.fetch_add(1);
  files[static_cast<std::size_t>(descriptor)].store(file, std::memory_order_release);
}

void Closed(PlainFile file) noexcept {
  if (file == 0) return;
  const Quietly quietly;
  bool last = false;
  try {
    Book& book = TheBook();
    const std::lock_guard lock(book.mutex);
    const auto at = book.descriptors.find(file);
    last = at != book.descriptors.end() && --at->second == 0;
    if (last) book.descriptors.erase(at);
    if (last && file >= kEarly) book.early.erase(file);
  } catch (...) {
  }
  const Layer* const layer = LoadedLayer(nullptr);
  if (last && file < kEarly && layer != nullptr) layer->PlainDidClose(file);
}

void ClosedRange(unsigned first, unsigned last) noexcept {
  if (used.load(std::memory_order_relaxed) == 0) return;
  for (std::size_t at = first; at <= last && at < kMostDescriptors; ++at) Closed(TakeDescriptor(static_cast<int>(at)));
}

void Duplicated(int original, int copy) noexcept {
  if (!IsTracked(original) || copy < 0 || static_cast<std::size_t>(copy) >= kMostDescriptors || copy == original) return;
  const Quietly quietly;
  const PlainFile file = files[static_cast<std::size_t>(original)].load();
  try {
    if (file != 0) Track(copy, file);
  } catch (...) {
  }
}

// A process that calls MPI_Init is no child of one that has called it. A parent of it may have opened files.
void OwnPlainFiles() noexcept {
  if (!AnyPlainNames() || owner.load() == getpid()) return;
  for (auto& one : files) {
    if (owner.load() == 0) break;
    if (one.exchange(0) != 0) used.fetch_sub(1);
  }
  owner.store(getpid());
}

void AdoptPlainFiles(const Layer& layer) noexcept {
  if (used.load() == 0 || owner.load() != getpid()) return;
  const Quietly quietly;
  try {
    Book& book = TheBook();
    std::map<PlainFile, std::string> early;
    {
      const std::lock_guard lock(book.mutex);
      early.swap(book.early);
    }
    for (const auto& [number, path] : early) {
      const PlainFile file = layer.PlainDidOpen(path.c_str(), 0, /*opened=*/true);
      int count = 0;
      for (auto& one : files) {
        PlainFile expected = number;
        if (one.compare_exchange_strong(expected, file)) ++count;
      }
      const std::lock_guard lock(book.mutex);
      book.descriptors.erase(number);
      if (file != 0) {
        book.descriptors[file] = count;
      } else {
        used.fetch_sub(count);
      }
    }
  } catch (...) {
  }
}

}  // namespace lzy::hooks
