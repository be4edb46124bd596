// The symbol by which the preloaded half finds this half. Refuses an MPI whose binary interface differs from the one that
// this library was built for: MPI handles would be misread, and the program's files damaged.
#include <mpi.h>

#include <string_view>

#include "hooks/calls/hooks.h"

namespace lzy::hooks {
namespace {

constexpr std::string_view kSoname = LZY_MPI_SONAME;

/// Families of MPI libraries whose handles look alike. Within a family, libraries of one SONAME have one binary
/// interface, or nearly. A SONAME alone is no proof: MPICH and Open MPI 1.10 have both used libmpi.so.12.
enum class MpiFamily { kMpich, kOpenMpi, kUnknown };

#if defined(OPEN_MPI)
constexpr MpiFamily kBuiltFor = MpiFamily::kOpenMpi;
#elif defined(MPICH_VERSION) || defined(MPICH_NAME) || defined(I_MPI_VERSION)
constexpr MpiFamily kBuiltFor = MpiFamily::kMpich;
#else
constexpr MpiFamily kBuiltFor = MpiFamily::kUnknown;
#endif

// Judges by the text of MPI_Get_library_version.
MpiFamily FamilyOf(std::string_view version) {
  if (version.find("Open MPI") != std::string_view::npos) return MpiFamily::kOpenMpi;
  for (std::string_view name : {"MPICH", "MVAPICH", "Intel(R) MPI", "CRAY MPI"}) {
    if (version.find(name) != std::string_view::npos) return MpiFamily::kMpich;
  }
  return MpiFamily::kUnknown;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Layer* lzy_mpiio_layer(std::uint32_t interface_version,
                                                                               const char* mpi, const char** refusal) {
  *refusal = "of another build than liblzy_mpiio.so";
  if (interface_version != kLayerInterface) return nullptr;
  // The binary interface of the standard (MPI-5) is the same in all libraries.
  if (kSoname.starts_with("libmpi_abi.")) return &kLayer;
  *refusal = "built for an older MPI of that name";
  // The large counts of MPI-4 can be in datatypes, and only MPI-4's functions can look at those.
  int version = 0;
  int subversion = 0;
  if (PMPI_Get_version(&version, &subversion) != MPI_SUCCESS || (version >= 4 && MPI_VERSION < 4)) return nullptr;
  *refusal = "built for another MPI of that name";
  return kBuiltFor != MpiFamily::kUnknown && FamilyOf(mpi) == kBuiltFor ? &kLayer : nullptr;
}
static_assert(std::is_same_v<decltype(lzy_mpiio_layer), LayerEntry>);

}  // namespace lzy::hooks
