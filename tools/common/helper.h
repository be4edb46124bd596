#pragma once
// Where the process that parses damaged files is (tools/objects_helper).

#include <string>

namespace lzy {

/// The path of lzy-objects-helper; empty if it is not installed.
std::string ObjectsHelper();

}  // namespace lzy
