#pragma once
// Writes the table of lzy-plan as one HTML page, with plots in SVG that need neither network nor scripts.

#include <string>

#include "plan/plan.h"

namespace lzy {

/// The page. `command`: the command line that made it, for people.
std::string PlanPage(const PlanRequest& request, const PlanTable& table, const std::string& command);

/// Escapes text for HTML.
std::string EscapeHtml(const std::string& text);

}  // namespace lzy
