#pragma once
// Paths of installed files, relative to this program. A build or an installation may be moved as a whole, so no absolute
// path is compiled in.

#include <filesystem>
#include <initializer_list>
#include <vector>

namespace lzy {

/// The directories `places`, relative to that of this program, in their order. Empty if the place of the program is not
/// known.
std::vector<std::filesystem::path> PlacesBesideProgram(std::initializer_list<const char*> places);

}  // namespace lzy
