#include "hooks/preload/program_mpi.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/contract/say.h"

namespace lzy::hooks {
namespace {

/// The DT_SONAME of the library that has `address`, or the name of its file if it has none. Empty if no object has it.
/// The SONAME, and not the path, says which MPI's binary interface this is.
std::string SonameOf(void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  ElfW(Addr) strings = 0;
  ElfW(Addr) name = 0;
  bool named = false;
  for (const ElfW(Dyn)* entry = map->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) {
      name = entry->d_un.d_val;
      named = true;
    }
  }
  const std::string path = info.dli_fname;
  if (!named || strings == 0) return path.substr(path.rfind('/') + 1);
  // With glibc on most machines, the dynamic linker has already turned this offset into an address.
  if (strings < map->l_addr) strings += map->l_addr;
  return reinterpret_cast<const char*>(strings + name);
}

const void* BaseOf(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// The symbol `name` in the loaded object at `path` and in the objects that it is linked to. Never a function of this
/// library: in a program that is linked with it, the wrapper would find itself and call itself for ever.
void* FindIn(const char* name, const char* path) {
  void* object = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (object == nullptr) return nullptr;
  void* function = dlsym(object, name);
  // RTLD_NOLOAD only counted a reference. After dlclose the object stays loaded, because others loaded it.
  dlclose(object);
  static const void* const own = BaseOf(reinterpret_cast<const void*>(&FindReal));
  return function != nullptr && BaseOf(function) != own ? function : nullptr;
}

/// Looks in every loaded object. The paths are collected first, so that no dlopen runs inside dl_iterate_phdr, which
/// holds the linker's lock.
void* FindAnywhere(const char* name) {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
          static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &paths);
  for (const std::string& path : paths) {
    if (void* function = FindIn(name, path.c_str())) return function;
  }
  return nullptr;
}

/// The first line of the text from `function`, an MPI_Get_library_version.
std::string VersionOf(void* function) {
  using GetLibraryVersion = int (*)(char*, int*);
  // MPI_MAX_LIBRARY_VERSION_STRING differs between MPIs, and mpi.h is not known here: this is far above all of them.
  std::vector<char> text(std::size_t{64} << 10);
  int length = 0;
  if (reinterpret_cast<GetLibraryVersion>(function)(text.data(), &length) != 0) return {};
  const std::string_view all(text.data());
  std::string first(all.substr(0, all.find('\n')));
  std::ranges::replace(first, '\t', ' ');
  return first;
}

bool Disabled() {
  const char* value = std::getenv("LZY_DISABLE");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

/// True if this is process 0 of the job, by the variables of the launcher. MPI cannot be asked yet. Without this, a
/// thousand processes would write the same message. True if no launcher set a variable.
bool FirstProcess() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr) return std::string_view(rank) == "0";
  }
  return true;
}

/// The directory from which this library was loaded.
std::string OwnDirectory() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&FindReal), &own) == 0 || own.dli_fname == nullptr) return ".";
  const std::string path = own.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Searches and loads the layer. Reports errors only in the first process of the job, except if the library exists and
/// cannot be loaded.
const Layer* Load(const void* caller) {
  if (Disabled()) return nullptr;
  void* const function = FindReal("PMPI_Get_library_version", caller);
  const std::string soname = function != nullptr ? SonameOf(function) : std::string();
  if (soname.empty()) return nullptr;
  const std::string version = VersionOf(function);
  const std::string path = OwnDirectory() + "/liblzy_mpiio-" + soname + ".so";
  const std::string mpi = "the program's MPI is " + version + " (" + soname + "), and ";
  if (access(path.c_str(), F_OK) != 0) {
    SayInFirstProcess("nothing is protected",
                      (mpi + "there is no layer for it: " + path + " (build lzy with that MPI)").c_str());
    return nullptr;
  }
  // RTLD_LOCAL: none of its symbols may take the place of the program's. RTLD_NOW: a missing symbol shows here, and not
  // in the middle of a write.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  // Every process reports this: if it happens on one node only, ranks with a layer wait for this rank.
  if (library == nullptr) {
    const char* error = dlerror();
    Say("nothing is protected, and other ranks may hang", error != nullptr ? error : path.c_str());
    return nullptr;
  }
  // The layer refuses if it is of another build, or if this MPI has the same SONAME as its MPI but another interface.
  auto* entry = reinterpret_cast<LayerEntry*>(dlsym(library, kLayerEntryName));
  const char* refusal = "of another build";
  const Layer* layer = entry == nullptr ? nullptr : entry(kLayerInterface, version.c_str(), &refusal);
  if (layer == nullptr) SayInFirstProcess("nothing is protected", (mpi + path + " is " + refusal).c_str());
  return layer;
}

}  // namespace

const Layer* StartLayer(const void* caller) noexcept {
  try {
    static const Layer* const layer = [caller] {
      const Layer* made = Load(caller);
      loaded_layer.store(made, std::memory_order_release);
      return made;
    }();
    return layer;
  } catch (...) {  // no memory to search with
    return nullptr;
  }
}

// Searches in three places. 1. The next library after this one (RTLD_NEXT): the program's MPI, if the program is linked to
// it. 2. The objects that the calling code is linked to: an MPI that was loaded with dlopen, as Python does, may be visible
// only there. 3. All objects, because `caller` may be wrong: after a tail call, the return address is in the caller's
// caller.
void* FindReal(const char* name, const void* caller) noexcept {
  try {
    if (void* function = dlsym(RTLD_NEXT, name)) return function;
    // No tool comes after this library. The other two searches could find a tool before it, which has handled the call
    // already. So only MPI's own function is searched for.
    if (*name != 'P') return FindReal((std::string("P") + name).c_str(), caller);
    Dl_info info{};
    if (dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
      if (void* function = FindIn(name, info.dli_fname)) return function;
    }
    return FindAnywhere(name);
  } catch (...) {  // no memory to search with
    return nullptr;
  }
}

void SayInFirstProcess(const char* where, const char* what) noexcept {
  if (FirstProcess()) Say(where, what);
}

}  // namespace lzy::hooks
