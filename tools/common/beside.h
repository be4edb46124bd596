#pragma once
// What was installed with this program: where it lies, seen from the program. A build or an installation may be moved as
// a whole, so no absolute path is compiled in.

#include <filesystem>
#include <initializer_list>
#include <vector>

namespace lzy {

/// The directories `places`, relative to that of this program, in their order. Empty if nobody can tell where that is.
std::vector<std::filesystem::path> PlacesBesideProgram(std::initializer_list<const char*> places);

}  // namespace lzy
