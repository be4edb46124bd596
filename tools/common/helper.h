#pragma once
// Path of the program that parses damaged files (tools/objects_helper).

#include <string>

namespace lzy {

/// The path of lzy-objects-helper; empty if it is not installed.
std::string ObjectsHelper();

}  // namespace lzy
