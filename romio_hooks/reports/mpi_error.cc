#include "hooks/reports/mpi_error.h"

#include <mpi.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace lzy::hooks {
namespace {

constexpr std::size_t kMostCodes = 64;

struct Codes {
  std::mutex mutex;
  std::vector<int> codes;
  std::vector<std::string> texts;  // of the codes
  std::size_t next = 0;            // to get another text when there are no more codes
  int error_class = MPI_ERR_IO;    // that the codes have in MPI's eyes
};

/// The only ones; never destroyed, since files may be read while the process ends.
Codes& All() {
  static auto& codes = *new Codes;
  return codes;
}

/// MPICH 4.0 forgets the texts of codes that are made in a class of the standard's own, so they get one that is ours.
bool MakeOne(Codes& all) {
  if (all.codes.empty() && PMPI_Add_error_class(&all.error_class) != MPI_SUCCESS) return false;
  int code = MPI_ERR_IO;
  if (PMPI_Add_error_code(all.error_class, &code) != MPI_SUCCESS) return false;
  all.codes.push_back(code);
  all.texts.emplace_back();
  return true;
}

/// The place of a code for `text`: its own, or that of the text that has been there longest.
std::size_t PlaceFor(Codes& all, const std::string& text) {
  const auto same = std::find(all.texts.begin(), all.texts.end(), text);
  if (same != all.texts.end()) return static_cast<std::size_t>(same - all.texts.begin());
  if (all.codes.size() < kMostCodes && MakeOne(all)) return all.codes.size() - 1;
  return all.codes.empty() ? 0 : all.next++ % all.codes.size();
}

}  // namespace

int IoErrorCode(const std::string& text) noexcept {
  try {
    Codes& all = All();
    const std::lock_guard lock(all.mutex);
    const std::string cut = text.substr(0, MPI_MAX_ERROR_STRING - 1);
    const std::size_t place = PlaceFor(all, cut);
    if (place >= all.codes.size()) return MPI_ERR_IO;
    all.texts[place] = cut;
    const int code = all.codes[place];
    return PMPI_Add_error_string(code, cut.c_str()) == MPI_SUCCESS ? code : MPI_ERR_IO;
  } catch (...) {
    return MPI_ERR_IO;
  }
}

int ErrorClass(RealCall real, int code, int* error_class) noexcept {
  const int result = real();
  if (result != MPI_SUCCESS || error_class == nullptr) return result;
  Codes& all = All();
  const std::lock_guard lock(all.mutex);
  const bool ours = std::find(all.codes.begin(), all.codes.end(), code) != all.codes.end();
  if (ours || *error_class == all.error_class) *error_class = MPI_ERR_IO;
  return result;
}

}  // namespace lzy::hooks
