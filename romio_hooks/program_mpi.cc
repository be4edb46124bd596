#include "program_mpi.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "say.h"

namespace lzy::hooks {
namespace {

constexpr const char* kVersionFunction = "PMPI_Get_library_version";

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// "libmpi.so.40", "libmpich.so.12.2.2", "libmpi_abi.so.0", ...; not libmpi_cxx, libmpifort and the like.
bool IsMpiLibrary(std::string_view path) {
  const std::string_view name = BaseName(path);
  for (std::string_view start : {"libmpi.so", "libmpich.so", "libmpi_abi.so"}) {
    if (name == start || (name.starts_with(start) && name[start.size()] == '.')) return true;
  }
  return false;
}

/// What the library that `address` is in calls itself: its DT_SONAME, or its file's name where it has none.
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
  if (!named || strings == 0) return std::string(BaseName(info.dli_fname));
  // On most machines the dynamic linker has made this an address already.
  if (strings < map->l_addr) strings += map->l_addr;
  return reinterpret_cast<const char*>(strings + name);
}

/// The MPI that the program uses.
struct Program {
  void* handle = nullptr;  ///< of its library, where RTLD_NEXT does not see it
  std::string soname;      ///< empty: it uses none
  std::string version;     ///< as it calls itself
};

using GetLibraryVersion = int (*)(char*, int*);

std::string VersionOf(void* function) {
  std::vector<char> text(std::size_t{64} << 10);  // Open MPI and MPICH disagree about the least size
  int length = 0;
  if (reinterpret_cast<GetLibraryVersion>(function)(text.data(), &length) != 0) return {};
  const std::string_view all(text.data());
  std::string first(all.substr(0, all.find('\n')));
  for (char& c : first) {
    if (c == '\t') c = ' ';
  }
  return first;
}

std::vector<std::string> LoadedMpiLibraries() {
  std::vector<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (info->dlpi_name != nullptr && IsMpiLibrary(info->dlpi_name)) {
          static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &found);
  return found;
}

/// What the program is linked to comes next after this library. What it loaded itself (Python does) may be out of sight
/// there, but is among the libraries of the process.
Program Examine() {
  Program program;
  void* function = dlsym(RTLD_NEXT, kVersionFunction);
  if (function == nullptr) {
    for (const std::string& path : LoadedMpiLibraries()) {
      program.handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
      if (program.handle != nullptr) function = dlsym(program.handle, kVersionFunction);
      if (function != nullptr) break;
    }
  }
  if (function == nullptr) return program;
  program.soname = SonameOf(function);
  program.version = VersionOf(function);
  return program;
}

const Program& TheProgram() {
  static const auto& program = *new Program(Examine());  // never destroyed: files may be closed at exit
  return program;
}

bool Disabled() {
  const char* value = std::getenv("LZY_DISABLE");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

/// Launchers number the processes they start; without MPI that is all there is to keep a thousand processes from saying
/// the same.
bool FirstProcess() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr) return std::string_view(rank) == "0";
  }
  return true;
}

void Refuse(const std::string& why) {
  if (!FirstProcess()) return;
  const Program& program = TheProgram();
  Say("nothing is protected", ("the program's MPI is " + (program.version.empty() ? "unknown" : program.version) +
                               " (" + program.soname + "), and " + why)
                                  .c_str());
}

/// Where this library was loaded from.
std::string OwnDirectory() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&FindReal), &own) == 0 || own.dli_fname == nullptr) return ".";
  const std::string path = own.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

const Layer* Load() {
  const Program& program = TheProgram();
  if (Disabled() || program.soname.empty()) return nullptr;
  const std::string file = "liblzy_mpiio-" + program.soname + ".so";
  // Without RTLD_GLOBAL: nothing in it is anybody else's business.
  void* library = dlopen((OwnDirectory() + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    Refuse("the layer for it cannot be loaded: " + std::string(error != nullptr ? error : file));
    return nullptr;
  }
  auto* entry = reinterpret_cast<LayerEntry*>(dlsym(library, kLayerEntryName));
  const char* refusal = "of another build";
  const Layer* layer = entry == nullptr ? nullptr : entry(kLayerInterface, program.version.c_str(), &refusal);
  if (layer == nullptr) Refuse(file + " is " + refusal);
  return layer;
}

}  // namespace

const Layer* StartLayer() noexcept {
  try {
    static const Layer* const layer = [] {
      const Layer* made = Load();
      loaded_layer.store(made, std::memory_order_release);
      return made;
    }();
    return layer;
  } catch (...) {  // no memory to look around with
    return nullptr;
  }
}

void* FindReal(const char* name) noexcept {
  try {
    const Program& program = TheProgram();
    void* function = dlsym(program.handle != nullptr ? program.handle : RTLD_NEXT, name);
    if (function == nullptr) Say("the program's MPI lacks", name);
    return function;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace lzy::hooks
