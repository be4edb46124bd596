#include "real.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "messages.h"

namespace lzy::hooks {
namespace {

/// SONAMEs under which MPI libraries are found in a process, for programs that load theirs out of RTLD_NEXT's sight.
/// Debian's MPICH calls itself libmpich.so.12, everybody else's libmpi.so.12.
constexpr std::array<const char*, 5> kKnownSonames = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40", "libmpi.so.20",
                                                      "libmpi_abi.so.1"};

enum class Family { kMpich, kOpenMpi, kAbi, kUnknown };

#if defined(MPI_ABI_VERSION)
constexpr Family kBuiltFor = Family::kAbi;
constexpr const char* kBuiltForName = "the ABI of MPI-5";
#elif defined(OPEN_MPI)
constexpr Family kBuiltFor = Family::kOpenMpi;
constexpr const char* kBuiltForName = "Open MPI";
#elif defined(MPICH_VERSION) || defined(MPICH_NAME)
constexpr Family kBuiltFor = Family::kMpich;
constexpr const char* kBuiltForName = "MPICH";
#else
constexpr Family kBuiltFor = Family::kUnknown;
constexpr const char* kBuiltForName = "an MPI unknown to lzy";
#endif

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// "libmpi.so.40", "libmpich.so.12.2.2", ...; not libmpi_cxx, libmpifort and the like.
bool IsMpiLibrary(std::string_view path) {
  const std::string_view name = BaseName(path);
  for (std::string_view start : {"libmpi.so", "libmpich.so", "libmpi_abi.so"}) {
    if (name == start || (name.starts_with(start) && name[start.size()] == '.')) return true;
  }
  return false;
}

struct Library {
  std::string path;
  const void* base = nullptr;
};

std::vector<Library> LoadedMpiLibraries() {
  std::vector<Library> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (info->dlpi_name != nullptr && IsMpiLibrary(info->dlpi_name)) {
          static_cast<std::vector<Library>*>(to)->push_back(
              {info->dlpi_name, reinterpret_cast<const void*>(info->dlpi_addr)});
        }
        return 0;
      },
      &found);
  return found;
}

/// The MPI that the program uses.
struct Program {
  void* handle = nullptr;  ///< of its library, when RTLD_NEXT would lead elsewhere
  bool native = false;     ///< its handles are those this library was built for, and it is the MPI that we call
  std::string name;        ///< its version as it calls itself
};

using GetLibraryVersion = int (*)(char*, int*);

std::string VersionOf(void* function) {
  std::vector<char> text(std::size_t{64} << 10);  // Open MPI and MPICH disagree about the least size
  int length = 0;
  if (function == nullptr || reinterpret_cast<GetLibraryVersion>(function)(text.data(), &length) != 0) return {};
  const std::string_view all(text.data());
  std::string first(all.substr(0, all.find('\n')));
  for (char& c : first) {
    if (c == '\t') c = ' ';
  }
  return first;
}

Family FamilyOf(std::string_view version, std::string_view file) {
  if (BaseName(file).starts_with("libmpi_abi.so")) return Family::kAbi;  // whoever made it
  if (version.find("Open MPI") != std::string_view::npos) return Family::kOpenMpi;
  for (std::string_view name : {"MPICH", "MVAPICH", "Intel(R) MPI", "CRAY MPI"}) {
    if (version.find(name) != std::string_view::npos) return Family::kMpich;
  }
  return Family::kUnknown;
}

constexpr const char* kVersionFunction = "PMPI_Get_library_version";

/// This library is linked to the MPI it was built for, so that one is always loaded. Whatever the program is linked to
/// comes before it in RTLD_NEXT's order. But a program may also have loaded its MPI with dlopen (Python), invisible to
/// RTLD_NEXT unless it is the same library: so any other MPI found in the process is taken for the program's.
Program Examine() {
  Program program;
  void* next = dlsym(RTLD_NEXT, kVersionFunction);
  Dl_info where{};
  const bool found = next != nullptr && dladdr(next, &where) != 0 && where.dli_fname != nullptr;
  const bool ours = found && BaseName(where.dli_fname).starts_with(LZY_MPI_SONAME);
  if (!found || ours) {
    for (const Library& library : LoadedMpiLibraries()) {
      if (found && library.base == where.dli_fbase) continue;
      program.handle = dlopen(library.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
      if (program.handle != nullptr) break;
    }
  }
  program.name = VersionOf(program.handle != nullptr ? dlsym(program.handle, kVersionFunction) : next);
  program.native = program.handle == nullptr && kBuiltFor != Family::kUnknown &&
                   FamilyOf(program.name, found ? where.dli_fname : "") == kBuiltFor;
  return program;
}

const Program& TheProgram() {
  static const Program program = Examine();
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

bool Decide() {
  if (Disabled()) return false;
  const Program& program = TheProgram();
  if (program.native) return true;
  if (FirstProcess()) {
    Say(fmt::format("the program's MPI is {}, but this library was built for {}: nothing is protected",
                    program.name.empty() ? "unknown" : program.name, kBuiltForName));
  }
  return false;
}

}  // namespace

bool Active() noexcept {
  try {
    static const bool active = Decide();
    return active;
  } catch (...) {
    return false;
  }
}

void* FindReal(const char* name) noexcept {
  try {
    const Program& program = TheProgram();
    void* function = dlsym(program.handle != nullptr ? program.handle : RTLD_NEXT, name);
    for (const char* soname : kKnownSonames) {
      if (function != nullptr) break;
      if (void* handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD)) function = dlsym(handle, name);
    }
    if (function == nullptr) Say(fmt::format("the program's MPI has no {}", name));
    return function;
  } catch (...) {
    return nullptr;
  }
}

int NoRealFunction() noexcept {
  return MPI_ERR_OTHER;
}

}  // namespace lzy::hooks
