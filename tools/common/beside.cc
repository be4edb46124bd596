#include "common/beside.h"

#include <system_error>

namespace lzy {

std::vector<std::filesystem::path> PlacesBesideProgram(std::initializer_list<const char*> places) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::filesystem::path> found;
  if (error) return found;
  for (const char* place : places) found.push_back((self.parent_path() / place).lexically_normal());
  return found;
}

}  // namespace lzy
