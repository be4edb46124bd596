#include "hooks/files/thread_level.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace lzy::hooks {
namespace {

constexpr int kNotRaised = -1;
/// The level that the program asked for, and the one that MPI gave, if it was raised. PMPI_Query_thread, called from here,
/// is the layer's own, and gives the first.
constinit std::atomic<int> asked{kNotRaised};
constinit std::atomic<int> obtained{kNotRaised};

/// The level in `text`: a name as in mpi.h, or its end, or Open MPI's number. `otherwise` for any other text.
int LevelIn(const char* text, int otherwise) {
  if (text == nullptr) return otherwise;
  constexpr std::array<std::pair<std::string_view, int>, 4> kNames = {{{"SINGLE", MPI_THREAD_SINGLE},
                                                                      {"FUNNELED", MPI_THREAD_FUNNELED},
                                                                      {"SERIALIZED", MPI_THREAD_SERIALIZED},
                                                                      {"MULTIPLE", MPI_THREAD_MULTIPLE}}};
  const std::string_view given(text);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const bool number = given.size() == 1 && given[0] == static_cast<char>('0' + i);
    if (number || given.ends_with(kNames[i].first)) return kNames[i].second;
  }
  return otherwise;
}

/// The level that MPI would use without lzy. With both families a variable of the user can raise that of MPI_Init; with Open
/// MPI, it also replaces that of MPI_Init_thread.
int LevelWithoutLzy(const int* required) {
#ifdef OPEN_MPI
  return LevelIn(std::getenv("OMPI_MPI_THREAD_LEVEL"), required != nullptr ? *required : MPI_THREAD_SINGLE);
#else
  return required != nullptr ? *required : LevelIn(std::getenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL"), MPI_THREAD_SINGLE);
#endif
}

}  // namespace

int StartWithLevel(const Starting& start, bool raise) {
  const int without = LevelWithoutLzy(start.required);
  if (!raise || without == MPI_THREAD_MULTIPLE) return start.real();
  *start.level = MPI_THREAD_MULTIPLE;
  const int code = start.with_level();
  if (code != MPI_SUCCESS) return code;
  obtained.store(*start.got);
  asked.store(without);
  if (start.provided != nullptr) *start.provided = LevelOfProgram(*start.got);
  return code;
}

int LevelOfProgram(int provided) {
  const int level = asked.load();
  return level == kNotRaised ? provided : std::min(level, provided);
}

bool MpiAllowsThreads() {
  int initialized = 0, finalized = 0;
  int provided = MPI_THREAD_SINGLE;
  if (PMPI_Initialized(&initialized) != MPI_SUCCESS || !initialized) return false;
  if (PMPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return false;
  if (asked.load() != kNotRaised) return obtained.load() == MPI_THREAD_MULTIPLE;
  return PMPI_Query_thread(&provided) == MPI_SUCCESS && provided == MPI_THREAD_MULTIPLE;
}

}  // namespace lzy::hooks
