#include "hooks/reports/mpi_error.h"

#include <mpi.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace lzy::hooks {
namespace {

constexpr std::size_t kMostCodes = 64;

struct OwnCode {
  int code;
  std::string text;
};

/// The codes that were made so far, at most kMostCodes.
struct Codes {
  std::mutex mutex;
  std::vector<OwnCode> codes;
  std::size_t next = 0;            // the code that gets the next new text, once there are kMostCodes
  int error_class = MPI_ERR_IO;    // the class that MPI has for the codes
};

/// Never destroyed, because files may be read while the process ends.
Codes& All() {
  static auto& codes = *new Codes;
  return codes;
}

/// Makes one more code. The first one also makes a class for all of them: MPICH 4.0 forgets the texts of codes that are
/// added to a class of the standard.
bool MakeOne(Codes& all) {
  if (all.codes.empty() && PMPI_Add_error_class(&all.error_class) != MPI_SUCCESS) return false;
  int code = MPI_ERR_IO;
  if (PMPI_Add_error_code(all.error_class, &code) != MPI_SUCCESS) return false;
  all.codes.push_back({code, {}});
  return true;
}

/// The index of the code for `text`: the one that has it already, else a new one, else the one with the oldest text. An
/// index beyond the end if there is no code at all.
std::size_t PlaceFor(Codes& all, const std::string& text) {
  const auto same = std::ranges::find(all.codes, text, &OwnCode::text);
  if (same != all.codes.end()) return static_cast<std::size_t>(same - all.codes.begin());
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
    all.codes[place].text = cut;
    const int code = all.codes[place].code;
    return PMPI_Add_error_string(code, cut.c_str()) == MPI_SUCCESS ? code : MPI_ERR_IO;
  } catch (...) {
    return MPI_ERR_IO;
  }
}

int ErrorClass(RealCall real, int code, int* error_class) noexcept {
  const int result = real();
  if (result != MPI_SUCCESS || error_class == nullptr) return result;
  Codes& all = All();
  // A program may also ask for the class of our class, which MPI then gives back unchanged.
  const std::lock_guard lock(all.mutex);
  const bool ours = std::ranges::find(all.codes, code, &OwnCode::code) != all.codes.end();
  if (ours || *error_class == all.error_class) *error_class = MPI_ERR_IO;
  return result;
}

}  // namespace lzy::hooks
