#include "mpi/finalize_progress.h"

#include <dlfcn.h>
#include <mpi.h>
#include <poll.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/imported_function.h"

namespace lzy {
namespace {

// UCX's own types, as its binary interface has them: handles are pointers, and ucs_status_t is a packed enum.
using Worker = void*;

/// The functions that MPI would call without lzy.
struct Real {
  signed char (*create)(void* context, const void* parameters, Worker* worker) = nullptr;
  void (*destroy)(Worker worker) = nullptr;
  void* (*disconnect)(void* endpoint) = nullptr;
  unsigned (*progress)(Worker worker) = nullptr;
  ssize_t (*read)(int file, void* buffer, std::size_t size) = nullptr;
};
constinit Real real;

/// The UCX workers of the MPI library. MPICH has at most 64.
constinit std::array<std::atomic<Worker>, 64> workers{};
/// This thread is in MPI_Finalize, and closes connections or has closed them.
constinit thread_local bool closing = false;

/// Lets the network make progress, for a bounded time. False if there was nothing to do.
bool Serve() {
  constexpr int kMostRounds = 100;
  for (int round = 0; round < kMostRounds; ++round) {
    unsigned done = 0;
    for (const auto& worker : workers) {
      if (Worker open = worker.load(std::memory_order_relaxed)) done += real.progress(open);
    }
    if (done == 0) return round > 0;
  }
  return true;
}

/// Serves the network as long as a read of `file` would wait. Without a limit, because the read has none: a rank that comes
/// ten minutes late still needs the answers. If nothing happens, it checks a hundred times a second.
void ServeUntilReadable(int file) {
  constexpr int kShortest = 1;  // milliseconds
  constexpr int kLongest = 10;
  pollfd from{file, POLLIN, 0};
  int pause = 0;
  while (true) {
    const int ready = poll(&from, 1, pause);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;  // the read reports errors
    pause = Serve() ? kShortest : std::clamp(pause * 2, kShortest, kLongest);
  }
}

signed char Create(void* context, const void* parameters, Worker* worker) {
  const signed char status = real.create(context, parameters, worker);
  if (status != 0) return status;
  for (auto& entry : workers) {
    Worker none = nullptr;
    if (entry.compare_exchange_strong(none, *worker)) break;
  }
  return status;
}

void Destroy(Worker worker) {
  for (auto& entry : workers) {
    Worker same = worker;
    entry.compare_exchange_strong(same, nullptr);
  }
  closing = false;
  real.destroy(worker);
}

// Called by MPI_Finalize only.
void* Disconnect(void* endpoint) {
  closing = true;
  return real.disconnect(endpoint);
}

ssize_t Read(int file, void* buffer, std::size_t size) {
  if (closing) [[unlikely]] ServeUntilReadable(file);
  return real.read(file, buffer, size);
}

/// The function that the MPI library would call by this name: one of the program or of a preloaded library, if there is
/// one.
template <class Function>
bool Find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

const link_map* MpiLibrary() {
  Dl_info info{};
  link_map* map = nullptr;
  void* const inside = dlsym(RTLD_DEFAULT, "PMPI_Get_library_version");
  return inside != nullptr && dladdr1(inside, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 ? map : nullptr;
}

bool MpiIsDeaf() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  return PMPI_Get_library_version(text.data(), &length) == MPI_SUCCESS && WaitsDeafInFinalize(text.data());
}

// All or nothing. The last one is that which makes the others matter.
void Install() {
  if (!MpiIsDeaf()) return;
  const link_map* const mpi = MpiLibrary();
  if (mpi == nullptr) return;
  const std::pair<ImportedFunction, void*> exchanges[] = {
      {{*mpi, "read"}, reinterpret_cast<void*>(&Read)},
      {{*mpi, "ucp_worker_create"}, reinterpret_cast<void*>(&Create)},
      {{*mpi, "ucp_worker_destroy"}, reinterpret_cast<void*>(&Destroy)},
      {{*mpi, "ucp_disconnect_nb"}, reinterpret_cast<void*>(&Disconnect)},
  };
  if (!std::ranges::all_of(exchanges, [](const auto& exchange) { return exchange.first.found(); })) return;
  if (!Find("read", real.read) || !Find("ucp_worker_create", real.create) || !Find("ucp_worker_destroy", real.destroy) ||
      !Find("ucp_disconnect_nb", real.disconnect) || !Find("ucp_worker_progress", real.progress)) {
    return;
  }
  for (const auto& [function, replacement] : exchanges) {
    if (!function.Replace(replacement)) return;
  }
}

}  // namespace

void ServeNetworkInFinalize() noexcept {
  static const bool installed = (Install(), true);
  (void)installed;
}

bool WaitsDeafInFinalize(std::string_view library_version) {
  constexpr std::string_view kName = "MPICH Version:";
  const std::size_t at = library_version.find(kName);
  if (at == std::string_view::npos) return false;
  std::string_view rest = library_version.substr(at + kName.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  int major = 0;
  int minor = 0;
  const auto first = std::from_chars(rest.begin(), rest.end(), major);
  if (first.ec != std::errc() || first.ptr == rest.end() || *first.ptr != '.') return false;
  if (std::from_chars(std::next(first.ptr), rest.end(), minor).ec != std::errc()) return false;
  return major < 4 || (major == 4 && minor < 2);
}

}  // namespace lzy
